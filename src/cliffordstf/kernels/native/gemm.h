// Small matrix products on rows that lie anywhere in memory. Widths along `n` are multiples of the vector length.
#pragma once

#include <algorithm>
#include <type_traits>

#include "simd.h"

namespace cstf {

// c[r][0..NV vectors] (+)= sum_k a[r][k] b[k][...] for R rows, with c beginning n numbers into its rows.
template <class T, int R, int NV, bool ADD>
inline void tile_nn(const T* const* a, int depth, const T* b, ptrdiff_t ldb, T* const* c, int n) {
    constexpr int W = Simd<T>::lanes;
    Vec<T> acc[R][NV];
    CSTF_UNROLL for (int r = 0; r < R; ++r)
        CSTF_UNROLL for (int v = 0; v < NV; ++v) acc[r][v] = ADD ? load(c[r] + n + v * W) : Vec<T>{};
    for (int k = 0; k < depth; ++k) {
        Vec<T> bv[NV];
        CSTF_UNROLL for (int v = 0; v < NV; ++v) bv[v] = load(b + k * ldb + v * W);
        CSTF_UNROLL for (int r = 0; r < R; ++r) {
            const T s = a[r][k];
            CSTF_UNROLL for (int v = 0; v < NV; ++v) acc[r][v] += s * bv[v];
        }
    }
    CSTF_UNROLL for (int r = 0; r < R; ++r)
        CSTF_UNROLL for (int v = 0; v < NV; ++v) store(c[r] + n + v * W, acc[r][v]);
}

// Call f(first row, rows) for tiles of at most six rows, none of them so small that it would wait for its own results
// unless there are no more rows.
template <class F>
inline void row_tiles(int rows, F&& f) {
    int r = 0;
    for (; rows - r > 8; r += 6) f(r, std::integral_constant<int, 6>{});
    switch (rows - r) {
        case 8: f(r, std::integral_constant<int, 4>{}); r += 4; [[fallthrough]];
        case 4: f(r, std::integral_constant<int, 4>{}); break;
        case 7: f(r, std::integral_constant<int, 4>{}); r += 4; [[fallthrough]];
        case 3: f(r, std::integral_constant<int, 3>{}); break;
        case 6: f(r, std::integral_constant<int, 6>{}); break;
        case 5: f(r, std::integral_constant<int, 5>{}); break;
        case 2: f(r, std::integral_constant<int, 2>{}); break;
        case 1: f(r, std::integral_constant<int, 1>{}); break;
        default: break;
    }
}

// Call f(first column, vectors) for strips of columns, three vectors wide where registers hold the sums of six such rows.
template <class T, class F>
inline void column_strips(int width, F&& f) {
    constexpr int W = Simd<T>::lanes;
    int n = 0;
    while (n < width) {
        const int left = (width - n) / W;
        if constexpr (CSTF_VECTOR_BYTES == 64) {
            if (left == 3 || left > 4) {
                f(n, std::integral_constant<int, 3>{});
                n += 3 * W;
                continue;
            }
        }
        if (left > 1) f(n, std::integral_constant<int, 2>{});
        else f(n, std::integral_constant<int, 1>{});
        n += left > 1 ? 2 * W : W;
    }
}

template <class T, bool ADD>
void gemm_nn(int rows, const T* const* a, int depth, const T* b, ptrdiff_t ldb, T* const* c, int width) {
    column_strips<T>(width, [&](int n, auto vectors) {
        row_tiles(rows, [&](int r, auto count) { tile_nn<T, count, vectors, ADD>(a + r, depth, b + n, ldb, c + r, n); });
    });
}

// A matrix b (depth, width) as panels of two vectors of columns, one after the other, so that what the products below
// read lies together: panel, row, column. The last panel may have one vector only.
template <class T>
struct Panels {
    static constexpr int WIDTH = 2 * Simd<T>::lanes;

    static Aligned<T> packed(const T* b, int depth, int width) {
        Aligned<T> result(static_cast<size_t>(depth) * width);
        each(depth, width, [&](int k, int n, int count, size_t place) {
            std::copy(b + static_cast<size_t>(k) * width + n, b + static_cast<size_t>(k) * width + n + count,
                      result.data() + place);
        });
        return result;
    }

    static void unpack(const T* panels, int depth, int width, T* b) {
        each(depth, width, [&](int k, int n, int count, size_t place) {
            std::copy(panels + place, panels + place + count, b + static_cast<size_t>(k) * width + n);
        });
    }

  private:
    template <class F>
    static void each(int depth, int width, F&& f) {
        for (int n = 0; n < width; n += WIDTH) {
            const int count = std::min(WIDTH, width - n);
            for (int k = 0; k < depth; ++k) f(k, n, count, static_cast<size_t>(n) * depth + static_cast<size_t>(k) * count);
        }
    }
};

// c (+)= a b with b in panels.
template <class T, bool ADD>
void panels_nn(int rows, const T* const* a, int depth, const T* b, T* const* c, int width) {
    constexpr int W = Simd<T>::lanes;
    for (int n = 0; n < width; n += 2 * W) {
        const T* panel = b + static_cast<size_t>(n) * depth;
        row_tiles(rows, [&](int r, auto count) {
            if (n + 2 * W <= width) tile_nn<T, count, 2, ADD>(a + r, depth, panel, 2 * W, c + r, n);
            else tile_nn<T, count, 1, ADD>(a + r, depth, panel, W, c + r, n);
        });
    }
}

// acc[r][q] += sum_n a[r][n] b[k + q][n] for R rows and Q columns, over whole panels from `first` to `last`; the sums are
// vectors of partial sums, `columns` of them a row.
template <class T, int R, int Q>
inline void tile_nt(const T* const* a, const T* b, int depth, int k, int first, int last, int step, T* sums, int columns) {
    constexpr int W = Simd<T>::lanes;
    Vec<T> acc[R][Q];
    CSTF_UNROLL for (int r = 0; r < R; ++r)
        CSTF_UNROLL for (int q = 0; q < Q; ++q) acc[r][q] = load(sums + (r * columns + k + q) * W);
    for (int n = first; n < last; n += step) {
        const T* panel = b + static_cast<size_t>(n) * depth + k * step;
        for (int v = 0; v < step; v += W) {
            Vec<T> bv[Q];
            CSTF_UNROLL for (int q = 0; q < Q; ++q) bv[q] = load(panel + q * step + v);
            CSTF_UNROLL for (int r = 0; r < R; ++r) {
                const Vec<T> av = load(a[r] + n + v);
                CSTF_UNROLL for (int q = 0; q < Q; ++q) acc[r][q] += av * bv[q];
            }
        }
    }
    CSTF_UNROLL for (int r = 0; r < R; ++r)
        CSTF_UNROLL for (int q = 0; q < Q; ++q) store(sums + (r * columns + k + q) * W, acc[r][q]);
}

// c[r][k] += sum_n a[r][n] b[k][n] with b in panels; `sums` holds rows * depth vectors. A stretch of columns is used for
// all rows and all k while it is in the first cache.
template <class T>
void panels_nt(int rows, const T* const* a, int width, const T* b, int depth, T* const* c, T* sums) {
    constexpr int W = Simd<T>::lanes, step = 2 * W, stretch = 16 * step;
    std::fill(sums, sums + static_cast<size_t>(rows) * depth * W, T(0));
    auto over = [&](int first, int last, auto panel) {
        constexpr int P = decltype(panel)::value;
        int r = 0;
        auto strip = [&](auto count) {
            constexpr int R = decltype(count)::value;
            T* place = sums + static_cast<size_t>(r) * depth * W;
            int k = 0;
            for (; k + 4 <= depth; k += 4) tile_nt<T, R, 4>(a + r, b, depth, k, first, last, P, place, depth);
            for (; k < depth; ++k) tile_nt<T, R, 1>(a + r, b, depth, k, first, last, P, place, depth);
            r += R;
        };
        if constexpr (CSTF_VECTOR_BYTES == 64) {  // there are registers for sums of four rows
            while (r + 4 <= rows) strip(std::integral_constant<int, 4>{});
        }
        while (r + 2 <= rows) strip(std::integral_constant<int, 2>{});
        if (r < rows) strip(std::integral_constant<int, 1>{});
    };
    const int whole = width / step * step;
    for (int n = 0; n < whole; n += stretch) over(n, std::min(whole, n + stretch), std::integral_constant<int, step>{});
    if (whole < width) over(whole, width, std::integral_constant<int, W>{});
    for (int r = 0; r < rows; ++r)
        for (int k = 0; k < depth; ++k) c[r][k] += total<T>(load(sums + (static_cast<size_t>(r) * depth + k) * W));
}

// c[k][n] += sum_r a[r][k] b[r][n] for Q rows of c and NV vectors.
template <class T, int Q, int NV>
inline void tile_tn(int rows, const T* const* a, int k, const T* const* b, int n, T* c, ptrdiff_t ldc) {
    constexpr int W = Simd<T>::lanes;
    Vec<T> acc[Q][NV];
    CSTF_UNROLL for (int q = 0; q < Q; ++q)
        CSTF_UNROLL for (int v = 0; v < NV; ++v) acc[q][v] = load(c + (k + q) * ldc + v * W);
    for (int r = 0; r < rows; ++r) {
        Vec<T> bv[NV];
        CSTF_UNROLL for (int v = 0; v < NV; ++v) bv[v] = load(b[r] + n + v * W);
        CSTF_UNROLL for (int q = 0; q < Q; ++q) {
            const T s = a[r][k + q];
            CSTF_UNROLL for (int v = 0; v < NV; ++v) acc[q][v] += s * bv[v];
        }
    }
    CSTF_UNROLL for (int q = 0; q < Q; ++q)
        CSTF_UNROLL for (int v = 0; v < NV; ++v) store(c + (k + q) * ldc + v * W, acc[q][v]);
}

template <class T>
void gemm_tn(int rows, const T* const* a, int columns, const T* const* b, int width, T* c, ptrdiff_t ldc) {
    column_strips<T>(width, [&](int n, auto vectors) {
        row_tiles(columns, [&](int k, auto count) { tile_tn<T, count, vectors>(rows, a, k, b, n, c + n, ldc); });
    });
}

// The same with c in panels.
template <class T>
void panels_tn(int rows, const T* const* a, int columns, const T* const* b, int width, T* c) {
    constexpr int W = Simd<T>::lanes;
    for (int n = 0; n < width; n += 2 * W) {
        T* panel = c + static_cast<size_t>(n) * columns;
        row_tiles(columns, [&](int k, auto count) {
            if (n + 2 * W <= width) tile_tn<T, count, 2>(rows, a, k, b, n, panel, 2 * W);
            else tile_tn<T, count, 1>(rows, a, k, b, n, panel, W);
        });
    }
}

}  // namespace cstf
