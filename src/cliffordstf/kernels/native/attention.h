// Attention weights of edges: softmax over the neighbours of each atom, for every head, then the mean over the heads.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "simd.h"

namespace cstf {

struct AttentionArgs {
    int64_t atoms, channels, heads;
    const int64_t* row_pointers;  // (atoms + 1)
    const int64_t* neighbours;    // (edges)
    const int64_t* pair;          // (edges)
    const void *queries, *keys;   // (atoms, channels), heads side by side
    const void* bias;             // (pairs, heads), added to the logits
    void* out;                    // (edges)
    int64_t threads;
};

template <class T>
class Attention {
  public:
    explicit Attention(const AttentionArgs& args) : s(args) {}

    void forward() const {
#pragma omp parallel for schedule(dynamic, 16) num_threads(static_cast<int>(s.threads)) if (s.threads > 1)
        for (int64_t i = 0; i < s.atoms; ++i) weigh(i);
    }

  private:
    const AttentionArgs& s;

    void weigh(int64_t i) const {
        const int64_t first = s.row_pointers[i], count = s.row_pointers[i + 1] - first, width = s.channels / s.heads;
        const T scale = T(1) / std::sqrt(static_cast<T>(width));
        const T* query = static_cast<const T*>(s.queries) + i * s.channels;
        T* out = static_cast<T*>(s.out) + first;
        T* logits = scratch<T, 90>(count);
        std::fill(out, out + count, T(0));
        for (int64_t head = 0; head < s.heads; ++head) {
            T largest = 0;
            for (int64_t e = 0; e < count; ++e) {
                const T* key = static_cast<const T*>(s.keys) + s.neighbours[first + e] * s.channels;
                T product = 0;
                for (int64_t c = head * width; c < (head + 1) * width; ++c) product += query[c] * key[c];
                logits[e] = product * scale + static_cast<const T*>(s.bias)[s.pair[first + e] * s.heads + head];
                largest = e == 0 ? logits[e] : std::max(largest, logits[e]);
            }
            T sum = 0;
            for (int64_t e = 0; e < count; ++e) sum += logits[e] = std::exp(logits[e] - largest);
            for (int64_t e = 0; e < count; ++e) out[e] += logits[e] / (sum * static_cast<T>(s.heads));
        }
    }
};

}  // namespace cstf
