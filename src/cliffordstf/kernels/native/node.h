// The node product and its derivatives: bilinear couplings of two features of the same atom, channel by channel.
//
//   out[i, c] = sum over paths (a, b -> c):  coefficient . x[i, a] . y[i, b] . w[group of i, row]
//
// Every derivative is a sum of terms  result_k += sum coefficient . p_i . q_j  over the same entries in another order.
#pragma once

#include <algorithm>

#include "pool.h"
#include "simd.h"

namespace cstf {

struct NodePath {
    int32_t left, right, target;  // first components of the three tracks
    int32_t da, db, dc;           // their sizes
    int32_t weight;               // row of the weights
    int32_t entries;              // number of entries
    int32_t by_target, by_left, by_right;  // first entry in each of the three orders
};

// An entry: result component, two operand components (all relative to their tracks), coefficient.
template <class T>
struct NodeEntry {
    int32_t result, p, q;
    T value;
};

struct NodeArgs {
    int64_t paths, left, right, target, rows;
    const NodePath* path;
    const void* entry;
    int64_t atoms, channels, groups;
    const int64_t* group;  // (atoms), or null for one group
    const void *x, *y, *w, *g;  // w may be null: no weights
    const void *ux, *uy, *uw;
    void *out, *dx, *dy, *dw;
    int64_t add_x, add_y, add_w;  // whether gradients are added to what is there
    int64_t chunks, threads;
};

// result_k += sum coefficient p_i q_j, for NV vectors of channels.
template <class T, int NV>
inline void couple_vectors(const NodeEntry<T>* entry, int count, const T* p, const T* q, T* result, int C) {
    constexpr int W = Simd<T>::lanes;
    for (int i = 0; i < count;) {
        const int k = entry[i].result;
        T* r = result + k * C;
        Vec<T> sum[NV];
        CSTF_UNROLL for (int v = 0; v < NV; ++v) sum[v] = load(r + v * W);
        for (; i < count && entry[i].result == k; ++i) {
            const T value = entry[i].value;
            const T* pp = p + entry[i].p * C;
            const T* qq = q + entry[i].q * C;
            CSTF_UNROLL for (int v = 0; v < NV; ++v) sum[v] += value * load(pp + v * W) * load(qq + v * W);
        }
        CSTF_UNROLL for (int v = 0; v < NV; ++v) store(r + v * W, sum[v]);
    }
}

template <class T>
inline void couple(const NodeEntry<T>* entry, int count, const T* p, const T* q, T* result, int C) {
    constexpr int W = Simd<T>::lanes;
    for (int ch = 0; ch < C; ch += 4 * W) {
        const auto some = [&](auto vectors) { couple_vectors<T, vectors>(entry, count, p + ch, q + ch, result + ch, C); };
        switch ((C - ch) / W) {
            case 1: some(std::integral_constant<int, 1>{}); break;
            case 2: some(std::integral_constant<int, 2>{}); break;
            case 3: some(std::integral_constant<int, 3>{}); break;
            default: some(std::integral_constant<int, 4>{});
        }
    }
}

template <class T>
class NodeOperator {
  public:
    NodeOperator(const NodeArgs& args, Pool<T>& pool_) : s(args), pool(pool_), C(static_cast<int>(args.channels)) {}

    void forward() {
        over_atoms([&](int64_t i, T*) {
            T* out = start_sum(s.out, i, s.target, false);
            each_path([&](const NodePath& p) {
                T* t = zeros<0>(p.dc);
                by_target(p, row(s.x, i, s.left, p.left), row(s.y, i, s.right, p.right), t);
                add(out + p.target * C, t, weight(s.w, i, p), p.dc);
            });
        });
    }

    void backward() {
        start();
        over_atoms([&](int64_t i, T* dw) {
            T* dx = s.dx ? start_sum(s.dx, i, s.left, s.add_x) : nullptr;
            T* dy = s.dy ? start_sum(s.dy, i, s.right, s.add_y) : nullptr;
            each_path([&](const NodePath& p) {
                const T *x = row(s.x, i, s.left, p.left), *y = row(s.y, i, s.right, p.right);
                const T* g = row(s.g, i, s.target, p.target);
                const T* wg = scaled<1>(g, weight(s.w, i, p), p.dc);
                if (dx) by_left(p, wg, y, dx + p.left * C);
                if (dy) by_right(p, wg, x, dy + p.right * C);
                if (dw) {
                    T* t = zeros<0>(p.dc);
                    by_target(p, x, y, t);
                    contract(dw, i, p, g, t);
                }
            });
        });
        finish();
    }

    // Gradients of <ux, dx> + <uy, dy> + <uw, dw> with respect to g (into out), x, y and w.
    void second() {
        start();
        over_atoms([&](int64_t i, T* dw) {
            T* out = start_sum(s.out, i, s.target, false);
            T* dx = s.dx ? start_sum(s.dx, i, s.left, s.add_x) : nullptr;
            T* dy = s.dy ? start_sum(s.dy, i, s.right, s.add_y) : nullptr;
            each_path([&](const NodePath& p) {
                const T *x = row(s.x, i, s.left, p.left), *y = row(s.y, i, s.right, p.right);
                const T* g = row(s.g, i, s.target, p.target);
                const T* wg = scaled<1>(g, weight(s.w, i, p), p.dc);
                T* t = zeros<0>(p.dc);
                if (s.ux) {
                    const T* ux = row(s.ux, i, s.left, p.left);
                    by_target(p, ux, y, t);
                    if (dy) by_right(p, wg, ux, dy + p.right * C);
                }
                if (s.uy) {
                    const T* uy = row(s.uy, i, s.right, p.right);
                    by_target(p, x, uy, t);
                    if (dx) by_left(p, wg, uy, dx + p.left * C);
                }
                add(out + p.target * C, t, weight(s.w, i, p), p.dc);
                if (dw) contract(dw, i, p, g, t);
                if (s.uw) {
                    const T* uw = weight(s.uw, i, p);
                    const T* ug = scaled<2>(g, uw, p.dc);
                    T* first = zeros<3>(p.dc);
                    by_target(p, x, y, first);
                    add(out + p.target * C, first, uw, p.dc);
                    if (dx) by_left(p, ug, y, dx + p.left * C);
                    if (dy) by_right(p, ug, x, dy + p.right * C);
                }
            });
        });
        finish();
    }

  private:
    const NodeArgs& s;
    Pool<T>& pool;
    const int C;
    Lent<T> partial;               // gradients of the weights: those of each chunk, of the groups that there are
    std::vector<char> is_present;  // groups

    const NodeEntry<T>* entries() const { return static_cast<const NodeEntry<T>*>(s.entry); }
    const T* row(const void* base, int64_t i, int64_t dims, int32_t start) const {
        return static_cast<const T*>(base) + (i * dims + start) * C;
    }
    T* start_sum(void* base, int64_t i, int64_t dims, bool add) const {
        T* start = static_cast<T*>(base) + i * dims * C;
        if (!add) std::fill(start, start + dims * C, T(0));
        return start;
    }
    const T* weight(const void* base, int64_t i, const NodePath& p) const {
        if (!base) return nullptr;
        return static_cast<const T*>(base) + ((s.group ? s.group[i] : 0) * s.rows + p.weight) * C;
    }
    template <int Slot>
    T* zeros(int dims) const {
        T* t = scratch<T, 50 + Slot>(static_cast<size_t>(dims) * C);
        std::fill(t, t + dims * C, T(0));
        return t;
    }
    template <int Slot>
    const T* scaled(const T* g, const T* w, int dims) const {
        if (!w) return g;
        T* t = scratch<T, 50 + Slot>(static_cast<size_t>(dims) * C);
        for (int c = 0; c < dims; ++c)
            for (int ch = 0; ch < C; ch += Simd<T>::lanes)
                store(t + c * C + ch, load(w + ch) * load(g + c * C + ch));
        return t;
    }
    void add(T* out, const T* t, const T* w, int dims) const {
        for (int c = 0; c < dims; ++c)
            for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
                T* o = out + c * C + ch;
                const Vec<T> v = load(t + c * C + ch);
                store(o, load(o) + (w ? load(w + ch) * v : v));
            }
    }
    void contract(T* dw, int64_t i, const NodePath& p, const T* g, const T* t) const {
        T* d = dw + ((s.group ? s.group[i] : 0) * s.rows + p.weight) * C;
        for (int ch = 0; ch < C; ch += Simd<T>::lanes) {
            Vec<T> sum = load(d + ch);
            for (int c = 0; c < p.dc; ++c) sum += load(g + c * C + ch) * load(t + c * C + ch);
            store(d + ch, sum);
        }
    }
    void by_target(const NodePath& p, const T* x, const T* y, T* t) const {
        couple<T>(entries() + p.by_target, p.entries, x, y, t, C);
    }
    void by_left(const NodePath& p, const T* g, const T* y, T* dx) const {
        couple<T>(entries() + p.by_left, p.entries, g, y, dx, C);
    }
    void by_right(const NodePath& p, const T* g, const T* x, T* dy) const {
        couple<T>(entries() + p.by_right, p.entries, g, x, dy, C);
    }
    template <class F>
    void each_path(F&& f) const {
        for (int64_t q = 0; q < s.paths; ++q) f(s.path[q]);
    }
    int64_t chunks() const { return std::max<int64_t>(1, std::min<int64_t>(s.chunks, s.atoms)); }
    size_t weights() const { return static_cast<size_t>(s.groups) * s.rows * C; }

    template <class F>
    void over_atoms(F&& f) {
        const int64_t n = chunks();
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t chunk = 0; chunk < n; ++chunk) {
            const int64_t end = s.atoms * (chunk + 1) / n;
            T* dw = s.dw ? partial.get() + chunk * weights() : nullptr;
            if (dw) each_group([&](size_t at) { std::fill(dw + at, dw + at + group(), T(0)); });
            for (int64_t i = s.atoms * chunk / n; i < end; ++i) f(i, dw);
        }
    }
    size_t group() const { return static_cast<size_t>(s.rows) * C; }
    template <class F>
    void each_group(F&& f) const {
        for (int64_t q = 0; q < s.groups; ++q)
            if (is_present[q]) f(q * group());
    }
    void start() {
        if (!s.dw) return;
        partial = Lent<T>(pool, chunks() * weights());
        is_present.assign(s.groups, s.group == nullptr);
        for (int64_t i = 0; s.group && i < s.atoms; ++i) is_present[s.group[i]] = true;
    }
    void finish() {
        if (!s.dw) return;
        T* result = static_cast<T*>(s.dw);
        if (!s.add_w) std::fill(result, result + weights(), T(0));
        each_group([&](size_t at) {
            for (int64_t chunk = 0; chunk < chunks(); ++chunk)
                for (size_t i = at; i < at + group(); ++i) result[i] += partial[chunk * weights() + i];
        });
    }
};

}  // namespace cstf
