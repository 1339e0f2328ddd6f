// Operators on pairs of atoms: lengths and directions of their vectors, and functions of the length.
#pragma once

#include <cmath>

#include "network.h"
#include "operators.h"

namespace cstf {

// Vectors (pairs, 3) -> lengths (pairs, 1) and unit vectors (pairs, 3).
template <class T>
class PairGeometry : public Operator<T> {
  public:
    explicit PairGeometry(const Source<T>& s) : Operator<T>(s) {
        s.arity(1, 2, 0);
        s.check(s.input(0).of_pairs && s.input(0).width == 3 && s.output(0).of_pairs && s.output(0).width == 1 &&
                    s.output(1).of_pairs && s.output(1).width == 3,
                "operands of other shapes");
    }
    void forward(const View<T>& v) const override {
        const auto d = v.put(VALUE, this->out(0)), n = v.put(VALUE, this->out(1));
        const T* r = v.at(VALUE, this->in());
        each(v, [&](int64_t p) {
            const T* x = r + 3 * p;
            const T length = std::sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
            d.at[p] = length;
            for (int axis = 0; axis < 3; ++axis) n.at[3 * p + axis] = x[axis] / length;
        });
    }
    void backward(const View<T>& v) const override { back(v, GRADIENT); }
    void last(const View<T>&) const override {}
    void second(const View<T>& v) const override {
        if (!v.has(COTANGENT, this->in())) return;
        const auto td = v.put(COTANGENT, this->out(0)), tn = v.put(COTANGENT, this->out(1));
        const T *d = v.at(VALUE, this->out(0)), *n = v.at(VALUE, this->out(1)), *u = v.at(COTANGENT, this->in());
        each(v, [&](int64_t p) {
            const T along = dot(u + 3 * p, n + 3 * p);
            if (td) td.at[p] = along;
            for (int axis = 0; tn && axis < 3; ++axis)
                tn.at[3 * p + axis] = (u[3 * p + axis] - along * n[3 * p + axis]) / d[p];
        });
    }

  private:
    static T dot(const T* a, const T* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

    // Only the part of a gradient across the vector turns it.
    void back(const View<T>& v, Kind kind) const {
        const T* gd = v.has(kind, this->out(0)) ? v.at(kind, this->out(0)) : nullptr;
        const T* gn = v.has(kind, this->out(1)) ? v.at(kind, this->out(1)) : nullptr;
        const auto to = v.put(kind, this->in());
        if (!to) return;
        const T *d = v.at(VALUE, this->out(0)), *n = v.at(VALUE, this->out(1));
        each(v, [&](int64_t p) {
            const T steep = gd ? gd[p] : T(0), along = gn ? dot(gn + 3 * p, n + 3 * p) : T(0);
            for (int axis = 0; axis < 3; ++axis) {
                const int64_t i = 3 * p + axis;
                const T across = gn ? (gn[i] - along * n[i]) / d[p] : T(0);
                to.at[i] = (to.adds ? to.at[i] : T(0)) + steep * n[i] + across;
            }
        });
    }
    template <class F>
    void each(const View<T>& v, F&& f) const {
        const int64_t threads = v.threads(50.0 * static_cast<double>(v.count()));
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(threads)) if (threads > 1)
        for (int64_t p = 0; p < v.count(); ++p) f(p);
    }
};

// The radial functions of all layers: a network on a Bessel basis, times a polynomial envelope.
//
//   f(d) = envelope(d) . network(sqrt(2) 0.3 sin(n pi x) / x),  x = d / cutoff, or a warped length over the cutoff:
//   x = (1 - exp(-d / warp)) / (1 - exp(-cutoff / warp))
//
// The elements of a pair may each add a row of a table to the first hidden layer. A slope goes through the network beside its
// value: the last output holds the slopes of all functions, (pairs, layers . functions).
template <class T>
class Radial : public Operator<T> {
  public:
    explicit Radial(const Source<T>& s)
        : Operator<T>(s), cutoff(s.real("cutoff")), warp(s.real("warp")), power(static_cast<double>(s.entry["power"].whole(1, 64))),
          basis(s.entry["basis"].whole(1, 256)), has_shifts(s.weights.size() % 2 == 1),
          layers(static_cast<int64_t>(s.outputs.size()) - 1), functions(s.output(0).width), network(make(s)) {
        s.check(s.inputs.size() == 1 && s.input(0).of_pairs && s.input(0).width == 1 && cutoff > 0 && warp >= 0, "operands of other shapes");
        for (int64_t l = 0; l < layers; ++l)
            s.check(s.output(l).of_pairs && s.output(l).channels == 0 && s.output(l).width == functions, "functions of other numbers");
        s.check(s.output(layers).of_pairs && s.output(layers).width == layers * functions, "slopes of another number");
        reach = warp > 0 ? -std::expm1(-cutoff / warp) : 1;
    }

    void prepare(const std::vector<Parameter<T>>& p) override {
        int64_t in = basis;
        for (int64_t l = 0; l < network.depth(); ++l) {
            const Parameter<T>& w = p[this->weights[2 * l]];
            network.set(l, w.numbers.data(), in, p[this->weights[2 * l + 1]].numbers.data());
            in = w.dim(0);
        }
        hidden = p[this->weights[0]].dim(0);
        if (has_shifts) shifts = widened(p[this->weights.back()].numbers.data(), p[this->weights.back()].dim(0), hidden, network.width(1));
    }

    void forward(const View<T>& v) const override {
        std::vector<T*> to;
        for (const int place : this->outputs) to.push_back(v.put(VALUE, place).at);
        over(v, 1, [&](Block& b, int64_t first, int rows, int64_t) {
            run(v, b, first, rows);
            for (int r = 0; r < rows; ++r) {
                T e, de;
                envelope(distance(v, first + r), e, de);
                const T *f = b.output(r), *df = b.output_tangent(r);
                T* slope = to[layers] + (first + r) * layers * functions;
                for (int64_t l = 0; l < layers; ++l)
                    for (int64_t k = 0; k < functions; ++k) to[l][(first + r) * functions + k] = f[l * functions + k] * e;
                for (int64_t k = 0; k < layers * functions; ++k) slope[k] = df[k] * e + f[k] * de;
            }
        });
    }
    void backward(const View<T>& v) const override {
        const auto to = v.put(GRADIENT, this->in());
        if (!to) return;
        const T* slopes = v.at(VALUE, this->out(layers));
        for (int64_t p = 0; p < v.count(); ++p) {
            T sum = to.adds ? to.at[p] : T(0);
            for (int64_t l = 0; l < layers; ++l) {
                if (!v.has(GRADIENT, this->out(l))) continue;
                const T *g = v.at(GRADIENT, this->out(l)) + p * functions, *s = slopes + (p * layers + l) * functions;
                for (int64_t k = 0; k < functions; ++k) sum += g[k] * s[k];
            }
            to.at[p] = sum;
        }
    }
    void second(const View<T>& v) const override {
        if (!v.has(COTANGENT, this->in())) return;
        const T *u = v.at(COTANGENT, this->in()), *slopes = v.at(VALUE, this->out(layers));
        for (int64_t l = 0; l < layers; ++l) {
            const auto to = v.put(COTANGENT, this->out(l));
            for (int64_t p = 0; to && p < v.count(); ++p)
                for (int64_t k = 0; k < functions; ++k) to.at[p * functions + k] = u[p] * slopes[(p * layers + l) * functions + k];
        }
    }
    // Gradients of values, and of slopes by what they were multiplied with in `backward`, go back together.
    void last(const View<T>& v) const override {
        if (!v.weight_gradients) return;
        const int64_t parts = chunks_of(v.count(), 64, 16), size = network.gradient_size();
        const int64_t table = has_shifts ? static_cast<int64_t>(shifts.size()) : 0;
        Aligned<T> gathered(parts * (size + table), T(0));
        over(v, parts, [&](Block& b, int64_t first, int rows, int64_t part) {
            T *weights = gathered.data() + part * (size + table), *of_shifts = weights + size;
            run(v, b, first, rows);
            for (int r = 0; r < rows; ++r) seed(v, first + r, b.of_output(r), b.of_output_tangent(r));
            b.backward(weights, false, [&](int r, const T* of) {
                for (int end = 0; has_shifts && end < 2; ++end) {
                    T* row = of_shifts + element(v, first + r, end) * network.width(1);
                    for (int64_t i = 0; i < network.width(1); ++i) row[i] += of[i];
                }
            });
        });
        for (int64_t q = 1; q < parts; ++q)
            for (int64_t i = 0; i < size + table; ++i) gathered[i] += gathered[q * (size + table) + i];
        int64_t in = basis;
        for (int64_t l = 0; l < network.depth(); ++l) {
            network.add_gradient(gathered.data(), l, in, this->gradient(v, 2 * l), this->gradient(v, 2 * l + 1));
            in = l == 0 ? hidden : widths[l];
        }
        T* d = has_shifts ? this->gradient(v, this->weights.size() - 1) : nullptr;
        for (int64_t i = 0; d && i < table / network.width(1); ++i)
            for (int64_t c = 0; c < hidden; ++c) d[i * hidden + c] += gathered[size + i * network.width(1) + c];
    }

  private:
    using Block = typename Network<T>::Block;
    const double cutoff, warp, power;
    const int64_t basis;
    const bool has_shifts;
    const int64_t layers, functions;
    std::vector<int64_t> widths;
    Network<T> network;
    double reach;  // 1 - exp(-cutoff / warp)
    int64_t hidden = 0;
    Aligned<T> shifts;

    Network<T> make(const Source<T>& s) {
        s.check(s.weights.size() >= 2 && layers > 0, "another number of weights");
        int64_t in = basis;
        for (size_t l = 0; 2 * l + 1 < s.weights.size(); ++l) {
            const Parameter<T>&w = s.weight(2 * l), &b = s.weight(2 * l + 1);
            s.check(w.shape.size() == 2 && w.dim(1) == in && w.dim(0) > 0 && b.shape == std::vector<int64_t>{w.dim(0)},
                    "layers of other shapes");
            widths.push_back(in = w.dim(0));
        }
        s.check(widths.back() == layers * functions, "functions of another number");
        if (has_shifts)
            s.check(s.weight(s.weights.size() - 1).shape == std::vector<int64_t>{s.elements, widths[0]}, "shifts of another shape");
        return Network<T>(basis, widths);
    }

    template <class F>
    void over(const View<T>& v, int64_t parts, F&& f) const {
        const int64_t n = std::max<int64_t>(parts, chunks_of(v.count(), 64, 16));
        const int64_t threads = v.threads(4.0 * static_cast<double>(v.count() * network.gradient_size()));
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(threads)) if (threads > 1)
        for (int64_t q = 0; q < n; ++q) {
            const int64_t end = v.count() * (q + 1) / n;
            for (int64_t i = v.count() * q / n; i < end; i += Network<T>::ROWS) {
                const int rows = static_cast<int>(std::min<int64_t>(Network<T>::ROWS, end - i));
                Block block(network, rows, true);
                f(block, i, rows, q);
            }
        }
    }
    void run(const View<T>& v, Block& b, int64_t first, int rows) const {
        for (int r = 0; r < rows; ++r) bessel(distance(v, first + r), b.input(r), b.input_tangent(r));
        b.forward([&](int r, T* z) {
            for (int end = 0; has_shifts && end < 2; ++end) {
                const T* row = shifts.data() + element(v, first + r, end) * network.width(1);
                for (int64_t i = 0; i < network.width(1); ++i) z[i] += row[i];
            }
        });
    }
    double distance(const View<T>& v, int64_t row) const { return static_cast<double>(v.at(VALUE, this->in())[row]); }
    static int64_t element(const View<T>& v, int64_t row, int end) {
        const int64_t pair = v.begin + row;
        return v.species[end ? v.graph->receiver(pair) : v.graph->sender(pair)];
    }

    void seed(const View<T>& v, int64_t row, T* of, T* of_slope) const {
        T e, de;
        envelope(distance(v, row), e, de);
        const T u = v.has(COTANGENT, this->in()) ? v.at(COTANGENT, this->in())[row] : T(0);
        for (int64_t l = 0; l < layers; ++l) {
            const T* s = v.has(SUM, this->out(l)) ? v.at(SUM, this->out(l)) + row * functions : nullptr;
            const T* g = v.has(GRADIENT, this->out(l)) ? v.at(GRADIENT, this->out(l)) + row * functions : nullptr;
            for (int64_t k = 0; k < functions; ++k) {
                const T value = s ? s[k] : T(0), slope = g ? u * g[k] : T(0);
                of[l * functions + k] = value * e + slope * de;
                of_slope[l * functions + k] = slope * e;
            }
        }
        for (int64_t k = layers * functions; k < network.width(network.depth()); ++k) of[k] = of_slope[k] = 0;
    }

    // In double precision: the recurrence of sines and cosines then adds nothing to the error of the result.
    void bessel(double d, T* values, T* slopes) const {
        const double fall = warp > 0 ? std::expm1(-d / warp) : 0;
        const double x = warp > 0 ? -fall / reach : d / cutoff;
        const double steepness = warp > 0 ? (1 + fall) / (warp * reach) : 1 / cutoff;
        const double scale = 0.3 * std::sqrt(2.0) / x, pi = 3.14159265358979323846;
        const double c1 = std::cos(pi * x);
        double sine = std::sin(pi * x), cosine = c1, last_sine = 0, last_cosine = 1;
        for (int64_t n = 1; n <= basis; ++n) {
            const double value = sine * scale;
            values[n - 1] = static_cast<T>(value);
            slopes[n - 1] = static_cast<T>((cosine * scale * (static_cast<double>(n) * pi) - value / x) * steepness);
            const double sine_after = 2 * c1 * sine - last_sine, cosine_after = 2 * c1 * cosine - last_cosine;
            last_sine = sine, last_cosine = cosine;
            sine = sine_after, cosine = cosine_after;
        }
    }

    // 1 - (p+1)(p+2)/2 x^p + p(p+2) x^(p+1) - p(p+1)/2 x^(p+2) and its slope
    void envelope(double d, T& value, T& slope) const {
        const double x = d / cutoff, p = power;
        value = slope = 0;
        if (!(x < 1)) return;
        const double raised = std::pow(x, p - 1);
        value = static_cast<T>(1 + raised * x * (-(p + 1) * (p + 2) / 2 + x * (p * (p + 2) - x * (p * (p + 1) / 2))));
        slope = static_cast<T>(-p * (p + 1) * (p + 2) / (2 * cutoff) * raised * (1 - x) * (1 - x));
    }
};

}  // namespace cstf
