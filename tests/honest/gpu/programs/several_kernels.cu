// pattern: three kernels and a workspace for what they hand on
#include <cstdint>
__global__ void peaks(const float* x, float* peak, int64_t N) {
    __shared__ float part[256];
    float m = -INFINITY;
    for (int64_t i = threadIdx.x; i < N; i += 256) m = fmaxf(m, x[blockIdx.x * N + i]);
    part[threadIdx.x] = m;
    __syncthreads();
    if (threadIdx.x) return;
    for (int t = 1; t < 256; t++) m = fmaxf(m, part[t]);
    peak[blockIdx.x] = m;
}
__global__ void sums(const float* x, const float* peak, float* sum, int64_t N) {
    __shared__ float part[256];
    float s = 0, m = peak[blockIdx.x];
    for (int64_t i = threadIdx.x; i < N; i += 256) s += expf(x[blockIdx.x * N + i] - m);
    part[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x) return;
    for (int t = 1; t < 256; t++) s += part[t];
    sum[blockIdx.x] = s;
}
__global__ void quotients(const float* x, const float* peak, const float* sum, float* out, int64_t N) {
    for (int64_t i = threadIdx.x; i < N; i += 256)
        out[blockIdx.x * N + i] = expf(x[blockIdx.x * N + i] - peak[blockIdx.x]) / sum[blockIdx.x];
}
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    static float* space;
    static int64_t rows;
    if (rows < M) {
        rows = M;
        cudaFree(space);
        cudaMalloc((void**)&space, 8 * M);
    }
    peaks<<<M, 256, 0, stream>>>(x, space, N);
    sums<<<M, 256, 0, stream>>>(x, space, space + M, N);
    quotients<<<M, 256, 0, stream>>>(x, space, space + M, out, N);
}
