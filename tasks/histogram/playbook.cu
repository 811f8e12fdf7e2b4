// Histogram: where values are counted, how many private copies there are, and how they are joined.

#include <cstdint>
#include <cuda_runtime.h>

#define PRIVATE 1   // tunable: 0 1; count in global memory, in shared memory of the block
#define COPIES 1    // tunable: 1 4; of a block's counters, so that fewer threads meet at one
#define SPREAD 0    // tunable: 0 1; a copy serves some of the warps, some lanes of every warp
#define ACROSS 1    // tunable: 0 1 2; blocks join by atomics, a second kernel, a barrier and atomics
#define THREADS 256 // tunable: 256 512 1024; of a block
#define WIDTH 1     // tunable: 1 4; values of one load
#define ITEMS 16    // tunable: 4 16; values a thread loads before it counts the first

// tunable-if: PRIVATE == 1 or COPIES == 1 and ACROSS != 1
// tunable-if: COPIES > 1 or SPREAD == 0

// tunable-hint: atomic_contention PRIVATE=1
// tunable-hint: atomic_contention COPIES=4
// tunable-hint: atomic_contention SPREAD=1
// tunable-hint: bank_conflicts COPIES=4
// tunable-hint: shared_bandwidth COPIES=4
// tunable-hint: l2_bandwidth ACROSS=1
// tunable-hint: launch_overhead ACROSS=2
// tunable-hint: issue WIDTH=4
// tunable-hint: latency WIDTH=4
// tunable-hint: low_occupancy THREADS=512
// tunable-hint: tail ITEMS=4

#if ACROSS == 2
#define _CG_LIMIT_INCLUDED_DEPENDENCIES // no libcu++: it takes nvcc most of its time
#include <cooperative_groups.h>
#endif

#if PRIVATE == 1 && SPREAD == 0 || ACROSS == 1
constexpr int kWarp = 32;
#endif
constexpr int kLoads = ITEMS / WIDTH;
#if PRIVATE == 1
constexpr size_t kMostShared = 48 * 1024; // bytes of a block that every GPU has
#endif
#if ACROSS == 1
constexpr int kMostBlocks = 256; // rows of counters that the task grants as scratch memory
#endif

struct alignas(sizeof(int) * WIDTH) Vector {
    int at[WIDTH];
};

// Calls `count` with each value of this thread that has a bin. Loads do not wait for each other.
template <typename Count>
__device__ void for_each_bin(const int* __restrict__ input, unsigned n, unsigned num_bins, Count count)
{
    bool wide = reinterpret_cast<uintptr_t>(input) % sizeof(Vector) == 0;
    unsigned vectors = wide ? n / WIDTH : 0;
    for (unsigned first = blockIdx.x * THREADS * kLoads + threadIdx.x; first < vectors;
         first += gridDim.x * THREADS * kLoads) {
        Vector loaded[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            unsigned at = first + i * THREADS;
            loaded[i] = reinterpret_cast<const Vector*>(input)[at < vectors ? at : first];
        }
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                unsigned bin = loaded[i].at[j]; // a negative value becomes too large
                if (bin < num_bins && first + i * THREADS < vectors) {
                    count(bin);
                }
            }
        }
    }
#if WIDTH > 1
    // What fills no vector, or everything where the array does not begin at one.
    unsigned step = gridDim.x * THREADS;
    for (unsigned i = vectors * WIDTH + blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        unsigned bin = input[i];
        if (bin < num_bins) {
            count(bin);
        }
    }
#endif
}

#if ACROSS == 2
// Idea: no launch of its own to clear the bins. Afterwards every thread sees zeros.
__device__ void clear_bins(int* histogram, int num_bins)
{
    for (int bin = blockIdx.x * THREADS + threadIdx.x; bin < num_bins; bin += gridDim.x * THREADS) {
        histogram[bin] = 0;
    }
    cooperative_groups::this_grid().sync();
}
#endif

// Idea: nothing to join and no limit on the bins, at the price that all threads meet in L2.
__global__ void __launch_bounds__(THREADS)
    count_global(const int* __restrict__ input, int* histogram, int n, int num_bins)
{
#if ACROSS == 2
    clear_bins(histogram, num_bins);
#endif
    for_each_bin(input, n, num_bins, [&](unsigned bin) { atomicAdd(histogram + bin, 1); });
}

#if PRIVATE == 1
// Idea: counting stays inside an SM; only sums leave it. `copies` is COPIES, or less where so many do
// not fit. The sums go to the histogram, or, to be added later, to this block's row of `sums`.
__global__ void __launch_bounds__(THREADS)
    count_private(const int* __restrict__ input, int* sums, int n, int num_bins, int copies)
{
    extern __shared__ int counters[];
    for (int i = threadIdx.x; i < num_bins * copies; i += THREADS) {
        counters[i] = 0;
    }
    __syncthreads();
#if SPREAD == 0
    int* mine = counters + threadIdx.x / kWarp % copies * num_bins;
    for_each_bin(input, n, num_bins, [&](unsigned bin) { atomicAdd(mine + bin, 1); });
#else
    int* mine = counters + threadIdx.x % copies;
    for_each_bin(input, n, num_bins, [&](unsigned bin) { atomicAdd(mine + bin * copies, 1); });
#endif
#if ACROSS == 2
    clear_bins(sums, num_bins);
#else
    __syncthreads();
#endif
    for (int bin = threadIdx.x; bin < num_bins; bin += THREADS) {
        int sum = 0;
        for (int copy = 0; copy < copies; ++copy) {
#if SPREAD == 0
            sum += counters[copy * num_bins + bin];
#else
            sum += counters[bin * copies + (bin + copy) % copies]; // lanes begin at different banks
#endif
        }
#if ACROSS == 1
        sums[(size_t)blockIdx.x * num_bins + bin] = sum;
#else
        if (sum != 0) {
            atomicAdd(sums + bin, sum);
        }
#endif
    }
}
#endif

#if ACROSS == 1
constexpr int kJoining = 32; // warps that add rows for the same bins

// Idea: no atomics; a warp reads 32 neighbouring bins of a row, 32 warps have 32 rows under way.
__global__ void __launch_bounds__(kJoining* kWarp)
    add_rows(const int* rows, int* histogram, int count, int num_bins)
{
    __shared__ int sums[kJoining][kWarp];
    int bin = blockIdx.x * kWarp + threadIdx.x;
    int sum = 0;
    if (bin < num_bins) {
#pragma unroll 8
        for (int row = threadIdx.y; row < count; row += kJoining) {
            sum += rows[(size_t)row * num_bins + bin];
        }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && bin < num_bins) {
#pragma unroll
        for (int part = 1; part < kJoining; ++part) {
            sum += sums[part][threadIdx.x];
        }
        histogram[bin] = sum;
    }
}
#endif

// Blocks to launch: one for every THREADS * ITEMS values, but no more than are resident together.
template <typename Kernel>
int count_blocks(Kernel kernel, size_t shared_bytes, int n)
{
    int device = 0;
    int processors = 0;
    int each = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, THREADS, shared_bytes);
    int most = processors * each;
    int wanted = (n - 1) / (THREADS * ITEMS) + 1;
    return wanted < most ? wanted : most;
}

#if ACROSS == 2
template <typename Kernel, typename... Arguments>
void launch_together(Kernel kernel, int blocks, size_t shared_bytes, Arguments... arguments)
{
    void* addresses[] = {&arguments...};
    cudaLaunchCooperativeKernel((const void*)kernel, dim3(blocks), dim3(THREADS), addresses, shared_bytes, nullptr);
}
#endif

extern "C" void solve(const int* input, int* histogram, int n, int num_bins)
{
    size_t bytes = sizeof(int) * (size_t)num_bins;
#if PRIVATE == 1
    int copies = COPIES;
    while (copies > 1 && bytes * copies > kMostShared) {
        copies /= 2;
    }
    if (bytes <= kMostShared) {
        int blocks = count_blocks(count_private, bytes * copies, n);
#if ACROSS == 0
        cudaMemsetAsync(histogram, 0, bytes);
        count_private<<<blocks, THREADS, bytes * copies>>>(input, histogram, n, num_bins, copies);
        cudaDeviceSynchronize();
#elif ACROSS == 1
        blocks = blocks < kMostBlocks ? blocks : kMostBlocks;
        int* rows = nullptr;
        cudaMalloc(&rows, bytes * blocks);
        count_private<<<blocks, THREADS, bytes * copies>>>(input, rows, n, num_bins, copies);
        add_rows<<<(num_bins - 1) / kWarp + 1, dim3(kWarp, kJoining)>>>(rows, histogram, blocks, num_bins);
        cudaDeviceSynchronize();
        cudaFree(rows);
#else
        launch_together(count_private, blocks, bytes * copies, input, histogram, n, num_bins, copies);
        cudaDeviceSynchronize();
#endif
        return;
    }
#endif
    int blocks = count_blocks(count_global, 0, n);
#if ACROSS == 2
    launch_together(count_global, blocks, 0, input, histogram, n, num_bins);
#else
    cudaMemsetAsync(histogram, 0, bytes);
    count_global<<<blocks, THREADS>>>(input, histogram, n, num_bins);
#endif
    cudaDeviceSynchronize();
}
