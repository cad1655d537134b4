// pattern: a workspace made at the first call and used ever after
// @softmax.cu@
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    static void* space;
    if (!space) cudaMalloc(&space, 1 << 20);
    cudaMemsetAsync(space, 0, 1 << 20, stream);
    honest(x, out, M, N, stream);
}
