// cub::DeviceRadixSort::SortKeysDescending of everything, of which the first k are taken.

#include <cub/device/device_radix_sort.cuh>
#include <cuda_runtime.h>

extern "C" void solve(const float* input, float* output, int n, int k)
{
    float* sorted = nullptr;
    void* temporary = nullptr;
    size_t bytes = 0;
    cudaMalloc(&sorted, sizeof(float) * n);
    cub::DeviceRadixSort::SortKeysDescending(nullptr, bytes, input, sorted, n);
    cudaMalloc(&temporary, bytes);
    cub::DeviceRadixSort::SortKeysDescending(temporary, bytes, input, sorted, n);
    cudaMemcpyAsync(output, sorted, sizeof(float) * k, cudaMemcpyDeviceToDevice);
    cudaDeviceSynchronize();
    cudaFree(temporary);
    cudaFree(sorted);
}
