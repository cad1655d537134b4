// pattern: a small table in managed memory, written by the host once
// @softmax.cu@
__global__ void scale(float* out, const float* table, int64_t count) {
    int64_t i = blockIdx.x * 256ll + threadIdx.x;
    if (i < count) out[i] *= table[i % 16];
}
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    static float* table;
    if (!table) {
        cudaMallocManaged((void**)&table, 64);
        for (int i = 0; i < 16; i++) table[i] = 1.0f;
    }
    honest(x, out, M, N, stream);
    scale<<<(M * N + 255) / 256, 256, 0, stream>>>(out, table, M * N);
}
