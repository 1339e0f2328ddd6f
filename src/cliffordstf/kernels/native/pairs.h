// Lengths and directions of vectors, and the way back from gradients to the vectors.
#pragma once

#include <cmath>

#include "simd.h"

namespace cstf {

struct PairArgs {
    int64_t pairs, functions, layers;
    const void* vectors;                                // (pairs, 3)
    void *distances, *directions;                       // (pairs), (pairs, 3)
    const void* slopes;                                 // of the radial functions, (layers, pairs, functions)
    const void *const *radial_gradients, *const *turns;  // of each layer, (pairs, functions) and (pairs, 3)
    void* gradients;                                    // (pairs, 3)
    int64_t threads;
};

template <class T>
class PairGeometry {
  public:
    explicit PairGeometry(const PairArgs& args) : s(args) {}

    void forward() const {
        each_pair([this](int64_t p) {
            T unit[3];
            out(s.distances)[p] = length(p, unit);
            for (int axis = 0; axis < 3; ++axis) out(s.directions)[3 * p + axis] = unit[axis];
        });
    }

    void backward() const {
        each_pair([this](int64_t p) {
            T unit[3], turn[3] = {}, steepness = 0, along = 0;
            const T distance = length(p, unit);
            for (int64_t layer = 0; layer < s.layers; ++layer) {
                steepness += dot(in(s.radial_gradients[layer]) + p * s.functions,
                                 in(s.slopes) + (layer * s.pairs + p) * s.functions);
                for (int axis = 0; axis < 3; ++axis) turn[axis] += in(s.turns[layer])[3 * p + axis];
            }
            // Only the part of a turn that is not along the vector changes its direction.
            for (int axis = 0; axis < 3; ++axis) along += turn[axis] * unit[axis];
            for (int axis = 0; axis < 3; ++axis)
                out(s.gradients)[3 * p + axis] = steepness * unit[axis] + (turn[axis] - along * unit[axis]) / distance;
        });
    }

  private:
    const PairArgs& s;

    static const T* in(const void* p) { return static_cast<const T*>(p); }
    static T* out(void* p) { return static_cast<T*>(p); }

    T length(int64_t p, T* unit) const {
        const T* v = in(s.vectors) + 3 * p;
        const T distance = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        for (int axis = 0; axis < 3; ++axis) unit[axis] = v[axis] / distance;
        return distance;
    }

    T dot(const T* a, const T* b) const {
        T sum = 0;
        int64_t k = 0;
        Vec<T> sums = {};
        for (; k + Simd<T>::lanes <= s.functions; k += Simd<T>::lanes) sums += load(a + k) * load(b + k);
        for (; k < s.functions; ++k) sum += a[k] * b[k];
        return sum + total<T>(sums);
    }

    template <class F>
    void each_pair(F action) const {
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t p = 0; p < s.pairs; ++p) action(p);
    }
};

}  // namespace cstf
