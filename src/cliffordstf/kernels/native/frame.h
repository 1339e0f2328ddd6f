// Features of an edge in a frame whose z axis lies along it; see algebra/frames.py.
//
// A mirror takes the edge to the z axis, or to -z; an inversion after it, if need be, makes that +z. Tracks are turned by
// orthogonal matrices, since features come in frame components of the z axis already. In the frame all paths between two
// tracks are one number for every order and channel.
#pragma once

#include <algorithm>
#include <type_traits>

#include "chunks.h"
#include "simd.h"

namespace cstf {

// Orders that no path reaches are left out. A turn mixes orders that follow each other, so a pass that turns directions
// needs one order more, one that turns them twice two: these are the levels 0, 1 and 2.
struct FrameTrack {
    int32_t start, degree;      // first component
    int32_t matrix;             // where its matrix begins in a frame
    int32_t rows[3];            // components in the frame at each level
};

// A component of order 0, or the two of another order, with the range of what they are made of.
struct FrameOrder {
    int32_t component, both;
    int32_t first, last;
};

struct FrameLink {
    int32_t component, number;
};

// An element of the generator of turns about x (axis 0) or y (axis 1).
struct FrameTurn {
    int32_t column, axis;
};

struct SparseMatrix {
    const int32_t* pointers;       // (rows + 1)
    const int32_t* column;
    const void* value;
};

// Generators of turns at a level.
struct FrameTurns {
    int64_t count;
    const int32_t* pointers;       // (2 components + 1): elements of each row and axis
    const FrameTurn* element;
    const void* value;
};

// Tracks on one side of the operator: what atoms send, or what they receive.
struct FrameSide {
    int64_t components, tracks, orders;
    const FrameTrack* track;
    const FrameOrder* order;
    const FrameLink* link;         // to components of the other side
    FrameTurns turns[2];           // of levels 1 and 2
    SparseMatrix given, taken;     // from stored components to those of the frame of z, and back
};

struct FrameArgs {
    int64_t lmax, size;              // highest degree; numbers in a frame
    const int32_t* raise_pointers;   // (lmax + 2): entries that make each degree from the one below
    const int32_t* raise_entry;      // (entries, 3): component, component of degree 1, component of the degree below
    const void* raise_value;
};

// Where matrices begin in a frame: scalar, pseudoscalar, vector, bivector, then degree 2 and so on.
constexpr int FRAME_VECTOR = 2, FRAME_BIVECTOR = 11, FRAME_STF2 = 20;

template <class T>
class Frames {
  public:
    explicit Frames(const FrameArgs& args) : s(args) {}

    // Frames of EDGES unit vectors, one after the other.
    void make(const T (*n)[3], T* result) const {
        T H[9][EDGES], one[9][EDGES], lower[49][EDGES], current[81][EDGES], sign[EDGES];
        T* f = scratch<T, 70>(s.size * EDGES);
        for (int e = 0; e < EDGES; ++e) {
            const T way = n[e][2] > 0 ? T(-1) : T(1);  // so that nothing cancels
            const T u[3] = {n[e][0], n[e][1], n[e][2] - way};
            const T two = 2 / (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]);
            sign[e] = way;
            f[e] = 1;
            f[EDGES + e] = -way;
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 3; ++j) H[3 * i + j][e] = (i == j) - two * u[i] * u[j];
        }
        // Vectors have z, x, y; bivectors, by their Hodge dual, z, -y, x.
        static constexpr int axis[3] = {2, 0, 1}, dual_axis[3] = {2, 1, 0}, dual_sign[3] = {1, -1, 1};
        for (int k = 0; k < 3; ++k)
            for (int j = 0; j < 3; ++j)
                for (int e = 0; e < EDGES; ++e) {
                    one[3 * k + j][e] = H[3 * axis[k] + axis[j]][e];
                    f[(FRAME_VECTOR + 3 * k + j) * EDGES + e] = sign[e] * one[3 * k + j][e];
                    f[(FRAME_BIVECTOR + 3 * k + j) * EDGES + e] =
                        -dual_sign[k] * dual_sign[j] * H[3 * dual_axis[k] + dual_axis[j]][e];
                }
        std::copy(&one[0][0], &one[0][0] + 9 * EDGES, &lower[0][0]);
        T* at = f + FRAME_STF2 * EDGES;
        for (int l = 2; l <= s.lmax; ++l) {
            const int count = (2 * l + 1) * (2 * l + 1);
            raise(l, one, lower, current);
            for (int i = 0; i < count; ++i)
                for (int e = 0; e < EDGES; ++e) at[i * EDGES + e] = l % 2 ? sign[e] * current[i][e] : current[i][e];
            at += count * EDGES;
            if (l < s.lmax) std::copy(&current[0][0], &current[0][0] + count * EDGES, &lower[0][0]);
        }
        for (int e = 0; e < EDGES; ++e)
            for (int64_t i = 0; i < s.size; ++i) result[e * s.size + i] = f[i * EDGES + e];
    }

    // The frame of the edge the other way round: tracks that change sign with an inversion do so.
    void turn_round(const T* frame, T* result) const {
        std::copy(frame, frame + s.size, result);
        result[1] = -result[1];
        negate(result + FRAME_VECTOR, 9);
        int start = FRAME_STF2;
        for (int l = 2; l <= s.lmax; ++l) {
            const int count = (2 * l + 1) * (2 * l + 1);
            if (l % 2) negate(result + start, count);
            start += count;
        }
    }

    // A gradient with respect to the direction from those with respect to turns about x and y, and their sign changed.
    static void direction_gradient(const T* frame, const T* torque, bool add, T* gradient) {
        const T* A = frame + FRAME_VECTOR;
        for (int j = 0; j < 3; ++j) {
            T& place = gradient[axis_of(j)];
            place = (add ? place : T(0)) + (A[6 + j] * torque[0] - A[3 + j] * torque[1]);
        }
    }

    // A vector in the frame: z, x, y.
    static void into(const T* frame, const T* vector, T* result) {
        const T* A = frame + FRAME_VECTOR;
        for (int k = 0; k < 3; ++k)
            result[k] = A[3 * k] * vector[2] + A[3 * k + 1] * vector[0] + A[3 * k + 2] * vector[1];
    }

  private:
    const FrameArgs& s;

    static constexpr int axis_of(int j) { return j == 0 ? 2 : j - 1; }
    static void negate(T* values, int count) {
        for (int i = 0; i < count; ++i) values[i] = -values[i];
    }

    // result = B (one x lower) B^T
    void raise(int l, const T (*one)[EDGES], const T (*lower)[EDGES], T (*result)[EDGES]) const {
        const int D = 2 * l + 1, E = 2 * l - 1;
        const int32_t first = s.raise_pointers[l], last = s.raise_pointers[l + 1], *entry = s.raise_entry;
        const T* value = static_cast<const T*>(s.raise_value);
        T t[9 * 3 * 7][EDGES];
        std::fill(&t[0][0], &t[0][0] + D * 3 * E * EDGES, T(0));
        for (int32_t p = first; p < last; ++p)
            for (int i = 0; i < 3; ++i) {
                T scaled[EDGES];
                for (int e = 0; e < EDGES; ++e) scaled[e] = value[p] * one[3 * entry[3 * p + 1] + i][e];
                for (int q = 0; q < E; ++q) {
                    T* to = t[(entry[3 * p] * 3 + i) * E + q];
                    const T* from = lower[E * entry[3 * p + 2] + q];
                    for (int e = 0; e < EDGES; ++e) to[e] += scaled[e] * from[e];
                }
            }
        std::fill(&result[0][0], &result[0][0] + D * D * EDGES, T(0));
        for (int k = 0; k < D; ++k)
            for (int32_t p = first; p < last; ++p) {
                const T* from = t[(k * 3 + entry[3 * p + 1]) * E + entry[3 * p + 2]];
                T* to = result[k * D + entry[3 * p]];
                for (int e = 0; e < EDGES; ++e) to[e] += value[p] * from[e];
            }
    }
};

}  // namespace cstf
