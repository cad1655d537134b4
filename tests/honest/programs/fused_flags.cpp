// pattern: flags that the task offers, functions for several processors, pragmas
// build-flags: -funroll-loops
#include <cmath>
#include <cstdint>
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
__attribute__((target_clones("default", "avx2")))
#endif
static void work(const float* __restrict x, float* __restrict out, int64_t N) {
#pragma GCC ivdep
    for (int64_t i = 0; i < N; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
}
extern "C" void double_it(const float* x, float* out, int64_t N) { work(x, out, N); }
