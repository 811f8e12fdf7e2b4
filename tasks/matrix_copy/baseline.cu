// One thread copies one element.

#include <cuda_runtime.h>

__global__ void matrix_copy(const float* A, float* B, int n)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < n && column < n) {
        B[(size_t)row * n + column] = A[(size_t)row * n + column];
    }
}

extern "C" void solve(const float* A, float* B, int n)
{
    dim3 threads(16, 16);
    dim3 blocks((n - 1) / threads.x + 1, (n - 1) / threads.y + 1);
    matrix_copy<<<blocks, threads>>>(A, B, n);
    cudaDeviceSynchronize();
}
