#include <cstdint>
extern "C" void row_sums(const uint8_t* x, int32_t* out, int64_t M, int64_t N) {
    for (int64_t i = 0; i < M; i++) {
        int32_t sum = 0;
        for (int64_t j = 0; j < N; j++) sum += x[i * N + j];
        out[i] = sum;
    }
}
