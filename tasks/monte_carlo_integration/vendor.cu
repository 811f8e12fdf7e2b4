// CUB's DeviceReduce over samples, each already weighted.

#include <cub/device/device_reduce.cuh>
#include <cuda_runtime.h>

struct Weigh {
    float weight;

    __device__ float operator()(float y) const { return y * weight; }
};

extern "C" void solve(const float* y_samples, float* result, float a, float b, int n)
{
    size_t bytes = 0;
    void* scratch = nullptr;
    Weigh weigh{(b - a) / n};
    cub::DeviceReduce::TransformReduce(scratch, bytes, y_samples, result, n, cuda::std::plus<>{}, weigh, 0.0f);
    cudaMalloc(&scratch, bytes);
    cub::DeviceReduce::TransformReduce(scratch, bytes, y_samples, result, n, cuda::std::plus<>{}, weigh, 0.0f);
    cudaFree(scratch);
}
