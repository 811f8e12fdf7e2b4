// Sum: what a thread adds up, how a block joins its threads, and how the grid joins its blocks.

#include <cstdint>
#include <cuda_runtime.h>

#define THREADS 512  // of a block
#define ITEMS 4  // elements a thread loads before it needs the first
#define WIDTH 1  // elements of one load

constexpr int kLoads = ITEMS / WIDTH;
constexpr int kMostBlocks = 1024;

struct alignas(sizeof(float) * WIDTH) Vector {
    float at[WIDTH];
};

// Idea: a thread's loads do not depend on each other, and neighbours load neighbouring vectors. One
// running sum for each element of a vector keeps the chains of additions short.
__device__ float thread_sum(const float* __restrict__ input, unsigned n)
{
    bool wide = reinterpret_cast<uintptr_t>(input) % sizeof(Vector) == 0;
    unsigned vectors = wide ? n / WIDTH : 0;
    Vector sums = {};
    for (unsigned first = blockIdx.x * THREADS * kLoads + threadIdx.x; first < vectors;
         first += gridDim.x * THREADS * kLoads) {
        Vector loaded[kLoads] = {};
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            if (first + i * THREADS < vectors) {
                loaded[i] = reinterpret_cast<const Vector*>(input)[first + i * THREADS];
            }
        }
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                sums.at[j] += loaded[i].at[j];
            }
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        sum += sums.at[j];
    }
    return sum;
}

// Idea: one atomic addition for all that was summed before.
__global__ void __launch_bounds__(THREADS) reduce(const float* __restrict__ input, float* output, int n)
{
    float sum = thread_sum(input, n);
    atomicAdd(output, sum);
}

extern "C" void solve(const float* input, float* output, int n)
{
    int wanted = (n - 1) / (THREADS * ITEMS) + 1;
    int blocks = wanted < kMostBlocks ? wanted : kMostBlocks;
    cudaMemsetAsync(output, 0, sizeof(float));
    reduce<<<blocks, THREADS>>>(input, output, n);
    cudaDeviceSynchronize();
}
