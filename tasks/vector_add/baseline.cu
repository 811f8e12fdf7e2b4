// One thread adds one pair of elements.

#include <cuda_runtime.h>

__global__ void vector_add(const float* A, const float* B, float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        C[i] = A[i] + B[i];
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    int threads = 256;
    int blocks = (n + threads - 1) / threads;
    vector_add<<<blocks, threads>>>(A, B, C, n);
    cudaDeviceSynchronize();
}
