// Histogram: where values are counted, how many private copies there are, and how they are joined.

#include <cstdint>
#include <cuda_runtime.h>

#define COPIES 4  // of a block's counters, so that fewer threads meet at one
#define THREADS 512  // of a block
#define WIDTH 1  // values of one load
#define ITEMS 16  // values a thread loads before it counts the first

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
}

// Idea: nothing to join and no limit on the bins, at the price that all threads meet in L2.
__global__ void __launch_bounds__(THREADS)
    count_global(const int* __restrict__ input, int* histogram, int n, int num_bins)
{
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
    int* mine = counters + threadIdx.x % copies;
    for_each_bin(input, n, num_bins, [&](unsigned bin) { atomicAdd(mine + bin * copies, 1); });
    __syncthreads();
    for (int bin = threadIdx.x; bin < num_bins; bin += THREADS) {
        int sum = 0;
        for (int copy = 0; copy < copies; ++copy) {
            sum += counters[bin * copies + (bin + copy) % copies]; // lanes begin at different banks
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

extern "C" void solve(const int* input, int* histogram, int n, int num_bins)
{
    size_t bytes = sizeof(int) * (size_t)num_bins;
    int copies = COPIES;
    while (copies > 1 && bytes * copies > kMostShared) {
        copies /= 2;
    }
    if (bytes <= kMostShared) {
        int blocks = count_blocks(count_private, bytes * copies, n);
        cudaMemsetAsync(histogram, 0, bytes);
        count_private<<<blocks, THREADS, bytes * copies>>>(input, histogram, n, num_bins, copies);
        cudaDeviceSynchronize();
        return;
    }
    int blocks = count_blocks(count_global, 0, n);
    cudaMemsetAsync(histogram, 0, bytes);
    count_global<<<blocks, THREADS>>>(input, histogram, n, num_bins);
    cudaDeviceSynchronize();
}
