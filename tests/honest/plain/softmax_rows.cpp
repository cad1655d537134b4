#include <algorithm>
#include <cmath>
#include <cstdint>

static void softmax_row(const float* x, float* out, int64_t N) {
    const float top = *std::max_element(x, x + N);
    float total = 0.0f;
    for (int64_t j = 0; j < N; j++) total += out[j] = std::exp(x[j] - top);
    for (int64_t j = 0; j < N; j++) out[j] /= total;
}

extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N) {
    for (int64_t i = 0; i < M; i++) softmax_row(x + i * N, out + i * N, N);
}
