// Sum: what a thread adds up, how a block joins its threads, and how the grid joins its blocks.

#include <cstdint>
#include <cuda_runtime.h>

#define THREADS 256  // of a block
#define ITEMS 8  // elements a thread loads before it needs the first
#define WIDTH 4  // elements of one load

constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;
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
    // What fills no vector, or everything where the array does not begin at one.
    unsigned step = gridDim.x * THREADS;
    for (unsigned i = vectors * WIDTH + blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        sum += input[i];
    }
    return sum;
}

__device__ float warp_sum(float value)
{
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        value += __shfl_down_sync(kWholeWarp, value, distance);
    }
    return value;
}

// Idea: a warp adds up in registers; shared memory and one barrier join the warps only. The sum is
// right in thread 0.
__device__ float block_sum(float value)
{
    constexpr int kWarps = THREADS / kWarp;
    __shared__ float values[kWarps];
    value = warp_sum(value);
    if (threadIdx.x % kWarp == 0) {
        values[threadIdx.x / kWarp] = value;
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
        value = warp_sum(threadIdx.x < kWarps ? values[threadIdx.x] : 0.0f);
    }
    return value;
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

// Idea: blocks count themselves as they finish, so that the last one knows that all sums are there.
__global__ void __launch_bounds__(THREADS)
    reduce(const float* __restrict__ input, float* output, float* partial, unsigned* finished, int n)
{
    __shared__ bool is_last;
    float sum = block_sum(thread_sum(input, n));
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicAdd(finished, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last) {
        __threadfence();
        sum = sum_partial(partial, gridDim.x);
        if (threadIdx.x == 0) {
            *output = sum;
        }
    }
}

extern "C" void solve(const float* input, float* output, int n)
{
    int wanted = (n - 1) / (THREADS * ITEMS) + 1;
    int blocks = wanted < kMostBlocks ? wanted : kMostBlocks;
    float* partial = nullptr;
    cudaMalloc(&partial, sizeof(float) * (kMostBlocks + 1));
    unsigned* finished = reinterpret_cast<unsigned*>(partial + kMostBlocks);
    cudaMemsetAsync(finished, 0, sizeof(unsigned));
    reduce<<<blocks, THREADS>>>(input, output, partial, finished, n);
    cudaDeviceSynchronize();
    cudaFree(partial);
}
