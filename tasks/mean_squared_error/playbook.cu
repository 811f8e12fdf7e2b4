// Mean squared error: what a thread adds up, how a block joins its threads, how the grid joins its blocks, and
// what one block does alone.

#include <cuda_runtime.h>

#define JOIN 1      // tunable: 0 1 2 3 4; blocks join by atomics of threads, of blocks, a second kernel, the last block, a barrier
#define EARLY 0     // tunable: 0 1; 1: the later of two kernels starts while the earlier one runs
#define ALONE 0     // tunable: 0 4 16; thousands of elements, 1,024 each, that one block takes in one launch
#define SHUFFLES 0  // tunable: 0 1; a block joins in a tree in shared memory, or by shuffles
#define THREADS 256 // tunable: 128 256 512; of a block
#define ITEMS 4     // tunable: 4 8 16; elements a thread loads before it needs the first
#define WIDTH 1     // tunable: 1 4; elements of one load
#define FILL 1      // tunable: 1 2; thousands of threads of a multiprocessor, 1,024 each, at most

// tunable-if: JOIN > 0 or SHUFFLES == 0
// tunable-if: JOIN < 4 or EARLY == 0
// tunable-if: SHUFFLES == 1 or WIDTH == 1 and EARLY == 0
// tunable-if: WIDTH == 4 or ALONE == 0 and FILL == 1

// tunable-hint: atomic_contention JOIN=2
// tunable-hint: bank_conflicts SHUFFLES=1
// tunable-hint: launch_overhead EARLY=1 ALONE=4
// tunable-hint: latency ITEMS=16 SHUFFLES=1
// tunable-hint: issue WIDTH=4
// tunable-hint: dram_bandwidth WIDTH=4
// tunable-hint: tail FILL=2

#include "shared/sums.cuh"

// Idea: a thread's loads do not depend on each other, and neighbours load neighbouring vectors. One
// running sum for each element of a vector keeps the chains of additions short.
__device__ float thread_sum(const float* __restrict__ predictions, const float* __restrict__ targets, unsigned n)
{
    unsigned vectors = n / WIDTH;
    Vector sums = {};
    for (unsigned first = blockIdx.x * blockDim.x * kLoads + threadIdx.x; first < vectors;
         first += gridDim.x * blockDim.x * kLoads) {
        Vector from_p[kLoads] = {};
        Vector from_t[kLoads] = {};
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            unsigned place = first + i * blockDim.x;
            if (place < vectors) {
                from_p[i] = reinterpret_cast<const Vector*>(predictions)[place];
                from_t[i] = reinterpret_cast<const Vector*>(targets)[place];
            }
        }
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                float difference = from_p[i].at[j] - from_t[i].at[j];
                sums.at[j] += difference * difference;
            }
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        sum += sums.at[j];
    }
#if WIDTH > 1
    unsigned left = vectors * WIDTH + threadIdx.x; // what fills no vector
    if (blockIdx.x == 0 && left < n) {
        float difference = predictions[left] - targets[left];
        sum += difference * difference;
    }
#endif
    return sum;
}

#if JOIN <= 1
// Idea: one atomic addition for all that was summed before.
__global__ void __launch_bounds__(THREADS)
    compare(const float* __restrict__ predictions, const float* __restrict__ targets, float* mse, int n, float factor)
{
    float sum = thread_sum(predictions, targets, n);
#if JOIN == 0
    atomicAdd(mse, sum * factor);
#else
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
#if EARLY == 1
        wait_for_earlier();
#endif
        atomicAdd(mse, sum * factor);
    }
#endif
}
#elif JOIN == 2
// Idea: no atomics, hence the same order of additions in every run; the kernel's end is the barrier.
__global__ void __launch_bounds__(THREADS)
    compare(const float* __restrict__ predictions, const float* __restrict__ targets, float* partial, int n)
{
#if EARLY == 1
    let_start();
#endif
    float sum = block_sum(thread_sum(predictions, targets, n));
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
}

__global__ void __launch_bounds__(THREADS) join(const float* partial, float* mse, int count, float factor)
{
#if EARLY == 1
    wait_for_earlier();
#endif
    float sum = sum_partial(partial, count);
    if (threadIdx.x == 0) {
        *mse = sum * factor;
    }
}
#elif JOIN == 3
// Idea: blocks count themselves as they finish, so that the last one knows that all sums are there.
__global__ void __launch_bounds__(THREADS)
    compare(const float* __restrict__ predictions, const float* __restrict__ targets, float* mse, float* partial,
             unsigned* finished, int n, float factor)
{
    __shared__ bool is_last;
    float sum = block_sum(thread_sum(predictions, targets, n));
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
#if EARLY == 1
        wait_for_earlier();
#endif
        is_last = atomicAdd(finished, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last) {
        __threadfence();
        sum = sum_partial(partial, gridDim.x);
        if (threadIdx.x == 0) {
            *mse = sum * factor;
        }
    }
}
#else
// Idea: all blocks are resident at once, so they can wait for each other: one launch, nothing to clear.
__global__ void __launch_bounds__(THREADS)
    compare(const float* __restrict__ predictions, const float* __restrict__ targets, float* mse, float* partial, int n, float factor)
{
    float sum = block_sum(thread_sum(predictions, targets, n));
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
    cooperative_groups::this_grid().sync();
    if (blockIdx.x == 0) {
        sum = sum_partial(partial, gridDim.x);
        if (threadIdx.x == 0) {
            *mse = sum * factor;
        }
    }
}
#endif

#if ALONE > 0
// Idea: at small sizes a second launch takes longer than what the other multiprocessors would save.
__global__ void __launch_bounds__(kThousand)
    compare_alone(const float* __restrict__ predictions, const float* __restrict__ targets, float* mse, int n, float factor)
{
    float sum = block_sum(thread_sum(predictions, targets, n));
    if (threadIdx.x == 0) {
        *mse = sum * factor;
    }
}
#endif

// Blocks of the whole device: no more than there is work for.
int blocks_for(int n)
{
    int device = 0;
    int processors = 0;
    int each = FILL * kThousand / THREADS;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
#if JOIN == 4
    int held = 0; // blocks that wait for each other have to be there at once
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&held, compare, THREADS, 0);
    each = each < held ? each : held;
#endif
    int wanted = (n - 1) / (THREADS * ITEMS) + 1;
    return wanted < processors * each ? wanted : processors * each;
}

extern "C" void solve(const float* predictions, const float* targets, float* mse, int n)
{
    float factor = 1.0f / n;
#if ALONE > 0
    if (n <= ALONE * kThousand) {
        int warps = (n - 1) / (WIDTH * kWarp) + 1;
        int threads = warps * kWarp < kThousand ? warps * kWarp : kThousand;
        compare_alone<<<1, threads>>>(predictions, targets, mse, n, factor);
        cudaDeviceSynchronize();
        return;
    }
#endif
    int blocks = blocks_for(n);
#if JOIN <= 1
#if EARLY == 1
    clear<<<1, 1>>>(reinterpret_cast<unsigned*>(mse));
    launch_early(compare, blocks, predictions, targets, mse, n, factor);
#else
    cudaMemsetAsync(mse, 0, sizeof(float));
    compare<<<blocks, THREADS>>>(predictions, targets, mse, n, factor);
#endif
    cudaDeviceSynchronize();
#else
    float* partial = nullptr;
    cudaMalloc(&partial, sizeof(float) * (blocks + 1));
#if JOIN == 2
    compare<<<blocks, THREADS>>>(predictions, targets, partial, n);
#if EARLY == 1
    launch_early(join, 1, partial, mse, blocks, factor);
#else
    join<<<1, THREADS>>>(partial, mse, blocks, factor);
#endif
#elif JOIN == 3
    unsigned* finished = reinterpret_cast<unsigned*>(partial + blocks);
#if EARLY == 1
    clear<<<1, 1>>>(finished);
    launch_early(compare, blocks, predictions, targets, mse, partial, finished, n, factor);
#else
    cudaMemsetAsync(finished, 0, sizeof(unsigned));
    compare<<<blocks, THREADS>>>(predictions, targets, mse, partial, finished, n, factor);
#endif
#else
    void* arguments[] = {&predictions, &targets, &mse, &partial, &n, &factor};
    cudaLaunchCooperativeKernel((const void*)compare, dim3(blocks), dim3(THREADS), arguments, 0, nullptr);
#endif
    cudaDeviceSynchronize();
    cudaFree(partial);
#endif
}
