// Linear maps over channels as an operator of a schedule.
#pragma once

#include "linear.h"
#include "operators.h"

namespace cstf {

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
        Aligned<T> ready, transposed;
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
        Aligned<T> found(whole ? 0 : t.matrices * a.inputs * a.outputs, T(0));
        a.x = v.at(x, this->inputs[i]), a.g = v.at(g, this->out()), a.dw = whole ? d : found.data(), a.add_w = 1;
        TrackLinear<T>(a).backward();
        for (int64_t m = 0; m < t.matrices && !whole; ++m)
            for (int64_t k = 0; k < t.source.channels; ++k)
                for (int64_t n = 0; n < target.channels; ++n)
                    d[(m * t.source.channels + k) * target.channels + n] += found[(m * a.inputs + k) * a.outputs + n];
    }
};

}  // namespace cstf
