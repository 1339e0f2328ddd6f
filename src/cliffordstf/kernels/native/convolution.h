// The edge operator with weights made of radial functions and tensors made of directions, and its derivatives.
//
//   out[i, c] = sum over edges j->i and paths (a, b -> c):  coefficient . h[j, a] . (phi[pair] U)[row] . Y_b(n[pair])
//
// Everything happens in the frames of the edges (frame.h), where all paths between two tracks are one number per order and
// channel. The numbers are linear in the weights, so they are made from the radial functions right away, a block of pairs at
// a time, and never reach main memory. A turn of the direction is a turn of both features the other way, so its gradient is
// nearly free. Directions are unit vectors: gradients with respect to them are those along the sphere.
//
// An edge and its reverse are done together, so that frames, numbers and what their gradients need are made once for both. Atoms
// are dealt to threads in chunks, and a pair is done by the chunk that its straight edge reaches; what it adds to an atom of
// another chunk has a place of its own until all are done. So every sum is taken in a fixed order.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <type_traits>

#include "chunks.h"
#include "in_frame.h"
#include "numbers.h"

namespace cstf {

template <class T>
class ConvolutionOperator {
  public:
    ConvolutionOperator(const ConvolutionArgs& args, Pool<T>& pool_)
        : s(args), pool(pool_), frames(args.frames), C(static_cast<int>(args.channels)), level(args.dn ? 2 : 1),
          atoms(args.graph, args.chunks), chunks(atoms.chunks), borders(atoms.borders), numbers(args, chunks.size(), pool) {
        h = given(s.source, in(s.h));
        if (s.g) g = given(s.target, in(s.g));
        if (s.uh) uh = given(s.source, in(s.uh));
    }

    void forward() {
        Sums out(*this, s.target, at(s.out), false);
        over_chunks([&](const PairBlock& b, size_t) {
            const T* f = frames_of(b);
            numbers.over_slices([&](auto slice) {
                const T* w = numbers.made(b, slice);
                for (int e = 0; e < b.count; ++e) {
                    forward_edge(straight(b, e, f), slice, w + e * slice.weights, out);
                    forward_edge(reverse(b, e, f), slice, w + e * slice.weights, out);
                }
            });
        }, {&out});
    }

    // Gradients with respect to h, phi, U and n; null results are not computed.
    void backward() {
        Sums dh(*this, s.source, at(s.dh), s.add_h);
        over_chunks([&](const PairBlock& b, size_t chunk) {
            const T* f = frames_of(b);
            T torque[EDGES][2] = {};
            numbers.clear(b);
            numbers.over_slices([&](auto slice) {
                const T* w = numbers.made(b, slice);
                T* dw = numbers.gradients(slice);
                for (int e = 0; e < b.count; ++e) {
                    const T* we = w + e * slice.weights;
                    T *dwe = dw ? dw + e * slice.weights : nullptr, *turning = s.dn ? torque[e] : nullptr;
                    backward_edge(straight(b, e, f), slice, we, dwe, false, turning, dh);
                    backward_edge(reverse(b, e, f), slice, we, dwe, true, turning, dh);
                }
                if (dw) numbers.finish(b, slice, dw, chunk);
            });
            if (s.dn) put_directions(b, f, torque);
        }, {&dh});
        numbers.finish_weights();
    }

    // Gradients of <uh, dh> + <uphi, dphi> + <uU, dU> + <un, dn> with respect to g (into out), h, phi, U and n.
    void second() {
        Sums out(*this, s.target, at(s.out), false), dh(*this, s.source, at(s.dh), s.add_h);
        over_chunks([&](const PairBlock& b, size_t chunk) {
            const T* f = frames_of(b);
            Turn turn[EDGES];
            set_turns(b, f, turn);
            numbers.clear(b);
            numbers.over_slices([&](auto slice) {
                const T* w = numbers.made(b, slice);
                const T* uw = numbers.turned(b, slice);
                T *dw = numbers.gradients(slice), *dw1 = numbers.first_gradients(slice);
                for (int e = 0; e < b.count; ++e) {
                    const int at_pair = e * slice.weights;
                    Numbers<T> k{w + at_pair, uw + at_pair, dw ? dw + at_pair : nullptr, dw ? dw1 + at_pair : nullptr};
                    second_edge(straight(b, e, f), slice, k, turn[e], out, dh);
                    k.adds = true;
                    second_edge(reverse(b, e, f), slice, k, turn[e], out, dh);
                }
                if (dw) numbers.finish_second(b, slice, dw, dw1, chunk);
            });
            if (s.dn) put_second_directions(b, f, turn);
        }, {&out, &dh});
        numbers.finish_weights();
    }

  private:
    // A pair in one of its two directions: its atoms, and where sums of theirs are.
    struct Side {
        int64_t sender, receiver, sender_sum, receiver_sum;
        const T* frame;
    };

    // Sums over the edges of every atom, in frame components of the z axis, and the results that they become. They are taken in
    // the place of the results, or beside it if these are to be added to what is there.
    class Sums {
      public:
        Sums(const ConvolutionOperator& owner, const FrameSide& side_, T* result_, bool adds_)
            : borders(owner.borders), side(side_), result(result_), own(result_), adds(adds_), C(owner.C),
              atoms(owner.s.graph.atoms), size(side_.components * owner.C) {
            if (!result) return;
            if (adds) own = (apart = Lent<T>(owner.pool, atoms * size)).get();
            at_borders = Lent<T>(owner.pool, borders.rows() * size);
        }

        explicit operator bool() const { return result; }
        T* at(int64_t place) { return place < atoms ? own + place * size : at_borders.get() + (place - atoms) * size; }

        void start(const Chunk& chunk, size_t number) {
            if (!result) return;
            std::fill(own + chunk.begin * size, own + chunk.end * size, T(0));
            T* rows = at_borders.get();
            std::fill(rows + borders.first_row(number) * size, rows + borders.first_row(number + 1) * size, T(0));
        }

        // From frame components of the z axis to stored ones.
        void finish(const Chunk& chunk) {
            if (!result) return;
            T* sum = scratch<T, 51>(size);
            for (int64_t i = chunk.begin; i < chunk.end; ++i) {
                std::copy(own + i * size, own + (i + 1) * size, sum);
                borders.over_rows(i, [&](int64_t row) {
                    for (int64_t k = 0; k < size; ++k) sum[k] += at_borders[row * size + k];
                });
                if (adds) change_basis<T, true>(side.taken, side.components, sum, C, result + i * size);
                else change_basis<T, false>(side.taken, side.components, sum, C, result + i * size);
            }
        }

      private:
        const Borders& borders;
        const FrameSide& side;
        T *result, *own;
        const bool adds;
        const int C;
        const int64_t atoms, size;
        Lent<T> apart, at_borders;
    };

    // A turn of the direction in a second-order pass: the cotangent in the frame (z, x, y), generators of it and of its
    // reverse on both sides, and sums of first-order and second-order torques.
    struct Turn {
        T moved[3] = {};
        const T *source, *target, *back_source, *back_target;
        T first[2] = {}, torque[2] = {};
    };

    const ConvolutionArgs& s;
    Pool<T>& pool;
    const Frames<T> frames;
    const int C;        // channels
    const int level;    // of second-order passes, see FrameTrack
    const Dealt atoms;
    const std::vector<Chunk>& chunks;
    const Borders& borders;
    PairNumbers<T> numbers;
    Lent<T> h, g, uh;  // in frame components of the z axis

    static const T* in(const void* p) { return static_cast<const T*>(p); }
    static T* at(void* p) { return static_cast<T*>(p); }

    // Call `f` with every block of pairs and the number of its chunk, and finish the sums.
    template <class F>
    void over_chunks(F&& f, std::initializer_list<Sums*> sums) {
        const bool is_open = borders.rows() > 0;
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (size_t q = 0; q < chunks.size(); ++q) {
            numbers.start(q);
            for (Sums* sum : sums) sum->start(chunks[q], q);
            const int64_t end = borders.first_pair(q + 1);
            for (int64_t p = borders.first_pair(q); p < end; p += EDGES)
                f(PairBlock{p, static_cast<int>(std::min<int64_t>(EDGES, end - p))}, q);
            for (Sums* sum : sums)
                if (!is_open) sum->finish(chunks[q]);
        }
        if (!is_open) return;
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (size_t q = 0; q < chunks.size(); ++q)
            for (Sums* sum : sums) sum->finish(chunks[q]);
    }

    Lent<T> given(const FrameSide& side, const T* x) const {
        const int64_t size = side.components * C;
        Lent<T> result(pool, s.graph.atoms * size);
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t i = 0; i < s.graph.atoms; ++i)
            change_basis<T, false>(side.given, side.components, x + i * size, C, result.get() + i * size);
        return result;
    }

    // Frames of a block, and behind them those of the pairs the other way round.
    T* frames_of(const PairBlock& b) const {
        T n[EDGES][3];
        for (int e = 0; e < EDGES; ++e)
            for (int j = 0; j < 3; ++j) n[e][j] = e < b.count ? in(s.n)[3 * (b.first + e) + j] : T(j == 2);
        T* f = scratch<T, 60>(2 * EDGES * s.frames.size);
        frames.make(n, f);
        for (int e = 0; e < b.count; ++e) frames.turn_round(f + e * s.frames.size, f + (EDGES + e) * s.frames.size);
        return f;
    }

    Side straight(const PairBlock& b, int e, const T* f) const {
        const int64_t pair = b.first + e, from = s.graph.sender(pair), to = s.graph.receiver(pair);
        return {from, to, borders.place(pair, from), to, f + e * s.frames.size};
    }
    Side reverse(const PairBlock& b, int e, const T* f) const {
        const Side k = straight(b, e, f);
        return {k.receiver, k.sender, k.receiver_sum, k.sender_sum, k.frame + EDGES * s.frames.size};
    }

    const T* sent(const Lent<T>& features, const Side& k) const {
        return features.get() + k.sender * s.source.components * C;
    }
    const T* received(const Side& k) const { return g.get() + k.receiver * s.target.components * C; }

    template <class S>
    void forward_edge(const Side& k, const S& slice, const T* w, Sums& out) const {
        constexpr int NV = S::NV;
        InFrame<T, NV> x, y;
        enter(s.source, 0, k.frame, sent(h, k) + slice.channel, C, x);
        multiply(s.target, w, S::width, x, y);
        leave(s.target, 0, k.frame, y, out.at(k.receiver_sum) + slice.channel, C);
    }

    // Gradients of the numbers, of a turn of the direction with its sign changed, of the sender's features.
    template <class S>
    void backward_edge(const Side& k, const S& slice, const T* w, T* dw, bool adds, T* torque, Sums& dh) const {
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
        if (dh) leave(s.source, level, k.frame, u, dh.at(k.sender_sum) + slice.channel, C);
    }

    // With u the cotangents, J the turn of the direction, F and UF the numbers of w and uw:
    //   out = F (uh - J h) + UF h + J F h,   dh = UF g - F J g + J F g,
    //   dw = <g, (uh - J h)> - <J g, h>,  dw1 = <g, h>
    // and the gradient of a turn: all of h, uh, g (and un) turn the other way.
    template <class S>
    void second_edge(const Side& k, const S& slice, const Numbers<T>& n, Turn& t, Sums& out, Sums& dh) const {
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
        leave(s.target, level, k.frame, v1, out.at(k.receiver_sum) + slice.channel, C);
        if (!dh && !s.dn) return;
        multiply_second(s.source, n.w, n.uw, width, y, y1, u, u1);
        turned<T, NV, true>(s.source, level, t.source, u, u1);
        if (dh) leave(s.source, level, k.frame, u1, dh.at(k.sender_sum) + slice.channel, C);
        if (!s.dn) return;
        add_torque(s.target, level, y, v, t.first);
        add_torque(s.source, level, x, u, t.first);
        add_torque(s.target, level, y, v1, t.torque);
        add_torque(s.source, level, x, u1, t.torque);
        cotangent(k, slice, x1);
        add_torque(s.source, level, x1, u, t.torque);
    }

    template <class S>
    void cotangent(const Side& k, const S& slice, InFrame<T, S::NV>& x) const {
        if (s.uh) enter(s.source, level, k.frame, sent(uh, k) + slice.channel, C, x);
        else clear(s.source, x);
    }

    // The turns that move directions by their cotangents.
    void set_turns(const PairBlock& b, const T* f, Turn* turns) const {
        const FrameTurns &source = s.source.turns[level - 1], &target = s.target.turns[level - 1];
        const int64_t count = source.count + target.count;
        T* elements = scratch<T, 80>(2 * EDGES * count);
        for (int e = 0; e < b.count; ++e) {
            Turn& t = turns[e];
            if (s.un) Frames<T>::into(f + e * s.frames.size, in(s.un) + 3 * (b.first + e), t.moved);
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

    void put_directions(const PairBlock& b, const T* f, const T (*torque)[2]) const {
        for (int e = 0; e < b.count; ++e)
            Frames<T>::direction_gradient(f + e * s.frames.size, torque[e], s.add_n, at(s.dn) + 3 * (b.first + e));
    }

    // The cotangent turns with the direction too: what that does to <un, dn>.
    void put_second_directions(const PairBlock& b, const T* f, const Turn* turns) const {
        T torque[EDGES][2];
        for (int e = 0; e < b.count; ++e)
            for (int i = 0; i < 2; ++i) torque[e][i] = turns[e].torque[i] - turns[e].moved[0] * turns[e].first[i];
        put_directions(b, f, torque);
    }
};

}  // namespace cstf
