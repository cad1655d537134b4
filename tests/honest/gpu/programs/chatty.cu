// pattern: says a word on the host and on the device
// @softmax.cu@
__global__ void hello() { printf("hello from the device\n"); }
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    static bool greeted;
    if (!greeted) printf("hello from the host\n");
    honest(x, out, M, N, stream);
    if (!greeted) hello<<<1, 1, 0, stream>>>();
    greeted = true;
}
