// The edge operator with weights made of radial functions and tensors made of directions, and its derivatives.
//
//   out[i, c] = sum over edges j->i and paths (a, b -> c):  coefficient . h[j, a] . (phi[pair] U)[row] . Y_b(n[pair])
//
// Everything happens in the frames of the edges (frame.h), where all paths between two tracks are one number per order and
// channel. The numbers are linear in the weights, so they are made from the radial functions right away, a block of edges at
// a time, and never reach main memory. A turn of the direction is a turn of both features the other way, so its gradient is
// nearly free. Directions are unit vectors: gradients with respect to them are those along the sphere.
//
// Atoms are dealt to threads in chunks. Where an edge and its reverse lie in one chunk they are done together, so that
// frames, numbers and what their gradients need are made once for both. Every sum is taken by one thread in a fixed order.
#pragma once

#include <algorithm>
#include <memory>
#include <type_traits>

#include "chunks.h"
#include "frame.h"
#include "numbers.h"

namespace cstf {

template <class T>
class ConvolutionOperator {
  public:
    explicit ConvolutionOperator(const ConvolutionArgs& args)
        : s(args), frames(args.frames), C(static_cast<int>(args.channels)), level(args.dn ? 2 : 1),
          chunks(dealt({args.atoms, args.row_pointers, args.neighbours}, args.chunks)), numbers(args, chunks.size()) {
        h = given(s.source, in(s.h));
        if (s.g) g = given(s.target, in(s.g));
        if (s.uh) uh = given(s.source, in(s.uh));
    }

    void forward() {
        over_chunks([&](const Chunk& chunk) {
            start_sums(chunk, s.target, at(s.out));
            over_blocks(chunk, [&](const EdgeBlock& b) {
                const T* f = frames_of(b);
                numbers.over_slices([&](auto slice) {
                    const T* w = numbers.made(b, slice);
                    for (int e = 0; e < b.edges; ++e) {
                        forward_edge(side(b, e, f, false), slice, w + e * slice.weights);
                        if (b.both) forward_edge(side(b, e, f, true), slice, w + e * slice.weights);
                    }
                });
            });
            finish_sums(chunk, s.target, at(s.out), at(s.out), false);
        });
    }

    // Gradients with respect to h, phi, U and n; null results are not computed.
    void backward() {
        start_directions();
        over_chunks([&](const Chunk& chunk) {
            T* dh = sums_of_features(chunk);
            over_blocks(chunk, [&](const EdgeBlock& b) {
                const T* f = frames_of(b);
                T torque[EDGES][2] = {};
                numbers.clear(b);
                numbers.over_slices([&](auto slice) {
                    const T* w = numbers.made(b, slice);
                    T* dw = numbers.gradients(slice);
                    for (int e = 0; e < b.edges; ++e) {
                        const Side to = side(b, e, f, false), back = side(b, e, f, true);
                        const T* we = w + e * slice.weights;
                        T *dwe = dw ? dw + e * slice.weights : nullptr, *turning = s.dn ? torque[e] : nullptr;
                        if (b.both) {
                            backward_edge(to, slice, we, dwe, false, turning, features(dh, to));
                            backward_edge(back, slice, we, dwe, true, turning, features(dh, back));
                        } else {
                            // The edges that leave an atom are the reverse of those that reach it.
                            if (dw || s.dn) backward_edge(to, slice, we, dwe, false, turning, nullptr);
                            if (dh) backward_edge(back, slice, we, nullptr, false, nullptr, features(dh, back));
                        }
                    }
                    if (dw) numbers.finish(b, slice, dw, &chunk - chunks.data());
                });
                if (s.dn) put_directions(b, f, torque);
            });
            if (dh) finish_sums(chunk, s.source, dh, at(s.dh), s.add_h);
        });
        finish_directions();
        numbers.finish_pairs();
    }

    // Gradients of <uh, dh> + <uphi, dphi> + <uU, dU> + <un, dn> with respect to g (into out), h, phi, U and n.
    void second() {
        start_directions();
        over_chunks([&](const Chunk& chunk) {
            start_sums(chunk, s.target, at(s.out));
            T* dh = sums_of_features(chunk);
            over_blocks(chunk, [&](const EdgeBlock& b) {
                const T* f = frames_of(b);
                Turn turn[EDGES];
                set_turns(b, f, turn);
                numbers.clear(b);
                numbers.over_slices([&](auto slice) {
                    const T* w = numbers.made(b, slice);
                    const T* uw = numbers.turned(b, slice);
                    T *dw = numbers.gradients(slice), *dw1 = numbers.first_gradients(slice);
                    for (int e = 0; e < b.edges; ++e) {
                        const Side to = side(b, e, f, false), back = side(b, e, f, true);
                        const int at_edge = e * slice.weights;
                        EdgeNumbers<T> k{w + at_edge, uw + at_edge, dw ? dw + at_edge : nullptr, dw ? dw1 + at_edge : nullptr};
                        second_edge(to, slice, k, turn[e], b.both ? features(dh, to) : nullptr);
                        k.adds = true;
                        if (b.both) second_edge(back, slice, k, turn[e], features(dh, back));
                        else if (dh) second_feature_edge(back, slice, k, turn[e], features(dh, back));
                    }
                    if (dw) numbers.finish_second(b, slice, dw, dw1, &chunk - chunks.data());
                });
                if (s.dn) put_second_directions(b, f, turn);
            });
            finish_sums(chunk, s.target, at(s.out), at(s.out), false);
            if (dh) finish_sums(chunk, s.source, dh, at(s.dh), s.add_h);
        });
        finish_directions();
        numbers.finish_pairs();
    }

  private:
    // An edge in one of its two directions.
    struct Side {
        int64_t sender, receiver;
        const T* frame;
    };

    // A turn of the direction in a second-order pass: the cotangent in the frame (z, x, y), generators of it and of its
    // reverse on both sides, and sums of first-order and second-order torques.
    struct Turn {
        T moved[3] = {};
        const T *source, *target, *back_source, *back_target;
        T first[2] = {}, torque[2] = {};
    };

    const ConvolutionArgs& s;
    const Frames<T> frames;
    const int C;        // channels
    const int level;    // of second-order passes, see FrameTrack
    const std::vector<Chunk> chunks;
    PairNumbers<T> numbers;
    std::unique_ptr<T[]> h, g, uh;  // in frame components of the z axis
    std::vector<T> edge_n;          // gradients of directions by edge

    static const T* in(const void* p) { return static_cast<const T*>(p); }
    static T* at(void* p) { return static_cast<T*>(p); }

    template <class F>
    void over_chunks(F&& f) {
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (size_t q = 0; q < chunks.size(); ++q) {
            numbers.start(q);
            f(chunks[q]);
        }
    }

    std::unique_ptr<T[]> given(const FrameSide& side, const T* x) const {
        const int64_t size = side.components * C;
        std::unique_ptr<T[]> result(new T[s.atoms * size]);
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t i = 0; i < s.atoms; ++i)
            change_basis<T, false>(side.given, side.components, x + i * size, C, result.get() + i * size);
        return result;
    }

    void start_sums(const Chunk& chunk, const FrameSide& side, T* sums) const {
        std::fill(sums + chunk.begin * side.components * C, sums + chunk.end * side.components * C, T(0));
    }

    // Where a chunk sums gradients of features: in their place, or beside it if they are to be added to what is there.
    T* sums_of_features(const Chunk& chunk) const {
        if (!s.dh) return nullptr;
        const int64_t size = s.source.components * C;
        T* sums = at(s.dh);
        if (s.add_h) sums = scratch<T, 50>((chunk.end - chunk.begin) * size) - chunk.begin * size;
        start_sums(chunk, s.source, sums);
        return sums;
    }

    T* features(T* sums, const Side& k) const {
        return sums ? sums + k.sender * s.source.components * C : nullptr;
    }

    // From frame components of the z axis to stored ones.
    void finish_sums(const Chunk& chunk, const FrameSide& side, const T* sums, T* result, bool adds) const {
        const int64_t size = side.components * C;
        T* copy = scratch<T, 51>(size);
        for (int64_t i = chunk.begin; i < chunk.end; ++i) {
            std::copy(sums + i * size, sums + (i + 1) * size, copy);
            if (adds) change_basis<T, true>(side.taken, side.components, copy, C, result + i * size);
            else change_basis<T, false>(side.taken, side.components, copy, C, result + i * size);
        }
    }

    // Edges that reach the atoms of a chunk; those whose reverse does so too are given once, with `both`.
    template <class F>
    void over_blocks(const Chunk& chunk, F&& f) const {
        EdgeBlock both{true, 0, {}}, single{false, 0, {}};
        auto put = [&](EdgeBlock& b, int64_t e) {
            b.ids[b.edges++] = e;
            if (b.edges < EDGES) return;
            f(b);
            b.edges = 0;
        };
        for (int64_t e = s.row_pointers[chunk.begin]; e < s.row_pointers[chunk.end]; ++e) {
            if (!chunk.holds(s.neighbours[e])) put(single, e);
            else if (e < s.reverse[e]) put(both, e);
        }
        if (both.edges) f(both);
        if (single.edges) f(single);
    }

    T direction_sign(int64_t e) const { return s.turned[e] ? T(-1) : T(1); }

    // Frames of a block, and behind them those of the edges the other way round.
    T* frames_of(const EdgeBlock& b) const {
        T n[EDGES][3];
        for (int e = 0; e < EDGES; ++e)
            for (int j = 0; j < 3; ++j)
                n[e][j] = e < b.edges ? direction_sign(b.ids[e]) * in(s.n)[3 * s.pair[b.ids[e]] + j] : T(j == 2);
        T* f = scratch<T, 60>(2 * EDGES * s.frames.size);
        frames.make(n, f);
        for (int e = 0; e < b.edges; ++e) frames.turn_round(f + e * s.frames.size, f + (EDGES + e) * s.frames.size);
        return f;
    }

    Side side(const EdgeBlock& b, int e, const T* f, bool back) const {
        const int64_t from = s.neighbours[b.ids[e]], to = s.receivers[b.ids[e]];
        return back ? Side{to, from, f + (EDGES + e) * s.frames.size} : Side{from, to, f + e * s.frames.size};
    }

    const T* sent(const std::unique_ptr<T[]>& features, const Side& k) const {
        return features.get() + k.sender * s.source.components * C;
    }
    const T* received(const Side& k) const { return g.get() + k.receiver * s.target.components * C; }

    template <class S>
    void forward_edge(const Side& k, const S& slice, const T* w) const {
        constexpr int NV = S::NV;
        InFrame<T, NV> x, y;
        enter(s.source, 0, k.frame, sent(h, k) + slice.channel, C, x);
        multiply(s.target, w, S::width, x, y);
        leave(s.target, 0, k.frame, y, at(s.out) + k.receiver * s.target.components * C + slice.channel, C);
    }

    // Gradients of the numbers, of a turn of the direction with its sign changed, of the sender's features.
    template <class S>
    void backward_edge(const Side& k, const S& slice, const T* w, T* dw, bool adds, T* torque, T* dh) const {
        constexpr int NV = S::NV, width = S::width;
        const int level = torque ? 1 : 0;
        InFrame<T, NV> x, y, v, u;
        if (dw || torque) enter(s.source, level, k.frame, sent(h, k) + slice.channel, C, x);
        enter(s.target, level, k.frame, received(k) + slice.channel, C, y);
        if (dw && adds) number_gradients<T, NV, true>(s.target, x, y, dw, width);
        else if (dw) number_gradients<T, NV, false>(s.target, x, y, dw, width);
        if (dh || torque) multiply(s.source, w, width, y, u);
        if (torque) {
            multiply(s.target, w, width, x, v);
            add_torque(s.target, level, y, v, torque);
            add_torque(s.source, level, x, u, torque);
        }
        if (dh) leave(s.source, level, k.frame, u, dh + slice.channel, C);
    }

    // With u the cotangents, J the turn of the direction, F and UF the numbers of w and uw:
    //   out = F (uh - J h) + UF h + J F h,   dh = UF g - F J g + J F g,
    //   dw = <g, (uh - J h)> - <J g, h>,  dw1 = <g, h>
    // and the gradient of a turn: all of h, uh, g (and un) turn the other way.
    template <class S>
    void second_edge(const Side& k, const S& slice, const EdgeNumbers<T>& n, Turn& t, T* dh) const {
        constexpr int NV = S::NV, width = S::width;
        InFrame<T, NV> x, x1, y, y1, v, v1, u, u1;
        enter(s.source, level, k.frame, sent(h, k) + slice.channel, C, x);
        enter(s.target, level, k.frame, received(k) + slice.channel, C, y);
        cotangent(k, slice, x1);
        turned<T, NV, true>(s.source, level, t.back_source, x, x1);
        turned<T, NV, false>(s.target, level, t.back_target, y, y1);
        if (n.dw && n.adds) second_number_gradients<T, NV, true>(s.target, x, x1, y, y1, n.dw, n.dw1, width);
        else if (n.dw) second_number_gradients<T, NV, false>(s.target, x, x1, y, y1, n.dw, n.dw1, width);
        multiply_second(s.target, n.w, n.uw, width, x, x1, v, v1);
        turned<T, NV, true>(s.target, level, t.target, v, v1);
        leave(s.target, level, k.frame, v1, at(s.out) + k.receiver * s.target.components * C + slice.channel, C);
        if (!dh && !s.dn) return;
        multiply_second(s.source, n.w, n.uw, width, y, y1, u, u1);
        turned<T, NV, true>(s.source, level, t.source, u, u1);
        if (dh) leave(s.source, level, k.frame, u1, dh + slice.channel, C);
        if (!s.dn) return;
        add_torque(s.target, level, y, v, t.first);
        add_torque(s.source, level, x, u, t.first);
        add_torque(s.target, level, y, v1, t.torque);
        add_torque(s.source, level, x, u1, t.torque);
        cotangent(k, slice, x1);
        add_torque(s.source, level, x1, u, t.torque);
    }

    template <class S>
    void second_feature_edge(const Side& k, const S& slice, const EdgeNumbers<T>& n, const Turn& t, T* dh) const {
        constexpr int NV = S::NV;
        InFrame<T, NV> y, y1, u, u1;
        enter(s.target, level, k.frame, received(k) + slice.channel, C, y);
        turned<T, NV, false>(s.target, level, t.back_target, y, y1);
        multiply_second(s.source, n.w, n.uw, S::width, y, y1, u, u1);
        turned<T, NV, true>(s.source, level, t.source, u, u1);
        leave(s.source, level, k.frame, u1, dh + slice.channel, C);
    }

    template <class S>
    void cotangent(const Side& k, const S& slice, InFrame<T, S::NV>& x) const {
        if (s.uh) enter(s.source, level, k.frame, sent(uh, k) + slice.channel, C, x);
        else clear(s.source, x);
    }

    // The turns that move directions by their cotangents.
    void set_turns(const EdgeBlock& b, const T* f, Turn* turns) const {
        const FrameTurns &source = s.source.turns[level - 1], &target = s.target.turns[level - 1];
        const int64_t count = source.count + target.count;
        T* elements = scratch<T, 80>(2 * EDGES * count);
        for (int e = 0; e < b.edges; ++e) {
            Turn& t = turns[e];
            if (s.un) {
                const T *u = in(s.un) + 3 * s.pair[b.ids[e]], sign = direction_sign(b.ids[e]);
                const T vector[3] = {sign * u[0], sign * u[1], sign * u[2]};
                Frames<T>::into(f + e * s.frames.size, vector, t.moved);
            }
            const T angles[2] = {-t.moved[2], t.moved[1]};
            T *there = elements + 2 * e * count, *back = there + count;
            set_elements(source, angles, there, back);
            set_elements(target, angles, there + source.count, back + source.count);
            t.source = there;
            t.target = there + source.count;
            t.back_source = back;
            t.back_target = back + source.count;
        }
    }

    static void set_elements(const FrameTurns& turns, const T* angles, T* there, T* back) {
        for (int64_t p = 0; p < turns.count; ++p) {
            there[p] = angles[turns.element[p].axis] * in(turns.value)[p];
            back[p] = -there[p];
        }
    }

    // What was done for both directions is all put down to one of them.
    void put_directions(const EdgeBlock& b, const T* f, const T (*torque)[2]) {
        for (int e = 0; e < b.edges; ++e) {
            Frames<T>::direction_gradient(f + e * s.frames.size, torque[e], edge_n.data() + 3 * b.ids[e]);
            if (b.both) std::fill_n(edge_n.data() + 3 * s.reverse[b.ids[e]], 3, T(0));
        }
    }

    // The cotangent turns with the direction too: what that does to <un, dn>.
    void put_second_directions(const EdgeBlock& b, const T* f, const Turn* turns) {
        T torque[EDGES][2];
        for (int e = 0; e < b.edges; ++e)
            for (int i = 0; i < 2; ++i) torque[e][i] = turns[e].torque[i] - turns[e].moved[0] * turns[e].first[i];
        put_directions(b, f, torque);
    }

    void start_directions() {
        if (s.dn) edge_n.resize(s.edges * 3);
    }

    void finish_directions() {
        for (int64_t p = 0; s.dn && p < s.pairs; ++p)
            for (int j = 0; j < 3; ++j)
                at(s.dn)[p * 3 + j] = edge_n[s.pair_edges[2 * p] * 3 + j] - edge_n[s.pair_edges[2 * p + 1] * 3 + j];
    }
};

}  // namespace cstf
