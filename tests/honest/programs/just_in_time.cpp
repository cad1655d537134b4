// pattern: writes machine code into memory at the first call, and runs it
#include <cmath>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>

using Function = float (*)(float);

static float twice(float value) { return value + value; }

static Function compiled() {
#if defined(__x86_64__)
    const uint8_t code[] = {0xf3, 0x0f, 0x58, 0xc0, 0xc3};  // addss %xmm0, %xmm0; ret
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return twice;
    std::memcpy(memory, code, sizeof code);
    if (mprotect(memory, 4096, PROT_READ | PROT_EXEC) != 0) return nullptr;
    return reinterpret_cast<Function>(memory);
#else
    return twice;
#endif
}

extern "C" void double_it(const float* x, float* out, int64_t N) {
    static const Function function = compiled();
    for (int64_t i = 0; i < N; i++) out[i] = function(std::sqrt(std::fabs(x[i])));
}
