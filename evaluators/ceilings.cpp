// What this machine can do at best, measured through the same rounds as any candidate: trusted programs of our own.
#include <cstdint>
#include <omp.h>

extern "C" void read_sum(const float* x, float* out, int64_t N) {
    float total = 0.0f;
#pragma omp parallel for simd reduction(+ : total) schedule(static)
    for (int64_t i = 0; i < N; ++i) total += x[i];
    out[0] = total;
}

extern "C" void copy(const float* x, float* out, int64_t N) {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < N; ++i) out[i] = x[i];
}

// N rounds of 12 independent multiply-adds on 8 lanes: 192 * N floating-point operations a thread.
extern "C" void multiply_add(const float* x, float* out, int64_t N) {
    float sum = 0.0f;
#pragma omp parallel reduction(+ : sum)
    {
        typedef float Lanes __attribute__((vector_size(32)));
        const float a = x[0] * 1e-6f, b = x[1];
        Lanes acc[12];
        for (int k = 0; k < 12; ++k) acc[k] = Lanes{} + (b + k);
        for (int64_t i = 0; i < N; ++i)
#pragma GCC unroll 12
            for (int k = 0; k < 12; ++k) acc[k] = acc[k] * a + b;
        for (int k = 0; k < 12; ++k)
            for (int lane = 0; lane < 8; ++lane) sum += acc[k][lane];
    }
    out[0] = sum;
}
