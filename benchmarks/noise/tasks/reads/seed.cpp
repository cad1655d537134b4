#include <cstdint>
constexpr int64_t PAD = 0;
extern "C" void row_sums(const float* x, float* out, int64_t M, int64_t N) {
    for (int64_t m = 0; m < M; m++) {
        float sum = 0;
        for (int64_t n = 0; n < N; n++) sum += x[m * N + n];
        out[m] = sum;
    }
    for (int64_t i = 0; i < PAD; i++) asm volatile("");
}
