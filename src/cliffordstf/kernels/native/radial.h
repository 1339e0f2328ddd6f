// The radial functions of all layers and their slopes: a Bessel basis, a small network, a polynomial envelope.
//
//   f(d) = envelope(d) . network(sqrt(2) 0.3 sin(n pi x) / x),  x = d / cutoff, or a warped length over the cutoff:
//   x = (1 - exp(-d / warp)) / (1 - exp(-cutoff / warp))
//
// The elements of a pair may each add a row of a table to the first hidden layer.
//
// A slope goes through the network beside its value. A few pairs at a time, so that nothing between the distance and the
// functions leaves the first-level cache.
#pragma once

#include <algorithm>
#include <cmath>

#include "gemm.h"

namespace cstf {

struct RadialArgs {
    int64_t pairs, basis, depth, functions, layers, power;
    const int64_t* widths;  // (depth + 1): the basis, then the width of every layer of the network in whole vectors
    const void* weights;    // for every layer its matrix (in, out) and its bias (out)
    const void* shifts;     // (elements, widths[1]), or null
    const int64_t* ends;    // (pairs, 2): elements, read if there are shifts
    const void* distances;  // (pairs)
    void *values, *slopes;  // (layers, pairs, functions)
    double cutoff, warp;    // warp 0 for none
    int64_t threads;
};

template <class T>
class RadialFunctions {
  public:
    explicit RadialFunctions(const RadialArgs& args) : s(args) {
        widest = *std::max_element(s.widths, s.widths + s.depth + 1);
        reach = s.warp > 0 ? -std::expm1(-s.cutoff / s.warp) : 1;
    }

    void forward() const {
        const int64_t blocks = (s.pairs + ROWS - 1) / ROWS;
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t block = 0; block < blocks; ++block) {
            const int64_t first = block * ROWS;
            evaluate(first, static_cast<int>(std::min<int64_t>(ROWS, s.pairs - first)));
        }
    }

  private:
    static constexpr int ROWS = 8;
    const RadialArgs& s;
    int64_t widest;
    double reach;  // 1 - exp(-cutoff / warp)

    void evaluate(int64_t first, int rows) const {
        T* memory = scratch<T, 70>(static_cast<size_t>(4) * ROWS * widest);
        T *values[ROWS], *slopes[ROWS], *next_values[ROWS], *next_slopes[ROWS];
        for (int r = 0; r < rows; ++r) {
            values[r] = memory + (4 * r) * widest;
            slopes[r] = memory + (4 * r + 1) * widest;
            next_values[r] = memory + (4 * r + 2) * widest;
            next_slopes[r] = memory + (4 * r + 3) * widest;
            bessel(distance(first + r), values[r], slopes[r]);
        }
        const T* weights = static_cast<const T*>(s.weights);
        for (int64_t layer = 0; layer < s.depth; ++layer) {
            const int in = static_cast<int>(s.widths[layer]), out = static_cast<int>(s.widths[layer + 1]);
            const T* bias = weights + static_cast<int64_t>(in) * out;
            for (int r = 0; r < rows; ++r) {
                std::copy(bias, bias + out, next_values[r]);
                if (layer == 0 && s.shifts) shift(first + r, next_values[r], out);
            }
            gemm_nn<T, true>(rows, values, in, weights, out, next_values, out);
            gemm_nn<T, false>(rows, slopes, in, weights, out, next_slopes, out);
            if (layer + 1 < s.depth)
                for (int r = 0; r < rows; ++r) silu(next_values[r], next_slopes[r], out);
            weights = bias + out;
            for (int r = 0; r < rows; ++r) {
                std::swap(values[r], next_values[r]);
                std::swap(slopes[r], next_slopes[r]);
            }
        }
        for (int r = 0; r < rows; ++r) finish(first + r, values[r], slopes[r]);
    }

    void shift(int64_t pair, T* values, int width) const {
        const T* table = static_cast<const T*>(s.shifts);
        const T *one = table + s.ends[2 * pair] * width, *other = table + s.ends[2 * pair + 1] * width;
        for (int i = 0; i < width; ++i) values[i] += one[i] + other[i];
    }

    double distance(int64_t pair) const { return static_cast<double>(static_cast<const T*>(s.distances)[pair]); }

    // In double precision: the recurrence of sines and cosines then adds nothing to the error of the result.
    void bessel(double d, T* values, T* slopes) const {
        const double fall = s.warp > 0 ? std::expm1(-d / s.warp) : 0;
        const double x = s.warp > 0 ? -fall / reach : d / s.cutoff;
        const double steepness = s.warp > 0 ? (1 + fall) / (s.warp * reach) : 1 / s.cutoff;
        const double scale = 0.3 * std::sqrt(2.0) / x, pi = 3.14159265358979323846;
        const double c1 = std::cos(pi * x);
        double sine = std::sin(pi * x), cosine = c1, last_sine = 0, last_cosine = 1;
        for (int64_t n = 1; n <= s.basis; ++n) {
            const double value = sine * scale;
            values[n - 1] = static_cast<T>(value);
            slopes[n - 1] = static_cast<T>((cosine * scale * (n * pi) - value / x) * steepness);
            const double sine_after = 2 * c1 * sine - last_sine, cosine_after = 2 * c1 * cosine - last_cosine;
            last_sine = sine, last_cosine = cosine;
            sine = sine_after, cosine = cosine_after;
        }
    }

    static void silu(T* values, T* slopes, int width) {
        const Vec<T> one = Vec<T>{} + T(1);
        for (int i = 0; i < width; i += Simd<T>::lanes) {
            const Vec<T> value = load(values + i), gate = one / (one + exponential<T>(-value)), result = value * gate;
            store(values + i, result);
            store(slopes + i, load(slopes + i) * (gate + result * (one - gate)));
        }
    }

    // Times the envelope 1 - (p+1)(p+2)/2 x^p + p(p+2) x^(p+1) - p(p+1)/2 x^(p+2), to the place of each layer.
    void finish(int64_t pair, const T* values, const T* slopes) const {
        const double x = distance(pair) / s.cutoff, p = static_cast<double>(s.power);
        double envelope = 0, steepness = 0;
        if (x < 1) {
            const double power = std::pow(x, p - 1);
            envelope = 1 + power * x * (-(p + 1) * (p + 2) / 2 + x * (p * (p + 2) - x * (p * (p + 1) / 2)));
            steepness = -p * (p + 1) * (p + 2) / (2 * s.cutoff) * power * (1 - x) * (1 - x);
        }
        const T e = static_cast<T>(envelope), de = static_cast<T>(steepness);
        for (int64_t layer = 0; layer < s.layers; ++layer) {
            const int64_t place = (layer * s.pairs + pair) * s.functions, column = layer * s.functions;
            T* value = static_cast<T*>(s.values) + place;
            T* slope = static_cast<T*>(s.slopes) + place;
            for (int64_t k = 0; k < s.functions; ++k) {
                value[k] = values[column + k] * e;
                slope[k] = slopes[column + k] * e + values[column + k] * de;
            }
        }
    }
};

}  // namespace cstf
