// One coupling (track a, edge track b -> track c) applied to a block of edges that share an atom.
//
// For every edge the couplings with its direction tensor are gathered into a small matrix M[c][a] first; what is left is
// M times the features, vectorised over channels. `M2` holds the same matrices of another direction tensor (a cotangent).
#pragma once

#include <type_traits>

#include "chunks.h"
#include "simd.h"

namespace cstf {

struct Path {
    int32_t da, dc;      // components of tracks a and c
    int32_t source;      // first component of track a
    int32_t target;      // first component of track c
    int32_t weight;      // row of the weights
    int32_t matrix;      // first entry of M
    int32_t first;       // whether this is the first path that uses its row of the weights
    int32_t diagonal;    // whether M is diagonal, as it is for a scalar edge track
};

// A block of edges of one atom, at whose end sums are taken; the other end differs.
template <class T>
struct Block {
    int edges;
    int channels;
    const T* h[EDGES];       // features at the other end
    const T* uh[EDGES];      // cotangents of their gradients
    const T* gn[EDGES];      // gradients of the result at the other end
    const T* g;              // gradients of the result at the atom
    const T* w[EDGES];       // weights
    const T* uw[EDGES];      // cotangents of their gradients
    T* dw[EDGES];            // gradients of the weights
    T* dw1[EDGES];           // first-order gradients of the weights, when a second-order pass needs them
    T* out;                  // sums at the atom, components of the result
    T* dh;                   // sums at the atom, components of the features
    const T* m;              // M, (entries, EDGES)
    const T* m2;
};

// sums += sum, D rows that are C apart
template <class T, int D>
inline void add_to(T* sums, int C, const Vec<T> (&sum)[D]) {
    CSTF_UNROLL for (int d = 0; d < D; ++d) store(sums + d * C, load(sums + d * C) + sum[d]);
}

// out_c += w (M h)_c
template <class T, int DA, int DC, bool DIAGONAL>
void path_forward(const Path& p, const Block<T>& k) {
    const int C = k.channels;
    for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
        Vec<T> sum[DC] = {};
        for (int e = 0; e < k.edges; ++e) {
            const T* m = k.m + p.matrix * EDGES + e;
            const T* h = k.h[e] + p.source * C + ch;
            const Vec<T> w = load(k.w[e] + p.weight * C + ch);
            CSTF_UNROLL for (int a = 0; a < DA; ++a) {
                const Vec<T> y = w * load(h + a * C);
                CSTF_UNROLL for (int c = 0; c < DC; ++c)
                    if (!DIAGONAL || a == c) sum[c] += m[(c * DA + a) * EDGES] * y;
            }
        }
        add_to<T, DC>(k.out + p.target * C + ch, C, sum);
    }
}

// dw = sum_c g_c (M h)_c
template <class T, int DA, int DC, bool DIAGONAL>
void path_weight(const Path& p, const Block<T>& k) {
    const int C = k.channels;
    for (int ch = 0; ch < C; ch += Simd<T>::lanes)
        for (int e = 0; e < k.edges; ++e) {
            const T* m = k.m + p.matrix * EDGES + e;
            const T* h = k.h[e] + p.source * C + ch;
            const T* g = k.g + p.target * C + ch;
            T* dw = k.dw[e] + p.weight * C + ch;
            Vec<T> x[DA], sum{};
            CSTF_UNROLL for (int a = 0; a < DA; ++a) x[a] = load(h + a * C);
            CSTF_UNROLL for (int c = 0; c < DC; ++c) {
                Vec<T> t{};
                CSTF_UNROLL for (int a = 0; a < DA; ++a)
                    if (!DIAGONAL || a == c) t += m[(c * DA + a) * EDGES] * x[a];
                sum += load(g + c * C) * t;
            }
            store(dw, p.first ? sum : load(dw) + sum);
        }
}

// dh_a += sum_c M[c][a] w g_c with g at the sender
template <class T, int DA, int DC, bool DIAGONAL>
void path_feature(const Path& p, const Block<T>& k) {
    const int C = k.channels;
    for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
        Vec<T> sum[DA] = {};
        for (int e = 0; e < k.edges; ++e) {
            const T* m = k.m + p.matrix * EDGES + e;
            const T* g = k.gn[e] + p.target * C + ch;
            const Vec<T> w = load(k.w[e] + p.weight * C + ch);
            CSTF_UNROLL for (int c = 0; c < DC; ++c) {
                const Vec<T> y = w * load(g + c * C);
                CSTF_UNROLL for (int a = 0; a < DA; ++a)
                    if (!DIAGONAL || a == c) sum[a] += m[(c * DA + a) * EDGES] * y;
            }
        }
        add_to<T, DA>(k.dh + p.source * C + ch, C, sum);
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
        for (int a = 0; a + Q <= DA; a += Q)
            outer_tile<T, R, Q>(s + c * C, x + a * C, C, n + (c * DA + a) * W, DA);
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
            T* place = n + (a * DA + a) * W;
            store(place, sum);
        }
    } else {
        T* s = scratch<T, 2>(static_cast<size_t>(9) * C);
        for (int ch = 0; ch < C; ch += W) {
            const Vec<T> wv = load(w + ch);
            CSTF_UNROLL for (int c = 0; c < DC; ++c) store(s + c * C + ch, wv * load(g + c * C + ch));
        }
        outer_product<T, DA, DC>(s, h, C, n);
    }
}

// Components c to c + G of the next function, for a vector of channels of one edge.
template <class T, int DA, int G, bool DIAGONAL>
inline void second_components(int c, const T* m, const T* m2, const T* h, const T* uh, const T* g, Vec<T> w, Vec<T> uw,
                              T* out, int C, Vec<T>& s1, Vec<T>& s2) {
    Vec<T> t1[G] = {}, t2[G] = {};
    CSTF_UNROLL for (int a = 0; a < DA; ++a) {
        if (DIAGONAL && (a < c || a >= c + G)) continue;
        const Vec<T> x = load(h + a * C), u = load(uh + a * C);
        CSTF_UNROLL for (int q = 0; q < G; ++q) {
            if (DIAGONAL && a != c + q) continue;
            const int element = ((c + q) * DA + a) * EDGES;
            t1[q] += m[element] * x;
            t2[q] += m[element] * u;  // two sums, two fused operations; one sum of two products would be three
            t2[q] += m2[element] * x;
        }
    }
    CSTF_UNROLL for (int q = 0; q < G; ++q) {
        const Vec<T> gv = load(g + (c + q) * C);
        s2 += gv * t2[q];
        s1 += gv * t1[q];
        Vec<T> sum = load(out + (c + q) * C);
        sum += w * t2[q];
        sum += uw * t1[q];
        store(out + (c + q) * C, sum);
    }
}

// Second order, with u the cotangents and t1 = M h, t2 = (M uh + M2 h):
//   out_c += w t2_c + uw t1_c,   dw = sum_c g_c t2_c,   dw1 = sum_c g_c t1_c
template <class T, int DA, int DC, bool DIAGONAL>
void path_second(const Path& p, const Block<T>& k) {
    constexpr int G = DC < 6 ? DC : 4, rest = DC % G;  // sums of more components do not fit into the registers
    const int C = k.channels;
    for (int ch = 0; ch < C; ch += Simd<T>::lanes)
        for (int e = 0; e < k.edges; ++e) {
            const T* m = k.m + p.matrix * EDGES + e;
            const T* m2 = k.m2 + p.matrix * EDGES + e;
            const T* h = k.h[e] + p.source * C + ch;
            const T* uh = k.uh[e] + p.source * C + ch;
            const T* g = k.g + p.target * C + ch;
            const Vec<T> w = load(k.w[e] + p.weight * C + ch);
            const Vec<T> uw = load(k.uw[e] + p.weight * C + ch);
            T* out = k.out + p.target * C + ch;
            T* dw = k.dw[e] + p.weight * C + ch;
            T* dw1 = k.dw1[e] + p.weight * C + ch;
            Vec<T> s1{}, s2{};
            CSTF_UNROLL for (int c = 0; c + G <= DC; c += G)
                second_components<T, DA, G, DIAGONAL>(c, m, m2, h, uh, g, w, uw, out, C, s1, s2);
            if constexpr (rest > 0)
                second_components<T, DA, rest, DIAGONAL>(DC - rest, m, m2, h, uh, g, w, uw, out, C, s1, s2);
            store(dw, p.first ? s2 : load(dw) + s2);
            store(dw1, p.first ? s1 : load(dw1) + s1);
        }
}

// dh_a += sum_c (M[c][a] uw + M2[c][a] w) g_c with g at the sender
template <class T, int DA, int DC, bool DIAGONAL>
void path_second_feature(const Path& p, const Block<T>& k) {
    const int C = k.channels;
    for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
        Vec<T> sum[DA] = {};
        for (int e = 0; e < k.edges; ++e) {
            const T* m = k.m + p.matrix * EDGES + e;
            const T* m2 = k.m2 + p.matrix * EDGES + e;
            const T* g = k.gn[e] + p.target * C + ch;
            const Vec<T> w = load(k.w[e] + p.weight * C + ch);
            const Vec<T> uw = load(k.uw[e] + p.weight * C + ch);
            CSTF_UNROLL for (int c = 0; c < DC; ++c) {
                const Vec<T> gv = load(g + c * C), y1 = uw * gv, y2 = w * gv;
                CSTF_UNROLL for (int a = 0; a < DA; ++a) {
                    if (DIAGONAL && a != c) continue;
                    sum[a] += m[(c * DA + a) * EDGES] * y1;
                    sum[a] += m2[(c * DA + a) * EDGES] * y2;
                }
            }
        }
        add_to<T, DA>(k.dh + p.source * C + ch, C, sum);
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
        CSTF_UNROLL for (int a = 0; a < DA; ++a) {
            T* place = n + (c * DA + a) * W;
            store(place, sum[a]);
        }
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
