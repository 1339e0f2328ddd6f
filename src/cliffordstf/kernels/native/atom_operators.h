// Operators on the features of one atom each.
#pragma once

#include "gate.h"
#include "linear.h"
#include "network.h"
#include "node.h"
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
    std::vector<T> rows;
};

// A sum of linear maps over channels, one matrix per track.
template <class T>
class LinearSum : public Operator<T> {
  public:
    explicit LinearSum(const Source<T>& s) : Operator<T>(s), target(s.output(0)), scale(s.real("scale")) {
        s.check(!s.inputs.empty() && s.inputs.size() == s.weights.size() && s.outputs.size() == 1, "another number of operands");
        std::vector<std::pair<int32_t, int32_t>> written;
        int64_t filled = 0;
        for (size_t i = 0; i < s.inputs.size(); ++i) {
            Term term{s.input(i), {}, s.weight(i).dim(0), {}, {}, 0, false};
            s.check(term.source.channels > 0 && !term.source.of_pairs && !target.of_pairs, "a feature that is none");
            s.check(s.weight(i).shape == std::vector<int64_t>{term.matrices, term.source.channels, target.channels},
                    "matrices of another shape");
            const auto rows = s.table("tracks" + std::to_string(i), 4, -1, 1 << 20);
            std::vector<std::pair<int32_t, int32_t>> read;
            int64_t covered = 0;
            for (size_t r = 0; r < rows.size(); r += 4) {
                const int32_t from = rows[r], to = rows[r + 1], dims = rows[r + 2], matrix = rows[r + 3];
                s.check(from >= 0 && to >= 0 && dims > 0 && from + dims <= term.source.dims && to + dims <= target.dims &&
                            matrix < term.matrices && (matrix >= 0 || term.source.channels == target.channels),
                        "a track out of range");
                const bool again = known(written, to, dims), back = known(read, from, dims);
                filled += again ? 0 : dims, covered += back ? 0 : dims;
                term.tracks.push_back({from, to, dims, matrix, again, back});
                term.components += dims;
            }
            term.fills_source = covered == term.source.dims;
            terms.push_back(std::move(term));
        }
        is_full = filled == target.dims;
    }

    bool reads_again() const override { return false; }

    void prepare(const std::vector<Parameter<T>>& p) override {
        for (size_t i = 0; i < terms.size(); ++i) {
            Term& t = terms[i];
            const int64_t in = t.source.width / t.source.dims, out = target.width / target.dims;
            t.ready.assign(t.matrices * in * out, T(0));
            t.transposed.assign(t.matrices * in * out, T(0));
            const T* w = p[this->weights[i]].numbers.data();
            for (int64_t m = 0; m < t.matrices; ++m)
                for (int64_t k = 0; k < t.source.channels; ++k)
                    for (int64_t n = 0; n < target.channels; ++n) {
                        const T value = static_cast<T>(scale) * *w++;
                        t.ready[(m * in + k) * out + n] = t.transposed[(m * out + n) * in + k] = value;
                    }
        }
    }

    void forward(const View<T>& v) const override { sum(v, VALUE); }
    void second(const View<T>& v) const override { sum(v, COTANGENT); }
    void backward(const View<T>& v) const override { back(v, GRADIENT); }
    void last(const View<T>& v) const override {
        back(v, SUM);
        if (!v.weight_gradients) return;
        for (size_t i = 0; i < terms.size(); ++i) {
            gather(v, i, VALUE, SUM);
            gather(v, i, COTANGENT, GRADIENT);
        }
    }

  private:
    struct Term {
        Value source;
        std::vector<LinearTrack> tracks;
        int64_t matrices;
        std::vector<T> ready, transposed;
        int64_t components;
        bool fills_source;
    };
    std::vector<Term> terms;
    const Value target;
    const double scale;
    bool is_full;

    static bool known(std::vector<std::pair<int32_t, int32_t>>& seen, int32_t start, int32_t dims) {
        const std::pair<int32_t, int32_t> track(start, dims);
        if (std::find(seen.begin(), seen.end(), track) != seen.end()) return true;
        seen.push_back(track);
        return false;
    }

    LinearArgs arguments(const View<T>& v, const Term& t) const {
        LinearArgs a{};
        a.tracks = static_cast<int64_t>(t.tracks.size()), a.track = t.tracks.data(), a.atoms = v.count();
        a.source = t.source.dims, a.target = target.dims;
        a.inputs = t.source.width / t.source.dims, a.outputs = target.width / target.dims;
        a.scale = scale, a.ready = 1;
        a.threads = v.threads(static_cast<double>(v.count()) * t.components * a.inputs * a.outputs);
        return a;
    }

    void sum(const View<T>& v, Kind kind) const {
        size_t present = 0;
        for (const int place : this->inputs) present += v.has(kind, place);
        if (!present) return;
        const auto y = v.put(kind, this->out());
        if (!y) return;
        const bool in_order = present == terms.size() && !y.adds;
        if (!y.adds && (!in_order || !is_full)) std::fill(y.at, y.at + v.count() * target.width, T(0));
        for (size_t i = 0; i < terms.size(); ++i) {
            if (!v.has(kind, this->inputs[i])) continue;
            LinearArgs a = arguments(v, terms[i]);
            a.x = v.at(kind, this->inputs[i]), a.w = terms[i].ready.data(), a.y = y.at, a.add_y = !in_order;
            TrackLinear<T>(a).forward();
        }
    }

    void back(const View<T>& v, Kind kind) const {
        if (!v.has(kind, this->out())) return;
        for (size_t i = 0; i < terms.size(); ++i) {
            const auto dx = v.put(kind, this->inputs[i]);
            if (!dx) continue;
            LinearArgs a = arguments(v, terms[i]);
            if (!dx.adds && !terms[i].fills_source) std::fill(dx.at, dx.at + v.count() * terms[i].source.width, T(0));
            a.g = v.at(kind, this->out()), a.w = terms[i].transposed.data(), a.dx = dx.at, a.add_x = dx.adds;
            TrackLinear<T>(a).backward();
        }
    }

    // dW += x^T g
    void gather(const View<T>& v, size_t i, Kind x, Kind g) const {
        T* d = this->gradient(v, i);
        const Term& t = terms[i];
        if (!d || !t.matrices || !v.has(x, this->inputs[i]) || !v.has(g, this->out())) return;
        LinearArgs a = arguments(v, t);
        const bool whole = a.inputs == t.source.channels && a.outputs == target.channels;
        std::vector<T> found(whole ? 0 : t.matrices * a.inputs * a.outputs, T(0));
        a.x = v.at(x, this->inputs[i]), a.g = v.at(g, this->out()), a.dw = whole ? d : found.data(), a.add_w = 1;
        TrackLinear<T>(a).backward();
        for (int64_t m = 0; m < t.matrices && !whole; ++m)
            for (int64_t k = 0; k < t.source.channels; ++k)
                for (int64_t n = 0; n < target.channels; ++n)
                    d[(m * t.source.channels + k) * target.channels + n] += found[(m * a.inputs + k) * a.outputs + n];
    }
};

// The node product with a weight for every element, path and channel, or without weights.
template <class T>
class Product : public Operator<T> {
  public:
    explicit Product(const Source<T>& s)
        : Operator<T>(s), left(s.input(0)), right(s.input(1)), target(s.output(0)), C(target.channels) {
        s.check(s.inputs.size() == 2 && s.outputs.size() == 1 && s.weights.size() <= 1, "another number of operands");
        s.check(C > 0 && left.channels == C && right.channels == C, "features of other widths");
        if (!s.weights.empty()) {
            groups = s.weight(0).dim(0), rows = s.weight(0).dim(1);
            s.check(s.weight(0).shape == std::vector<int64_t>{groups, rows, C} && (groups == 1 || groups == s.elements),
                    "weights of another shape");
        }
        read_paths(s);
    }

    void prepare(const std::vector<Parameter<T>>& p) override {
        if (groups) weights = widened(p[Operator<T>::weights[0]].numbers.data(), groups * rows, C, width());
    }

    void forward(const View<T>& v) const override {
        NodeArgs a = arguments(v);
        a.out = v.put(VALUE, this->out()).at;
        if (v.count()) NodeOperator<T>(a).forward();
    }
    void backward(const View<T>& v) const override {
        if (v.has(GRADIENT, this->out()) && v.count()) back(v, GRADIENT, false);
    }
    void last(const View<T>& v) const override {
        if (v.has(SUM, this->out()) && v.count()) back(v, SUM, true);
    }
    void second(const View<T>& v) const override {
        const bool x = v.has(COTANGENT, this->in(0)), y = v.has(COTANGENT, this->in(1));
        if (!v.has(GRADIENT, this->out()) || !(x || y) || !v.count()) return;
        NodeArgs a = arguments(v);
        a.g = v.at(GRADIENT, this->out());
        a.ux = x ? v.at(COTANGENT, this->in(0)) : nullptr, a.uy = y ? v.at(COTANGENT, this->in(1)) : nullptr;
        a.out = v.put(COTANGENT, this->out()).at;
        results(v, a, SUM);
        gathering(v, a, true, [&] { NodeOperator<T>(a).second(); });
    }

  private:
    const Value left, right, target;
    const int64_t C;
    int64_t groups = 0, rows = 0, entries = 0;
    std::vector<NodePath> paths;
    std::vector<NodeEntry<T>> table;
    std::vector<T> weights;

    int64_t width() const { return target.width / target.dims; }

    void read_paths(const Source<T>& s) {
        const int64_t most = 1 << 24;
        const auto raw = s.table("paths", 11, 0, most);
        const auto indices = s.table("entries", 3, 0, most);
        entries = static_cast<int64_t>(indices.size()) / 3;
        const auto values = s.reals("values", entries);
        for (int64_t i = 0; i < entries; ++i) table.push_back({indices[3 * i], indices[3 * i + 1], indices[3 * i + 2], values[i]});
        for (size_t r = 0; r < raw.size(); r += 11) {
            const int32_t* p = raw.data() + r;
            const NodePath path{p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10]};
            s.check(path.left + path.da <= left.dims && path.right + path.db <= right.dims &&
                        path.target + path.dc <= target.dims && (!groups || path.weight < rows),
                    "a path out of range");
            check_order(s, path, path.by_target, path.dc, path.da, path.db);
            check_order(s, path, path.by_left, path.da, path.dc, path.db);
            check_order(s, path, path.by_right, path.db, path.dc, path.da);
            paths.push_back(path);
        }
    }
    void check_order(const Source<T>& s, const NodePath& path, int32_t start, int32_t result, int32_t p, int32_t q) const {
        s.check(static_cast<int64_t>(start) + path.entries <= entries, "a path out of range");
        for (int32_t i = start; i < start + path.entries; ++i)
            s.check(table[i].result < result && table[i].p < p && table[i].q < q, "an index out of range");
    }

    NodeArgs arguments(const View<T>& v) const {
        NodeArgs a{};
        a.paths = static_cast<int64_t>(paths.size()), a.path = paths.data(), a.entry = table.data();
        a.left = left.dims, a.right = right.dims, a.target = target.dims, a.rows = std::max<int64_t>(1, rows);
        a.atoms = v.count(), a.channels = width(), a.groups = std::max<int64_t>(1, groups);
        a.group = groups > 1 ? v.species + v.begin : nullptr;
        a.x = v.at(VALUE, this->in(0)), a.y = v.at(VALUE, this->in(1)), a.w = groups ? weights.data() : nullptr;
        const int64_t most = std::max<int64_t>(8, std::min<int64_t>(64, (1 << 20) / (a.groups * a.rows * a.channels)));
        a.chunks = chunks_of(a.atoms, 8, most);
        a.threads = v.threads(static_cast<double>(a.atoms) * a.channels * static_cast<double>(entries));
        return a;
    }

    void results(const View<T>& v, NodeArgs& a, Kind kind) const {
        const auto dx = v.put(kind, this->in(0)), dy = v.put(kind, this->in(1));
        a.dx = dx.at, a.add_x = dx.adds, a.dy = dy.at, a.add_y = dy.adds;
    }

    void back(const View<T>& v, Kind kind, bool weighs) const {
        NodeArgs a = arguments(v);
        a.g = v.at(kind, this->out());
        results(v, a, kind);
        gathering(v, a, weighs, [&] { NodeOperator<T>(a).backward(); });
    }

    template <class F>
    void gathering(const View<T>& v, NodeArgs& a, bool weighs, F&& run) const {
        T* d = weighs && groups ? this->gradient(v, 0) : nullptr;
        std::vector<T> found(d && width() != C ? groups * rows * width() : 0, T(0));
        a.dw = found.empty() ? d : found.data(), a.add_w = 1;
        run();
        if (!found.empty()) add_narrowed(found, groups * rows, C, width(), d);
    }
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
    std::vector<T> bias;

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
        std::vector<T> x(dx ? 0 : a.atoms * features.width), z(dz ? 0 : a.atoms * count() * width());
        a.dx = dx ? dx.at : x.data(), a.add_x = dx.adds, a.dz = dz ? dz.at : z.data(), a.add_z = dz.adds;
        T* d = weighs ? this->gradient(v, 0) : nullptr;
        std::vector<T> found(d ? count() * width() : 0, T(0));
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

// A network on the scalars of atoms.
template <class T>
class Readout : public Operator<T> {
  public:
    explicit Readout(const Source<T>& s) : Operator<T>(s), input(s.input(0)), output(s.output(0)), network(make(s)) {
        s.check(s.inputs.size() == 1 && s.outputs.size() == 1 && input.dims == 1 && output.dims == 1, "another number of operands");
        s.check(!input.of_pairs && s.weight(s.weights.size() - 1).dim(0) == output.channels, "results of another shape");
    }
    void prepare(const std::vector<Parameter<T>>& p) override {
        for (int64_t l = 0; l < network.depth(); ++l) {
            const Parameter<T>& w = p[this->weights[2 * l]];
            network.set(l, w.numbers.data(), w.dim(1), p[this->weights[2 * l + 1]].numbers.data());
        }
        depths.clear();
        for (int64_t l = 0; l < network.depth(); ++l) depths.push_back(p[this->weights[2 * l]].dim(1));
    }

    void forward(const View<T>& v) const override {
        const auto y = v.put(VALUE, this->out());
        over(v, 1, [&](Block& b, int64_t first, int rows, int64_t) {
            b.forward([](int, T*) {});
            for (int r = 0; r < rows; ++r) std::copy(b.output(r), b.output(r) + output.width, y.at + (first + r) * output.width);
        }, false);
    }
    void backward(const View<T>& v) const override {
        if (v.has(GRADIENT, this->out())) back(v, GRADIENT, false, nullptr);
    }
    void second(const View<T>& v) const override {
        if (!v.has(COTANGENT, this->in())) return;
        const auto t = v.put(COTANGENT, this->out());
        if (!t) return;
        over(v, 1, [&](Block& b, int64_t first, int rows, int64_t) {
            tangents(v, b, first, rows);
            b.forward([](int, T*) {});
            for (int r = 0; r < rows; ++r)
                std::copy(b.output_tangent(r), b.output_tangent(r) + output.width, t.at + (first + r) * output.width);
        }, true);
    }
    // What `second` leaves to be done is done with the rest: the tangents go the same way as the values.
    void last(const View<T>& v) const override {
        const bool moves = v.has(COTANGENT, this->in()) && v.has(GRADIENT, this->out());
        if (!moves && !v.has(SUM, this->out())) return;
        const int64_t parts = chunks_of(v.count(), 64, 16), size = network.gradient_size();
        std::vector<T> gathered(v.weight_gradients ? parts * size : 0, T(0));
        back(v, SUM, moves, gathered.empty() ? nullptr : gathered.data(), parts);
        if (gathered.empty()) return;
        for (int64_t q = 1; q < parts; ++q)
            for (int64_t i = 0; i < size; ++i) gathered[i] += gathered[q * size + i];
        for (int64_t l = 0; l < network.depth(); ++l)
            network.add_gradient(gathered.data(), l, depths[l], this->gradient(v, 2 * l), this->gradient(v, 2 * l + 1));
    }

  private:
    using Block = typename Network<T>::Block;
    const Value input, output;
    Network<T> network;
    std::vector<int64_t> depths;

    static Network<T> make(const Source<T>& s) {
        s.check(s.weights.size() >= 2 && s.weights.size() % 2 == 0, "another number of weights");
        std::vector<int64_t> outputs;
        int64_t in = s.input(0).channels;
        for (size_t l = 0; 2 * l < s.weights.size(); ++l) {
            const Parameter<T>&w = s.weight(2 * l), &b = s.weight(2 * l + 1);
            s.check(in > 0 && w.shape.size() == 2 && w.dim(1) == in && b.shape == std::vector<int64_t>{w.dim(0)} && w.dim(0) > 0,
                    "layers of other shapes");
            outputs.push_back(in = w.dim(0));
        }
        return Network<T>(s.input(0).width, outputs);
    }

    template <class F>
    void over(const View<T>& v, int64_t parts, F&& f, bool with_tangents) const {
        const int64_t n = std::max<int64_t>(parts, chunks_of(v.count(), 64, 16));
        const int64_t threads = v.threads(static_cast<double>(v.count() * network.gradient_size() * 4));
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(threads)) if (threads > 1)
        for (int64_t q = 0; q < n; ++q) {
            const int64_t end = v.count() * (q + 1) / n;
            for (int64_t i = v.count() * q / n; i < end; i += Network<T>::ROWS) {
                const int rows = static_cast<int>(std::min<int64_t>(Network<T>::ROWS, end - i));
                Block block(network, rows, with_tangents);
                const T* x = v.at(VALUE, this->in());
                for (int r = 0; r < rows; ++r) std::copy(x + (i + r) * input.width, x + (i + r + 1) * input.width, block.input(r));
                f(block, i, rows, q);
            }
        }
    }
    void tangents(const View<T>& v, Block& b, int64_t first, int rows) const {
        const T* u = v.at(COTANGENT, this->in());
        for (int r = 0; r < rows; ++r) std::copy(u + (first + r) * input.width, u + (first + r + 1) * input.width, b.input_tangent(r));
    }
    void back(const View<T>& v, Kind kind, bool with_tangents, T* gathered, int64_t parts = 1) const {
        const auto dx = v.put(kind, this->in());
        if (!dx && !gathered) return;
        const T* g = v.has(kind, this->out()) ? v.at(kind, this->out()) : nullptr;
        over(v, parts, [&](Block& b, int64_t first, int rows, int64_t part) {
            if (with_tangents) tangents(v, b, first, rows);
            b.forward([](int, T*) {});
            for (int r = 0; r < rows; ++r) {
                T *of = b.of_output(r), *dof = b.of_output_tangent(r);
                const T* along = with_tangents ? v.at(GRADIENT, this->out()) + (first + r) * output.width : nullptr;
                for (int64_t c = 0; c < output.width; ++c) {
                    of[c] = g && c < output.channels ? g[(first + r) * output.width + c] : T(0);
                    if (with_tangents) dof[c] = c < output.channels ? along[c] : T(0);
                }
            }
            b.backward(gathered ? gathered + part * network.gradient_size() : nullptr, static_cast<bool>(dx), [](int, const T*) {});
            for (int r = 0; dx && r < rows; ++r) {
                T* to = dx.at + (first + r) * input.width;
                for (int64_t c = 0; c < input.width; ++c) to[c] = (dx.adds ? to[c] : T(0)) + b.of_input(r)[c];
            }
        }, with_tangents);
    }
};

}  // namespace cstf
