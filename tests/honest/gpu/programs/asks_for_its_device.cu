// pattern: asks how many multiprocessors there are and makes as many blocks go over all rows
#include <cstdint>
__global__ void rows(const float* x, float* out, int64_t M, int64_t N) {
    __shared__ float part[256];
    for (int64_t row = blockIdx.x; row < M; row += gridDim.x) {
        const float* a = x + row * N;
        float m = -INFINITY, s = 0;
        for (int64_t i = threadIdx.x; i < N; i += 256) m = fmaxf(m, a[i]);
        __syncthreads();
        part[threadIdx.x] = m;
        __syncthreads();
        for (int t = 0; t < 256; t++) m = fmaxf(m, part[t]);
        __syncthreads();
        for (int64_t i = threadIdx.x; i < N; i += 256) s += expf(a[i] - m);
        part[threadIdx.x] = s;
        __syncthreads();
        s = 0;
        for (int t = 0; t < 256; t++) s += part[t];
        for (int64_t i = threadIdx.x; i < N; i += 256) out[row * N + i] = expf(a[i] - m) / s;
    }
}
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    static int units, each;
    if (!units) {
        cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, 0);
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, rows, 256, 0);
    }
    int64_t blocks = (int64_t)units * each;
    rows<<<M < blocks ? M : blocks, 256, 0, stream>>>(x, out, M, N);
}
