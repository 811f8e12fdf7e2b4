// One thread adds up the whole vector.

#include <cuda_runtime.h>

__global__ void prefix_sum(const float* input, float* output, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) {
        sum += input[i];
        output[i] = sum;
    }
}

extern "C" void solve(const float* input, float* output, int n)
{
    prefix_sum<<<1, 1>>>(input, output, n);
    cudaDeviceSynchronize();
}
