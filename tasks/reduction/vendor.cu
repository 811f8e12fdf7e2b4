// cub::DeviceReduce::Sum.

#include <cub/device/device_reduce.cuh>
#include <cuda_runtime.h>

extern "C" void solve(const float* input, float* output, int n)
{
    size_t bytes = 0;
    cub::DeviceReduce::Sum(nullptr, bytes, input, output, n);
    void* scratch = nullptr;
    cudaMalloc(&scratch, bytes);
    cub::DeviceReduce::Sum(scratch, bytes, input, output, n);
    cudaFree(scratch);
}
