// The edge operator and its first and second derivatives, summed by atom over CSR edges.
//
//   out[i, c] = sum over edges j->i and paths (a, b -> c):  coefficient . h[j, a] . w[edge, row] . Y[edge, b]
//
// Weights are given per edge; or given per pair of atoms and multiplied by a factor f[edge, row]; or made from `radial`
// functions per pair, w = phi . U. In the latter two cases they are made a block of edges at a time and never reach main
// memory. In the last case a pair and its reverse also share Y (up to parity), and the gradient with respect to h is
// summed in the same pass, because the edges that leave an atom are the reverse of those that reach it. Every sum is
// taken by one thread in a fixed order.
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
    const void *h, *w, *f, *phi, *U, *Y, *g;
    const void *uh, *uw, *uf, *uphi, *uU, *uY;
    void *out, *dh, *dw, *df, *dphi, *dU, *dY;
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
                weights_of(k, ids);
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
                weights_of(k, ids);
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
                weights_of(k, ids);
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
    std::vector<T> partial_U, edge_w, edge_phi, edge_Y;

    static const T* in(const void* p) { return static_cast<const T*>(p); }
    static T* at(void* p) { return static_cast<T*>(p); }
    bool wants_weights() const { return s.dw || s.df || s.dphi || s.dU; }
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

    void weights_of(Block<T>& k, const int64_t* ids) {
        if (K) made_weights<0>(k, ids, in(s.phi), in(s.U), k.w, false);
        else if (s.f) factored_weights<0>(k, ids, in(s.w), in(s.f), k.w, false);
        else for (int e = 0; e < k.edges; ++e) k.w[e] = in(s.w) + ids[e] * weights;
    }

    // w = phi . U
    template <int Slot>
    void made_weights(const Block<T>& k, const int64_t* ids, const T* phi, const T* U, const T** result, bool add) {
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

    // w = f of the edge times w of its pair
    template <int Slot>
    void factored_weights(const Block<T>& k, const int64_t* ids, const T* w, const T* f, const T** result, bool add) {
        T* buffer = scratch<T, 20 + Slot>(static_cast<size_t>(EDGES) * weights);
        for (int e = 0; e < k.edges; ++e) {
            const T* given = w + s.pair[ids[e]] * weights;
            T* made = buffer + e * weights;
            for (int64_t row = 0; row < s.rows; ++row) {
                const T factor = f[ids[e] * s.rows + row];
                for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
                    T* place = made + row * C + ch;
                    const Vec<T> value = factor * load(given + row * C + ch);
                    store(place, add ? load(place) + value : value);
                }
            }
            result[e] = made;
        }
    }

    // Where gradients of the weights go: to their place if weights are given per edge, else to a buffer.
    template <int Slot>
    void weight_results(Block<T>& k, const int64_t* ids, T** result) {
        const bool direct = !K && !s.f && s.dw;
        T* buffer = direct ? at(s.dw) : scratch<T, 30 + Slot>(static_cast<size_t>(EDGES) * weights);
        for (int e = 0; e < k.edges; ++e) result[e] = buffer + (direct ? ids[e] : e) * weights;
    }

    void first_weights(Block<T>& k) {
        T* buffer = scratch<T, 31>(static_cast<size_t>(EDGES) * weights);
        for (int e = 0; e < k.edges; ++e) k.dw1[e] = buffer + e * weights;
    }

    // dphi = dw U^T and dU += phi^T dw; with factors, dw of the edge times f, and df = w . dw.
    void finish_weights(Block<T>& k, const int64_t* ids, int chunk) {
        if (s.f) {
            scale_to_pairs(k, ids, k.dw, in(s.f), true);
            contract_to_factors(k, ids, k.dw, in(s.w), true);
        }
        if (!K) return;
        project(k, ids, k.dw, in(s.U), true);
        accumulate(k, ids, in(s.phi), k.dw, chunk);
    }

    // dphi = dw U^T + dw1 uU^T and dU += phi^T dw + uphi^T dw1, because uw = uphi U + phi uU; likewise with factors.
    void finish_second_weights(Block<T>& k, const int64_t* ids, int chunk) {
        if (s.f) {
            scale_to_pairs(k, ids, k.dw, in(s.f), true);
            contract_to_factors(k, ids, k.dw, in(s.w), true);
            if (s.uf) scale_to_pairs(k, ids, k.dw1, in(s.uf), false);
            if (s.uw) contract_to_factors(k, ids, k.dw1, in(s.uw), false);
        }
        if (!K) return;
        project(k, ids, k.dw, in(s.U), true);
        if (s.uU) project(k, ids, k.dw1, in(s.uU), false);
        accumulate(k, ids, in(s.phi), k.dw, chunk);
        if (s.uphi) accumulate(k, ids, in(s.uphi), k.dw1, chunk);
    }

    // The edge's share of the gradient of its pair's weights.
    void scale_to_pairs(const Block<T>& k, const int64_t* ids, T* const* dw, const T* f, bool clear) {
        if (!s.dw) return;
        for (int e = 0; e < k.edges; ++e)
            for (int64_t row = 0; row < s.rows; ++row) {
                const T factor = f[ids[e] * s.rows + row];
                T* result = edge_w.data() + ids[e] * weights + row * C;
                for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
                    const Vec<T> value = factor * load(dw[e] + row * C + ch);
                    store(result + ch, clear ? value : load(result + ch) + value);
                }
            }
    }

    void contract_to_factors(const Block<T>& k, const int64_t* ids, T* const* dw, const T* w, bool clear) {
        if (!s.df) return;
        for (int e = 0; e < k.edges; ++e)
            for (int64_t row = 0; row < s.rows; ++row) {
                const T* given = w + s.pair[ids[e]] * weights + row * C;
                Vec<T> sum{};
                for (int ch = 0; ch < C; ch += Simd<T>::lanes) sum += load(given + ch) * load(dw[e] + row * C + ch);
                T& result = at(s.df)[ids[e] * s.rows + row];
                result = (clear ? T(0) : result) + total<T>(sum);
            }
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
        weights_of(k, ids);
        if (K && (s.uphi || s.uU)) {
            if (s.uphi) made_weights<1>(k, ids, in(s.uphi), in(s.U), k.uw, false);
            if (s.uU) made_weights<1>(k, ids, in(s.phi), in(s.uU), k.uw, s.uphi != nullptr);
        } else if (s.f && (s.uw || s.uf)) {
            if (s.uw) factored_weights<1>(k, ids, in(s.uw), in(s.f), k.uw, false);
            if (s.uf) factored_weights<1>(k, ids, in(s.w), in(s.uf), k.uw, s.uw != nullptr);
        } else if (!s.f && s.uw) {
            for (int e = 0; e < k.edges; ++e) k.uw[e] = in(s.uw) + ids[e] * weights;
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
        if (s.f && s.dw) edge_w.resize(static_cast<size_t>(s.edges) * weights);
        if (!K) return;
        const int64_t chunks = std::max<int64_t>(1, std::min<int64_t>(s.chunks, s.atoms));
        if (s.dU) partial_U.assign(static_cast<size_t>(chunks) * K * weights, T(0));
        if (s.dphi) edge_phi.resize(s.edges * K);
        if (s.dY) edge_Y.resize(s.edges * s.edge);
    }

    void add_edges_of_pairs() {
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t p = 0; p < s.pairs; ++p) {
            const T* straight = edge_w.data() + s.pair_edges[2 * p] * weights;
            const T* turned = edge_w.data() + s.pair_edges[2 * p + 1] * weights;
            T* result = at(s.dw) + p * weights;
            for (int i = 0; i < weights; i += Simd<T>::lanes) store(result + i, load(straight + i) + load(turned + i));
        }
    }

    // Chunks of dU, and the two edges of every pair, are added in a fixed order.
    void finish_partial_sums() {
        if (s.f && s.dw) add_edges_of_pairs();
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
