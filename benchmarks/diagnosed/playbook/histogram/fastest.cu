// Histogram: where values are counted, how many private copies there are, and how they are joined.

#include <cstdint>
#include <cuda_runtime.h>

#define COPIES 1  // of a block's counters, so that fewer threads meet at one
#define THREADS 1024  // of a block
#define WIDTH 4  // values of one load
#define ITEMS 4  // values a thread loads before it counts the first

#define _CG_LIMIT_INCLUDED_DEPENDENCIES // no libcu++: it takes nvcc most of its time
#include <cooperative_groups.h>

constexpr int kWarp = 32;
constexpr int kLoads = ITEMS / WIDTH;
constexpr size_t kMostShared = 48 * 1024; // bytes of a block that every GPU has

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
    // What fills no vector, or everything where the array does not begin at one.
    unsigned step = gridDim.x * THREADS;
    for (unsigned i = vectors * WIDTH + blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        unsigned bin = input[i];
        if (bin < num_bins) {
            count(bin);
        }
    }
}

// Idea: no launch of its own to clear the bins. Afterwards every thread sees zeros.
__device__ void clear_bins(int* histogram, int num_bins)
{
    for (int bin = blockIdx.x * THREADS + threadIdx.x; bin < num_bins; bin += gridDim.x * THREADS) {
        histogram[bin] = 0;
    }
    cooperative_groups::this_grid().sync();
}

// Idea: nothing to join and no limit on the bins, at the price that all threads meet in L2.
__global__ void __launch_bounds__(THREADS)
    count_global(const int* __restrict__ input, int* histogram, int n, int num_bins)
{
    clear_bins(histogram, num_bins);
    for_each_bin(input, n, num_bins, [&](unsigned bin) { atomicAdd(histogram + bin, 1); });
}

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
    int* mine = counters + threadIdx.x / kWarp % copies * num_bins;
    for_each_bin(input, n, num_bins, [&](unsigned bin) { atomicAdd(mine + bin, 1); });
    clear_bins(sums, num_bins);
    for (int bin = threadIdx.x; bin < num_bins; bin += THREADS) {
        int sum = 0;
        for (int copy = 0; copy < copies; ++copy) {
            sum += counters[copy * num_bins + bin];
        }
        if (sum != 0) {
            atomicAdd(sums + bin, sum);
        }
    }
}

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

template <typename Kernel, typename... Arguments>
void launch_together(Kernel kernel, int blocks, size_t shared_bytes, Arguments... arguments)
{
    void* addresses[] = {&arguments...};
    cudaLaunchCooperativeKernel((const void*)kernel, dim3(blocks), dim3(THREADS), addresses, shared_bytes, nullptr);
}

extern "C" void solve(const int* input, int* histogram, int n, int num_bins)
{
    size_t bytes = sizeof(int) * (size_t)num_bins;
    int copies = COPIES;
    while (copies > 1 && bytes * copies > kMostShared) {
        copies /= 2;
    }
    if (bytes <= kMostShared) {
        int blocks = count_blocks(count_private, bytes * copies, n);
        launch_together(count_private, blocks, bytes * copies, input, histogram, n, num_bins, copies);
        cudaDeviceSynchronize();
        return;
    }
    int blocks = count_blocks(count_global, 0, n);
    launch_together(count_global, blocks, 0, input, histogram, n, num_bins);
    cudaDeviceSynchronize();
}
