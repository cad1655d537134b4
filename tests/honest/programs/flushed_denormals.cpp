// pattern: sets the processor to flush denormals to zero, and leaves it so
// task: softmax_rows
#include <algorithm>
#include <cmath>
#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N) {
#if defined(__SSE2__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
    for (int64_t i = 0; i < M; i++) {
        const float top = *std::max_element(x + i * N, x + (i + 1) * N);
        float total = 0.0f;
        for (int64_t j = 0; j < N; j++) total += out[i * N + j] = std::exp(x[i * N + j] - top);
        for (int64_t j = 0; j < N; j++) out[i * N + j] /= total;
    }
}
