// Vectors of the widest kind that the compiler was told this machine has, and the loops that hand out work to threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__AVX512F__)
#define CSTF_VECTOR_BYTES 64
#elif defined(__AVX__)
#define CSTF_VECTOR_BYTES 32
#else
#define CSTF_VECTOR_BYTES 16
#endif

#define CSTF_UNROLL _Pragma("GCC unroll 16")

namespace cstf {

template <class T>
struct Simd {
    static constexpr int lanes = CSTF_VECTOR_BYTES / sizeof(T);
    typedef T V __attribute__((vector_size(CSTF_VECTOR_BYTES)));
    typedef T Loose __attribute__((vector_size(CSTF_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
};

template <class T>
using Vec = typename Simd<T>::V;

template <class T>
inline Vec<T> load(const T* p) {
    return *reinterpret_cast<const typename Simd<T>::Loose*>(p);
}

template <class T>
inline void store(T* p, Vec<T> v) {
    *reinterpret_cast<typename Simd<T>::Loose*>(p) = v;
}

// Sum of the lanes, always in the same order.
template <class T>
inline T total(Vec<T> v) {
    T sum = 0;
    for (int i = 0; i < Simd<T>::lanes; ++i) sum += v[i];
    return sum;
}

// Scratch memory that a thread keeps between calls.
template <class T, int Slot>
inline T* scratch(size_t count) {
    static thread_local std::vector<T> buffer;
    if (buffer.size() < count) buffer.resize(count);
    return buffer.data();
}

}  // namespace cstf
