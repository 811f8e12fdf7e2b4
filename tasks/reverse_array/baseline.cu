// One thread swaps one pair.

#include <cuda_runtime.h>

__global__ void reverse_array(float* data, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) {
        float first = data[i];
        data[i] = data[n - 1 - i];
        data[n - 1 - i] = first;
    }
}

extern "C" void solve(float* data, int n)
{
    int threads = 256;
    int blocks = n / 2 / threads + 1;
    reverse_array<<<blocks, threads>>>(data, n);
    cudaDeviceSynchronize();
}
