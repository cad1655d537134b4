// pattern: a table built by a static constructor, and sums of fp32 over bf16 inputs
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
static struct Table {
    float value[65536];
    Table() {
        for (uint32_t bits = 0; bits < 65536; bits++) value[bits] = wide(uint16_t(bits));
    }
} table;

extern "C" void rms_norm(const uint16_t* x, uint16_t* out, int64_t M, int64_t N) {
#pragma omp parallel for schedule(dynamic, 7)
    for (int64_t i = 0; i < M; i++) {
        float lanes[8] = {};
        for (int64_t j = 0; j < N; j++) lanes[j % 8] += table.value[x[i * N + j]] * table.value[x[i * N + j]];
        float sum = 0.0f;
        for (float lane : lanes) sum += lane;
        const float factor = 1.0f / std::sqrt(sum / float(N) + 1e-6f);
        for (int64_t j = 0; j < N; j++) out[i * N + j] = narrow(table.value[x[i * N + j]] * factor);
    }
}
// EVOLVE-BLOCK-END
