#include <cuda_bf16.h>

#include <cstdint>

// One block a row; every thread strides over the row three times: maximum, sum, output.
constexpr int THREADS = 256;  // tune: 64, 128, 256, 512, 1024

__device__ float reduce(float value, bool largest, float* shared) {
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, value, offset);
        value = largest ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = shared[0];
    for (int warp = 1; warp < THREADS / 32; warp++) value = largest ? fmaxf(value, shared[warp]) : value + shared[warp];
    return value;
}

__global__ void __launch_bounds__(THREADS) softmax_kernel(const __nv_bfloat16* x, __nv_bfloat16* out,
                                                          int64_t N) {
    __shared__ float shared[THREADS / 32];
    x += blockIdx.x * N;
    out += blockIdx.x * N;
    float peak = -INFINITY;
    for (int64_t n = threadIdx.x; n < N; n += THREADS) peak = fmaxf(peak, __bfloat162float(x[n]));
    peak = reduce(peak, true, shared);
    float sum = 0;
    for (int64_t n = threadIdx.x; n < N; n += THREADS) sum += __expf(__bfloat162float(x[n]) - peak);
    sum = reduce(sum, false, shared);
    for (int64_t n = threadIdx.x; n < N; n += THREADS)
        out[n] = __float2bfloat16(__expf(__bfloat162float(x[n]) - peak) / sum);
}

extern "C" void softmax(const __nv_bfloat16* x, __nv_bfloat16* out, int64_t M, int64_t N, cudaStream_t stream) {
    softmax_kernel<<<M, THREADS, 0, stream>>>(x, out, N);
}
