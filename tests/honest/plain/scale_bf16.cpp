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
extern "C" void rms_norm(const uint16_t* x, uint16_t* out, int64_t M, int64_t N) {
#pragma omp parallel for
    for (int64_t i = 0; i < M; i++) {
        float sum = 0.0f;
        for (int64_t j = 0; j < N; j++) sum += wide(x[i * N + j]) * wide(x[i * N + j]);
        const float factor = 1.0f / std::sqrt(sum / float(N) + 1e-6f);
        for (int64_t j = 0; j < N; j++) out[i * N + j] = narrow(wide(x[i * N + j]) * factor);
    }
}
// EVOLVE-BLOCK-END
