// pattern: more shared memory than a kernel gets unasked
#include <cstdint>
__global__ void kept(const float* x, float* out, int64_t N) {
    extern __shared__ float row[];
    __shared__ float part[256];
    float m = -INFINITY, s = 0;
    for (int64_t i = threadIdx.x; i < N; i += 256) m = fmaxf(m, row[i] = x[blockIdx.x * N + i]);
    part[threadIdx.x] = m;
    __syncthreads();
    for (int t = 0; t < 256; t++) m = fmaxf(m, part[t]);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < N; i += 256) s += row[i] = expf(row[i] - m);
    part[threadIdx.x] = s;
    __syncthreads();
    s = 0;
    for (int t = 0; t < 256; t++) s += part[t];
    for (int64_t i = threadIdx.x; i < N; i += 256) out[blockIdx.x * N + i] = row[i] / s;
}
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    cudaFuncSetAttribute(kept, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10);
    kept<<<M, 256, 4 * N, stream>>>(x, out, N);
}
