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

__global__ void __launch_bounds__(THREADS) softmax_kernel(const float* x, float* out, int64_t N) {
    __shared__ float shared[THREADS / 32];
    x += blockIdx.x * N;
    out += blockIdx.x * N;
    float peak = -INFINITY;
    for (int64_t n = threadIdx.x; n < N; n += THREADS) peak = fmaxf(peak, x[n]);
    peak = reduce(peak, true, shared);
    float sum = 0;
    for (int64_t n = threadIdx.x; n < N; n += THREADS) sum += __expf(x[n] - peak);
    sum = reduce(sum, false, shared);
    for (int64_t n = threadIdx.x; n < N; n += THREADS) out[n] = __expf(x[n] - peak) / sum;
}

extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    softmax_kernel<<<M, THREADS, 0, stream>>>(x, out, N);
}
