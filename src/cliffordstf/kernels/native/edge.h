// The edge operator and its first and second derivatives, summed by atom over CSR edges.
//
//   out[i, c] = sum over edges j->i and paths (a, b -> c):  coefficient . h[j, a] . w[edge, row] . Y[edge, b]
//
// Weights are given per edge; or given per pair of atoms and multiplied by a factor f[edge, row]; or made from `radial`
// functions per pair, w = phi . U. In the latter two cases they are made a block of edges at a time and never reach main
// memory. In the last case an edge and its reverse also share Y (up to parity), and the gradient with respect to h is
// summed in the same pass, because the edges that leave an atom are the reverse of those that reach it.
//
// Atoms are dealt to threads in chunks. Where an edge and its reverse lie in one chunk, and their weights are made here,
// they are done together: weights, direction matrices and what their gradients need are then made once for both. Every
// sum is taken by one thread in a fixed order.
#pragma once

#include <algorithm>
#include <type_traits>

#include "chunks.h"
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
    int64_t add_h;                   // whether the gradient of h is added to what is there
    int64_t chunks, threads;
};

template <class T>
class EdgeOperator {
  public:
    explicit EdgeOperator(const EdgeArgs& args)
        : s(args), C(static_cast<int>(args.channels)), weights(static_cast<int>(args.rows) * C),
          K(static_cast<int>(args.radial)) {
        if (K) packed_U = Panels<T>::packed(in(s.U), K, weights);
        if (K && s.uU) packed_uU = Panels<T>::packed(in(s.uU), K, weights);
        zeros.assign(s.source * C, T(0));
        const Graph graph{s.atoms, s.row_pointers, s.neighbours};
        const std::vector<Chunk> structures = K ? whole_structures(graph, s.chunks) : std::vector<Chunk>{};
        together = !structures.empty();
        chunks = together ? structures : equal_parts(0, s.atoms, std::min(s.chunks, s.atoms));
    }

    void forward() {
        over_chunks([&](const Chunk& chunk) {
            start_sums(chunk, at(s.out), s.target);
            over_blocks(chunk, [&](Edges& b) {
                direction_matrices<0>(b, in(s.Y), b.to.m);
                weights_of(b);
                turn(b);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_forward<T, da, dc, diagonal>(p, b.to, T(1));
                    if (b.both) path_forward<T, da, dc, diagonal>(p, b.back, parity(p));
                });
            });
        });
    }

    // Gradients with respect to h, the weights and Y; null results are not computed.
    void backward() {
        start_partial_sums();
        over_chunks([&](const Chunk& chunk) {
            if (s.dh && !s.add_h) start_sums(chunk, at(s.dh), s.source);
            over_blocks(chunk, [&](Edges& b) {
                direction_matrices<0>(b, in(s.Y), b.to.m);
                weights_of(b);
                if (wants_weights()) weight_results<0>(b, b.to.dw);
                turn(b);
                if (wants_weights()) {
                    each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                        path_weight<T, da, dc, diagonal>(p, b.to, T(1));
                        if (b.both) path_weight<T, da, dc, diagonal>(p, b.back, parity(p));
                    });
                    finish_weights(b, chunk);
                }
                // The edges that leave an atom are the reverse of those that reach it.
                if (s.dh && K) each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_feature<T, da, dc, diagonal>(p, b.to, parity(p));
                    if (b.both) path_feature<T, da, dc, diagonal>(p, b.back, T(1));
                });
                if (s.dY) edge_gradients(b, [&](const Path& p, auto da, auto dc, auto diagonal, auto& k, int e, T sign, T* n) {
                    path_matrix<T, da, dc, diagonal>(p, k, e, sign, n);
                });
            });
            if (s.dh && !K) over_outgoing(chunk, [&](Edges& b) {
                direction_matrices<0>(b, in(s.Y), b.to.m);
                weights_of(b);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_feature<T, da, dc, diagonal>(p, b.to, T(1));
                });
            });
        });
        finish_partial_sums();
    }

    // Gradients of <uh, dh> + <uw, dw> + <uY, dY> with respect to g (into out), h, the weights and Y.
    void second() {
        start_partial_sums();
        over_chunks([&](const Chunk& chunk) {
            start_sums(chunk, at(s.out), s.target);
            if (s.dh && !s.add_h) start_sums(chunk, at(s.dh), s.source);
            over_blocks(chunk, [&](Edges& b) {
                second_operands(b);
                weight_results<0>(b, b.to.dw);
                first_weights(b.to);
                turn(b);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_second<T, da, dc, diagonal>(p, b.to, T(1));
                    if (b.both) path_second<T, da, dc, diagonal>(p, b.back, parity(p));
                });
                if (wants_weights()) finish_second_weights(b, chunk);
                if (s.dh && K) each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_second_feature<T, da, dc, diagonal>(p, b.to, parity(p));
                    if (b.both) path_second_feature<T, da, dc, diagonal>(p, b.back, T(1));
                });
                if (s.dY) edge_gradients(b, [&](const Path& p, auto da, auto dc, auto diagonal, auto& k, int e, T sign, T* n) {
                    path_second_matrix<T, da, dc, diagonal>(p, k, e, sign, n);
                });
            });
            if (s.dh && !K) over_outgoing(chunk, [&](Edges& b) {
                second_operands(b);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_second_feature<T, da, dc, diagonal>(p, b.to, T(1));
                });
            });
        });
        finish_partial_sums();
    }

  private:
    // A block of edges of atom `atom`: as they reach it, and if `both`, as they come back.
    struct Edges {
        int64_t atom;
        bool both;
        int64_t ids[EDGES];
        Block<T> to, back;
    };

    const EdgeArgs& s;
    const int C;        // channels
    const int weights;  // weights of an edge
    const int K;        // radial functions of a pair, 0 if the weights are given
    std::vector<Chunk> chunks;
    bool together;      // whether edges are done with their reverse where both lie in a chunk
    std::vector<T> zeros;  // as many as an atom's features
    std::vector<T> packed_U, packed_uU, partial_U, edge_w, edge_phi, edge_Y;  // the first three in panels

    static const T* in(const void* p) { return static_cast<const T*>(p); }
    static T* at(void* p) { return static_cast<T*>(p); }
    bool wants_weights() const { return s.dw || s.df || s.dphi || s.dU; }
    T parity(const Path& p) const { return p.odd ? T(-1) : T(1); }
    int64_t pair(int64_t e) const { return K ? s.pair[e] : e; }

    template <class F>
    void over_chunks(F&& f) {
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (size_t q = 0; q < chunks.size(); ++q) f(chunks[q]);
    }

    void start_sums(const Chunk& chunk, T* sums, int64_t components) {
        std::fill(sums + chunk.begin * components * C, sums + chunk.end * components * C, T(0));
    }

    // Edges that reach the atoms of a chunk; those whose reverse does so too are given once, with `both`.
    template <class F>
    void over_blocks(const Chunk& chunk, F&& f) {
        std::vector<int64_t> both, single;
        for (int64_t i = chunk.begin; i < chunk.end; ++i) {
            both.clear();
            single.clear();
            for (int64_t e = s.row_pointers[i]; e < s.row_pointers[i + 1]; ++e) {
                if (!together || !chunk.holds(s.neighbours[e])) single.push_back(e);
                else if (e < s.reverse[e]) both.push_back(e);
            }
            blocks(i, both, true, s.neighbours, f);
            blocks(i, single, false, s.neighbours, f);
        }
    }

    template <class F>
    void over_outgoing(const Chunk& chunk, F&& f) {
        std::vector<int64_t> leaving;
        for (int64_t i = chunk.begin; i < chunk.end; ++i) {
            leaving.clear();
            for (int64_t e = s.row_pointers[i]; e < s.row_pointers[i + 1]; ++e) leaving.push_back(s.reverse[e]);
            blocks(i, leaving, false, s.receivers, f);
        }
    }

    // The edges of an atom in blocks of about the same size.
    template <class F>
    void blocks(int64_t i, const std::vector<int64_t>& edges, bool both, const int64_t* others, F&& f) {
        const int64_t count = static_cast<int64_t>(edges.size()), parts = (count + EDGES - 1) / EDGES;
        for (int64_t part = 0; part < parts; ++part) {
            const int64_t first = count * part / parts, last = count * (part + 1) / parts;
            Edges b;
            b.atom = i;
            b.both = both;
            b.to.edges = static_cast<int>(last - first);
            b.to.channels = C;
            b.to.one_receiver = true;
            b.to.adds = false;
            for (int q = 0; q < b.to.edges; ++q) {
                b.ids[q] = edges[first + q];
                place(b.to, q, others[b.ids[q]], i);
            }
            f(b);
        }
    }

    // Where an edge reads and writes.
    void place(Block<T>& k, int q, int64_t sender, int64_t receiver) {
        k.h[q] = in(s.h) + sender * s.source * C;
        k.uh[q] = s.uh ? in(s.uh) + sender * s.source * C : zero_features();
        k.gn[q] = in(s.g) + sender * s.target * C;
        k.g[q] = in(s.g) + receiver * s.target * C;
        k.out[q] = at(s.out) + receiver * s.target * C;
        k.dh[q] = at(s.dh) + receiver * s.source * C;
    }

    // The way back of a block whose weights and matrices are ready.
    void turn(Edges& b) {
        if (!b.both) return;
        b.back = b.to;
        b.back.one_receiver = false;
        b.back.adds = true;
        for (int q = 0; q < b.to.edges; ++q) place(b.back, q, b.atom, s.neighbours[b.ids[q]]);
    }

    // Stand in for cotangents that are not given.
    const T* zero_features() const { return zeros.data(); }

    template <class F>
    void each_path(F&& f) {
        for (int64_t i = 0; i < s.paths; ++i) {
            const Path& p = s.path[i];
            with_dims(p, [&](auto da, auto dc, auto diagonal) { f(p, da, dc, diagonal); });
        }
    }

    // M[c][a] = sum_b coefficient . Y_b for every edge of the block and every path.
    template <int Slot>
    void direction_matrices(const Edges& b, const T* directions, const T*& result) {
        T* m = scratch<T, 10 + Slot>(s.matrix * EDGES);
        T* y = scratch<T, 1>(s.edge * EDGES);
        std::fill(y, y + s.edge * EDGES, T(0));
        for (int e = 0; e < b.to.edges; ++e) {
            const T* values = directions + pair(b.ids[e]) * s.edge;
            const bool turned = K && s.turned[b.ids[e]];
            for (int64_t q = 0; q < s.edge; ++q)
                y[q * EDGES + e] = turned && s.edge_odd[q] ? -values[q] : values[q];
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

    void weights_of(Edges& b) {
        if (K) made_weights<0>(b, in(s.phi), packed_U, b.to.w, false);
        else if (s.f) factored_weights<0>(b, in(s.w), in(s.f), b.to.w, false);
        else for (int e = 0; e < b.to.edges; ++e) b.to.w[e] = in(s.w) + b.ids[e] * weights;
    }

    // w = phi . U
    template <int Slot>
    void made_weights(const Edges& b, const T* phi, const std::vector<T>& U, const T** result, bool add) {
        T* buffer = scratch<T, 20 + Slot>(static_cast<size_t>(EDGES) * weights);
        const T* a[EDGES];
        T* c[EDGES];
        for (int e = 0; e < b.to.edges; ++e) {
            a[e] = phi + pair(b.ids[e]) * K;
            result[e] = c[e] = buffer + e * weights;
        }
        if (add) panels_nn<T, true>(b.to.edges, a, K, U.data(), c, weights);
        else panels_nn<T, false>(b.to.edges, a, K, U.data(), c, weights);
    }

    // w = f of the edge times w of its pair
    template <int Slot>
    void factored_weights(const Edges& b, const T* w, const T* f, const T** result, bool add) {
        T* buffer = scratch<T, 20 + Slot>(static_cast<size_t>(EDGES) * weights);
        for (int e = 0; e < b.to.edges; ++e) {
            const T* given = w + s.pair[b.ids[e]] * weights;
            T* made = buffer + e * weights;
            for (int64_t row = 0; row < s.rows; ++row) {
                const T factor = f[b.ids[e] * s.rows + row];
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
    void weight_results(const Edges& b, T** result) {
        const bool direct = !K && !s.f && s.dw;
        T* buffer = direct ? at(s.dw) : scratch<T, 30 + Slot>(static_cast<size_t>(EDGES) * weights);
        for (int e = 0; e < b.to.edges; ++e) result[e] = buffer + (direct ? b.ids[e] : e) * weights;
    }

    void first_weights(Block<T>& k) {
        T* buffer = scratch<T, 31>(static_cast<size_t>(EDGES) * weights);
        for (int e = 0; e < k.edges; ++e) k.dw1[e] = buffer + e * weights;
    }

    // dphi = dw U^T and dU += phi^T dw; with factors, dw of the edge times f, and df = w . dw.
    void finish_weights(Edges& b, const Chunk& chunk) {
        if (s.f) {
            scale_to_pairs(b, b.to.dw, in(s.f), true);
            contract_to_factors(b, b.to.dw, in(s.w), true);
        }
        if (!K) return;
        project(b, b.to.dw, packed_U, true);
        accumulate(b, in(s.phi), b.to.dw, chunk);
    }

    // dphi = dw U^T + dw1 uU^T and dU += phi^T dw + uphi^T dw1, because uw = uphi U + phi uU; likewise with factors.
    void finish_second_weights(Edges& b, const Chunk& chunk) {
        if (s.f) {
            scale_to_pairs(b, b.to.dw, in(s.f), true);
            contract_to_factors(b, b.to.dw, in(s.w), true);
            if (s.uf) scale_to_pairs(b, b.to.dw1, in(s.uf), false);
            if (s.uw) contract_to_factors(b, b.to.dw1, in(s.uw), false);
        }
        if (!K) return;
        project(b, b.to.dw, packed_U, true);
        if (s.uU) project(b, b.to.dw1, packed_uU, false);
        accumulate(b, in(s.phi), b.to.dw, chunk);
        if (s.uphi) accumulate(b, in(s.uphi), b.to.dw1, chunk);
    }

    // The edge's share of the gradient of its pair's weights.
    void scale_to_pairs(const Edges& b, T* const* dw, const T* f, bool clear) {
        if (!s.dw) return;
        for (int e = 0; e < b.to.edges; ++e)
            for (int64_t row = 0; row < s.rows; ++row) {
                const T factor = f[b.ids[e] * s.rows + row];
                T* result = edge_w.data() + b.ids[e] * weights + row * C;
                for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
                    const Vec<T> value = factor * load(dw[e] + row * C + ch);
                    store(result + ch, clear ? value : load(result + ch) + value);
                }
            }
    }

    void contract_to_factors(const Edges& b, T* const* dw, const T* w, bool clear) {
        if (!s.df) return;
        for (int e = 0; e < b.to.edges; ++e)
            for (int64_t row = 0; row < s.rows; ++row) {
                const T* given = w + s.pair[b.ids[e]] * weights + row * C;
                Vec<T> sum{};
                for (int ch = 0; ch < C; ch += Simd<T>::lanes) sum += load(given + ch) * load(dw[e] + row * C + ch);
                T& result = at(s.df)[b.ids[e] * s.rows + row];
                result = (clear ? T(0) : result) + total<T>(sum);
            }
    }

    // Gradients of radial functions by edge; what was done for both is all put down to one of them.
    void project(const Edges& b, T* const* dw, const std::vector<T>& U, bool clear) {
        if (!s.dphi) return;
        T* c[EDGES];
        for (int e = 0; e < b.to.edges; ++e) {
            c[e] = edge_phi.data() + b.ids[e] * K;
            if (clear) std::fill(c[e], c[e] + K, T(0));
            if (clear && b.both) std::fill_n(edge_phi.data() + s.reverse[b.ids[e]] * K, K, T(0));
        }
        T* sums = scratch<T, 42>(static_cast<size_t>(EDGES) * K * Simd<T>::lanes);
        panels_nt<T>(b.to.edges, dw, weights, U.data(), K, c, sums);
    }

    void accumulate(const Edges& b, const T* phi, T* const* dw, const Chunk& chunk) {
        if (!s.dU) return;
        const T* a[EDGES];
        for (int e = 0; e < b.to.edges; ++e) a[e] = phi + pair(b.ids[e]) * K;
        panels_tn<T>(b.to.edges, a, K, dw, weights, partial_U.data() + (&chunk - chunks.data()) * K * weights);
    }

    void second_operands(Edges& b) {
        direction_matrices<0>(b, in(s.Y), b.to.m);
        if (s.uY) direction_matrices<1>(b, in(s.uY), b.to.m2);
        else {
            T* none = scratch<T, 11>(s.matrix * EDGES);
            std::fill(none, none + s.matrix * EDGES, T(0));
            b.to.m2 = none;
        }
        weights_of(b);
        if (K && (s.uphi || s.uU)) {
            if (s.uphi) made_weights<1>(b, in(s.uphi), packed_U, b.to.uw, false);
            if (s.uU) made_weights<1>(b, in(s.phi), packed_uU, b.to.uw, s.uphi != nullptr);
        } else if (s.f && (s.uw || s.uf)) {
            if (s.uw) factored_weights<1>(b, in(s.uw), in(s.f), b.to.uw, false);
            if (s.uf) factored_weights<1>(b, in(s.w), in(s.uf), b.to.uw, s.uw != nullptr);
        } else if (!s.f && s.uw) {
            for (int e = 0; e < b.to.edges; ++e) b.to.uw[e] = in(s.uw) + b.ids[e] * weights;
        } else {
            T* none = scratch<T, 21>(static_cast<size_t>(EDGES) * weights);
            std::fill(none, none + weights, T(0));
            for (int e = 0; e < b.to.edges; ++e) b.to.uw[e] = none;
        }
    }

    // dY_b = sum over M of coefficient . n[c][a]; the lanes of n are summed for all edges of the block together.
    template <class F>
    void edge_gradients(const Edges& b, F&& contract) {
        static_assert(EDGES == 8, "eight_totals sums so many");
        constexpr int W = Simd<T>::lanes, LARGEST = 81 * W;  // elements of the largest M, as vectors
        T* n = scratch<T, 40>(static_cast<size_t>(LARGEST) * EDGES);
        T* totals = scratch<T, 43>(81 * EDGES);
        T* sums = scratch<T, 41>(s.edge * EDGES);
        std::fill(sums, sums + s.edge * EDGES, T(0));
        const T* value = in(s.transposed_value);
        for (int64_t i = 0; i < s.paths; ++i) {
            const Path& p = s.path[i];
            with_dims(p, [&](auto da, auto dc, auto diagonal) {
                for (int e = 0; e < b.to.edges; ++e) {
                    contract(p, da, dc, diagonal, b.to, e, T(1), n + e * LARGEST);
                    if (b.both) contract(p, da, dc, diagonal, b.back, e, parity(p), n + e * LARGEST);
                }
                for (int q = 0; q < da * dc; q += diagonal ? da + 1 : 1)
                    eight_totals(n + q * W, LARGEST, totals + q * EDGES);
            });
            for (int32_t j = s.path_pointers[i]; j < s.path_pointers[i + 1]; ++j) {
                T sum[EDGES] = {};
                for (int32_t q = s.transposed_pointers[j]; q < s.transposed_pointers[j + 1]; ++q)
                    for (int e = 0; e < EDGES; ++e) sum[e] += value[q] * totals[s.transposed_matrix[q] * EDGES + e];
                T* place = sums + s.transposed_edge[j] * EDGES;
                for (int e = 0; e < EDGES; ++e) place[e] += sum[e];
            }
        }
        T* results = K ? edge_Y.data() : at(s.dY);
        for (int e = 0; e < b.to.edges; ++e) {
            for (int64_t q = 0; q < s.edge; ++q) results[b.ids[e] * s.edge + q] = sums[q * EDGES + e];
            if (b.both) std::fill_n(results + s.reverse[b.ids[e]] * s.edge, s.edge, T(0));
        }
    }

    void start_partial_sums() {
        if (s.f && s.dw) edge_w.resize(static_cast<size_t>(s.edges) * weights);
        if (!K) return;
        if (s.dU) partial_U.assign(chunks.size() * K * weights, T(0));
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
            const int64_t size = static_cast<int64_t>(K) * weights, count = static_cast<int64_t>(chunks.size());
            for (int64_t chunk = 1; chunk < count; ++chunk)
                for (int64_t i = 0; i < size; ++i) partial_U[i] += partial_U[chunk * size + i];
            Panels<T>::unpack(partial_U.data(), K, weights, at(s.dU));
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
