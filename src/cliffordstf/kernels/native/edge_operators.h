// The convolution as an operator of a schedule.
#pragma once

#include "convolution.h"
#include "operators.h"

namespace cstf {

// One side of a convolution's plan, with what `FrameSide` points to.
template <class T>
struct SideTables {
    std::vector<int32_t> track, order, link, turn_pointers[2], turn_element[2], pointers[2], column[2];
    std::vector<T> turn_value[2], value[2];

    void read(const Source<T>& s, const std::string& name, int64_t components, int64_t others, int64_t numbers, int64_t lmax,
              int64_t size) {
        track = s.table(name + ".track", 6, 0, std::max(size, components));
        for (size_t r = 0; r < track.size(); r += 6) {
            const int64_t degree = track[r + 1], dims = 2 * degree + 1;
            s.check(degree <= lmax && track[r] + dims <= components && track[r + 2] + dims * dims <= size, "a track out of range");
            for (size_t level = 3; level < 6; ++level) s.check(track[r + level] <= dims, "a track out of range");
        }
        link = s.table(name + ".link", 2, 0, std::max(others, numbers));
        order = s.table(name + ".order", 4, 0, std::max<int64_t>(components, links()));
        for (size_t r = 0; r < order.size(); r += 4) {
            s.check(order[r + 1] <= 1 && order[r] + order[r + 1] < components, "an order out of range");
            s.check(order[r + 2] <= order[r + 3] && order[r + 3] <= links(), "an order out of range");
            for (int32_t i = order[r + 2]; i < order[r + 3]; ++i)
                s.check(link[2 * i] + order[r + 1] < others && link[2 * i + 1] < numbers, "a link out of range");
        }
        for (int level = 0; level < 2; ++level) {
            const std::string turns = name + (level ? ".second_turn" : ".turn");
            turn_element[level] = s.table(turns + ".element", 2, 0, std::max<int64_t>(1, components - 1));
            const int64_t count = static_cast<int64_t>(turn_element[level].size()) / 2;
            for (int64_t i = 0; i < count; ++i)
                s.check(turn_element[level][2 * i] < components && turn_element[level][2 * i + 1] <= 1, "a turn out of range");
            turn_pointers[level] = s.pointers(turns + ".pointers", 2 * components, count);
            turn_value[level] = s.reals(turns + ".value", count);
            const std::string basis = name + (level ? ".taken" : ".given");
            column[level] = s.table(basis + ".column", 1, 0, components - 1);
            const int64_t entries = static_cast<int64_t>(column[level].size());
            pointers[level] = s.pointers(basis + ".pointers", components, entries);
            value[level] = s.reals(basis + ".value", entries);
        }
    }
    int64_t links() const { return static_cast<int64_t>(link.size()) / 2; }

    FrameSide side(int64_t components) const {
        FrameSide result{};
        result.components = components;
        result.tracks = static_cast<int64_t>(track.size()) / 6, result.orders = static_cast<int64_t>(order.size()) / 4;
        result.track = reinterpret_cast<const FrameTrack*>(track.data());
        result.order = reinterpret_cast<const FrameOrder*>(order.data());
        result.link = reinterpret_cast<const FrameLink*>(link.data());
        for (int level = 0; level < 2; ++level)
            result.turns[level] = {static_cast<int64_t>(turn_element[level].size()) / 2, turn_pointers[level].data(),
                                   reinterpret_cast<const FrameTurn*>(turn_element[level].data()), turn_value[level].data()};
        result.given = {pointers[0].data(), column[0].data(), value[0].data()};
        result.taken = {pointers[1].data(), column[1].data(), value[1].data()};
        return result;
    }
};

template <class T>
class Convolution : public Operator<T> {
  public:
    explicit Convolution(const Source<T>& s) : Operator<T>(s), features(s.input(0)), target(s.output(0)) {
        s.arity(3, 2, 1);
        C = features.channels, K = s.input(1).width, rows = s.weight(0).dim(1);
        s.check(C > 0 && target.channels == C && s.input(1).of_pairs && s.input(1).channels == 0 && s.input(2).of_pairs &&
                    s.input(2).width == 3 && !features.of_pairs && !target.of_pairs,
                "operands of other shapes");
        s.check(s.weight(0).shape == std::vector<int64_t>{K, rows, C} && features.dims <= MOST_COMPONENTS &&
                    target.dims <= MOST_COMPONENTS,
                "weights of another shape");
        numbers = s.entry["numbers"].whole(0, 1 << 16);
        lmax = s.entry["lmax"].whole(2, HIGHEST_DEGREE);
        size = FRAME_STF2;
        for (int64_t l = 2; l <= lmax; ++l) size += (2 * l + 1) * (2 * l + 1);
        fold = s.table("fold", 2, 0, 1 << 16);
        for (size_t i = 0; i < fold.size(); i += 2) s.check(fold[i] < numbers && fold[i + 1] < rows, "a weight out of range");
        fold_value = s.reals("fold_value", static_cast<int64_t>(fold.size()) / 2);
        s.check(s.output(1).of_pairs && s.output(1).dims == numbers && s.output(1).channels == C, "numbers of another shape");
        sides[0].read(s, "source", features.dims, target.dims, numbers, lmax, size);
        sides[1].read(s, "target", target.dims, features.dims, numbers, lmax, size);
        read_raise(s);
        for (const SideTables<T>& side : sides)
            for (size_t r = 0; r < side.track.size(); r += 6) work += (2 * side.track[r + 1] + 1) * side.track[r + 3];
        for (size_t r = 0; r < sides[1].order.size(); r += 4)
            work += (1 + sides[1].order[r + 1]) * (sides[1].order[r + 3] - sides[1].order[r + 2]);
    }

    bool is_on_edges() const override { return true; }
    // The numbers of the pairs, kept where there is room in a cache.
    int optional() const override { return this->out(1); }

    void prepare(const std::vector<Parameter<T>>& p) override {
        U = widened(p[this->weights[0]].numbers.data(), K * rows, C, width());
        ConvolutionArgs a = plan();
        a.U = U.data();
        folded = PairNumbers<T>::fold(a);
    }

    void forward(const View<T>& v) const override {
        ConvolutionArgs a = arguments(v);
        a.out = v.put(VALUE, this->out()).at;
        a.is_kept = 0;
        v.put(VALUE, this->out(1));
        ConvolutionOperator<T>(a, *v.pool).forward();
    }
    void backward(const View<T>& v) const override {
        if (v.has(GRADIENT, this->out())) back(v, GRADIENT, false);
    }
    void last(const View<T>& v) const override {
        if (v.has(SUM, this->out())) back(v, SUM, true);
    }
    void second(const View<T>& v) const override {
        if (!v.has(GRADIENT, this->out())) return;
        ConvolutionArgs a = arguments(v);
        a.g = v.at(GRADIENT, this->out());
        const void** cotangents[3] = {&a.uh, &a.uphi, &a.un};
        for (size_t i = 0; i < 3; ++i) *cotangents[i] = v.has(COTANGENT, this->in(i)) ? v.at(COTANGENT, this->in(i)) : nullptr;
        a.out = v.put(COTANGENT, this->out()).at;
        run(v, a, SUM, true, [&] { ConvolutionOperator<T>(a, *v.pool).second(); });
    }

  private:
    static constexpr int64_t MOST_COMPONENTS = 256, HIGHEST_DEGREE = 4;
    const Value features, target;
    int64_t C, K, rows, numbers, lmax, size, work = 0;
    std::vector<int32_t> fold, raise_pointers, raise_entry;
    std::vector<T> fold_value, raise_value;
    Aligned<T> U, folded;
    SideTables<T> sides[2];

    int64_t width() const { return target.width / target.dims; }

    void read_raise(const Source<T>& s) {
        raise_entry = s.table("raise_entry", 3, 0, 2 * lmax);
        const int64_t entries = static_cast<int64_t>(raise_entry.size()) / 3;
        raise_pointers = s.pointers("raise_pointers", lmax + 1, entries);
        raise_value = s.reals("raise_value", entries);
        for (int64_t l = 0; l <= lmax; ++l)
            for (int32_t i = raise_pointers[l]; i < raise_pointers[l + 1]; ++i) {
                const int32_t* entry = raise_entry.data() + 3 * i;
                s.check(entry[0] < 2 * l + 1 && entry[1] < 3 && (l == 0 || entry[2] < 2 * l - 1), "an index out of range");
            }
    }

    ConvolutionArgs plan() const {
        ConvolutionArgs a{};
        a.rows = rows, a.numbers = numbers, a.folds = static_cast<int64_t>(fold.size()) / 2;
        a.fold = fold.data(), a.fold_value = fold_value.data();
        a.source = sides[0].side(features.dims), a.target = sides[1].side(target.dims);
        a.frames = {lmax, size, raise_pointers.data(), raise_entry.data(), raise_value.data()};
        a.channels = width(), a.radial = K;
        return a;
    }
    ConvolutionArgs arguments(const View<T>& v) const {
        ConvolutionArgs a = plan();
        a.graph = *v.graph;
        a.h = v.at(VALUE, this->in(0)), a.phi = v.at(VALUE, this->in(1)), a.n = v.at(VALUE, this->in(2));
        a.U = U.data(), a.folded_U = folded.data();
        a.kept = v.at(VALUE, this->out(1)), a.is_kept = v.has(VALUE, this->out(1));
        const int64_t edges = v.graph->edges(0, v.graph->atoms);
        a.chunks = chunks_of(edges, 128, 64);
        a.threads = v.threads(static_cast<double>(edges * width()) * static_cast<double>(work + K * numbers / 2));
        return a;
    }
    void back(const View<T>& v, Kind kind, bool weighs) const {
        ConvolutionArgs a = arguments(v);
        a.g = v.at(kind, this->out());
        run(v, a, kind, weighs, [&] { ConvolutionOperator<T>(a, *v.pool).backward(); });
    }
    template <class F>
    void run(const View<T>& v, ConvolutionArgs& a, Kind kind, bool weighs, F&& action) const {
        const auto dh = v.put(kind, this->in(0)), dphi = v.put(kind, this->in(1)), dn = v.put(kind, this->in(2));
        a.dh = dh.at, a.add_h = dh.adds, a.dphi = dphi.at, a.add_phi = dphi.adds, a.dn = dn.at, a.add_n = dn.adds;
        T* d = weighs ? this->gradient(v, 0) : nullptr;
        Aligned<T> found(d && width() != C ? K * rows * width() : 0, T(0));
        a.dU = found.empty() ? d : found.data(), a.add_U = 1;
        action();
        if (!found.empty()) add_narrowed(found, K * rows, C, width(), d);
    }
};

}  // namespace cstf
