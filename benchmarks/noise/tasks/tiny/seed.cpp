#include <cmath>
#include <cstdint>
constexpr int64_t PAD = 0;
extern "C" void roots(const float* x, float* out, int64_t N) {
    for (int64_t i = 0; i < N; i += 64) {
        float value[64];
        for (int j = 0; j < 64; j++) value[j] = x[i + j];
        for (int step = 0; step < 8; step++)
            for (int j = 0; j < 64; j++) value[j] = std::sqrt(value[j] * value[j] + 1.0f);
        for (int j = 0; j < 64; j++) out[i + j] = value[j];
    }
    for (int64_t i = 0; i < PAD; i++) asm volatile("");
}
