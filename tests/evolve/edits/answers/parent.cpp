#include <cstdint>

// EVOLVE-BLOCK-START
constexpr int UNROLL = 4;  // tune: 1, 2, 4, 8

static float dot(const float* a, const float* b, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static float norm(const float* a, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * a[i];
    }
    return sum;
}
// EVOLVE-BLOCK-END

extern "C" void entry(const float* a, const float* b, float* out, int64_t N) {
    out[0] = dot(a, b, N) / norm(a, N);
}
