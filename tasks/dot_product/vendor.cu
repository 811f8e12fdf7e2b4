// CUB's DeviceReduce over products.

#include <cub/device/device_reduce.cuh>
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>

struct Product {
    const float* a;
    const float* b;

    __device__ float operator()(int i) const { return a[i] * b[i]; }
};

extern "C" void solve(const float* a, const float* b, float* result, int n)
{
    thrust::counting_iterator<int> places(0);
    size_t bytes = 0;
    void* scratch = nullptr;
    Product product{a, b};
    cub::DeviceReduce::TransformReduce(scratch, bytes, places, result, n, cuda::std::plus<>{}, product, 0.0f);
    cudaMalloc(&scratch, bytes);
    cub::DeviceReduce::TransformReduce(scratch, bytes, places, result, n, cuda::std::plus<>{}, product, 0.0f);
    cudaFree(scratch);
}
