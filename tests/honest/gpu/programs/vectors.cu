// pattern: four elements at once where rows allow it, else one
// @softmax.cu@
__global__ void wide(const float* x, float* out, int64_t N) {
    __shared__ float part[256];
    const float4* a = (const float4*)(x + blockIdx.x * N);
    float4* o = (float4*)(out + blockIdx.x * N);
    float m = -INFINITY, s = 0;
    for (int64_t i = threadIdx.x; i < N / 4; i += 256) {
        float4 v = a[i];
        m = fmaxf(m, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
    part[threadIdx.x] = m;
    __syncthreads();
    for (int t = 0; t < 256; t++) m = fmaxf(m, part[t]);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < N / 4; i += 256) {
        float4 v = a[i];
        s += expf(v.x - m) + expf(v.y - m) + expf(v.z - m) + expf(v.w - m);
    }
    part[threadIdx.x] = s;
    __syncthreads();
    s = 0;
    for (int t = 0; t < 256; t++) s += part[t];
    for (int64_t i = threadIdx.x; i < N / 4; i += 256) {
        float4 v = a[i];
        o[i] = make_float4(expf(v.x - m) / s, expf(v.y - m) / s, expf(v.z - m) / s, expf(v.w - m) / s);
    }
}
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    if (N % 4 == 0) wide<<<M, 256, 0, stream>>>(x, out, N);
    else honest(x, out, M, N, stream);
}
