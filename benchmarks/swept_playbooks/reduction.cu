// Sum: what a thread adds up, how a block joins its threads, and how the grid joins its blocks.

#include <cstdint>
#include <cuda_runtime.h>

#define WITHIN 1    // tunable: 0 1 2; threads join in no way, in a tree in shared memory, by shuffles
#define ACROSS 1    // tunable: 0 1 2 3; blocks join by atomics, a second kernel, the last block, a barrier
#define THREADS 128 // tunable: 128 256 512; of a block
#define ITEMS 4     // tunable: 4 8 32; elements a thread loads before it needs the first
#define WIDTH 1     // tunable: 1 4; elements of one load

// tunable-if: WITHIN > 0 or ACROSS == 0
// tunable-if: WITHIN == 2 or WIDTH == 1

// tunable-hint: atomic_contention WITHIN=2
// tunable-hint: atomic_contention ACROSS=1
// tunable-hint: bank_conflicts WITHIN=2
// tunable-hint: launch_overhead ACROSS=3
// tunable-hint: latency ITEMS=8
// tunable-hint: latency WITHIN=2
// tunable-hint: issue WIDTH=4
// tunable-hint: tail ITEMS=4

#if ACROSS == 3
#define _CG_LIMIT_INCLUDED_DEPENDENCIES // no libcu++: it takes nvcc most of its time
#include <cooperative_groups.h>
#endif

#if WITHIN == 2
constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;
#endif
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
#if WIDTH > 1
    // What fills no vector, or everything where the array does not begin at one.
    unsigned step = gridDim.x * THREADS;
    for (unsigned i = vectors * WIDTH + blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        sum += input[i];
    }
#endif
    return sum;
}

#if WITHIN == 1
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
#elif WITHIN == 2
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
#endif

#if ACROSS > 0
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
#endif

#if ACROSS == 0
// Idea: one atomic addition for all that was summed before.
__global__ void __launch_bounds__(THREADS) reduce(const float* __restrict__ input, float* output, int n)
{
    float sum = thread_sum(input, n);
#if WITHIN == 0
    atomicAdd(output, sum);
#else
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        atomicAdd(output, sum);
    }
#endif
}
#elif ACROSS == 1
// Idea: no atomics, hence the same order of additions in every run; the kernel's end is the barrier. The
// second kernel may start while the first one runs, and waits where it needs the sums.
__global__ void __launch_bounds__(THREADS) reduce(const float* __restrict__ input, float* partial, int n)
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    float sum = block_sum(thread_sum(input, n));
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
}

__global__ void __launch_bounds__(THREADS) join(const float* partial, float* output, int count)
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
    float sum = sum_partial(partial, count);
    if (threadIdx.x == 0) {
        *output = sum;
    }
}

void launch_join(const float* partial, float* output, int count)
{
    int device = 0;
    int generation = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, device);
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(THREADS);
    config.attrs = &early;
    config.numAttrs = generation >= 9 ? 1 : 0;
    cudaLaunchKernelEx(&config, join, partial, output, count);
}
#elif ACROSS == 2
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
#else
// Idea: all blocks are resident at once, so they can wait for each other: one launch, nothing to clear.
__global__ void __launch_bounds__(THREADS)
    reduce(const float* __restrict__ input, float* output, float* partial, int n)
{
    float sum = block_sum(thread_sum(input, n));
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
    cooperative_groups::this_grid().sync();
    if (blockIdx.x == 0) {
        sum = sum_partial(partial, gridDim.x);
        if (threadIdx.x == 0) {
            *output = sum;
        }
    }
}

// Blocks of `reduce` that the device holds at once.
int resident_blocks()
{
    int device = 0;
    int processors = 0;
    int each = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, reduce, THREADS, 0);
    return processors * each;
}
#endif

extern "C" void solve(const float* input, float* output, int n)
{
    int wanted = (n - 1) / (THREADS * ITEMS) + 1;
    int blocks = wanted < kMostBlocks ? wanted : kMostBlocks;
#if ACROSS == 0
    cudaMemsetAsync(output, 0, sizeof(float));
    reduce<<<blocks, THREADS>>>(input, output, n);
    cudaDeviceSynchronize();
#else
    float* partial = nullptr;
    cudaMalloc(&partial, sizeof(float) * (kMostBlocks + 1));
#if ACROSS == 1
    reduce<<<blocks, THREADS>>>(input, partial, n);
    launch_join(partial, output, blocks);
#elif ACROSS == 2
    unsigned* finished = reinterpret_cast<unsigned*>(partial + kMostBlocks);
    cudaMemsetAsync(finished, 0, sizeof(unsigned));
    reduce<<<blocks, THREADS>>>(input, output, partial, finished, n);
#else
    int resident = resident_blocks();
    blocks = blocks < resident ? blocks : resident;
    void* arguments[] = {&input, &output, &partial, &n};
    cudaLaunchCooperativeKernel((const void*)reduce, dim3(blocks), dim3(THREADS), arguments, 0, nullptr);
#endif
    cudaDeviceSynchronize();
    cudaFree(partial);
#endif
}
