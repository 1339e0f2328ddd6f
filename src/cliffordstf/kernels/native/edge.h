// The edge operator and its first and second derivatives, summed by atom over CSR edges.
//
//   out[i, c] = sum over edges j->i and paths (a, b -> c):  coefficient . h[j, a] . w[edge, row] . Y[edge, b]
//
// Weights are either given per edge, or made here from `radial` functions per pair of atoms, w = phi . U, a block of
// edges at a time, so that they never reach main memory. In the second case a pair and its reverse share phi and Y
// (up to parity); the gradient with respect to h is then summed in the same pass, because the edges that leave an atom
// are the reverse of those that reach it. Every sum is taken by one thread in a fixed order.
#pragma once

#include <algorithm>
#include <type_traits>

#include "gemm.h"
#include "path.h"

namespace cstf {

struct EdgeArgs {
    // The plan.
    int64_t paths, matrix, source, edge, target, rows;
    const Path* path;
    const int32_t* matrix_pointers;  // (matrix + 1): entries of each element of M
    const int32_t* entry_edge;       // component of Y
    const void* entry_value;         // coefficient
    const int32_t* path_pointers;    // (paths + 1): first of each path's components of Y in the next two
    const int32_t* transposed_edge;  // component of Y
    const int32_t* transposed_pointers;  // its entries in the next two
    const int32_t* transposed_matrix;    // element of M, relative to the path
    const void* transposed_value;        // coefficient
    const int32_t* edge_odd;         // (edge): whether a component changes sign when the edge is turned round
    // The edges.
    int64_t atoms, edges, channels;
    const int64_t* row_pointers;     // (atoms + 1)
    const int64_t* neighbours;       // (edges): senders
    const int64_t* receivers;        // (edges)
    const int64_t* reverse;          // (edges): the edge the other way round
    int64_t pairs, radial;           // made weights only
    const int64_t* pair;             // (edges)
    const uint8_t* turned;           // (edges)
    const int64_t* pair_edges;       // (pairs, 2)
    // Operands, cotangents and results.
    const void *h, *w, *phi, *U, *Y, *g;
    const void *uh, *uw, *uphi, *uU, *uY;
    void *out, *dh, *dw, *dphi, *dU, *dY;
    int64_t chunks, threads;
};

template <class T>
class EdgeOperator {
  public:
    explicit EdgeOperator(const EdgeArgs& args)
        : s(args), C(static_cast<int>(args.channels)), weights(static_cast<int>(args.rows) * C),
          K(static_cast<int>(args.radial)) {}

    void forward() {
        over_atoms([&](int64_t i, int) {
            T* out = at(s.out) + i * s.target * C;
            std::fill(out, out + s.target * C, T(0));
            incoming(i, [&](Block<T>& k, const int64_t* ids) {
                k.out = out;
                direction_matrices<0>(k, ids, in(s.Y), k.m);
                load_weights<0>(k, ids, in(s.phi), in(s.U), in(s.w), k.w, false);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) { path_forward<T, da, dc, diagonal>(p, k); });
            });
        });
    }

    // Gradients with respect to h, the weights and Y; null results are not computed.
    void backward() {
        start_partial_sums();
        over_atoms([&](int64_t i, int chunk) {
            T* dh = at(s.dh) + i * s.source * C;
            const bool sums_h = s.dh && K;
            if (s.dh) std::fill(dh, dh + s.source * C, T(0));
            incoming(i, [&](Block<T>& k, const int64_t* ids) {
                k.g = in(s.g) + i * s.target * C;
                k.dh = dh;
                direction_matrices<0>(k, ids, in(s.Y), k.m);
                load_weights<0>(k, ids, in(s.phi), in(s.U), in(s.w), k.w, false);
                if (wants_weights()) {
                    weight_results<0>(k, ids, k.dw);
                    each_path([&](const Path& p, auto da, auto dc, auto diagonal) { path_weight<T, da, dc, diagonal>(p, k); });
                    finish_weights(k, ids, chunk);
                }
                if (sums_h) each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_feature<T, da, dc, diagonal>(p, k, sign(p));
                });
                if (s.dY) edge_gradients(k, ids, [&](const Path& p, auto da, auto dc, auto diagonal, int e, T* n) {
                    path_matrix<T, da, dc, diagonal>(p, k, e, n);
                });
            });
            if (s.dh && !K) outgoing(i, [&](Block<T>& k, const int64_t* ids) {
                k.dh = dh;
                direction_matrices<0>(k, ids, in(s.Y), k.m);
                load_weights<0>(k, ids, nullptr, nullptr, in(s.w), k.w, false);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) { path_feature<T, da, dc, diagonal>(p, k, T(1)); });
            });
        });
        finish_partial_sums();
    }

    // Gradients of <uh, dh> + <uw, dw> + <uY, dY> with respect to g (into out), h, the weights and Y.
    void second() {
        start_partial_sums();
        over_atoms([&](int64_t i, int chunk) {
            T* out = at(s.out) + i * s.target * C;
            std::fill(out, out + s.target * C, T(0));
            T* dh = at(s.dh) + i * s.source * C;
            const bool sums_h = s.dh && K;
            if (s.dh) std::fill(dh, dh + s.source * C, T(0));
            incoming(i, [&](Block<T>& k, const int64_t* ids) {
                k.g = in(s.g) + i * s.target * C;
                k.out = out;
                k.dh = dh;
                second_operands(k, ids);
                weight_results<0>(k, ids, k.dw);
                first_weights(k);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) { path_second<T, da, dc, diagonal>(p, k); });
                if (wants_weights()) finish_second_weights(k, ids, chunk);
                if (sums_h) each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_second_feature<T, da, dc, diagonal>(p, k, sign(p));
                });
                if (s.dY) edge_gradients(k, ids, [&](const Path& p, auto da, auto dc, auto diagonal, int e, T* n) {
                    path_second_matrix<T, da, dc, diagonal>(p, k, e, n);
                });
            });
            if (s.dh && !K) outgoing(i, [&](Block<T>& k, const int64_t* ids) {
                k.dh = dh;
                second_operands(k, ids);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) { path_second_feature<T, da, dc, diagonal>(p, k, T(1)); });
            });
        });
        finish_partial_sums();
    }

  private:
    const EdgeArgs& s;
    const int C;        // channels
    const int weights;  // weights of an edge
    const int K;        // radial functions of a pair, 0 if the weights are given
    std::vector<T> partial_U, edge_phi, edge_Y;

    static const T* in(const void* p) { return static_cast<const T*>(p); }
    static T* at(void* p) { return static_cast<T*>(p); }
    bool wants_weights() const { return s.dw || s.dphi || s.dU; }
    T sign(const Path& p) const { return p.odd ? T(-1) : T(1); }
    int64_t pair(int64_t e) const { return K ? s.pair[e] : e; }

    // Atoms in contiguous chunks whose number does not depend on the threads, so that partial sums do not either.
    template <class F>
    void over_atoms(F&& f) {
        const int64_t chunks = std::max<int64_t>(1, std::min<int64_t>(s.chunks, s.atoms));
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
            const int64_t end = s.atoms * (chunk + 1) / chunks;
            for (int64_t i = s.atoms * chunk / chunks; i < end; ++i) f(i, static_cast<int>(chunk));
        }
    }

    template <class F>
    void incoming(int64_t i, F&& f) {
        int64_t ids[EDGES];
        for (int64_t e = s.row_pointers[i]; e < s.row_pointers[i + 1]; e += EDGES) {
            const int n = static_cast<int>(std::min<int64_t>(EDGES, s.row_pointers[i + 1] - e));
            for (int q = 0; q < n; ++q) ids[q] = e + q;
            block(n, ids, s.neighbours, f);
        }
    }

    template <class F>
    void outgoing(int64_t i, F&& f) {
        int64_t ids[EDGES];
        for (int64_t e = s.row_pointers[i]; e < s.row_pointers[i + 1]; e += EDGES) {
            const int n = static_cast<int>(std::min<int64_t>(EDGES, s.row_pointers[i + 1] - e));
            for (int q = 0; q < n; ++q) ids[q] = s.reverse[e + q];
            block(n, ids, s.receivers, f);
        }
    }

    template <class F>
    void block(int n, const int64_t* ids, const int64_t* others, F&& f) {
        Block<T> k{};
        k.edges = n;
        k.channels = C;
        const T* zeros = s.uh ? nullptr : zero_features();
        for (int q = 0; q < n; ++q) {
            const int64_t j = others[ids[q]];
            k.h[q] = in(s.h) + j * s.source * C;
            k.uh[q] = s.uh ? in(s.uh) + j * s.source * C : zeros;
            k.gn[q] = in(s.g) + j * s.target * C;
        }
        f(k, ids);
    }

    const T* zero_features() {
        T* zeros = scratch<T, 0>(s.source * C);
        std::fill(zeros, zeros + s.source * C, T(0));
        return zeros;
    }

    template <class F>
    void each_path(F&& f) {
        for (int64_t i = 0; i < s.paths; ++i) {
            const Path& p = s.path[i];
            with_dims(p, [&](auto da, auto dc, auto diagonal) { f(p, da, dc, diagonal); });
        }
    }

    // M[c][a] = sum_b coefficient . Y_b for every edge of the block and every path.
    template <int Slot>
    void direction_matrices(const Block<T>& k, const int64_t* ids, const T* directions, const T*& result) {
        T* m = scratch<T, 10 + Slot>(s.matrix * EDGES);
        T* y = scratch<T, 1>(s.edge * EDGES);
        for (int64_t b = 0; b < s.edge; ++b)
            for (int e = 0; e < EDGES; ++e) y[b * EDGES + e] = T(0);
        for (int e = 0; e < k.edges; ++e) {
            const T* values = directions + pair(ids[e]) * s.edge;
            const bool turned = K && s.turned[ids[e]];
            for (int64_t b = 0; b < s.edge; ++b)
                y[b * EDGES + e] = turned && s.edge_odd[b] ? -values[b] : values[b];
        }
        const T* value = in(s.entry_value);
        for (int64_t j = 0; j < s.matrix; ++j) {
            T sum[EDGES] = {};
            for (int32_t q = s.matrix_pointers[j]; q < s.matrix_pointers[j + 1]; ++q) {
                const T* yb = y + s.entry_edge[q] * EDGES;
                for (int e = 0; e < EDGES; ++e) sum[e] += value[q] * yb[e];
            }
            std::copy(sum, sum + EDGES, m + j * EDGES);
        }
        result = m;
    }

    template <int Slot>
    void load_weights(Block<T>& k, const int64_t* ids, const T* phi, const T* U, const T* given,
                      const T** result, bool add) {
        if (!K) {
            for (int e = 0; e < k.edges; ++e) result[e] = given + ids[e] * weights;
            return;
        }
        T* buffer = scratch<T, 20 + Slot>(static_cast<size_t>(EDGES) * weights);
        const T* a[EDGES];
        T* c[EDGES];
        for (int e = 0; e < k.edges; ++e) {
            a[e] = phi + pair(ids[e]) * K;
            result[e] = c[e] = buffer + e * weights;
        }
        if (add) gemm_nn<T, true>(k.edges, a, K, U, weights, c, weights);
        else gemm_nn<T, false>(k.edges, a, K, U, weights, c, weights);
    }

    // Where gradients of the weights go: to their place if weights are given, else to a buffer.
    template <int Slot>
    void weight_results(Block<T>& k, const int64_t* ids, T** result) {
        const bool direct = !K && s.dw;
        T* buffer = direct ? at(s.dw) : scratch<T, 30 + Slot>(static_cast<size_t>(EDGES) * weights);
        for (int e = 0; e < k.edges; ++e) result[e] = buffer + (direct ? ids[e] : e) * weights;
    }

    void first_weights(Block<T>& k) {
        T* buffer = scratch<T, 31>(static_cast<size_t>(EDGES) * weights);
        for (int e = 0; e < k.edges; ++e) k.dw1[e] = buffer + e * weights;
    }

    // dphi = dw U^T and dU += phi^T dw.
    void finish_weights(Block<T>& k, const int64_t* ids, int chunk) {
        if (!K) return;
        project(k, ids, k.dw, in(s.U), true);
        accumulate(k, ids, in(s.phi), k.dw, chunk);
    }

    // dphi = dw U^T + dw1 uU^T and dU += phi^T dw + uphi^T dw1, because uw = uphi U + phi uU.
    void finish_second_weights(Block<T>& k, const int64_t* ids, int chunk) {
        if (!K) return;
        project(k, ids, k.dw, in(s.U), true);
        if (s.uU) project(k, ids, k.dw1, in(s.uU), false);
        accumulate(k, ids, in(s.phi), k.dw, chunk);
        if (s.uphi) accumulate(k, ids, in(s.uphi), k.dw1, chunk);
    }

    void project(Block<T>& k, const int64_t* ids, T* const* dw, const T* U, bool clear) {
        if (!s.dphi) return;
        T* c[EDGES];
        for (int e = 0; e < k.edges; ++e) {
            c[e] = edge_phi.data() + ids[e] * K;
            if (clear) std::fill(c[e], c[e] + K, T(0));
        }
        gemm_nt<T>(k.edges, dw, weights, U, weights, c, K);
    }

    void accumulate(Block<T>& k, const int64_t* ids, const T* phi, T* const* dw, int chunk) {
        if (!s.dU) return;
        const T* a[EDGES];
        for (int e = 0; e < k.edges; ++e) a[e] = phi + pair(ids[e]) * K;
        gemm_tn<T>(k.edges, a, K, dw, weights, partial_U.data() + static_cast<size_t>(chunk) * K * weights, weights);
    }

    void second_operands(Block<T>& k, const int64_t* ids) {
        direction_matrices<0>(k, ids, in(s.Y), k.m);
        if (s.uY) direction_matrices<1>(k, ids, in(s.uY), k.m2);
        else {
            T* zeros = scratch<T, 11>(s.matrix * EDGES);
            std::fill(zeros, zeros + s.matrix * EDGES, T(0));
            k.m2 = zeros;
        }
        load_weights<0>(k, ids, in(s.phi), in(s.U), in(s.w), k.w, false);
        const bool made = K && (s.uphi || s.uU);
        if (made) {
            if (s.uphi) load_weights<1>(k, ids, in(s.uphi), in(s.U), nullptr, k.uw, false);
            if (s.uU) load_weights<1>(k, ids, in(s.phi), in(s.uU), nullptr, k.uw, s.uphi != nullptr);
        } else if (!K && s.uw) {
            load_weights<1>(k, ids, nullptr, nullptr, in(s.uw), k.uw, false);
        } else {
            T* zeros = scratch<T, 21>(static_cast<size_t>(EDGES) * weights);
            std::fill(zeros, zeros + weights, T(0));
            for (int e = 0; e < k.edges; ++e) k.uw[e] = zeros;
        }
    }

    // dY_b = sum over M of coefficient . n[c][a], with the lanes summed last.
    template <class F>
    void edge_gradients(Block<T>& k, const int64_t* ids, F&& contract) {
        constexpr int W = Simd<T>::lanes;
        T* n = scratch<T, 40>(81 * W);
        T* sums = scratch<T, 41>(s.edge * W);
        T* results = K ? edge_Y.data() : at(s.dY);
        const T* value = in(s.transposed_value);
        for (int e = 0; e < k.edges; ++e) {
            std::fill(sums, sums + s.edge * W, T(0));
            for (int64_t i = 0; i < s.paths; ++i) {
                const Path& p = s.path[i];
                with_dims(p, [&](auto da, auto dc, auto diagonal) { contract(p, da, dc, diagonal, e, n); });
                for (int32_t j = s.path_pointers[i]; j < s.path_pointers[i + 1]; ++j) {
                    T* place = sums + s.transposed_edge[j] * W;
                    Vec<T> sum = load(place);
                    for (int32_t q = s.transposed_pointers[j]; q < s.transposed_pointers[j + 1]; ++q)
                        sum += value[q] * load(n + s.transposed_matrix[q] * W);
                    store(place, sum);
                }
            }
            for (int64_t b = 0; b < s.edge; ++b) results[ids[e] * s.edge + b] = total<T>(load(sums + b * W));
        }
    }

    void start_partial_sums() {
        if (!K) return;
        const int64_t chunks = std::max<int64_t>(1, std::min<int64_t>(s.chunks, s.atoms));
        if (s.dU) partial_U.assign(static_cast<size_t>(chunks) * K * weights, T(0));
        if (s.dphi) edge_phi.resize(s.edges * K);
        if (s.dY) edge_Y.resize(s.edges * s.edge);
    }

    // Chunks of dU, and the two edges of every pair, are added in a fixed order.
    void finish_partial_sums() {
        if (!K) return;
        if (s.dU) {
            const int64_t size = static_cast<int64_t>(K) * weights, chunks = partial_U.size() / size;
            T* result = at(s.dU);
            std::copy(partial_U.begin(), partial_U.begin() + size, result);
            for (int64_t chunk = 1; chunk < chunks; ++chunk)
                for (int64_t i = 0; i < size; ++i) result[i] += partial_U[chunk * size + i];
        }
        for (int64_t p = 0; p < s.pairs; ++p) {
            const int64_t straight = s.pair_edges[2 * p], turned = s.pair_edges[2 * p + 1];
            if (s.dphi)
                for (int k = 0; k < K; ++k)
                    at(s.dphi)[p * K + k] = edge_phi[straight * K + k] + edge_phi[turned * K + k];
            if (s.dY)
                for (int64_t b = 0; b < s.edge; ++b) {
                    const T back = edge_Y[turned * s.edge + b];
                    at(s.dY)[p * s.edge + b] = edge_Y[straight * s.edge + b] + (s.edge_odd[b] ? -back : back);
                }
        }
    }
};

}  // namespace cstf
