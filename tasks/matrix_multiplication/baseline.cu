// One thread computes one element of C, reading its row of A and its column of B from global memory.

#include <cuda_runtime.h>

__global__ void matrix_multiplication(const float* A, const float* B, float* C, int M, int N, int K)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M && column < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) {
            sum += A[(size_t)row * K + k] * B[(size_t)k * N + column];
        }
        C[(size_t)row * N + column] = sum;
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K)
{
    dim3 threads(16, 16);
    dim3 blocks((N + threads.x - 1) / threads.x, (M + threads.y - 1) / threads.y);
    matrix_multiplication<<<blocks, threads>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
