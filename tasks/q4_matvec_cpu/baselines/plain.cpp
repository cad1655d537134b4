// The loop as one would write it down, for the compiler to vectorise.
#include <cstdint>

extern "C" void q4_matvec(const uint8_t* nibbles, const _Float16* scales, const float* x, float* out, int64_t M,
                          int64_t K) {
    for (int64_t m = 0; m < M; m++) {
        float sum = 0;
        for (int64_t b = 0; b < K / 32; b++) {
            const float scale = static_cast<float>(scales[m * (K / 32) + b]);
            const uint8_t* block = nibbles + m * (K / 2) + b * 16;
            const float* v = x + b * 32;
            float dot = 0;
            for (int j = 0; j < 16; j++) {
                dot += static_cast<float>((block[j] & 15) - 8) * v[j];
                dot += static_cast<float>((block[j] >> 4) - 8) * v[j + 16];
            }
            sum += scale * dot;
        }
        out[m] = sum;
    }
}
