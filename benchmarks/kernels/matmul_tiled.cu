// The textbook tiled product: one 16 x 16 tile of A and of B in shared memory a step.
#include <cuda_runtime.h>

constexpr int TILE = 16;

__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[TILE][TILE];
    __shared__ float b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += TILE) {
        int ax = k + threadIdx.x;
        int by = k + threadIdx.y;
        a[threadIdx.y][threadIdx.x] = row < M && ax < K ? A[(size_t)row * K + ax] : 0.0f;
        b[threadIdx.y][threadIdx.x] = by < K && column < N ? B[(size_t)by * N + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) {
            sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        }
        __syncthreads();
    }
    if (row < M && column < N) {
        C[(size_t)row * N + column] = sum;
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
    matmul<<<grid, dim3(TILE, TILE)>>>(A, B, C, M, N, K);
}
