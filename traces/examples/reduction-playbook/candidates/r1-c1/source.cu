// Sum: what a thread adds up, how a block joins its threads, and how the grid joins its blocks.

#include <cstdint>
#include <cuda_runtime.h>

#define THREADS 128  // of a block
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

// Idea: halve the number of active threads until one is left. The sum is right in thread 0.
__device__ float block_sum(float value)
{
    __shared__ float values[THREADS];
    values[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            values[threadIdx.x] += values[threadIdx.x + half];
        }
    }
    return values[0];
}

// Sum of what the blocks left in scratch memory, past L1, where another block's stores may not show.
__device__ float sum_partial(const float* partial, int count)
{
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += THREADS) {
        sum += __ldcg(partial + i);
    }
    __syncthreads(); // shared memory of the sum before is free again
    return block_sum(sum);
}

// Idea: no atomics, hence the same order of additions in every run; the kernel's end is the barrier.
__global__ void __launch_bounds__(THREADS) reduce(const float* __restrict__ input, float* partial, int n)
{
    float sum = block_sum(thread_sum(input, n));
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
}

__global__ void __launch_bounds__(THREADS) join(const float* partial, float* output, int count)
{
    float sum = sum_partial(partial, count);
    if (threadIdx.x == 0) {
        *output = sum;
    }
}

extern "C" void solve(const float* input, float* output, int n)
{
    int wanted = (n - 1) / (THREADS * ITEMS) + 1;
    int blocks = wanted < kMostBlocks ? wanted : kMostBlocks;
    float* partial = nullptr;
    cudaMalloc(&partial, sizeof(float) * (kMostBlocks + 1));
    reduce<<<blocks, THREADS>>>(input, partial, n);
    join<<<1, THREADS>>>(partial, output, blocks);
    cudaDeviceSynchronize();
    cudaFree(partial);
}
