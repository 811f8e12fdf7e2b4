// cub::DeviceScan::InclusiveSum.

#include <cub/device/device_scan.cuh>
#include <cuda_runtime.h>

extern "C" void solve(const float* input, float* output, int n)
{
    size_t bytes = 0;
    void* temporary = nullptr;
    cub::DeviceScan::InclusiveSum(nullptr, bytes, input, output, n);
    cudaMalloc(&temporary, bytes);
    cub::DeviceScan::InclusiveSum(temporary, bytes, input, output, n);
    cudaDeviceSynchronize();
    cudaFree(temporary);
}
