// pattern: waits for its stream in every call, so that it is run call by call
// @softmax.cu@
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    honest(x, out, M, N, stream);
    cudaStreamSynchronize(stream);
}
