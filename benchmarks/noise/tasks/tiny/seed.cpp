#include <cmath>
#include <cstdint>
constexpr int64_t PAD = 0;
extern "C" void roots(const float* x, float* out, int64_t N) {
    for (int64_t i = 0; i < N; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
    for (int64_t i = 0; i < PAD; i++) asm volatile("");
}
