// pattern: builds a graph of its kernel and launches it, or adds it as a child where its caller records
// @softmax.cu@
extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {
    cudaGraph_t own, graph = nullptr;
    cudaGraphNode_t node;
    cudaKernelNodeParams kernel = {};
    void* arguments[] = {&x, &out, &M, &N};
    kernel.func = (void*)soft;
    kernel.gridDim = dim3(M);
    kernel.blockDim = dim3(256);
    kernel.kernelParams = arguments;
    cudaGraphCreate(&own, 0);
    cudaGraphAddKernelNode(&node, own, nullptr, 0, &kernel);
    cudaStreamCaptureStatus status;
    const cudaGraphNode_t* before = nullptr;
    const cudaGraphEdgeData* edges = nullptr;
    size_t many = 0;
    cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &before, &edges, &many);
    if (status == cudaStreamCaptureStatusActive) {
        cudaGraphNode_t child;
        cudaGraphAddChildGraphNode(&child, graph, before, many, own);
        cudaStreamUpdateCaptureDependencies(stream, &child, nullptr, 1, cudaStreamSetCaptureDependencies);
    } else {
        cudaGraphExec_t ready;
        cudaGraphInstantiate(&ready, own, 0);
        cudaGraphLaunch(ready, stream);
        cudaGraphExecDestroy(ready);
    }
    cudaGraphDestroy(own);
}
