// Operators on the features of one atom each: embedding, gate, activation.
#pragma once

#include "gate.h"
#include "operators.h"

namespace cstf {

// Features of atoms by element: row `species` of a table.
template <class T>
class Embed : public Operator<T> {
  public:
    explicit Embed(const Source<T>& s) : Operator<T>(s), channels(s.output(0).channels), width(s.output(0).width) {
        s.arity(0, 1, 1);
        s.check(s.weight(0).shape == std::vector<int64_t>{s.elements, channels} && s.output(0).dims == 1 && !s.output(0).of_pairs,
                "an embedding of another shape");
    }

    void prepare(const std::vector<Parameter<T>>& p) override {
        const Parameter<T>& table = p[this->weights[0]];
        rows = widened(table.numbers.data(), table.dim(0), channels, width);
    }
    void forward(const View<T>& v) const override {
        const auto y = v.put(VALUE, this->out());
        for (int64_t i = 0; i < v.count(); ++i) {
            const T* row = rows.data() + v.species[v.begin + i] * width;
            std::copy(row, row + width, y.at + i * width);
        }
    }
    void backward(const View<T>&) const override {}
    void second(const View<T>&) const override {}
    void last(const View<T>& v) const override {
        T* d = this->gradient(v, 0);
        if (!d || !v.has(SUM, this->out())) return;
        const T* sum = v.at(SUM, this->out());
        for (int64_t i = 0; i < v.count(); ++i)
            for (int64_t c = 0; c < channels; ++c) d[v.species[v.begin + i] * channels + c] += sum[i * width + c];
    }

  private:
    const int64_t channels, width;
    Aligned<T> rows;
};

// SiLU on scalars, a sigmoid of logits and a bias times every other track.
template <class T>
class Gate : public Operator<T> {
  public:
    explicit Gate(const Source<T>& s)
        : Operator<T>(s), features(s.input(0)), silu_gain(s.real("silu_gain")), sigmoid_gain(s.real("sigmoid_gain")) {
        s.arity(2, 1, 1);
        const auto raw = s.table("tracks", 2, 0, features.dims);
        for (size_t r = 0; r < raw.size(); r += 2) {
            s.check(raw[r] + raw[r + 1] <= features.dims, "a track out of range");
            tracks.push_back({raw[r], raw[r + 1]});
        }
        const int64_t count = static_cast<int64_t>(tracks.size()), C = features.channels;
        s.check(C > 0 && s.output(0).width == features.width && s.output(0).dims == features.dims &&
                    s.input(1).dims == count && (!count || s.input(1).channels == C) &&
                    s.weight(0).shape == std::vector<int64_t>{count, C},
                "gates of another shape");
    }

    void prepare(const std::vector<Parameter<T>>& p) override {
        bias = widened(p[this->weights[0]].numbers.data(), count(), features.channels, width());
    }
    void forward(const View<T>& v) const override {
        GateArgs a = arguments(v);
        a.out = v.put(VALUE, this->out()).at;
        ScalarGate<T>(a).forward();
    }
    void backward(const View<T>& v) const override {
        if (v.has(GRADIENT, this->out())) back(v, GRADIENT, false);
    }
    void last(const View<T>& v) const override {
        if (v.has(SUM, this->out())) back(v, SUM, true);
    }
    void second(const View<T>& v) const override {
        const bool x = v.has(COTANGENT, this->in(0)), z = v.has(COTANGENT, this->in(1));
        if (!v.has(GRADIENT, this->out()) || !(x || z)) return;
        GateArgs a = arguments(v);
        a.g = v.at(GRADIENT, this->out());
        a.ux = x ? v.at(COTANGENT, this->in(0)) : nullptr, a.uz = z ? v.at(COTANGENT, this->in(1)) : nullptr;
        a.out = v.put(COTANGENT, this->out()).at;
        run(v, a, SUM, true, [&] { ScalarGate<T>(a).second(); });
    }

  private:
    const Value features;
    const double silu_gain, sigmoid_gain;
    std::vector<GateTrack> tracks;
    Aligned<T> bias;

    int64_t count() const { return static_cast<int64_t>(tracks.size()); }
    int64_t width() const { return features.width / features.dims; }

    GateArgs arguments(const View<T>& v) const {
        GateArgs a{};
        a.tracks = count(), a.track = tracks.data(), a.atoms = v.count(), a.components = features.dims, a.channels = width();
        a.x = v.at(VALUE, this->in(0)), a.z = v.at(VALUE, this->in(1)), a.b = bias.data();
        a.silu_gain = silu_gain, a.sigmoid_gain = sigmoid_gain;
        a.chunks = chunks_of(a.atoms, 8, 64), a.threads = v.threads(10.0 * static_cast<double>(a.atoms * features.width));
        return a;
    }
    void back(const View<T>& v, Kind kind, bool weighs) const {
        GateArgs a = arguments(v);
        a.g = v.at(kind, this->out());
        run(v, a, kind, weighs, [&] { ScalarGate<T>(a).backward(); });
    }
    template <class F>
    void run(const View<T>& v, GateArgs& a, Kind kind, bool weighs, F&& action) const {
        // The kernel has a result for every operand: those that are not wanted go to a place that is dropped.
        const auto dx = v.put(kind, this->in(0)), dz = v.put(kind, this->in(1));
        Aligned<T> x(dx ? 0 : a.atoms * features.width), z(dz ? 0 : a.atoms * count() * width());
        a.dx = dx ? dx.at : x.data(), a.add_x = dx.adds, a.dz = dz ? dz.at : z.data(), a.add_z = dz.adds;
        T* d = weighs ? this->gradient(v, 0) : nullptr;
        Aligned<T> found(d ? count() * width() : 0, T(0));
        a.db = d ? found.data() : nullptr, a.add_b = 1;
        action();
        if (d) add_narrowed(found, count(), features.channels, width(), d);
    }
};

// A function of every number, times a gain: silu, sigmoid or tanh.
template <class T>
class Activation : public Operator<T> {
  public:
    explicit Activation(const Source<T>& s) : Operator<T>(s), width(s.input(0).width), gain(static_cast<T>(s.real("gain"))) {
        s.arity(1, 1, 0);
        const std::string& name = s.entry["function"].text();
        function = name == "silu" ? SILU : name == "sigmoid" ? SIGMOID : TANH;
        s.check(function != TANH || name == "tanh", "a function that is not known");
        s.check(s.output(0).width == width && s.output(0).of_pairs == s.input(0).of_pairs, "results of another shape");
    }
    void forward(const View<T>& v) const override {
        each(v, v.put(VALUE, this->out()), [&](int64_t i, const T (&f)[3], T) { return f[0] + 0 * T(i); });
    }
    void backward(const View<T>& v) const override { back(v, GRADIENT); }
    void last(const View<T>& v) const override { back(v, SUM); }
    void second(const View<T>& v) const override {
        if (!v.has(COTANGENT, this->in()) || !v.has(GRADIENT, this->out())) return;
        const T *u = v.at(COTANGENT, this->in()), *g = v.at(GRADIENT, this->out());
        each(v, v.put(SUM, this->in()), [&](int64_t i, const T (&f)[3], T) { return u[i] * g[i] * f[2]; });
        each(v, v.put(COTANGENT, this->out()), [&](int64_t i, const T (&f)[3], T) { return u[i] * f[1]; });
    }

  private:
    enum { SILU, SIGMOID, TANH } function;
    const int64_t width;
    const T gain;

    void back(const View<T>& v, Kind kind) const {
        if (!v.has(kind, this->out())) return;
        const T* g = v.at(kind, this->out());
        each(v, v.put(kind, this->in()), [&](int64_t i, const T (&f)[3], T) { return g[i] * f[1]; });
    }
    template <class F>
    void each(const View<T>& v, typename View<T>::Place to, F&& f) const {
        if (!to) return;
        const T* x = v.at(VALUE, this->in());
        for (int64_t i = 0; i < v.count() * width; ++i) {
            T d[3];
            derivatives(x[i], d);
            to.at[i] = (to.adds ? to.at[i] : T(0)) + f(i, d, x[i]);
        }
    }
    void derivatives(T x, T (&d)[3]) const {
        if (function == TANH) {
            const T t = std::tanh(x), s = 1 - t * t;
            d[0] = t, d[1] = s, d[2] = -2 * t * s;
        } else {
            const T q = T(1) / (T(1) + std::exp(-x)), q1 = q * (1 - q), q2 = q1 * (1 - 2 * q);
            const bool silu = function == SILU;
            d[0] = silu ? x * q : q, d[1] = silu ? q + x * q1 : q1;
            d[2] = silu ? 2 * q1 + x * q2 : q1 * (1 - 2 * q);
        }
        for (T& value : d) value *= gain;
    }
};

}  // namespace cstf
