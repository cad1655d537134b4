#include <cstdint>

constexpr int THREADS = 256;  // tune: 128, 256, 512

__global__ void residual_scale_kernel(float* x, const float* y, int64_t count) {
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i < count) x[i] = 0.5f * x[i] + y[i];
}

extern "C" void residual_scale(float* x, const float* y, int64_t M, int64_t N, cudaStream_t stream) {
    const int64_t count = M * N;
    residual_scale_kernel<<<(unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, stream>>>(x, y, count);
}
