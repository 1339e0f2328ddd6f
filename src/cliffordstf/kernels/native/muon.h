// The update of the Muon optimiser for many small matrices: momentum, its approximate orthogonal factor, weights.
#pragma once

#include <algorithm>
#include <cmath>

#include "gemm.h"

namespace cstf {

struct MuonMatrices {
    void* weights;         // (count, rows, columns)
    const void* gradient;  // the same
    void* momentum;        // the same
    int64_t count, rows, columns;
};

struct MuonArgs {
    int64_t stacks;
    const MuonMatrices* stack;
    double rate, momentum, decay;  // learning rate, of the average, by which weights shrink
    int64_t threads;
};

template <class T>
class MuonUpdate {
  public:
    explicit MuonUpdate(const MuonArgs& args) : s(args) {
        for (int64_t i = 0; i < s.stacks; ++i)
            for (int64_t j = 0; j < s.stack[i].count; ++j) jobs.push_back({i, j});
    }

    void run() const {
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (size_t q = 0; q < jobs.size(); ++q) update(s.stack[jobs[q].stack], jobs[q].index);
    }

  private:
    struct Job {
        int64_t stack, index;
    };

    static constexpr int ITERATIONS = 5;
    const MuonArgs& s;
    std::vector<Job> jobs;

    void update(const MuonMatrices& stack, int64_t index) const {
        const int64_t rows = stack.rows, columns = stack.columns, size = rows * columns;
        T* weights = static_cast<T*>(stack.weights) + index * size;
        const T* gradient = static_cast<const T*>(stack.gradient) + index * size;
        T* average = static_cast<T*>(stack.momentum) + index * size;
        const bool tall = rows > columns;
        const Shape shape(tall ? columns : rows, tall ? rows : columns);
        T* x = scratch<T, 80>(shape.depth * shape.width);
        std::fill(x, x + shape.depth * shape.width, T(0));
        const T share = static_cast<T>(1 - s.momentum);
        double squares = 0;
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) {
                const int64_t i = r * columns + c;
                average[i] += share * (gradient[i] - average[i]);
                // Nesterov: a look ahead along the average.
                const T value = gradient[i] + static_cast<T>(s.momentum) * (average[i] - gradient[i]);
                x[tall ? c * shape.width + r : r * shape.width + c] = value;
                squares += static_cast<double>(value) * value;
            }
        const T scale = static_cast<T>(1 / (std::sqrt(squares) + 1e-12));
        for (int64_t i = 0; i < shape.depth * shape.width; ++i) x[i] *= scale;
        for (int i = 0; i < ITERATIONS; ++i) iterate(x, shape);
        // 0.2 sqrt(larger side): the root mean square of an Adam update.
        const T step = static_cast<T>(s.rate * 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns))));
        const T kept = static_cast<T>(1 - s.rate * s.decay);
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) {
                T& weight = weights[r * columns + c];
                weight = weight * kept - step * x[tall ? c * shape.width + r : r * shape.width + c];
            }
    }

    // A wide matrix whose sides are filled up with zeros to whole vectors.
    struct Shape {
        int64_t depth, width;
        Shape(int64_t rows, int64_t columns) : depth(whole(rows)), width(whole(columns)) {}
        static int64_t whole(int64_t n) { return (n + Simd<T>::lanes - 1) / Simd<T>::lanes * Simd<T>::lanes; }
    };

    // x <- a x + (b G + c G G) x with G = x x^T: singular values move towards one (a quintic Newton-Schulz iteration).
    static void iterate(T* x, const Shape& shape) {
        constexpr T a = T(3.4445), b = T(-4.7750), c = T(2.0315);
        const int depth = static_cast<int>(shape.depth), width = static_cast<int>(shape.width);
        T* transposed = scratch<T, 81>(static_cast<size_t>(depth) * width);
        for (int r = 0; r < depth; ++r)
            for (int n = 0; n < width; ++n) transposed[n * depth + r] = x[r * width + n];
        T* gram = scratch<T, 82>(static_cast<size_t>(depth) * depth);
        T* polynomial = scratch<T, 83>(static_cast<size_t>(depth) * depth);
        T* moved = scratch<T, 84>(static_cast<size_t>(depth) * width);
        multiply(x, width, transposed, depth, gram, depth);
        multiply(gram, depth, gram, depth, polynomial, depth);
        for (int i = 0; i < depth * depth; ++i) polynomial[i] = b * gram[i] + c * polynomial[i];
        multiply(polynomial, depth, x, width, moved, depth);
        for (int i = 0; i < depth * width; ++i) x[i] = a * x[i] + moved[i];
    }

    // result (rows, width) = left (rows, depth) right (depth, width)
    static void multiply(const T* left, int depth, const T* right, int width, T* result, int rows) {
        const T** from = scratch<const T*, 85>(rows);
        T** to = scratch<T*, 86>(rows);
        for (int r = 0; r < rows; ++r) {
            from[r] = left + static_cast<ptrdiff_t>(r) * depth;
            to[r] = result + static_cast<ptrdiff_t>(r) * width;
        }
        gemm_nn<T, false>(rows, from, depth, right, width, to, width);
    }
};

}  // namespace cstf
