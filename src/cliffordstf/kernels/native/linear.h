// Linear maps over channels, one matrix per track, on features (atoms, components, channels).
#pragma once

#include <algorithm>

#include "gemm.h"

namespace cstf {

struct LinearTrack {
    int32_t from, to, dims, matrix;  // first components, components, which matrix; below zero for none, that is one
    int32_t add, add_back;           // whether something is there already to be added to, in y and in dx
};

struct LinearArgs {
    int64_t tracks;
    const LinearTrack* track;
    int64_t atoms, source, target;   // components of both sides
    int64_t inputs, outputs;         // channels of both sides
    const void *x, *w, *g;
    void *y, *dx, *dw;
    double scale;
    int64_t ready;                   // w is scaled already, and for the gradient of x transposed
    int64_t add_y, add_x, add_w;     // whether all of a result is added to what is there
    int64_t threads;
};

constexpr int64_t ATOMS = 32;  // atoms whose rows are multiplied together
constexpr size_t ROWS = 40;    // rows that a gradient of the weights takes at a time

template <class T>
class TrackLinear {
  public:
    explicit TrackLinear(const LinearArgs& args) : s(args) {}

    // y[i, to] (+)= scale . x[i, from] W
    void forward() {
        Aligned<T> matrices;
        const bool as_it_is = s.ready || s.scale == 1;
        if (!as_it_is) matrices = scaled(false);
        product(static_cast<const T*>(s.x), s.source, s.inputs, static_cast<T*>(s.y), s.target, s.outputs,
                as_it_is ? static_cast<const T*>(s.w) : matrices.data(), false);
    }

    // Whichever gradients have a place to go to.
    void backward() {
        if (s.dx) input_gradient();
        if (s.dw) weight_gradient();
    }

  private:
    const LinearArgs& s;

    // dx[i, from] (+)= scale . g[i, to] W^T
    void input_gradient() {
        Aligned<T> matrices;
        if (!s.ready) matrices = scaled(true);
        product(static_cast<const T*>(s.g), s.target, s.outputs, static_cast<T*>(s.dx), s.source, s.inputs,
                s.ready ? static_cast<const T*>(s.w) : matrices.data(), true);
    }

    // dW = scale . sum over atoms of x^T g
    void weight_gradient() {
        constexpr int64_t strip = 24;
        const int64_t strips = (s.inputs + strip - 1) / strip;
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t job = 0; job < s.tracks * strips; ++job) {
            const LinearTrack& t = s.track[job / strips];
            if (t.matrix < 0) continue;
            const int64_t first = job % strips * strip;
            T* result = static_cast<T*>(s.dw) + (t.matrix * s.inputs + first) * s.outputs;
            const int count = static_cast<int>(std::min(strip, s.inputs - first));
            T* dw = scratch<T, 66>(count * s.outputs);
            std::fill(dw, dw + count * s.outputs, T(0));
            std::vector<const T*> a, b;
            for (int64_t start = 0; start < s.atoms; start += ATOMS) {
                a.clear();
                b.clear();
                for (int64_t i = start; i < std::min(s.atoms, start + ATOMS); ++i)
                    for (int m = 0; m < t.dims; ++m) {
                        a.push_back(static_cast<const T*>(s.x) + (i * s.source + t.from + m) * s.inputs + first);
                        b.push_back(static_cast<const T*>(s.g) + (i * s.target + t.to + m) * s.outputs);
                    }
                // A few rows at a time: all columns of the product pass over them, and they should stay in the first cache.
                for (size_t r = 0; r < a.size(); r += ROWS)
                    gemm_tn<T>(static_cast<int>(std::min(ROWS, a.size() - r)), a.data() + r, count, b.data() + r,
                               static_cast<int>(s.outputs), dw, s.outputs);
            }
            const T scale = static_cast<T>(s.scale);
            for (int64_t i = 0; i < count * s.outputs; ++i) result[i] = (s.add_w ? result[i] : T(0)) + scale * dw[i];
        }
    }

    Aligned<T> scaled(bool transpose) const {
        const T* w = static_cast<const T*>(s.w);
        int64_t count = 0;
        for (int64_t t = 0; t < s.tracks; ++t) count = std::max<int64_t>(count, s.track[t].matrix + 1);
        Aligned<T> result(count * s.inputs * s.outputs);
        const T scale = static_cast<T>(s.scale);
        for (int64_t m = 0; m < count; ++m, w += s.inputs * s.outputs) {
            T* r = result.data() + m * s.inputs * s.outputs;
            if (transpose) {
                for (int64_t k = 0; k < s.inputs; ++k)
                    for (int64_t n = 0; n < s.outputs; ++n) r[n * s.inputs + k] = scale * w[k * s.outputs + n];
            } else {
                for (int64_t k = 0; k < s.inputs * s.outputs; ++k) r[k] = scale * w[k];
            }
        }
        return result;
    }

    // c (+)= scale . a
    void keep(int rows, const T* const* a, int64_t depth, T* const* c, int64_t width, bool add) const {
        const T scale = static_cast<T>(s.scale);
        const int64_t count = std::min(depth, width);
        for (int r = 0; r < rows; ++r) {
            if (add) {
                for (int64_t n = 0; n < count; ++n) c[r][n] += scale * a[r][n];
            } else {
                for (int64_t n = 0; n < count; ++n) c[r][n] = scale * a[r][n];
                std::fill(c[r] + count, c[r] + width, T(0));
            }
        }
    }

    void product(const T* x, int64_t x_dims, int64_t depth, T* y, int64_t y_dims, int64_t width, const T* matrices,
                 bool reverse) {
        // At least eight blocks, so that small systems use several threads too; whatever the threads, the same blocks,
        // because the last bit of a row may depend on how many rows are multiplied together.
        const int64_t size = std::max<int64_t>(1, std::min<int64_t>(ATOMS, (s.atoms + 7) / 8));
        const int64_t blocks = (s.atoms + size - 1) / size;
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t block = 0; block < blocks; ++block) {
            const int64_t start = block * size, end = std::min(s.atoms, start + size);
            std::vector<const T*> a;
            std::vector<T*> c;
            for (int64_t q = 0; q < s.tracks; ++q) {
                const LinearTrack& t = s.track[q];
                const int64_t from = reverse ? t.to : t.from, to = reverse ? t.from : t.to;
                a.clear();
                c.clear();
                for (int64_t i = start; i < end; ++i)
                    for (int m = 0; m < t.dims; ++m) {
                        a.push_back(x + (i * x_dims + from + m) * depth);
                        c.push_back(y + (i * y_dims + to + m) * width);
                    }
                const bool add = reverse ? t.add_back || s.add_x : t.add || s.add_y;
                const int rows = static_cast<int>(a.size());
                if (t.matrix < 0) {
                    keep(rows, a.data(), depth, c.data(), width, add);
                    continue;
                }
                const T* b = matrices + t.matrix * s.inputs * s.outputs;
                if (add)
                    gemm_nn<T, true>(rows, a.data(), static_cast<int>(depth), b, width, c.data(),
                                     static_cast<int>(width));
                else
                    gemm_nn<T, false>(rows, a.data(), static_cast<int>(depth), b, width, c.data(),
                                      static_cast<int>(width));
            }
        }
    }
};

}  // namespace cstf
