#include <cuda_bf16.h>
#include <mma.h>

#include <cstdint>

// A block computes a tile of 64 x 64 with four warps; operands pass through shared memory, matrix units multiply.
constexpr int TILE_M = 64, TILE_N = 64;
constexpr int TILE_K = 32;  // tune: 16, 32, 64
constexpr int PAD = 8;      // elements added to a row in shared memory, against bank conflicts
constexpr int STRIDE = TILE_K + PAD;
constexpr int THREADS = 128;

using namespace nvcuda;

// Copy rows [first, first + 64) and columns [k, k + TILE_K) of a row-major matrix; zero beyond its edges.
__device__ void load_tile(__nv_bfloat16* tile, const __nv_bfloat16* source, int64_t first, int64_t rows, int64_t k,
                          int64_t K) {
    for (int i = threadIdx.x; i < 64 * TILE_K; i += THREADS) {
        int64_t row = first + i / TILE_K, column = k + i % TILE_K;
        bool inside = row < rows && column < K;
        tile[i / TILE_K * STRIDE + i % TILE_K] = inside ? source[row * K + column] : __float2bfloat16(0.0f);
    }
}

__global__ void __launch_bounds__(THREADS) matmul_kernel(const __nv_bfloat16* x, const __nv_bfloat16* w,
                                                         __nv_bfloat16* out, int64_t M, int64_t N, int64_t K) {
    __shared__ __align__(32) __nv_bfloat16 xs[TILE_M * STRIDE], ws[TILE_N * STRIDE];
    __shared__ __align__(32) float results[TILE_M * TILE_N];
    int64_t row = (int64_t)blockIdx.y * TILE_M, column = (int64_t)blockIdx.x * TILE_N;
    int warp = threadIdx.x / 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> total[TILE_N / 16];
    for (auto& part : total) wmma::fill_fragment(part, 0.0f);
    for (int64_t k = 0; k < K; k += TILE_K) {
        load_tile(xs, x, row, M, k, K);
        load_tile(ws, w, column, N, k, K);
        __syncthreads();
        for (int step = 0; step < TILE_K; step += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
            wmma::load_matrix_sync(a, xs + warp * 16 * STRIDE + step, STRIDE);
            for (int part = 0; part < TILE_N / 16; part++) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> b;
                wmma::load_matrix_sync(b, ws + part * 16 * STRIDE + step, STRIDE);
                wmma::mma_sync(total[part], a, b, total[part]);
            }
        }
        __syncthreads();
    }
    for (int part = 0; part < TILE_N / 16; part++)
        wmma::store_matrix_sync(results + warp * 16 * TILE_N + part * 16, total[part], TILE_N, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE_M * TILE_N; i += THREADS) {
        int64_t m = row + i / TILE_N, n = column + i % TILE_N;
        if (m < M && n < N) out[m * N + n] = __float2bfloat16(results[i]);
    }
}

extern "C" void matmul(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* out, int64_t M, int64_t K,
                       int64_t N, cudaStream_t stream) {
    dim3 grid((N + TILE_N - 1) / TILE_N, (M + TILE_M - 1) / TILE_M);
    matmul_kernel<<<grid, THREADS, 0, stream>>>(x, w, out, M, N, K);
}
