// Fused multiply-adds in registers, as fast as this machine makes them: the bound of the kernels' own arithmetic.
#include <chrono>
#include <thread>
#include <vector>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

namespace {

typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));
constexpr int LANES = VECTOR_BYTES / sizeof(float);
// Enough independent sums to hide the latency of two units, few enough for sixteen registers.
constexpr int SUMS = 12;
constexpr long STEPS = 200000;

double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Blocks of multiply-adds until the time is over; the best rate of a block, operations a second.
void run(double limit, double* best, float* keep) {
    Vector sums[SUMS], factor = Vector{} + 0.999f, term = Vector{} + 1e-3f;
    for (int i = 0; i < SUMS; ++i) sums[i] = Vector{} + 0.1f * i;
    const double end = seconds() + limit;
    double start = seconds();
    while (start < end) {
        for (long step = 0; step < STEPS; ++step) {
#pragma GCC unroll 12
            for (int i = 0; i < SUMS; ++i) sums[i] = sums[i] * factor + term;
        }
        const double now = seconds(), rate = 2.0 * LANES * SUMS * STEPS / (now - start);
        if (rate > *best) *best = rate;
        start = now;
    }
    for (int i = 0; i < SUMS; ++i) *keep += sums[i][i % LANES];
}

}  // namespace

// Operations a second of so many threads together, each at its best.
extern "C" double multiply_add_rate(int threads, double limit) {
    std::vector<double> best(threads, 0.0);
    std::vector<float> keep(threads, 0.0f);
    std::vector<std::thread> pool;
    for (int i = 0; i < threads; ++i) pool.emplace_back(run, limit, &best[i], &keep[i]);
    double sum = 0.0, nothing = 0.0;
    for (int i = 0; i < threads; ++i) {
        pool[i].join();
        sum += best[i];
        nothing += keep[i];
    }
    return nothing == 12345.678 ? 0.0 : sum;
}
