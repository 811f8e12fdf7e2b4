// Sigmoid: how wide an access is, how many are under way, and who fills the chip.

#include <cuda_runtime.h>

#define GRID 0      // tunable: 0 1 2; a block for each tile, smaller tiles where they are few, blocks that loop
#define THREADS 256 // tunable: 128 256 512; of a block
#define VECTORS 1   // tunable: 1 2 4 8; vectors a thread loads before it needs the first
#define WIDTH 1     // tunable: 1 4; elements of one access
#define STREAM 0    // tunable: 0 1 2; lines to keep as usual, written and read once, written once
#define EXACT 1     // tunable: 0 1; approximate exponential and division, the library's

// tunable-hint: latency VECTORS=4
// tunable-hint: dram_bandwidth VECTORS=4
// tunable-hint: issue WIDTH=4
// tunable-hint: int WIDTH=4
// tunable-hint: l1_bandwidth WIDTH=4
// tunable-hint: l2_bandwidth STREAM=1
// tunable-hint: low_occupancy THREADS=256
// tunable-hint: launch_overhead GRID=1
// tunable-hint: tail GRID=2
// tunable-hint: fp32 EXACT=0
// tunable-hint: issue EXACT=0

#if WIDTH == 1
using Vector = float;
#else
using Vector = float4;
#endif

__device__ Vector load(const Vector* from)
{
#if STREAM == 1
    return __ldcs(from);
#else
    return *from;
#endif
}

__device__ void store(Vector* to, Vector value)
{
#if STREAM == 0
    *to = value;
#else
    __stcs(to, value);
#endif
}

__device__ float sigmoid(float x)
{
#if EXACT == 1
    return 1.0f / (1.0f + expf(-x));
#else
    // 0 where the sum is above 2^126, also where it overflows.
    return __fdividef(1.0f, 1.0f + __expf(-x));
#endif
}

__device__ Vector sigmoid_of(Vector x)
{
#if WIDTH == 1
    return sigmoid(x);
#else
    return make_float4(sigmoid(x.x), sigmoid(x.y), sigmoid(x.z), sigmoid(x.w));
#endif
}

// Idea: neighbouring threads access neighbouring vectors, and the loads of a thread do not wait for
// each other.
template <int kVectors>
__device__ void apply_to_tile(const Vector* __restrict__ x, Vector* __restrict__ y, unsigned vectors, unsigned first)
{
    Vector loaded[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        unsigned at = first + i * blockDim.x;
        if (at < vectors) {
            loaded[i] = load(x + at);
        }
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        unsigned at = first + i * blockDim.x;
        if (at < vectors) {
            store(y + at, sigmoid_of(loaded[i]));
        }
    }
}

template <int kVectors>
__global__ void __launch_bounds__(THREADS)
    apply(const float* __restrict__ x, float* __restrict__ y, unsigned n)
{
    unsigned vectors = n / WIDTH;
    unsigned tile = blockDim.x * kVectors;
    unsigned first = blockIdx.x * tile + threadIdx.x;
    const Vector* from = reinterpret_cast<const Vector*>(x);
    Vector* to = reinterpret_cast<Vector*>(y);
#if GRID == 2
    for (; first < vectors; first += gridDim.x * tile) {
        apply_to_tile<kVectors>(from, to, vectors, first);
    }
#else
    apply_to_tile<kVectors>(from, to, vectors, first);
#endif
#if WIDTH > 1
    unsigned rest = vectors * WIDTH + threadIdx.x; // what fills no vector
    if (blockIdx.x == 0 && rest < n) {
        y[rest] = sigmoid(x[rest]);
    }
#endif
}

int count_blocks(int n, int threads, int vectors)
{
    return (n - 1) / (threads * vectors * WIDTH) + 1;
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

extern "C" void solve(const float* x, float* y, int n)
{
    int blocks = count_blocks(n, THREADS, VECTORS);
#if GRID == 1
    // Latency decides where a chip is not filled: as many multiprocessors as possible take part.
    int processors = count_multiprocessors();
    if (blocks < 2 * processors) {
        int threads = THREADS;
        while (threads > 64 && count_blocks(n, threads, 1) < processors) {
            threads /= 2;
        }
        apply<1><<<count_blocks(n, threads, 1), threads>>>(x, y, n);
        cudaDeviceSynchronize();
        return;
    }
#elif GRID == 2
    int each = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, apply<VECTORS>, THREADS, 0);
    int resident = count_multiprocessors() * each;
    blocks = blocks < resident ? blocks : resident;
#endif
    apply<VECTORS><<<blocks, THREADS>>>(x, y, n);
    cudaDeviceSynchronize();
}
