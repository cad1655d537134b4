// AVX2, FMA and F16C by hand, on all threads; a portable loop elsewhere.
//
// Each thread reads one row after the other, a single stream, and asks early for what comes next: a matrix is larger than
// the caches. In each block the eight lanes start from -8 times their share of x (computed once a call), so that nibbles
// are used as they are and the zero point costs nothing; the block's scale is applied to the lanes, which are added up
// once a row. Scales are converted eight at a time.
#include <cstdint>
#include <vector>

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>
#define HAVE_AVX2 1
#endif

namespace {

constexpr int THREADS = 2;
constexpr int CHUNK = 8;  // blocks whose scales are converted at once
constexpr int64_t PREFETCH_BYTES = 4096;

struct Matrix {
    const uint8_t* nibbles;
    const _Float16* scales;
    const float* x;
    int64_t blocks;  // a row
};

#ifdef HAVE_AVX2

float add_lanes(__m256 v) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// offsets[8 b + lane] = -8 times the sum of the four elements of x that the lane meets in block b.
void fill_offsets(const Matrix& a, float* offsets) {
    for (int64_t b = 0; b < a.blocks; b++) {
        const float* x = a.x + 32 * b;
        __m256 low = _mm256_add_ps(_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8));
        __m256 high = _mm256_add_ps(_mm256_loadu_ps(x + 16), _mm256_loadu_ps(x + 24));
        _mm256_storeu_ps(offsets + 8 * b, _mm256_mul_ps(_mm256_set1_ps(-8), _mm256_add_ps(low, high)));
    }
}

// The next `count` (at most CHUNK) scales of a row as fp32.
void convert_scales(const _Float16* scales, float* converted, int count) {
    if (count == CHUNK) {
        const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales));
        _mm256_store_ps(converted, _mm256_cvtph_ps(halves));
    } else {
        for (int i = 0; i < count; i++) converted[i] = static_cast<float>(scales[i]);
    }
}

__m256 low_nibbles(__m256i bytes) { return _mm256_cvtepi32_ps(_mm256_and_si256(bytes, _mm256_set1_epi32(15))); }

__m256 high_nibbles(__m256i bytes) { return _mm256_cvtepi32_ps(_mm256_srli_epi32(bytes, 4)); }

inline __attribute__((always_inline)) __m256 chunk(const Matrix& a, const float* offsets, int64_t row, int64_t first,
                                                   int count, __m256 sum) {
    const uint8_t* nibbles = a.nibbles + (row * a.blocks + first) * 16;
    alignas(32) float scales[CHUNK];
    convert_scales(a.scales + row * a.blocks + first, scales, count);
    _mm_prefetch(reinterpret_cast<const char*>(nibbles + PREFETCH_BYTES), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(nibbles + PREFETCH_BYTES + 64), _MM_HINT_T0);
    for (int i = 0; i < count; i++) {
        const float* x = a.x + 32 * (first + i);
        const uint8_t* block = nibbles + 16 * i;
        const __m256i q0 = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(block)));
        const __m256i q1 = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 8)));
        __m256 dot = _mm256_fmadd_ps(low_nibbles(q0), _mm256_loadu_ps(x), _mm256_loadu_ps(offsets + 8 * (first + i)));
        dot = _mm256_fmadd_ps(low_nibbles(q1), _mm256_loadu_ps(x + 8), dot);
        dot = _mm256_fmadd_ps(high_nibbles(q0), _mm256_loadu_ps(x + 16), dot);
        dot = _mm256_fmadd_ps(high_nibbles(q1), _mm256_loadu_ps(x + 24), dot);
        sum = _mm256_fmadd_ps(_mm256_broadcast_ss(&scales[i]), dot, sum);
    }
    return sum;
}

float row_sum(const Matrix& a, const float* offsets, int64_t row) {
    __m256 sum = _mm256_setzero_ps();
    int64_t first = 0;
    for (; first + CHUNK <= a.blocks; first += CHUNK) sum = chunk(a, offsets, row, first, CHUNK, sum);
    if (first < a.blocks) sum = chunk(a, offsets, row, first, static_cast<int>(a.blocks - first), sum);
    return add_lanes(sum);
}

#else

void fill_offsets(const Matrix& a, float* offsets) {
    for (int64_t b = 0; b < a.blocks; b++) {
        float sum = 0;
        for (int j = 0; j < 32; j++) sum += a.x[32 * b + j];
        offsets[8 * b] = -8 * sum;
    }
}

float row_sum(const Matrix& a, const float* offsets, int64_t row) {
    float sum = 0;
    for (int64_t b = 0; b < a.blocks; b++) {
        const uint8_t* block = a.nibbles + (row * a.blocks + b) * 16;
        const float* x = a.x + 32 * b;
        float lanes[16];
        for (int j = 0; j < 16; j++) {
            lanes[j] = static_cast<float>(block[j] & 15) * x[j] + static_cast<float>(block[j] >> 4) * x[j + 16];
        }
        for (int width = 8; width > 0; width /= 2) {
            for (int j = 0; j < width; j++) lanes[j] += lanes[j + width];
        }
        sum += static_cast<float>(a.scales[row * a.blocks + b]) * (lanes[0] + offsets[8 * b]);
    }
    return sum;
}

#endif

}  // namespace

extern "C" void q4_matvec(const uint8_t* nibbles, const _Float16* scales, const float* x, float* out, int64_t M,
                          int64_t K) {
    const Matrix a{nibbles, scales, x, K / 32};
    std::vector<float> offsets(8 * a.blocks);
    fill_offsets(a, offsets.data());
#pragma omp parallel for num_threads(THREADS) schedule(static) if (M * K > 65536)
    for (int64_t m = 0; m < M; m++) out[m] = row_sum(a, offsets.data(), m);
}
