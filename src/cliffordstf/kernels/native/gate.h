// The scalar gate: SiLU on scalars, every other track times a sigmoid, and the derivatives of both.
//
//   y[i, 0] = silu_gain . silu(x[i, 0]),   y[i, t] = sigmoid_gain . sigmoid(z[i, t] + b[t]) . x[i, t]
#pragma once

#include <algorithm>
#include <cmath>

#include "simd.h"

namespace cstf {

struct GateTrack {
    int32_t start, dims;  // components of a gated track
};

struct GateArgs {
    int64_t tracks;
    const GateTrack* track;
    int64_t atoms, components, channels;
    const void *x, *z, *b, *g;
    const void *ux, *uz, *ub;
    void *out, *dx, *dz, *db;
    double silu_gain, sigmoid_gain;
    int64_t add_x, add_z, add_b;  // whether gradients are added to what is there
    int64_t chunks, threads;
};

template <class T>
class ScalarGate {
  public:
    explicit ScalarGate(const GateArgs& args)
        : s(args), C(args.channels), ks(static_cast<T>(args.silu_gain)), kg(static_cast<T>(args.sigmoid_gain)) {}

    void forward() {
        over_atoms([&](int64_t i, T*) {
            const T* x = in(s.x, i);
            T* y = at(s.out, i);
            for (int64_t ch = 0; ch < C; ++ch) y[ch] = ks * x[ch] * sigmoid(x[ch]);
            for (int64_t t = 0; t < s.tracks; ++t) {
                const T* gate = gates(i, t);
                rows(t, [&](int64_t offset) {
                    for (int64_t ch = 0; ch < C; ++ch) y[offset + ch] = kg * gate[ch] * x[offset + ch];
                });
            }
        });
    }

    void backward() {
        start();
        over_atoms([&](int64_t i, T* db) {
            const T *x = in(s.x, i), *g = in(s.g, i);
            T* dx = at(s.dx, i);
            for (int64_t ch = 0; ch < C; ++ch) {
                const T q = sigmoid(x[ch]);
                dx[ch] = before(dx[ch]) + ks * (q + x[ch] * q * (1 - q)) * g[ch];
            }
            for (int64_t t = 0; t < s.tracks; ++t) {
                const T* gate = gates(i, t);
                T* sums = scratch<T, 61>(C);
                std::fill(sums, sums + C, T(0));
                rows(t, [&](int64_t offset) {
                    for (int64_t ch = 0; ch < C; ++ch) {
                        dx[offset + ch] = before(dx[offset + ch]) + kg * gate[ch] * g[offset + ch];
                        sums[ch] += g[offset + ch] * x[offset + ch];
                    }
                });
                T* dz = static_cast<T*>(s.dz) + (i * s.tracks + t) * C;
                for (int64_t ch = 0; ch < C; ++ch) {
                    const T found = kg * gate[ch] * (1 - gate[ch]) * sums[ch];
                    dz[ch] = (s.add_z ? dz[ch] : T(0)) + found;
                    db[t * C + ch] += found;
                }
            }
        });
        finish();
    }

    // Gradients of <ux, dx> + <uz, dz> + <ub, db> with respect to g (into out), x, z and b.
    void second() {
        start();
        over_atoms([&](int64_t i, T* db) {
            const T *x = in(s.x, i), *g = in(s.g, i);
            const T* ux = s.ux ? in(s.ux, i) : zeros(s.components * C);
            T *out = at(s.out, i), *dx = at(s.dx, i);
            for (int64_t ch = 0; ch < C; ++ch) {
                const T q = sigmoid(x[ch]), q1 = q * (1 - q), q2 = q1 * (1 - 2 * q);
                out[ch] = ks * (q + x[ch] * q1) * ux[ch];
                dx[ch] = before(dx[ch]) + ks * (2 * q1 + x[ch] * q2) * g[ch] * ux[ch];
            }
            for (int64_t t = 0; t < s.tracks; ++t) {
                const T* gate = gates(i, t);
                const T* v = gate_cotangent(i, t);
                T* gx = scratch<T, 61>(2 * C);
                T* gu = gx + C;
                std::fill(gx, gx + 2 * C, T(0));
                rows(t, [&](int64_t offset) {
                    for (int64_t ch = 0; ch < C; ++ch) {
                        const int64_t p = offset + ch;
                        const T slope = gate[ch] * (1 - gate[ch]);
                        out[p] = kg * (gate[ch] * ux[p] + v[ch] * slope * x[p]);
                        dx[p] = before(dx[p]) + kg * v[ch] * slope * g[p];
                        gx[ch] += g[p] * x[p];
                        gu[ch] += g[p] * ux[p];
                    }
                });
                T* dz = static_cast<T*>(s.dz) + (i * s.tracks + t) * C;
                for (int64_t ch = 0; ch < C; ++ch) {
                    const T slope = gate[ch] * (1 - gate[ch]);
                    const T found = kg * slope * (gu[ch] + v[ch] * (1 - 2 * gate[ch]) * gx[ch]);
                    dz[ch] = (s.add_z ? dz[ch] : T(0)) + found;
                    db[t * C + ch] += found;
                }
            }
        });
        finish();
    }

  private:
    const GateArgs& s;
    const int64_t C;
    const T ks, kg;
    Aligned<T> partial;

    T before(T there) const { return s.add_x ? there : T(0); }
    static T sigmoid(T v) { return T(1) / (T(1) + std::exp(-v)); }
    const T* in(const void* base, int64_t i) const { return static_cast<const T*>(base) + i * s.components * C; }
    T* at(void* base, int64_t i) const { return static_cast<T*>(base) + i * s.components * C; }

    const T* gates(int64_t i, int64_t t) const {
        T* result = scratch<T, 60>(C);
        const T* z = static_cast<const T*>(s.z) + (i * s.tracks + t) * C;
        const T* b = static_cast<const T*>(s.b) + t * C;
        for (int64_t ch = 0; ch < C; ++ch) result[ch] = sigmoid(z[ch] + b[ch]);
        return result;
    }
    const T* gate_cotangent(int64_t i, int64_t t) const {
        T* result = scratch<T, 62>(C);
        const T* uz = static_cast<const T*>(s.uz);
        const T* ub = static_cast<const T*>(s.ub);
        for (int64_t ch = 0; ch < C; ++ch)
            result[ch] = (uz ? uz[(i * s.tracks + t) * C + ch] : T(0)) + (ub ? ub[t * C + ch] : T(0));
        return result;
    }
    const T* zeros(int64_t count) const {
        T* result = scratch<T, 63>(count);
        std::fill(result, result + count, T(0));
        return result;
    }
    template <class F>
    void rows(int64_t t, F&& f) const {
        for (int32_t m = 0; m < s.track[t].dims; ++m) f((s.track[t].start + m) * C);
    }
    int64_t chunks() const { return std::max<int64_t>(1, std::min<int64_t>(s.chunks, s.atoms)); }
    template <class F>
    void over_atoms(F&& f) {
        const int64_t n = chunks();
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t chunk = 0; chunk < n; ++chunk) {
            const int64_t end = s.atoms * (chunk + 1) / n;
            T* db = partial.empty() ? nullptr : partial.data() + chunk * s.tracks * C;
            for (int64_t i = s.atoms * chunk / n; i < end; ++i) f(i, db);
        }
    }
    // One element more, so that the address is valid without any gated track.
    void start() { partial.assign(chunks() * s.tracks * C + 1, T(0)); }
    void finish() {
        T* result = static_cast<T*>(s.db);
        const int64_t size = s.tracks * C;
        if (!result) return;
        if (!s.add_b) std::fill(result, result + size, T(0));
        for (int64_t chunk = 0; chunk < chunks(); ++chunk)
            for (int64_t i = 0; i < size; ++i) result[i] += partial[chunk * size + i];
    }
};

}  // namespace cstf
