// The plain version: the fallback answer, and what speed-ups are counted from.

#include <cuda_runtime.h>

__global__ void double_elements(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.0f * x[i];
    }
}

extern "C" void solve(const float* x, float* y, int n)
{
    int threads = 256;
    int blocks = (n + threads - 1) / threads;
    double_elements<<<blocks, threads>>>(x, y, n);
    cudaDeviceSynchronize();
}
