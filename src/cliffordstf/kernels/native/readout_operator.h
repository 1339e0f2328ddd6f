// Networks on scalars as an operator of a schedule.
#pragma once

#include "network.h"
#include "operators.h"

namespace cstf {

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
        Aligned<T> gathered(v.weight_gradients ? parts * size : 0, T(0));
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
