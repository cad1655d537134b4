// pattern: tries its variants in the first call of every shape, and keeps the fastest
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>

template <int UNROLL>
static void variant(const float* x, float* out, int64_t N) {
    int64_t i = 0;
    for (; i + UNROLL <= N; i += UNROLL)
        for (int k = 0; k < UNROLL; k++) out[i + k] = 2.0f * std::sqrt(std::fabs(x[i + k]));
    for (; i < N; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
}

using Variant = void (*)(const float*, float*, int64_t);

static Variant fastest(const float* x, float* out, int64_t N) {
    Variant best = nullptr;
    auto least = std::chrono::nanoseconds::max();
    for (Variant one : {variant<1>, variant<4>, variant<16>}) {
        const auto start = std::chrono::steady_clock::now();
        for (int again = 0; again < 20; again++) one(x, out, N);
        const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
        if (took < least) least = took, best = one;
    }
    return best;
}

extern "C" void double_it(const float* x, float* out, int64_t N) {
    static std::map<int64_t, Variant> chosen;
    Variant& best = chosen[N];
    if (!best) best = fastest(x, out, N);
    best(x, out, N);
}
