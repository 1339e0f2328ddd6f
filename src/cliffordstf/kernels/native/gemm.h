// Small matrix products on rows that lie anywhere in memory. Widths along `n` are multiples of the vector length.
#pragma once

#include <type_traits>

#include "simd.h"

namespace cstf {

// c[r][n] (+)= sum_k a[r][k] b[k][n] for R rows and NV vectors.
template <class T, int R, int NV, bool ADD>
inline void tile_nn(const T* const* a, int depth, const T* b, ptrdiff_t ldb, T* const* c, int n) {
    constexpr int W = Simd<T>::lanes;
    Vec<T> acc[R][NV];
    CSTF_UNROLL for (int r = 0; r < R; ++r)
        CSTF_UNROLL for (int v = 0; v < NV; ++v) acc[r][v] = ADD ? load(c[r] + n + v * W) : Vec<T>{};
    for (int k = 0; k < depth; ++k) {
        Vec<T> bv[NV];
        CSTF_UNROLL for (int v = 0; v < NV; ++v) bv[v] = load(b + k * ldb + n + v * W);
        CSTF_UNROLL for (int r = 0; r < R; ++r) {
            const T s = a[r][k];
            CSTF_UNROLL for (int v = 0; v < NV; ++v) acc[r][v] += s * bv[v];
        }
    }
    CSTF_UNROLL for (int r = 0; r < R; ++r)
        CSTF_UNROLL for (int v = 0; v < NV; ++v) store(c[r] + n + v * W, acc[r][v]);
}

template <class T, int R, bool ADD>
inline void rows_nn(const T* const* a, int depth, const T* b, ptrdiff_t ldb, T* const* c, int n, int vectors) {
    if (vectors == 2) tile_nn<T, R, 2, ADD>(a, depth, b, ldb, c, n);
    else tile_nn<T, R, 1, ADD>(a, depth, b, ldb, c, n);
}

template <class T, bool ADD>
void gemm_nn(int rows, const T* const* a, int depth, const T* b, ptrdiff_t ldb, T* const* c, int width) {
    constexpr int W = Simd<T>::lanes;
    for (int n = 0; n < width; n += 2 * W) {
        const int vectors = n + 2 * W <= width ? 2 : 1;
        int r = 0;
        // Eight rows are four and four: a rest of two would wait for its own results.
        for (; r + 6 <= rows && rows - r != 8; r += 6) rows_nn<T, 6, ADD>(a + r, depth, b, ldb, c + r, n, vectors);
        for (; r + 4 <= rows; r += 4) rows_nn<T, 4, ADD>(a + r, depth, b, ldb, c + r, n, vectors);
        if (r + 2 <= rows) { rows_nn<T, 2, ADD>(a + r, depth, b, ldb, c + r, n, vectors); r += 2; }
        if (r < rows) rows_nn<T, 1, ADD>(a + r, depth, b, ldb, c + r, n, vectors);
    }
}

// c[r][k] += sum_n a[r][n] b[k][n] for R rows and Q columns.
template <class T, int R, int Q>
inline void tile_nt(const T* const* a, const T* b, ptrdiff_t ldb, int width, T* const* c, int k) {
    constexpr int W = Simd<T>::lanes;
    Vec<T> acc[R][Q] = {};
    for (int n = 0; n < width; n += W) {
        Vec<T> bv[Q];
        CSTF_UNROLL for (int q = 0; q < Q; ++q) bv[q] = load(b + (k + q) * ldb + n);
        CSTF_UNROLL for (int r = 0; r < R; ++r) {
            const Vec<T> av = load(a[r] + n);
            CSTF_UNROLL for (int q = 0; q < Q; ++q) acc[r][q] += av * bv[q];
        }
    }
    CSTF_UNROLL for (int r = 0; r < R; ++r)
        CSTF_UNROLL for (int q = 0; q < Q; ++q) c[r][k + q] += total<T>(acc[r][q]);
}

template <class T>
void gemm_nt(int rows, const T* const* a, int width, const T* b, ptrdiff_t ldb, T* const* c, int columns) {
    int k = 0;
    auto strip = [&](auto q) {
        constexpr int Q = decltype(q)::value;
        int r = 0;
        for (; r + 2 <= rows; r += 2) tile_nt<T, 2, Q>(a + r, b, ldb, width, c + r, k);
        if (r < rows) tile_nt<T, 1, Q>(a + r, b, ldb, width, c + r, k);
        k += Q;
    };
    while (k + 4 <= columns) strip(std::integral_constant<int, 4>{});
    while (k < columns) strip(std::integral_constant<int, 1>{});
}

// c[k][n] += sum_r a[r][k] b[r][n] for Q rows of c and NV vectors.
template <class T, int Q, int NV>
inline void tile_tn(int rows, const T* const* a, int k, const T* const* b, int n, T* c, ptrdiff_t ldc) {
    constexpr int W = Simd<T>::lanes;
    Vec<T> acc[Q][NV];
    CSTF_UNROLL for (int q = 0; q < Q; ++q)
        CSTF_UNROLL for (int v = 0; v < NV; ++v) acc[q][v] = load(c + (k + q) * ldc + n + v * W);
    for (int r = 0; r < rows; ++r) {
        Vec<T> bv[NV];
        CSTF_UNROLL for (int v = 0; v < NV; ++v) bv[v] = load(b[r] + n + v * W);
        CSTF_UNROLL for (int q = 0; q < Q; ++q) {
            const T s = a[r][k + q];
            CSTF_UNROLL for (int v = 0; v < NV; ++v) acc[q][v] += s * bv[v];
        }
    }
    CSTF_UNROLL for (int q = 0; q < Q; ++q)
        CSTF_UNROLL for (int v = 0; v < NV; ++v) store(c + (k + q) * ldc + n + v * W, acc[q][v]);
}

template <class T>
void gemm_tn(int rows, const T* const* a, int columns, const T* const* b, int width, T* c, ptrdiff_t ldc) {
    constexpr int W = Simd<T>::lanes;
    for (int n = 0; n < width; n += 2 * W) {
        const bool two = n + 2 * W <= width;
        int k = 0;
        auto strip = [&](auto q) {
            constexpr int Q = decltype(q)::value;
            if (two) tile_tn<T, Q, 2>(rows, a, k, b, n, c, ldc);
            else tile_tn<T, Q, 1>(rows, a, k, b, n, c, ldc);
            k += Q;
        };
        while (k + 6 <= columns && columns - k != 8) strip(std::integral_constant<int, 6>{});
        while (k + 4 <= columns) strip(std::integral_constant<int, 4>{});
        while (k < columns) strip(std::integral_constant<int, 1>{});
    }
}

}  // namespace cstf
