// A plain network, linear layers with SiLU between them, on rows that may carry a tangent, and the way back from both.
//
// A few rows at a time, so that nothing between its two ends leaves the first-level cache.
#pragma once

#include <algorithm>
#include <vector>

#include "gemm.h"

namespace cstf {

template <class T>
inline Vec<T> sigmoid(Vec<T> x) {
    const Vec<T> one = Vec<T>{} + T(1);
    return one / (one + exponential<T>(-x));
}

inline int64_t whole_vectors(int64_t n, int64_t lanes) { return (n + lanes - 1) / lanes * lanes; }

template <class T>
class Network {
  public:
    static constexpr int ROWS = 8;
    using RowAt = T* [ROWS];

    // Of the input as it lies in memory, then the numbers that each layer puts out.
    Network(int64_t input, const std::vector<int64_t>& outputs_) : outputs(outputs_) {
        widths.push_back(input);
        for (const int64_t n : outputs) widths.push_back(whole_vectors(n, Simd<T>::lanes));
        for (size_t l = 0; l < outputs.size(); ++l) {
            starts.push_back(size);
            size += (widths[l] + 1) * widths[l + 1];
        }
        widest = *std::max_element(widths.begin(), widths.end());
        weights.assign(size, T(0));
        transposed.assign(size, T(0));
    }

    int64_t depth() const { return static_cast<int64_t>(outputs.size()); }
    int64_t width(int64_t layer) const { return widths[layer]; }
    int64_t gradient_size() const { return size; }

    // Weights of a layer, (out, in) with `in` numbers, and its bias (out).
    void set(int64_t l, const T* weight, int64_t in, const T* bias) {
        T *w = weights.data() + starts[l], *t = transposed.data() + starts[l];
        for (int64_t n = 0; n < outputs[l]; ++n) {
            for (int64_t k = 0; k < in; ++k) w[k * widths[l + 1] + n] = t[n * widths[l] + k] = weight[n * in + k];
            w[widths[l] * widths[l + 1] + n] = bias[n];
        }
    }

    // Add gradients as they are gathered to those of a layer's weights (out, in) and bias (out).
    void add_gradient(const T* gathered, int64_t l, int64_t in, T* weight, T* bias) const {
        const T* w = gathered + starts[l];
        for (int64_t n = 0; n < outputs[l]; ++n) {
            for (int64_t k = 0; k < in; ++k) weight[n * in + k] += w[k * widths[l + 1] + n];
            bias[n] += w[widths[l] * widths[l + 1] + n];
        }
    }

    // The rows of one block at every layer: inputs x and their tangents dx, sums z before SiLU and theirs.
    class Block {
      public:
        explicit Block(const Network& network, int rows_, bool tangents_) : net(network), rows(rows_), tangents(tangents_) {
            int64_t count = 0;
            for (const int64_t w : net.widths) count += w;
            memory = scratch<T, 90>(static_cast<size_t>(ROWS) * (4 * count + 4 * net.widest));
            T* at = memory;
            x.resize(net.widths.size()), dx.resize(net.widths.size()), z.resize(net.widths.size()), dz.resize(net.widths.size());
            for (size_t l = 0; l < net.widths.size(); ++l)
                for (auto* kind : {&x[l], &dx[l], &z[l], &dz[l]}) at = place(*kind, at, net.widths[l]);
            for (auto* kind : {&of, &dof, &next_of, &next_dof}) at = place(*kind, at, net.widest);
        }

        T* input(int r) { return x[0][r]; }
        T* input_tangent(int r) { return dx[0][r]; }
        const T* output(int r) const { return x[net.depth()][r]; }
        const T* output_tangent(int r) const { return dx[net.depth()][r]; }

        // `shift(row, z)` may add to the sums of the first layer.
        template <class F>
        void forward(F&& shift) {
            for (int64_t l = 0; l < net.depth(); ++l) {
                const bool last = l + 1 == net.depth();
                const int in = static_cast<int>(net.widths[l]), out = static_cast<int>(net.widths[l + 1]);
                auto &sums = last ? x[l + 1] : z[l + 1], &slopes = last ? dx[l + 1] : dz[l + 1];
                const T *w = net.weights.data() + net.starts[l], *bias = w + static_cast<int64_t>(in) * out;
                for (int r = 0; r < rows; ++r) {
                    std::copy(bias, bias + out, sums[r]);
                    if (l == 0) shift(r, sums[r]);
                }
                gemm_nn<T, true>(rows, x[l].at, in, w, out, sums.at, out);
                if (tangents) gemm_nn<T, false>(rows, dx[l].at, in, w, out, slopes.at, out);
                if (!last) silu(l + 1, out);
            }
        }

        // Gradients of the output and of its tangent, to be set before `backward`.
        T* of_output(int r) { return of[r]; }
        T* of_output_tangent(int r) { return dof[r]; }
        // Those of the input and of its tangent after it, if they were asked for.
        const T* of_input(int r) const { return of[r]; }

        // Gathers gradients of the weights where there is a place for them. `shifted(row, of)` gets those of the first sums.
        template <class F>
        void backward(T* gathered, bool to_input, F&& shifted) {
            for (int64_t l = net.depth() - 1; l >= 0; --l) {
                const int in = static_cast<int>(net.widths[l]), out = static_cast<int>(net.widths[l + 1]);
                if (l == 0)
                    for (int r = 0; r < rows; ++r) shifted(r, of[r]);
                if (gathered) gather(gathered + net.starts[l], l, in, out);
                if (l == 0 && !to_input) return;
                const T* t = net.transposed.data() + net.starts[l];
                back(of, next_of, t, in, out);
                if (tangents) back(dof, next_dof, t, in, out);
                if (l > 0) silu_back(l, in);
            }
        }

      private:
        struct Rows {
            T* at[ROWS];
            T* operator[](int r) const { return at[r]; }
        };
        const Network& net;
        const int rows;
        const bool tangents;
        T* memory;
        std::vector<Rows> x, dx, z, dz;
        Rows of, dof, next_of, next_dof;

        static T* place(Rows& kind, T* at, int64_t width) {
            for (int r = 0; r < ROWS; ++r, at += width) kind.at[r] = at;
            return at;
        }

        void silu(int64_t l, int width) {
            const Vec<T> one = Vec<T>{} + T(1);
            for (int r = 0; r < rows; ++r)
                for (int i = 0; i < width; i += Simd<T>::lanes) {
                    const Vec<T> v = load(z[l][r] + i), gate = sigmoid<T>(v), result = v * gate;
                    store(x[l][r] + i, result);
                    if (tangents) store(dx[l][r] + i, load(dz[l][r] + i) * (gate + result * (one - gate)));
                }
        }

        void silu_back(int64_t l, int width) {
            const Vec<T> one = Vec<T>{} + T(1), two = one + one;
            for (int r = 0; r < rows; ++r)
                for (int i = 0; i < width; i += Simd<T>::lanes) {
                    const Vec<T> v = load(z[l][r] + i), gate = sigmoid<T>(v), slope = gate + v * gate * (one - gate);
                    Vec<T> sum = load(of[r] + i) * slope;
                    if (tangents) {
                        const Vec<T> along = load(dof[r] + i);
                        const Vec<T> curvature = gate * (one - gate) * (two + v * (one - two * gate));
                        sum += along * load(dz[l][r] + i) * curvature;
                        store(dof[r] + i, along * slope);
                    }
                    store(of[r] + i, sum);
                }
        }

        // A product with the transposed matrix, whose rows are as wide as the layer's input: not always whole vectors.
        void back(Rows& from, Rows& to, const T* t, int in, int out) {
            const int whole = in / Simd<T>::lanes * Simd<T>::lanes;
            if (whole) gemm_nn<T, false>(rows, from.at, out, t, in, to.at, whole);
            for (int r = 0; r < rows; ++r)
                for (int k = whole; k < in; ++k) {
                    T sum = 0;
                    for (int n = 0; n < out; ++n) sum += from[r][n] * t[static_cast<int64_t>(n) * in + k];
                    to[r][k] = sum;
                }
            std::swap(from, to);
        }

        void gather(T* w, int64_t l, int in, int out) {
            const T *a[2 * ROWS], *b[2 * ROWS];
            int count = 0;
            for (int r = 0; r < rows; ++r, ++count) a[count] = x[l][r], b[count] = of[r];
            for (int r = 0; tangents && r < rows; ++r, ++count) a[count] = dx[l][r], b[count] = dof[r];
            gemm_tn<T>(count, a, in, b, out, w, out);
            T* bias = w + static_cast<int64_t>(in) * out;
            for (int r = 0; r < rows; ++r)
                for (int n = 0; n < out; ++n) bias[n] += of[r][n];
        }
    };

  private:
    const std::vector<int64_t> outputs;
    std::vector<int64_t> widths, starts;
    int64_t size = 0, widest;
    Aligned<T> weights, transposed;  // of every layer: matrix (in, out) and bias; matrix (out, in)
};

}  // namespace cstf
