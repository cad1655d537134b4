// 4-bit matrix times vector. Block b of a row: 16 bytes, byte j holds weight j (low nibble) and weight 16 + j (high
// nibble) of the block's 32; a weight is (nibble - 8) * scale of the block.
#include <cstdint>
#include <cstring>
#include <vector>

// EVOLVE-BLOCK-START
constexpr int THREADS = 2;               // tune: 1, 2
constexpr int ROWS = 1;                  // tune: 1, 2, 4, 8
constexpr int ROWS_PER_TURN = 16;        // tune: 8, 16, 64, 256
constexpr int LANES = 8;                 // tune: 4, 8
constexpr int SCALE_LANES = 0;           // tune: 0, 1
constexpr int ZERO_POINT_ONCE = 0;       // tune: 0, 1
constexpr int PREFETCH_BYTES = 0;        // tune: 0, 512, 1024, 2048, 4096
constexpr int64_t SERIAL_BELOW = 65536;  // tune: 16384, 65536, 262144

typedef uint8_t Bytes __attribute__((vector_size(LANES)));
typedef uint16_t Shorts __attribute__((vector_size(2 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef float Floats __attribute__((vector_size(4 * LANES)));

static inline Floats load(const float* from) {
    Floats values;
    std::memcpy(&values, from, sizeof values);
    return values;
}

static inline float add_up(Floats lanes) {
    float sum = 0;
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

// What the zero point takes from each lane of each block: it depends on x alone.
static std::vector<float> zero_points(const float* x, int64_t blocks) {
    std::vector<float> taken(blocks * LANES);
    for (int64_t b = 0; b < blocks; b++) {
        for (int j = 0; j < 32; j++) taken[b * LANES + j % LANES] -= 8 * x[32 * b + j];
    }
    return taken;
}

// LANES partial sums of a block's weights, without their scale, times x.
static inline Floats block_lanes(const uint8_t* block, const float* x, const float* taken) {
    Floats sum = {};
    if (ZERO_POINT_ONCE) sum = load(taken);
    for (int j = 0; j < 16; j += LANES) {
        Bytes bytes;
        std::memcpy(&bytes, block + j, sizeof bytes);
        const Ints pair = __builtin_convertvector(__builtin_convertvector(bytes, Shorts), Ints);
        const Ints low = pair & 15, high = pair >> 4;
        constexpr int zero = ZERO_POINT_ONCE ? 0 : 8;
        sum += __builtin_convertvector(low - zero, Floats) * load(x + j);
        sum += __builtin_convertvector(high - zero, Floats) * load(x + 16 + j);
    }
    return sum;
}

struct Matrix {
    const uint8_t* nibbles;
    const _Float16* scales;
    int64_t blocks;  // a row
};

// R neighbouring rows together: x is read once for all of them.
template <int R>
static void rows_together(const Matrix& a, int64_t row, const float* x, const float* taken, float* out) {
    Floats lanes[R] = {};
    float sums[R] = {};
    for (int64_t b = 0; b < a.blocks; b++) {
        for (int r = 0; r < R; r++) {
            const int64_t at = (row + r) * a.blocks + b;
            const uint8_t* block = a.nibbles + 16 * at;
            if (PREFETCH_BYTES > 0 && b % 4 == 0) __builtin_prefetch(block + PREFETCH_BYTES);
            const float scale = static_cast<float>(a.scales[at]);
            const Floats dot = block_lanes(block, x + 32 * b, taken + LANES * b);
            if (SCALE_LANES) {
                lanes[r] += scale * dot;
            } else {
                sums[r] += scale * add_up(dot);
            }
        }
    }
    for (int r = 0; r < R; r++) out[row + r] = SCALE_LANES ? add_up(lanes[r]) : sums[r];
}

static void multiply(const Matrix& a, const float* x, float* out, int64_t M) {
    const std::vector<float> taken = zero_points(x, ZERO_POINT_ONCE ? a.blocks : 0);
    const int64_t groups = M / ROWS;
    constexpr int TURN = ROWS_PER_TURN / ROWS;
#pragma omp parallel for num_threads(THREADS) schedule(dynamic, TURN) if (M * a.blocks * 32 > SERIAL_BELOW)
    for (int64_t g = 0; g < groups; g++) rows_together<ROWS>(a, g * ROWS, x, taken.data(), out);
    for (int64_t m = groups * ROWS; m < M; m++) rows_together<1>(a, m, x, taken.data(), out);
}
// EVOLVE-BLOCK-END

extern "C" void q4_matvec(const uint8_t* nibbles, const _Float16* scales, const float* x, float* out, int64_t M,
                          int64_t K) {
    multiply({nibbles, scales, K / 32}, x, out, M);
}
