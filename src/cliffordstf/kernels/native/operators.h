// Operators as steps of a schedule: which values each reads and writes, and its four passes.
//
//   forward    values of the outputs from those of the inputs
//   backward   gradients of the energy with respect to the inputs, from those of the outputs
//   second     for a loss on these gradients: from the cotangents of the inputs' gradients those of the outputs' ones, and
//              what the way through `backward` adds to the loss's gradients of the inputs
//   last       the loss's gradients of inputs and weights, from those of the outputs
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "archive.h"
#include "chunks.h"
#include "pool.h"
#include "simd.h"

namespace cstf {

enum Kind { VALUE, GRADIENT, COTANGENT, SUM, KINDS };

// What a number of a schedule's values is there for: one row for each atom or each pair.
struct Value {
    bool of_pairs;
    int64_t dims, channels, width;  // components, channels of each (0: the components are plain numbers), numbers in a row
};

// A weight as it lies in the file, and whether a training step fills in its gradient.
template <class T>
struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<T> numbers;

    int64_t dim(size_t axis) const { return axis < shape.size() ? shape[axis] : 0; }
};

// What a pass of an operator works on: rows from `begin` to `end` of every value.
template <class T>
struct View {
    const Graph* graph;
    const int64_t* species;  // of all atoms
    int64_t begin, end;
    int64_t most_threads;
    T* const* rows[KINDS];       // address of the first row by place, null where there is none
    char* started[KINDS];        // by place: whether something is there to be added to
    T* const* weight_gradients;  // by parameter, null outside of training
    Pool<T>* pool;               // memory for what lasts as long as a pass

    int64_t count() const { return end - begin; }
    T* at(Kind kind, int place) const { return rows[kind][place]; }
    bool has(Kind kind, int place) const { return rows[kind][place] && started[kind][place]; }

    // Where to put something, and whether to add it to what is there.
    struct Place {
        T* at;
        bool adds;
        explicit operator bool() const { return at; }
    };
    Place put(Kind kind, int place) const {
        T* at = rows[kind][place];
        const bool adds = at && started[kind][place];
        if (at) started[kind][place] = 1;
        return {at, adds};
    }

    // Threads for so many multiply-adds: below half a million each, waking them costs more.
    int64_t threads(double work) const {
        return std::max<int64_t>(1, std::min<int64_t>(most_threads, static_cast<int64_t>(work / 5e5)));
    }
};

// What an operator of a file is made from; everything that it takes out of it is checked.
template <class T>
struct Source {
    const Archive& archive;
    const Json& entry;
    const std::string prefix;             // of its tables in the archive
    const std::vector<Value>& values;
    std::vector<Parameter<T>>& parameters;
    const std::vector<int> inputs, outputs, weights;
    int64_t elements;

    [[noreturn]] static void fail(const std::string& what) {
        throw std::runtime_error("it is damaged: an operator has " + what);
    }
    static void check(bool holds, const char* what) {
        if (!holds) fail(what);
    }
    void arity(size_t in, size_t out, size_t held) const {
        check(inputs.size() == in && outputs.size() == out && weights.size() == held, "another number of operands");
    }
    const Value& input(size_t i) const { return values[inputs.at(i)]; }
    const Value& output(size_t i) const { return values[outputs.at(i)]; }
    const Parameter<T>& weight(size_t i) const { return parameters[weights.at(i)]; }
    bool has(const std::string& name) const { return archive.has(prefix + name); }

    // A table with so many columns; every number of it from `least` to `most`.
    std::vector<int32_t> table(const std::string& name, int64_t columns, int64_t least, int64_t most) const {
        const Array& array = archive.array(prefix + name);
        check(array.type == "I32" && array.shape.size() == 2 && array.shape[1] == columns, "a table of another shape");
        std::vector<int32_t> result = array.template as<int32_t>();
        for (const int32_t value : result) check(value >= least && value <= most, "an index out of range");
        return result;
    }
    // Starts of rows in a list with so many entries.
    std::vector<int32_t> pointers(const std::string& name, int64_t rows, int64_t entries) const {
        std::vector<int32_t> result = table(name, 1, 0, entries);
        check(static_cast<int64_t>(result.size()) == rows + 1, "a table of another length");
        for (size_t i = 1; i < result.size(); ++i) check(result[i - 1] <= result[i], "pointers that fall");
        return result;
    }
    std::vector<T> reals(const std::string& name, int64_t count) const {
        const Array& array = archive.array(prefix + name);
        check(array.type == "F64" && array.size() == count, "coefficients of another number");
        return array.template as<T>();
    }
    double real(const char* name) const { return entry[name].number(); }
};

template <class T>
class Operator {
  public:
    const std::vector<int> inputs, outputs, weights;
    const std::string name;

    explicit Operator(const Source<T>& source)
        : inputs(source.inputs), outputs(source.outputs), weights(source.weights), name(source.entry["kind"].text()) {}
    virtual ~Operator() = default;
    Operator(const Operator&) = delete;
    Operator& operator=(const Operator&) = delete;

    // Makes what is kept of the weights in another form.
    virtual void prepare(const std::vector<Parameter<T>>&) {}
    virtual void forward(const View<T>& v) const = 0;
    virtual void backward(const View<T>& v) const = 0;
    virtual void second(const View<T>& v) const = 0;
    virtual void last(const View<T>& v) const = 0;

    // Whether it reads features of other atoms than the one that it writes.
    virtual bool is_on_edges() const { return false; }
    // An output that may be left out, or -1.
    virtual int optional() const { return -1; }
    // Whether `backward` reads the values of its inputs.
    virtual bool reads_again() const { return true; }

  protected:
    int in(size_t i = 0) const { return inputs[i]; }
    int out(size_t i = 0) const { return outputs[i]; }
    T* gradient(const View<T>& v, size_t weight) const {
        return v.weight_gradients ? v.weight_gradients[weights[weight]] : nullptr;
    }
};

inline int64_t chunks_of(int64_t rows, int64_t fewest, int64_t most) {
    return std::max<int64_t>(1, std::min<int64_t>(most, rows / fewest));
}

// A matrix (…, columns) with zeros behind its columns.
template <class T>
Aligned<T> widened(const T* numbers, int64_t rows, int64_t columns, int64_t width) {
    Aligned<T> result(static_cast<size_t>(rows) * width, T(0));
    for (int64_t r = 0; r < rows; ++r) std::copy(numbers + r * columns, numbers + (r + 1) * columns, result.data() + r * width);
    return result;
}

template <class T>
void add_narrowed(const Aligned<T>& from, int64_t rows, int64_t columns, int64_t width, T* to) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) to[r * columns + c] += from[r * width + c];
}

}  // namespace cstf
