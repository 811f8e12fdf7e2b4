// One global atomic addition an element.

#include <cuda_runtime.h>

__global__ void count_values(const int* input, int* histogram, int n, int num_bins)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int bin = input[i];
        if (bin >= 0 && bin < num_bins) {
            atomicAdd(&histogram[bin], 1);
        }
    }
}

extern "C" void solve(const int* input, int* histogram, int n, int num_bins)
{
    int threads = 256;
    int blocks = (n + threads - 1) / threads;
    cudaMemset(histogram, 0, sizeof(int) * num_bins);
    count_values<<<blocks, threads>>>(input, histogram, n, num_bins);
    cudaDeviceSynchronize();
}
