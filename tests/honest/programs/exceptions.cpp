// pattern: exceptions thrown and caught inside, deep recursion, a large frame on the stack
#include <cmath>
#include <cstdint>
#include <stdexcept>

static void halves(const float* x, float* out, int64_t first, int64_t last) {
    if (last - first > 64) {
        const int64_t middle = first + (last - first) / 2;
        halves(x, out, first, middle);
        halves(x, out, middle, last);
        return;
    }
    volatile char frame[4096];
    frame[0] = 0;
    try {
        if (last - first < 1) throw std::out_of_range("nothing left");
        for (int64_t i = first; i < last; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
        if (first % 1024 == 0) throw std::runtime_error("a boundary");
    } catch (const std::exception&) {
    }
}

extern "C" void double_it(const float* x, float* out, int64_t N) {
    volatile char frame[3 << 20];
    frame[sizeof frame - 1] = 0;
    halves(x, out, 0, N);
}
