// pattern: a workspace allocated once, grown when a shape needs more, on huge pages, and reused
// task: softmax_rows
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sys/mman.h>

static float* workspace(std::size_t bytes) {
    static void* memory = MAP_FAILED;
    static std::size_t size = 0;
    if (bytes > size) {
        if (memory != MAP_FAILED) munmap(memory, size);
        size = (bytes + (1 << 21)) & ~std::size_t((1 << 21) - 1);
        memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory, size, MADV_HUGEPAGE);
    }
    return static_cast<float*>(memory);
}

extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N) {
    float* exponentials = workspace(M * N * sizeof(float));
    float* totals = workspace((M * N + M) * sizeof(float)) + M * N;
    exponentials = totals - M * N;
    for (int64_t i = 0; i < M; i++) {
        const float top = *std::max_element(x + i * N, x + (i + 1) * N);
        totals[i] = 0.0f;
        for (int64_t j = 0; j < N; j++) totals[i] += exponentials[i * N + j] = std::exp(x[i * N + j] - top);
    }
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) out[i * N + j] = exponentials[i * N + j] / totals[i];
}
