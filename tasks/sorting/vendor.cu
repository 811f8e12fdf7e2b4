// cub::DeviceRadixSort::SortKeys.

#include <cub/device/device_radix_sort.cuh>
#include <cuda_runtime.h>

extern "C" void solve(float* data, int n)
{
    float* other = nullptr;
    void* temporary = nullptr;
    size_t bytes = 0;
    cudaMalloc(&other, sizeof(float) * n);
    cub::DoubleBuffer<float> keys(data, other);
    cub::DeviceRadixSort::SortKeys(nullptr, bytes, keys, n);
    cudaMalloc(&temporary, bytes);
    cub::DeviceRadixSort::SortKeys(temporary, bytes, keys, n);
    if (keys.Current() != data) {
        cudaMemcpyAsync(data, other, sizeof(float) * n, cudaMemcpyDeviceToDevice);
    }
    cudaDeviceSynchronize();
    cudaFree(temporary);
    cudaFree(other);
}
