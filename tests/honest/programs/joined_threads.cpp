// pattern: threads started in every call and joined before it returns
// task: scale_bf16
#include <cmath>
#include <cstdint>
#include <cstring>

static float wide(uint16_t bits) {
    const uint32_t word = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
}

static uint16_t narrow(float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    return uint16_t((word + 0x7FFF + ((word >> 16) & 1)) >> 16);
}

// EVOLVE-BLOCK-START
#include <future>

static void rows(const uint16_t* x, uint16_t* out, int64_t first, int64_t last, int64_t N) {
    for (int64_t i = first; i < last; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < N; j++) sum += double(wide(x[i * N + j])) * wide(x[i * N + j]);
        const float factor = float(1.0 / std::sqrt(sum / double(N) + 1e-6));
        for (int64_t j = 0; j < N; j++) out[i * N + j] = narrow(wide(x[i * N + j]) * factor);
    }
}

extern "C" void rms_norm(const uint16_t* x, uint16_t* out, int64_t M, int64_t N) {
    auto other = std::async(std::launch::async, rows, x, out, M / 2, M, N);
    rows(x, out, 0, M / 2, N);
    other.get();
}
// EVOLVE-BLOCK-END
