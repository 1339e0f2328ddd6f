// Numbers of pairs of atoms in their frames (frame.h), made from radial functions, and the way back.
//
// They are linear in the weights phi U, so U is turned into numbers first. Numbers are made for a block of pairs and a few
// channels at a time.
#pragma once

#include <algorithm>
#include <utility>

#include "chunks.h"
#include "frame.h"
#include "gemm.h"
#include "pool.h"

namespace cstf {

struct ConvolutionArgs {
    // The plan.
    int64_t rows, numbers, folds;
    const int32_t* fold;             // (folds, 2): number, row of the weights
    const void* fold_value;
    FrameSide source, target;
    FrameArgs frames;
    // The edges.
    Graph graph;
    int64_t channels, radial;
    // Operands, cotangents and results.
    const void *h, *phi, *U, *n, *g;
    const void *uh, *uphi, *uU, *un;
    void *out, *dh, *dphi, *dU, *dn;
    int64_t add_h, add_phi, add_U, add_n;  // whether a gradient is added to what is there
    const void* folded_U;            // U as `PairNumbers::fold` makes it, or null
    void* kept;                      // room for all numbers (pairs, numbers, channels), or null
    int64_t is_kept;                 // whether they are there
    int64_t chunks, threads;
};

// A few pairs that follow each other.
struct PairBlock {
    int64_t first;
    int count;
};

// A few channels: all that is made for a block of pairs between frames and sums stays in the nearest cache.
template <class T, int NV_>
struct Slice {
    static constexpr int NV = NV_, width = NV * Simd<T>::lanes;
    int channel;   // the first
    int weights;   // numbers of a pair, all channels of the slice
    size_t place;  // where its part of U begins
};

// Numbers of a pair, their cotangents and where their gradients go.
template <class T>
struct Numbers {
    const T *w, *uw;
    T *dw, *dw1;
    bool adds = false;
};

template <class T>
class PairNumbers {
  public:
    PairNumbers(const ConvolutionArgs& args, size_t chunks_, Pool<T>& pool)
        : s(args), C(static_cast<int>(args.channels)), K(static_cast<int>(args.radial)),
          numbers(static_cast<int>(args.numbers)), size(static_cast<size_t>(K) * numbers * C), chunks(chunks_) {
        if (!s.folded_U) own_U = folded(in(s.U));
        if (s.uU) packed_uU = folded(in(s.uU));
        packed_U = s.folded_U ? in(s.folded_U) : own_U.data();
        if (s.dU) partial_U = Lent<T>(pool, chunks * size);
    }

    template <class F>
    void over_slices(F&& f) const {
        column_strips<T>(C, [&](int ch, auto vectors) { f(slice<vectors>(ch)); });
    }

    // w = phi U of a block
    template <class S>
    const T* made(const PairBlock& b, const S& slice) const {
        T* place = buffer<20>(slice);
        if (s.kept) {
            place = static_cast<T*>(s.kept) + static_cast<size_t>(numbers) * (b.first * C + b.count * slice.channel);
            if (s.is_kept) return place;
        }
        return product(b, slice, in(s.phi), packed_U, false, place);
    }

    // uw = uphi U + phi uU
    template <class S>
    const T* turned(const PairBlock& b, const S& slice) const {
        if (!s.uphi && !s.uU) {
            T* none = buffer<21>(slice);
            std::fill(none, none + b.count * slice.weights, T(0));
            return none;
        }
        const T* result = s.uphi ? product(b, slice, in(s.uphi), packed_U, false, buffer<21>(slice)) : nullptr;
        return s.uU ? product(b, slice, in(s.phi), packed_uU.data(), result != nullptr, buffer<21>(slice)) : result;
    }

    // Room for gradients of the numbers of a block, and for first-order ones beside those of second order; null if nobody
    // asks for gradients of radial functions or weights.
    template <class S>
    T* gradients(const S& slice) const {
        return s.dphi || s.dU ? buffer<30>(slice) : nullptr;
    }
    template <class S>
    T* first_gradients(const S& slice) const {
        return s.dphi || s.dU ? buffer<31>(slice) : nullptr;
    }

    // Before the blocks of a chunk.
    void start(size_t chunk) {
        if (s.dU) std::fill_n(partial_U.get() + chunk * size, size, T(0));
    }

    // Before the slices of a block.
    void clear(const PairBlock& b) const {
        if (s.dphi && !s.add_phi) std::fill_n(static_cast<T*>(s.dphi) + b.first * K, b.count * K, T(0));
    }

    // dphi += dw U^T and dU += phi^T dw
    template <class S>
    void finish(const PairBlock& b, const S& slice, const T* dw, size_t chunk) {
        if (s.dphi) project(b, slice, dw, packed_U);
        if (s.dU) accumulate(b, slice, dw, nullptr, chunk);
    }

    // dphi += dw U^T + dw1 uU^T and dU += phi^T dw + uphi^T dw1, because uw = uphi U + phi uU
    template <class S>
    void finish_second(const PairBlock& b, const S& slice, const T* dw, const T* dw1, size_t chunk) {
        if (s.dphi) project(b, slice, dw, packed_U);
        if (s.dphi && s.uU) project(b, slice, dw1, packed_uU.data());
        if (s.dU) accumulate(b, slice, dw, s.uphi ? dw1 : nullptr, chunk);
    }

    // Chunks of dU are added in a fixed order.
    void finish_weights() {
        if (!s.dU) return;
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t row = 0; row < s.numbers * K; ++row)
            for (size_t chunk = 1; chunk < chunks; ++chunk)
                for (size_t i = row * C; i < static_cast<size_t>(row + 1) * C; ++i)
                    partial_U[i] += partial_U[chunk * size + i];
        unfold(partial_U.get(), static_cast<T*>(s.dU));
    }

    // U as numbers, for arguments whose weights stay as they are.
    static Aligned<T> fold(const ConvolutionArgs& args) {
        Pool<T> none;
        return std::move(PairNumbers(args, 0, none).own_U);
    }

  private:
    const ConvolutionArgs& s;
    const int C;        // channels
    const int K;        // radial functions of a pair
    const int numbers;  // of a pair and a channel
    const size_t size;  // of U as numbers
    const size_t chunks;
    Aligned<T> own_U, packed_uU;     // as numbers, slice by slice, in panels
    const T* packed_U;
    Lent<T> partial_U;                   // gradients, likewise, of every chunk

    static const T* in(const void* p) { return static_cast<const T*>(p); }

    template <int NV>
    Slice<T, NV> slice(int ch) const {
        return {ch, numbers * Slice<T, NV>::width, static_cast<size_t>(K) * numbers * ch};
    }

    template <int Slot, class S>
    static T* buffer(const S& slice) {
        return scratch<T, Slot>(static_cast<size_t>(EDGES) * slice.weights);
    }

    Aligned<T> folded(const T* U) const {
        Aligned<T> result(size);
        over_slices([&](auto slice) {
            Aligned<T> part(static_cast<size_t>(K) * slice.weights, T(0));
            each_fold(slice, [&](T factor, size_t number, size_t row) {
                for (int ch = 0; ch < slice.width; ++ch) part[number + ch] += factor * U[row + ch];
            });
            const Aligned<T> panels = Panels<T>::packed(part.data(), K, slice.weights);
            std::copy(panels.begin(), panels.end(), result.begin() + slice.place);
        });
        return result;
    }

    void unfold(const T* panels, T* dU) const {
        if (!s.add_U) std::fill(dU, dU + K * s.rows * C, T(0));
        over_slices([&](auto slice) {
            Aligned<T> part(static_cast<size_t>(K) * slice.weights);
            Panels<T>::unpack(panels + slice.place, K, slice.weights, part.data());
            each_fold(slice, [&](T factor, size_t number, size_t row) {
                for (int ch = 0; ch < slice.width; ++ch) dU[row + ch] += factor * part[number + ch];
            });
        });
    }

    template <class S, class F>
    void each_fold(const S& slice, F&& f) const {
        for (int k = 0; k < K; ++k)
            for (int64_t p = 0; p < s.folds; ++p)
                f(in(s.fold_value)[p], static_cast<size_t>(k * numbers + s.fold[2 * p]) * slice.width,
                  (k * s.rows + s.fold[2 * p + 1]) * C + slice.channel);
    }

    template <class S>
    T* product(const PairBlock& b, const S& slice, const T* phi, const T* U, bool add, T* result) const {
        const T* a[EDGES];
        T* c[EDGES];
        for (int e = 0; e < b.count; ++e) {
            a[e] = phi + (b.first + e) * K;
            c[e] = result + e * slice.weights;
        }
        if (add) panels_nn<T, true>(b.count, a, K, U + slice.place, c, slice.weights);
        else panels_nn<T, false>(b.count, a, K, U + slice.place, c, slice.weights);
        return result;
    }

    template <class S>
    void project(const PairBlock& b, const S& slice, const T* dw, const T* U) {
        const T* a[EDGES];
        T* c[EDGES];
        for (int e = 0; e < b.count; ++e) {
            a[e] = dw + e * slice.weights;
            c[e] = static_cast<T*>(s.dphi) + (b.first + e) * K;
        }
        T* sums = scratch<T, 42>(static_cast<size_t>(EDGES) * K * Simd<T>::lanes);
        panels_nt<T>(b.count, a, slice.weights, U + slice.place, K, c, sums);
    }

    template <class S>
    void accumulate(const PairBlock& b, const S& slice, const T* dw, const T* dw1, size_t chunk) {
        const T *a[2 * EDGES], *c[2 * EDGES];
        int rows = 0;
        auto add = [&](const T* phi, const T* gradients) {
            for (int e = 0; e < b.count; ++e, ++rows) {
                a[rows] = phi + (b.first + e) * K;
                c[rows] = gradients + e * slice.weights;
            }
        };
        add(in(s.phi), dw);
        if (dw1) add(in(s.uphi), dw1);
        panels_tn<T>(rows, a, K, c, slice.weights, partial_U.get() + chunk * size + slice.place);
    }
};

}  // namespace cstf
