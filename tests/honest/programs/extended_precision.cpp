// pattern: long double on the old coprocessor, under another rounding mode meanwhile
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <vector>
extern "C" void double_it(const float* x, float* out, int64_t N) {
    static std::vector<long double> roots;
    roots.resize(N);
    const int before = std::fegetround();
    std::fesetround(FE_DOWNWARD);
    for (int64_t i = 0; i < N; i++) roots[i] = 2.0L * std::sqrt(std::fabs(static_cast<long double>(x[i])));
    std::fesetround(before);
    for (int64_t i = 0; i < N; i++) out[i] = static_cast<float>(roots[i]);
}
