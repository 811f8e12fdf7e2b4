// Array reversal in place: how wide an access is, how many are under way, and who fills the chip.

#include <cuda_runtime.h>

#define GRID 0      // tunable: 0 1 2; a block for each tile, smaller tiles where they are few, blocks that loop
#define THREADS 256 // tunable: 128 256 512; of a block
#define PAIRS 1     // tunable: 1 2 4; pairs of vectors a thread loads before it needs the first
#define WIDTH 1     // tunable: 1 2 4; elements of one access, where the length is a multiple of it
#define STREAM 0    // tunable: 0 1 2; lines to keep as usual, written and read once, written once

// tunable-hint: latency PAIRS=4
// tunable-hint: dram_bandwidth PAIRS=2
// tunable-hint: issue WIDTH=4
// tunable-hint: int WIDTH=4
// tunable-hint: l1_bandwidth WIDTH=4
// tunable-hint: l2_bandwidth STREAM=1
// tunable-hint: low_occupancy THREADS=256
// tunable-hint: launch_overhead GRID=1
// tunable-hint: tail GRID=2

__device__ float turned(float value)
{
    return value;
}

#if WIDTH > 1
__device__ float2 turned(float2 value)
{
    return make_float2(value.y, value.x);
}
#endif

#if WIDTH == 4
__device__ float4 turned(float4 value)
{
    return make_float4(value.w, value.z, value.y, value.x);
}
#endif

template <typename Vector>
__device__ Vector load(const Vector* from)
{
#if STREAM == 1
    return __ldcs(from);
#else
    return *from;
#endif
}

template <typename Vector>
__device__ void store(Vector* to, Vector value)
{
#if STREAM == 0
    *to = value;
#else
    __stcs(to, value);
#endif
}

// Idea: a thread holds both vectors of a pair before it stores either, so nobody else needs to wait.
// The vector in the middle of an odd number is its own partner, and is turned like any other.
template <typename Vector, int kPairs>
__device__ void swap_tile(Vector* data, unsigned vectors, unsigned pairs, unsigned first)
{
    Vector front[kPairs];
    Vector back[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
        unsigned at = first + i * blockDim.x;
        if (at < pairs) {
            front[i] = load(data + at);
            back[i] = load(data + (vectors - 1 - at));
        }
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
        unsigned at = first + i * blockDim.x;
        if (at < pairs) {
            store(data + at, turned(back[i]));
            store(data + (vectors - 1 - at), turned(front[i]));
        }
    }
}

template <typename Vector, int kPairs>
__global__ void __launch_bounds__(THREADS) swap_ends(Vector* data, unsigned vectors)
{
    unsigned pairs = (vectors + 1) / 2;
    unsigned tile = blockDim.x * kPairs;
    unsigned first = blockIdx.x * tile + threadIdx.x;
#if GRID == 2
    for (; first < pairs; first += gridDim.x * tile) {
        swap_tile<Vector, kPairs>(data, vectors, pairs, first);
    }
#else
    swap_tile<Vector, kPairs>(data, vectors, pairs, first);
#endif
}

#if GRID > 0
int count_multiprocessors()
{
    int device = 0;
    int count = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
}
#endif

template <typename Vector>
void reverse(float* data, int n)
{
    Vector* vectors = reinterpret_cast<Vector*>(data);
    int count = n / (sizeof(Vector) / sizeof(float));
    int pairs = count / 2 + count % 2;
    int blocks = (pairs - 1) / (THREADS * PAIRS) + 1;
#if GRID == 1
    // Latency decides where a chip is not filled: as many multiprocessors as possible take part.
    int processors = count_multiprocessors();
    if (blocks < 2 * processors) {
        int threads = THREADS;
        while (threads > 64 && (pairs - 1) / threads + 1 < processors) {
            threads /= 2;
        }
        swap_ends<Vector, 1><<<(pairs - 1) / threads + 1, threads>>>(vectors, count);
        return;
    }
#elif GRID == 2
    int each = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, swap_ends<Vector, PAIRS>, THREADS, 0);
    int resident = count_multiprocessors() * each;
    blocks = blocks < resident ? blocks : resident;
#endif
    swap_ends<Vector, PAIRS><<<blocks, THREADS>>>(vectors, count);
}

extern "C" void solve(float* data, int n)
{
#if WIDTH == 4
    if (n % 4 == 0) {
        reverse<float4>(data, n);
        cudaDeviceSynchronize();
        return;
    }
#endif
#if WIDTH > 1
    if (n % 2 == 0) {
        reverse<float2>(data, n);
        cudaDeviceSynchronize();
        return;
    }
#endif
    reverse<float>(data, n);
    cudaDeviceSynchronize();
}
