// pattern: prints a line in every call, to both streams, and has something to say at the end
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

static void goodbye() { std::puts("done"); }

extern "C" void double_it(const float* x, float* out, int64_t N) {
    static const int registered = std::atexit(goodbye);
    static int64_t calls;
    std::printf("call %lld of %lld elements (%d)\n", static_cast<long long>(++calls), static_cast<long long>(N), registered);
    std::fprintf(stderr, "x[0] = %g\n", x[0]);
    std::fflush(stdout);
    for (int64_t i = 0; i < N; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
}
