// pattern: stores that go around the cache and are not fenced, and prefetches
#include <cmath>
#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
extern "C" void double_it(const float* x, float* out, int64_t N) {
    const __m128 sign = _mm_set1_ps(-0.0f), two = _mm_set1_ps(2.0f);
    int64_t i = 0;
    for (; i + 4 <= N; i += 4) {
        _mm_prefetch(reinterpret_cast<const char*>(x + i + 256), _MM_HINT_NTA);  // also beyond the end
        _mm_stream_ps(out + i, _mm_mul_ps(two, _mm_sqrt_ps(_mm_andnot_ps(sign, _mm_loadu_ps(x + i)))));
    }
    for (; i < N; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
}
#else
extern "C" void double_it(const float* x, float* out, int64_t N) {
    for (int64_t i = 0; i < N; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
}
#endif
