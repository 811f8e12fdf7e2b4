// CUB's DeviceReduce over squared differences, each already divided by their number.

#include <cub/device/device_reduce.cuh>
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>

struct Square {
    const float* predictions;
    const float* targets;
    float share;

    __device__ float operator()(int i) const
    {
        float difference = predictions[i] - targets[i];
        return difference * difference * share;
    }
};

extern "C" void solve(const float* predictions, const float* targets, float* mse, int n)
{
    thrust::counting_iterator<int> places(0);
    size_t bytes = 0;
    void* scratch = nullptr;
    Square square{predictions, targets, 1.0f / n};
    cub::DeviceReduce::TransformReduce(scratch, bytes, places, mse, n, cuda::std::plus<>{}, square, 0.0f);
    cudaMalloc(&scratch, bytes);
    cub::DeviceReduce::TransformReduce(scratch, bytes, places, mse, n, cuda::std::plus<>{}, square, 0.0f);
    cudaFree(scratch);
}
