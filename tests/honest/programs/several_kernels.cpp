// pattern: several passes over the data, the output used as scratch, intermediates in double
// task: softmax_rows
#include <cmath>
#include <cstdint>
#include <vector>

static void shift(const float* x, float* out, int64_t M, int64_t N) {
    for (int64_t i = 0; i < M; i++) {
        float top = x[i * N];
        for (int64_t j = 1; j < N; j++) top = std::fmax(top, x[i * N + j]);
        for (int64_t j = 0; j < N; j++) out[i * N + j] = x[i * N + j] - top;
    }
}

static void raise(float* out, int64_t count) {
    for (int64_t k = 0; k < count; k++) out[k] = std::exp(out[k]);
}

static std::vector<double> sums(const float* x, int64_t M, int64_t N) {
    std::vector<double> total(M, 0.0);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) total[i] += x[i * N + j];
    return total;
}

extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N) {
    shift(x, out, M, N);
    raise(out, M * N);
    const std::vector<double> total = sums(out, M, N);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) out[i * N + j] = float(out[i * N + j] / total[i]);
}
