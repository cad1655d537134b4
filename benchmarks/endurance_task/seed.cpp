#include <cmath>
#include <cstdint>
extern "C" void double_it(const float* x, float* out, int64_t N) {
    for (int64_t i = 0; i < N; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
}
