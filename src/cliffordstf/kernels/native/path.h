// One coupling (track a, edge track b -> track c) applied to a block of edges that share an atom.
//
// For every edge the couplings with its direction tensor are gathered into a small matrix M[c][a] first; what is left is
// M times the features, vectorised over channels. `M2` holds the same matrices of another direction tensor (a cotangent).
#pragma once

#include <type_traits>

#include "simd.h"

namespace cstf {

constexpr int EDGES = 8;  // edges in a block

struct Path {
    int32_t da, dc;      // components of tracks a and c
    int32_t source;      // first component of track a
    int32_t target;      // first component of track c
    int32_t weight;      // row of the weights
    int32_t matrix;      // first entry of M
    int32_t odd;         // whether the edge track changes sign when the edge is turned round
    int32_t first;       // whether this is the first path that uses its row of the weights
    int32_t diagonal;    // whether M is diagonal, as it is for a scalar edge track
};

template <class T>
struct Block {
    int edges;
    int channels;
    const T* h[EDGES];       // features of the neighbours
    const T* uh[EDGES];      // cotangents of their gradients
    const T* gn[EDGES];      // gradients of the result at the neighbours
    const T* w[EDGES];       // weights
    const T* uw[EDGES];      // cotangents of their gradients
    T* dw[EDGES];            // gradients of the weights
    T* dw1[EDGES];           // first-order gradients of the weights, when a second-order pass needs them
    const T* m;              // M, (entries, EDGES)
    const T* m2;
    const T* g;              // gradient of the result at this atom
    T* out;                  // sum at this atom, components of the result
    T* dh;                   // sum at this atom, components of the features
};

// out_c += w (M h)_c
template <class T, int DA, int DC, bool DIAGONAL>
void path_forward(const Path& p, const Block<T>& k) {
    const int C = k.channels;
    const T* m = k.m + p.matrix * EDGES;
    T* out = k.out + p.target * C;
    for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
        Vec<T> sum[DC];
        CSTF_UNROLL for (int c = 0; c < DC; ++c) sum[c] = load(out + c * C + ch);
        for (int e = 0; e < k.edges; ++e) {
            const T* h = k.h[e] + p.source * C + ch;
            const Vec<T> w = load(k.w[e] + p.weight * C + ch);
            Vec<T> x[DA];
            CSTF_UNROLL for (int a = 0; a < DA; ++a) x[a] = load(h + a * C);
            CSTF_UNROLL for (int c = 0; c < DC; ++c) {
                Vec<T> t{};
                CSTF_UNROLL for (int a = 0; a < DA; ++a)
                    if (!DIAGONAL || a == c) t += m[(c * DA + a) * EDGES + e] * x[a];
                sum[c] += w * t;
            }
        }
        CSTF_UNROLL for (int c = 0; c < DC; ++c) store(out + c * C + ch, sum[c]);
    }
}

// dw = sum_c g_c (M h)_c
template <class T, int DA, int DC, bool DIAGONAL>
void path_weight(const Path& p, const Block<T>& k) {
    const int C = k.channels;
    const T* m = k.m + p.matrix * EDGES;
    const T* g = k.g + p.target * C;
    for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
        Vec<T> gv[DC];
        CSTF_UNROLL for (int c = 0; c < DC; ++c) gv[c] = load(g + c * C + ch);
        for (int e = 0; e < k.edges; ++e) {
            const T* h = k.h[e] + p.source * C + ch;
            T* dw = k.dw[e] + p.weight * C + ch;
            Vec<T> x[DA];
            CSTF_UNROLL for (int a = 0; a < DA; ++a) x[a] = load(h + a * C);
            Vec<T> sum = p.first ? Vec<T>{} : load(dw);
            CSTF_UNROLL for (int c = 0; c < DC; ++c) {
                Vec<T> t{};
                CSTF_UNROLL for (int a = 0; a < DA; ++a)
                    if (!DIAGONAL || a == c) t += m[(c * DA + a) * EDGES + e] * x[a];
                sum += gv[c] * t;
            }
            store(dw, sum);
        }
    }
}

// dh_a += sum_c M[c][a] w g_c with g at the neighbour
template <class T, int DA, int DC, bool DIAGONAL>
void path_feature(const Path& p, const Block<T>& k, T sign) {
    const int C = k.channels;
    const T* m = k.m + p.matrix * EDGES;
    T* dh = k.dh + p.source * C;
    for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
        Vec<T> sum[DA] = {};
        for (int e = 0; e < k.edges; ++e) {
            const T* g = k.gn[e] + p.target * C + ch;
            const Vec<T> w = sign * load(k.w[e] + p.weight * C + ch);
            CSTF_UNROLL for (int c = 0; c < DC; ++c) {
                const Vec<T> y = w * load(g + c * C);
                CSTF_UNROLL for (int a = 0; a < DA; ++a)
                    if (!DIAGONAL || a == c) sum[a] += m[(c * DA + a) * EDGES + e] * y;
            }
        }
        CSTF_UNROLL for (int a = 0; a < DA; ++a) store(dh + a * C + ch, load(dh + a * C + ch) + sum[a]);
    }
}

// R x Q elements of n[c][a] = sum over channels of s_c x_a, left as vectors of partial sums; rows are C apart.
template <class T, int R, int Q>
inline void outer_tile(const T* s, const T* x, int C, T* n, int da) {
    constexpr int W = Simd<T>::lanes;
    Vec<T> sum[R][Q] = {};
    for (int ch = 0; ch < C; ch += W) {
        Vec<T> xv[Q];
        CSTF_UNROLL for (int q = 0; q < Q; ++q) xv[q] = load(x + q * C + ch);
        CSTF_UNROLL for (int r = 0; r < R; ++r) {
            const Vec<T> sv = load(s + r * C + ch);
            CSTF_UNROLL for (int q = 0; q < Q; ++q) sum[r][q] += sv * xv[q];
        }
    }
    CSTF_UNROLL for (int r = 0; r < R; ++r)
        CSTF_UNROLL for (int q = 0; q < Q; ++q) store(n + (r * da + q) * W, sum[r][q]);
}

// n[c][a] for all c and a, in tiles of at most three by four.
template <class T, int DA, int DC>
inline void outer_product(const T* s, const T* x, int C, T* n) {
    constexpr int W = Simd<T>::lanes, R = DC < 3 ? DC : 3, Q = DA < 4 ? DA : 4, lastR = DC % R, lastQ = DA % Q;
    for (int c = 0; c + R <= DC; c += R) {
        for (int a = 0; a + Q <= DA; a += Q) outer_tile<T, R, Q>(s + c * C, x + a * C, C, n + (c * DA + a) * W, DA);
        if constexpr (lastQ > 0)
            outer_tile<T, R, lastQ>(s + c * C, x + (DA - lastQ) * C, C, n + (c * DA + DA - lastQ) * W, DA);
    }
    if constexpr (lastR > 0) {
        constexpr int c = DC - lastR;
        for (int a = 0; a + Q <= DA; a += Q)
            outer_tile<T, lastR, Q>(s + c * C, x + a * C, C, n + (c * DA + a) * W, DA);
        if constexpr (lastQ > 0)
            outer_tile<T, lastR, lastQ>(s + c * C, x + (DA - lastQ) * C, C, n + (c * DA + DA - lastQ) * W, DA);
    }
}

// n[c][a] = sum over channels of w g_c h_a, left as a vector of partial sums, for one edge
template <class T, int DA, int DC, bool DIAGONAL>
void path_matrix(const Path& p, const Block<T>& k, int e, T* n) {
    constexpr int W = Simd<T>::lanes;
    const int C = k.channels;
    const T* h = k.h[e] + p.source * C;
    const T* w = k.w[e] + p.weight * C;
    const T* g = k.g + p.target * C;
    if constexpr (DIAGONAL) {
        for (int a = 0; a < DA; ++a) {
            Vec<T> sum{};
            for (int ch = 0; ch < C; ch += W) sum += load(w + ch) * load(g + a * C + ch) * load(h + a * C + ch);
            store(n + (a * DA + a) * W, sum);
        }
    } else {
        T* s = scratch<T, 2>(static_cast<size_t>(9) * C);
        for (int c = 0; c < DC; ++c)
            for (int ch = 0; ch < C; ch += W) store(s + c * C + ch, load(w + ch) * load(g + c * C + ch));
        outer_product<T, DA, DC>(s, h, C, n);
    }
}

// Second order, with u the cotangents and t1 = M h, t2 = M uh + M2 h:
//   out_c += w t2_c + uw t1_c,   dw = sum_c g_c t2_c,   dw1 = sum_c g_c t1_c
template <class T, int DA, int DC, bool DIAGONAL>
void path_second(const Path& p, const Block<T>& k) {
    const int C = k.channels;
    const T* m = k.m + p.matrix * EDGES;
    const T* m2 = k.m2 + p.matrix * EDGES;
    const T* g = k.g + p.target * C;
    T* out = k.out + p.target * C;
    for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
        for (int e = 0; e < k.edges; ++e) {
            const T* h = k.h[e] + p.source * C + ch;
            const T* uh = k.uh[e] + p.source * C + ch;
            const Vec<T> w = load(k.w[e] + p.weight * C + ch);
            const Vec<T> uw = load(k.uw[e] + p.weight * C + ch);
            T* dw = k.dw[e] + p.weight * C + ch;
            T* dw1 = k.dw1[e] + p.weight * C + ch;
            Vec<T> x[DA], u[DA];
            CSTF_UNROLL for (int a = 0; a < DA; ++a) x[a] = load(h + a * C);
            CSTF_UNROLL for (int a = 0; a < DA; ++a) u[a] = load(uh + a * C);
            Vec<T> s2 = p.first ? Vec<T>{} : load(dw);
            Vec<T> s1 = p.first ? Vec<T>{} : load(dw1);
            CSTF_UNROLL for (int c = 0; c < DC; ++c) {
                Vec<T> t1{}, t2{};
                CSTF_UNROLL for (int a = 0; a < DA; ++a) {
                    if (DIAGONAL && a != c) continue;
                    const T mv = m[(c * DA + a) * EDGES + e];
                    t1 += mv * x[a];
                    t2 += mv * u[a];  // two sums, two fused operations; one sum of two products would be three
                    t2 += m2[(c * DA + a) * EDGES + e] * x[a];
                }
                const Vec<T> gv = load(g + c * C + ch);
                s2 += gv * t2;
                s1 += gv * t1;
                T* o = out + c * C + ch;
                store(o, load(o) + w * t2 + uw * t1);
            }
            store(dw, s2);
            store(dw1, s1);
        }
    }
}

// dh_a += sum_c (M[c][a] uw + M2[c][a] w) g_c with g at the neighbour
template <class T, int DA, int DC, bool DIAGONAL>
void path_second_feature(const Path& p, const Block<T>& k, T sign) {
    const int C = k.channels;
    const T* m = k.m + p.matrix * EDGES;
    const T* m2 = k.m2 + p.matrix * EDGES;
    T* dh = k.dh + p.source * C;
    for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
        Vec<T> sum[DA] = {};
        for (int e = 0; e < k.edges; ++e) {
            const T* g = k.gn[e] + p.target * C + ch;
            const Vec<T> w = sign * load(k.w[e] + p.weight * C + ch);
            const Vec<T> uw = sign * load(k.uw[e] + p.weight * C + ch);
            CSTF_UNROLL for (int c = 0; c < DC; ++c) {
                const Vec<T> gv = load(g + c * C);
                const Vec<T> y1 = uw * gv, y2 = w * gv;
                CSTF_UNROLL for (int a = 0; a < DA; ++a) {
                    if (DIAGONAL && a != c) continue;
                    sum[a] += m[(c * DA + a) * EDGES + e] * y1;
                    sum[a] += m2[(c * DA + a) * EDGES + e] * y2;
                }
            }
        }
        CSTF_UNROLL for (int a = 0; a < DA; ++a) store(dh + a * C + ch, load(dh + a * C + ch) + sum[a]);
    }
}

// n[c][a] = sum over channels of g_c (w uh_a + uw h_a), for one edge
template <class T, int DA, int DC, bool DIAGONAL>
void path_second_matrix(const Path& p, const Block<T>& k, int e, T* n) {
    constexpr int W = Simd<T>::lanes;
    const int C = k.channels;
    const T* h = k.h[e] + p.source * C;
    const T* uh = k.uh[e] + p.source * C;
    const T* w = k.w[e] + p.weight * C;
    const T* uw = k.uw[e] + p.weight * C;
    const T* g = k.g + p.target * C;
    for (int c = 0; c < DC; ++c) {
        Vec<T> sum[DA] = {};
        for (int ch = 0; ch < C; ch += W) {
            const Vec<T> gv = load(g + c * C + ch);
            const Vec<T> s1 = gv * load(w + ch), s2 = gv * load(uw + ch);
            CSTF_UNROLL for (int a = 0; a < DA; ++a) {
                if (DIAGONAL && a != c) continue;
                sum[a] += s1 * load(uh + a * C + ch);
                sum[a] += s2 * load(h + a * C + ch);
            }
        }
        CSTF_UNROLL for (int a = 0; a < DA; ++a) store(n + (c * DA + a) * W, sum[a]);
    }
}

// Call `f` with the components of both tracks, and whether M is diagonal, as compile-time constants.
template <class F>
inline void with_dims(const Path& p, F&& f) {
    auto outer = [&](auto da) {
        if (p.diagonal) return f(da, da, std::true_type{});
        switch (p.dc) {
            case 1: return f(da, std::integral_constant<int, 1>{}, std::false_type{});
            case 3: return f(da, std::integral_constant<int, 3>{}, std::false_type{});
            case 5: return f(da, std::integral_constant<int, 5>{}, std::false_type{});
            case 7: return f(da, std::integral_constant<int, 7>{}, std::false_type{});
            default: return f(da, std::integral_constant<int, 9>{}, std::false_type{});
        }
    };
    switch (p.da) {
        case 1: return outer(std::integral_constant<int, 1>{});
        case 3: return outer(std::integral_constant<int, 3>{});
        case 5: return outer(std::integral_constant<int, 5>{});
        case 7: return outer(std::integral_constant<int, 7>{});
        default: return outer(std::integral_constant<int, 9>{});
    }
}

}  // namespace cstf
