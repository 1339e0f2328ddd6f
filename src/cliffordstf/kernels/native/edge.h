// The edge operator and its first and second derivatives, summed by atom over CSR edges.
//
//   out[i, c] = sum over edges j->i and paths (a, b -> c):  coefficient . h[j, a] . w[edge, row] . Y[edge, b]
//
// Weights are given per edge; or given per pair of atoms and multiplied by a factor f[edge, row], a block of edges at a time,
// so that they never reach main memory.
//
// Atoms are dealt to threads in chunks. Every sum is taken by one thread in a fixed order.
#pragma once

#include <algorithm>
#include <type_traits>

#include "edge_arguments.h"

namespace cstf {

template <class T>
class EdgeOperator {
  public:
    explicit EdgeOperator(const EdgeArgs& args)
        : s(args), C(static_cast<int>(args.channels)), weights(static_cast<int>(args.rows) * C),
          chunks(equal_parts(0, args.atoms, std::min(args.chunks, args.atoms))) {
        zeros.assign(s.source * C, T(0));
    }

    void forward() {
        over_chunks([&](const Chunk& chunk) {
            start_sums(chunk, at(s.out), s.target);
            over_incoming(chunk, [&](Edges& b) {
                direction_matrices<0>(b, in(s.Y), b.k.m);
                weights_of(b);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_forward<T, da, dc, diagonal>(p, b.k);
                });
            });
        });
    }

    // Gradients with respect to h, the weights and Y; null results are not computed.
    void backward() {
        start_partial_sums();
        over_chunks([&](const Chunk& chunk) {
            if (s.dh && !s.add_h) start_sums(chunk, at(s.dh), s.source);
            if (wants_weights() || s.dY) over_incoming(chunk, [&](Edges& b) {
                direction_matrices<0>(b, in(s.Y), b.k.m);
                weights_of(b);
                if (wants_weights()) {
                    weight_results(b, b.k.dw);
                    each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                        path_weight<T, da, dc, diagonal>(p, b.k);
                    });
                    finish_weights(b);
                }
                if (s.dY) edge_gradients(b, [&](const Path& p, auto da, auto dc, auto diagonal, int e, T* n) {
                    path_matrix<T, da, dc, diagonal>(p, b.k, e, n);
                });
            });
            if (s.dh) over_outgoing(chunk, [&](Edges& b) {
                direction_matrices<0>(b, in(s.Y), b.k.m);
                weights_of(b);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_feature<T, da, dc, diagonal>(p, b.k);
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
            over_incoming(chunk, [&](Edges& b) {
                second_operands(b);
                weight_results(b, b.k.dw);
                first_weights(b.k);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_second<T, da, dc, diagonal>(p, b.k);
                });
                if (wants_weights()) finish_second_weights(b);
                if (s.dY) edge_gradients(b, [&](const Path& p, auto da, auto dc, auto diagonal, int e, T* n) {
                    path_second_matrix<T, da, dc, diagonal>(p, b.k, e, n);
                });
            });
            if (s.dh) over_outgoing(chunk, [&](Edges& b) {
                second_operands(b);
                each_path([&](const Path& p, auto da, auto dc, auto diagonal) {
                    path_second_feature<T, da, dc, diagonal>(p, b.k);
                });
            });
        });
        finish_partial_sums();
    }

  private:
    struct Edges {
        int64_t ids[EDGES];
        Block<T> k;
    };

    const EdgeArgs& s;
    const int C;        // channels
    const int weights;  // weights of an edge
    const std::vector<Chunk> chunks;
    Aligned<T> zeros;   // as many as an atom's features: stand in for cotangents that are not given
    Aligned<T> edge_w;

    static const T* in(const void* p) { return static_cast<const T*>(p); }
    static T* at(void* p) { return static_cast<T*>(p); }
    bool wants_weights() const { return s.dw || s.df; }

    template <class F>
    void over_chunks(F&& f) {
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (size_t q = 0; q < chunks.size(); ++q) f(chunks[q]);
    }

    void start_sums(const Chunk& chunk, T* sums, int64_t components) {
        std::fill(sums + chunk.begin * components * C, sums + chunk.end * components * C, T(0));
    }

    template <class F>
    void over_incoming(const Chunk& chunk, F&& f) {
        for (int64_t i = chunk.begin; i < chunk.end; ++i)
            blocks(i, [](int64_t e) { return e; }, s.neighbours, f);
    }

    // The edges that leave an atom are the reverse of those that reach it.
    template <class F>
    void over_outgoing(const Chunk& chunk, F&& f) {
        for (int64_t i = chunk.begin; i < chunk.end; ++i)
            blocks(i, [&](int64_t e) { return s.reverse[e]; }, s.receivers, f);
    }

    // The edges of an atom in blocks of about the same size; `others` are the atoms at their other end.
    template <class G, class F>
    void blocks(int64_t i, G&& edge, const int64_t* others, F&& f) {
        const int64_t begin = s.row_pointers[i], count = s.row_pointers[i + 1] - begin, parts = (count + EDGES - 1) / EDGES;
        for (int64_t part = 0; part < parts; ++part) {
            const int64_t first = count * part / parts, last = count * (part + 1) / parts;
            Edges b;
            b.k.edges = static_cast<int>(last - first);
            b.k.channels = C;
            b.k.g = in(s.g) + i * s.target * C;
            b.k.out = at(s.out) + i * s.target * C;
            b.k.dh = at(s.dh) + i * s.source * C;
            for (int q = 0; q < b.k.edges; ++q) {
                b.ids[q] = edge(begin + first + q);
                const int64_t other = others[b.ids[q]];
                b.k.h[q] = in(s.h) + other * s.source * C;
                b.k.uh[q] = s.uh ? in(s.uh) + other * s.source * C : zeros.data();
                b.k.gn[q] = in(s.g) + other * s.target * C;
            }
            f(b);
        }
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
    void direction_matrices(const Edges& b, const T* directions, const T*& result) {
        T* m = scratch<T, 10 + Slot>(s.matrix * EDGES);
        T* y = scratch<T, 1>(s.edge * EDGES);
        std::fill(y, y + s.edge * EDGES, T(0));
        for (int e = 0; e < b.k.edges; ++e)
            for (int64_t q = 0; q < s.edge; ++q) y[q * EDGES + e] = directions[b.ids[e] * s.edge + q];
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
        if (s.f) factored_weights<0>(b, in(s.w), in(s.f), b.k.w, false);
        else for (int e = 0; e < b.k.edges; ++e) b.k.w[e] = in(s.w) + b.ids[e] * weights;
    }

    // w = f of the edge times w of its pair
    template <int Slot>
    void factored_weights(const Edges& b, const T* w, const T* f, const T** result, bool add) {
        T* buffer = scratch<T, 20 + Slot>(static_cast<size_t>(EDGES) * weights);
        for (int e = 0; e < b.k.edges; ++e) {
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
    void weight_results(const Edges& b, T** result) {
        const bool direct = !s.f && s.dw;
        T* buffer = direct ? at(s.dw) : scratch<T, 30>(static_cast<size_t>(EDGES) * weights);
        for (int e = 0; e < b.k.edges; ++e) result[e] = buffer + (direct ? b.ids[e] : e) * weights;
    }

    void first_weights(Block<T>& k) {
        T* buffer = scratch<T, 31>(static_cast<size_t>(EDGES) * weights);
        for (int e = 0; e < k.edges; ++e) k.dw1[e] = buffer + e * weights;
    }

    // With factors: dw of the edge times f, and df = w . dw.
    void finish_weights(Edges& b) {
        if (!s.f) return;
        scale_to_pairs(b, b.k.dw, in(s.f), true);
        contract_to_factors(b, b.k.dw, in(s.w), true);
    }

    void finish_second_weights(Edges& b) {
        finish_weights(b);
        if (s.f && s.uf) scale_to_pairs(b, b.k.dw1, in(s.uf), false);
        if (s.f && s.uw) contract_to_factors(b, b.k.dw1, in(s.uw), false);
    }

    // The edge's share of the gradient of its pair's weights.
    void scale_to_pairs(const Edges& b, T* const* dw, const T* f, bool clear) {
        if (!s.dw) return;
        for (int e = 0; e < b.k.edges; ++e)
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
        for (int e = 0; e < b.k.edges; ++e)
            for (int64_t row = 0; row < s.rows; ++row) {
                const T* given = w + s.pair[b.ids[e]] * weights + row * C;
                Vec<T> sum{};
                for (int ch = 0; ch < C; ch += Simd<T>::lanes) sum += load(given + ch) * load(dw[e] + row * C + ch);
                T& result = at(s.df)[b.ids[e] * s.rows + row];
                result = (clear ? T(0) : result) + total<T>(sum);
            }
    }

    void second_operands(Edges& b) {
        direction_matrices<0>(b, in(s.Y), b.k.m);
        if (s.uY) direction_matrices<1>(b, in(s.uY), b.k.m2);
        else {
            T* none = scratch<T, 11>(s.matrix * EDGES);
            std::fill(none, none + s.matrix * EDGES, T(0));
            b.k.m2 = none;
        }
        weights_of(b);
        if (s.f && (s.uw || s.uf)) {
            if (s.uw) factored_weights<1>(b, in(s.uw), in(s.f), b.k.uw, false);
            if (s.uf) factored_weights<1>(b, in(s.w), in(s.uf), b.k.uw, s.uw != nullptr);
        } else if (!s.f && s.uw) {
            for (int e = 0; e < b.k.edges; ++e) b.k.uw[e] = in(s.uw) + b.ids[e] * weights;
        } else {
            T* none = scratch<T, 21>(static_cast<size_t>(EDGES) * weights);
            std::fill(none, none + weights, T(0));
            for (int e = 0; e < b.k.edges; ++e) b.k.uw[e] = none;
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
                for (int e = 0; e < b.k.edges; ++e) contract(p, da, dc, diagonal, e, n + e * LARGEST);
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
        for (int e = 0; e < b.k.edges; ++e)
            for (int64_t q = 0; q < s.edge; ++q) at(s.dY)[b.ids[e] * s.edge + q] = sums[q * EDGES + e];
    }

    void start_partial_sums() {
        if (s.f && s.dw) edge_w.resize(static_cast<size_t>(s.edges) * weights);
    }

    // The two edges of every pair are added in a fixed order.
    void finish_partial_sums() {
        if (!s.f || !s.dw) return;
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t p = 0; p < s.pairs; ++p) {
            const T* straight = edge_w.data() + s.pair_edges[2 * p] * weights;
            const T* turned = edge_w.data() + s.pair_edges[2 * p + 1] * weights;
            T* result = at(s.dw) + p * weights;
            for (int i = 0; i < weights; i += Simd<T>::lanes) store(result + i, load(straight + i) + load(turned + i));
        }
    }
};

}  // namespace cstf
