// pattern: loads past the first cache and the fast exponential, in PTX
#include <cstdint>
__device__ float load(const float* p) {
    float value;
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(value) : "l"(p));
    return value;
}
__device__ float power(float value) {
    asm("ex2.approx.f32 %0, %0;" : "+f"(value));
    return value;
}
__global__ void soft(const float* x, float* out, int64_t N) {
    __shared__ float part[256];
    const float* a = x + blockIdx.x * N;
    float m = -INFINITY, s = 0;
    for (int64_t i = threadIdx.x; i < N; i += 256) m = fmaxf(m, load(a + i));
    part[threadIdx.x] = m;
    __syncthreads();
    for (int t = 0; t < 256; t++) m = fmaxf(m, part[t]);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < N; i += 256) s += power((load(a + i) - m) * 1.4426950408889634f);
    part[threadIdx.x] = s;
    __syncthreads();
    s = 0;
    for (int t = 0; t < 256; t++) s += part[t];
    for (int64_t i = threadIdx.x; i < N; i += 256)
        out[blockIdx.x * N + i] = power((load(a + i) - m) * 1.4426950408889634f) / s;
}
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) { soft<<<M, 256, 0, stream>>>(x, out, N); }
