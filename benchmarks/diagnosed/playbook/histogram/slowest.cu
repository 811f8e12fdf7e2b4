// Histogram: where values are counted, how many private copies there are, and how they are joined.

#include <cstdint>
#include <cuda_runtime.h>

#define THREADS 1024  // of a block
#define WIDTH 1  // values of one load
#define ITEMS 16  // values a thread loads before it counts the first

constexpr int kLoads = ITEMS / WIDTH;

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
    int blocks = count_blocks(count_global, 0, n);
    cudaMemsetAsync(histogram, 0, bytes);
    count_global<<<blocks, THREADS>>>(input, histogram, n, num_bins);
    cudaDeviceSynchronize();
}
