// Vectors of the widest kind that the compiler was told this machine has, and the loops that hand out work to threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#if defined(__AVX__)
#include <immintrin.h>
#endif

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

// Sum of the lanes, always in the same order: halves are added to each other.
template <class T>
inline T total(Vec<T> v) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) return _mm512_reduce_add_ps(v);
    else return _mm512_reduce_add_pd(v);
#else
    T part[Simd<T>::lanes];
    store(part, v);
    for (int n = Simd<T>::lanes / 2; n > 0; n /= 2)
        for (int i = 0; i < n; ++i) part[i] += part[i + n];
    return part[0];
#endif
}

// sums[i] = total of the vector at rows + i * stride, for eight of them.
template <class T>
inline void eight_totals(const T* rows, ptrdiff_t stride, T* sums) {
#if defined(__AVX__) && !defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) {
        __m256 r[8];
        CSTF_UNROLL for (int i = 0; i < 8; ++i) r[i] = load(rows + i * stride);
        const __m256 first = _mm256_hadd_ps(_mm256_hadd_ps(r[0], r[1]), _mm256_hadd_ps(r[2], r[3]));
        const __m256 last = _mm256_hadd_ps(_mm256_hadd_ps(r[4], r[5]), _mm256_hadd_ps(r[6], r[7]));
        store(sums, Vec<T>(_mm256_permute2f128_ps(first, last, 0x20) + _mm256_permute2f128_ps(first, last, 0x31)));
        return;
    }
#endif
    for (int i = 0; i < 8; ++i) sums[i] = total<T>(load(rows + i * stride));
}

// e^x to rounding: x = n ln 2 + r with |r| < 0.35, a polynomial in r, and n in the exponent's bits. Beyond what T can hold
// the result stops at the last x that it can; NaN stays NaN.
template <class T>
inline Vec<T> exponential(Vec<T> x) {
    constexpr bool SINGLE = sizeof(T) == 4;
    using Integer = std::conditional_t<SINGLE, int32_t, int64_t>;
    typedef Integer Bits __attribute__((vector_size(CSTF_VECTOR_BYTES)));
    constexpr T limit = SINGLE ? T(87) : T(708), round = SINGLE ? T(12582912.0) : T(6755399441055744.0);
    constexpr T high = SINGLE ? T(0.693359375) : T(6.93147180369123816490e-01);
    constexpr T low = SINGLE ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
    const Vec<T> most = Vec<T>{} + limit;
    x = x > most ? most : x;
    x = x < -most ? -most : x;
    const Vec<T> shifted = x * T(1.44269504088896340736) + round;  // adding `round` leaves no bits behind the point
    const Vec<T> n = shifted - round, r = (x - n * high) - n * low;
    Vec<T> sum = Vec<T>{} + T(1);
    CSTF_UNROLL for (int k = SINGLE ? 7 : 13; k >= 1; --k) sum = sum * r * (T(1) / T(k)) + T(1);
    Bits bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    constexpr Integer one = SINGLE ? Integer(0x3f800000) : static_cast<Integer>(0x3ff0000000000000LL);
    bits = (bits << (SINGLE ? 23 : 52)) + one;
    Vec<T> scale;
    std::memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
}

// Memory that begins where a cache line does: a vector that lies on two lines takes twice as long to load.
template <class T>
struct LineAllocator {
    using value_type = T;
    static constexpr size_t LINE = 64;

    LineAllocator() = default;
    template <class U>
    LineAllocator(const LineAllocator<U>&) {}
    T* allocate(size_t count) {
        void* memory = std::aligned_alloc(LINE, (count * sizeof(T) + LINE - 1) / LINE * LINE);
        if (!memory) throw std::bad_alloc();
        return static_cast<T*>(memory);
    }
    void deallocate(T* memory, size_t) { std::free(memory); }
    template <class U>
    bool operator==(const LineAllocator<U>&) const { return true; }
    template <class U>
    bool operator!=(const LineAllocator<U>&) const { return false; }
};

template <class T>
using Aligned = std::vector<T, LineAllocator<T>>;

// Scratch memory that a thread keeps between calls.
template <class T, int Slot>
inline T* scratch(size_t count) {
    static thread_local Aligned<T> buffer;
    if (buffer.size() < count) buffer.resize(count);
    return buffer.data();
}

}  // namespace cstf
