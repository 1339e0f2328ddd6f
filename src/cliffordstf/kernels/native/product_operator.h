// The node product as an operator of a schedule.
#pragma once

#include "node.h"
#include "operators.h"

namespace cstf {

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
        if (v.count()) NodeOperator<T>(a, *v.pool).forward();
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
        gathering(v, a, true, [&] { NodeOperator<T>(a, *v.pool).second(); });
    }

  private:
    const Value left, right, target;
    const int64_t C;
    int64_t groups = 0, rows = 0, entries = 0;
    std::vector<NodePath> paths;
    std::vector<NodeEntry<T>> table;
    Aligned<T> weights;

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
        gathering(v, a, weighs, [&] { NodeOperator<T>(a, *v.pool).backward(); });
    }

    template <class F>
    void gathering(const View<T>& v, NodeArgs& a, bool weighs, F&& run) const {
        T* d = weighs && groups ? this->gradient(v, 0) : nullptr;
        Aligned<T> found(d && width() != C ? groups * rows * width() : 0, T(0));
        a.dw = found.empty() ? d : found.data(), a.add_w = 1;
        run();
        if (!found.empty()) add_narrowed(found, groups * rows, C, width(), d);
    }
};

}  // namespace cstf
