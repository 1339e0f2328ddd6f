// Lengths and direction tensors of vectors, and the way back from gradients to the vectors.
//
// The tensors are polynomials of the unit vector, given by their coefficients. As many pairs at a time as a vector has
// lanes: what lies between vectors and tensors never leaves the registers and the first-level cache.
#pragma once

#include <algorithm>
#include <cmath>

#include "simd.h"

namespace cstf {

struct PairArgs {
    int64_t pairs, components, monomials, terms, slope_terms, functions, layers;
    const int32_t* parent;      // (monomials, 2): every monomial but the first is an earlier one times an axis
    const int32_t* term;        // (terms, 2): component, monomial
    const int32_t* slope_term;  // (slope terms, 3): component, monomial, axis of the derivative
    const void *value, *slope_value;
    const void* vectors;                                // (pairs, 3)
    void *distances, *directions;                       // (pairs), (pairs, components)
    const void* slopes;                                 // of the radial functions, (layers, pairs, functions)
    const void *const *radial_gradients, *const *turns;  // of each layer, (pairs, functions) and (pairs, components)
    void* gradients;                                    // (pairs, 3)
    int64_t threads;
};

template <class T>
class PairGeometry {
  public:
    explicit PairGeometry(const PairArgs& args) : s(args) {}

    void forward() const {
        each_block([this](int64_t first, int count) {
            const Block b = block(first, count);
            for (int i = 0; i < count; ++i) out(s.distances)[first + i] = b.length[i];
            Vec<T> tensors[MOST_COMPONENTS] = {};
            for (int64_t t = 0; t < s.terms; ++t)
                tensors[s.term[2 * t]] += b.monomials[s.term[2 * t + 1]] * in(s.value)[t];
            for (int i = 0; i < count; ++i)
                for (int64_t c = 0; c < s.components; ++c)
                    out(s.directions)[(first + i) * s.components + c] = tensors[c][i];
        });
    }

    void backward() const {
        each_block([this](int64_t first, int count) {
            const Block b = block(first, count);
            Vec<T> given[MOST_COMPONENTS] = {}, turn[3] = {}, steepness = {};
            for (int64_t layer = 0; layer < s.layers; ++layer)
                for (int i = 0; i < count; ++i) {
                    const T* turns = in(s.turns[layer]) + (first + i) * s.components;
                    for (int64_t c = 0; c < s.components; ++c) given[c][i] += turns[c];
                    steepness[i] += dot(in(s.radial_gradients[layer]) + (first + i) * s.functions,
                                        in(s.slopes) + (layer * s.pairs + first + i) * s.functions);
                }
            for (int64_t t = 0; t < s.slope_terms; ++t) {
                const int32_t* term = s.slope_term + 3 * t;
                turn[term[2]] += given[term[0]] * b.monomials[term[1]] * in(s.slope_value)[t];
            }
            // Only the part of a turn that is not along the vector changes its direction.
            const Vec<T> along = turn[0] * b.unit[0] + turn[1] * b.unit[1] + turn[2] * b.unit[2];
            for (int axis = 0; axis < 3; ++axis) {
                const Vec<T> result = steepness * b.unit[axis] + (turn[axis] - along * b.unit[axis]) / b.length;
                for (int i = 0; i < count; ++i) out(s.gradients)[3 * (first + i) + axis] = result[i];
            }
        });
    }

  private:
    static constexpr int LANES = Simd<T>::lanes, MOST_COMPONENTS = 25, MOST_MONOMIALS = 35;  // of degree 4
    const PairArgs& s;

    struct Block {
        Vec<T> unit[3], length, monomials[MOST_MONOMIALS];
    };

    static const T* in(const void* p) { return static_cast<const T*>(p); }
    static T* out(void* p) { return static_cast<T*>(p); }

    T dot(const T* a, const T* b) const {
        T sum = 0;
        int64_t k = 0;
        Vec<T> sums = {};
        for (; k + LANES <= s.functions; k += LANES) sums += load(a + k) * load(b + k);
        for (; k < s.functions; ++k) sum += a[k] * b[k];
        return sum + total<T>(sums);
    }

    template <class F>
    void each_block(F action) const {
        const int64_t blocks = (s.pairs + LANES - 1) / LANES;
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t number = 0; number < blocks; ++number)
            action(number * LANES, static_cast<int>(std::min<int64_t>(LANES, s.pairs - number * LANES)));
    }

    Block block(int64_t first, int count) const {
        Block b;
        for (int axis = 0; axis < 3; ++axis) {
            b.unit[axis] = Vec<T>{} + T(1);  // lanes without a pair
            for (int i = 0; i < count; ++i) b.unit[axis][i] = in(s.vectors)[3 * (first + i) + axis];
        }
        const Vec<T> squared = b.unit[0] * b.unit[0] + b.unit[1] * b.unit[1] + b.unit[2] * b.unit[2];
        for (int i = 0; i < LANES; ++i) b.length[i] = std::sqrt(squared[i]);
        for (int axis = 0; axis < 3; ++axis) b.unit[axis] /= b.length;
        b.monomials[0] = Vec<T>{} + T(1);
        for (int64_t m = 1; m < s.monomials; ++m)
            b.monomials[m] = b.monomials[s.parent[2 * m]] * b.unit[s.parent[2 * m + 1]];
        return b;
    }
};

}  // namespace cstf
