// One thread computes one element.

#include <cuda_runtime.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = x[i];
        y[i] = value < 0.0f ? 0.0f : value; // a NaN is not below 0
    }
}

extern "C" void solve(const float* x, float* y, int n)
{
    int threads = 256;
    int blocks = (n - 1) / threads + 1;
    relu<<<blocks, threads>>>(x, y, n);
    cudaDeviceSynchronize();
}
