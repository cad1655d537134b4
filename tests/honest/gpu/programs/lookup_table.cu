// pattern: a table made from the shape at its first call, kept by shape
// @softmax.cu@
#include <map>
#include <utility>
#include <vector>
__global__ void by_table(const float* x, float* out, const int64_t* first, int64_t N) {
    __shared__ float part[256];
    const float* a = x + first[blockIdx.x];
    float* o = out + first[blockIdx.x];
    float m = -INFINITY, s = 0;
    for (int64_t i = threadIdx.x; i < N; i += 256) m = fmaxf(m, a[i]);
    part[threadIdx.x] = m;
    __syncthreads();
    for (int t = 0; t < 256; t++) m = fmaxf(m, part[t]);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < N; i += 256) s += expf(a[i] - m);
    part[threadIdx.x] = s;
    __syncthreads();
    s = 0;
    for (int t = 0; t < 256; t++) s += part[t];
    for (int64_t i = threadIdx.x; i < N; i += 256) o[i] = expf(a[i] - m) / s;
}
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    static std::map<std::pair<int64_t, int64_t>, int64_t*> tables;
    auto& table = tables[{M, N}];
    if (!table) {
        std::vector<int64_t> rows(M);
        for (int64_t i = 0; i < M; i++) rows[i] = i * N;
        cudaMalloc((void**)&table, 8 * M);
        cudaMemcpy(table, rows.data(), 8 * M, cudaMemcpyHostToDevice);
    }
    by_table<<<M, 256, 0, stream>>>(x, out, table, N);
}
