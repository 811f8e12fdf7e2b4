// Small sizes: one pass, every load issued first, shorter gate.

#include <cuda_runtime.h>
#include <cstddef>

#define TINY_THREADS 224   // tunable: 96 128 224 256 480
#define TINY_LOADS 2       // tunable: 1 2 4
#define SMALL_THREADS 512  // tunable: 416 480 512 736
#define SMALL_LOADS 2      // tunable: 2 4
// tunable-if: TINY_THREADS * TINY_LOADS <= 1024

// Loops over larger inputs, one set of loads ahead.
#define THREADS 512
#define BLOCKS_PER_SM 2
#define UNROLL 2

static const unsigned SMS = 84;
static const unsigned TINY_VECTORS = 32768;  // up to here few, small blocks
static const size_t SHARED_DEFAULT = 48 * 1024;
static const size_t SHARED_OPT_IN = 99 * 1024;

// Gate between the blocks of one launch. Every block adds exactly one to each word with an
// atomicInc that wraps at the number of blocks, so both are 0 again, as they were when the
// module was loaded, by the end of each launch. They hold no counts and no results.
//   entered: who draws 0 has started first and zeroes the histogram.
//   opened:  not 0 as soon as the histogram is zeroed; wraps to 0 with the last block,
//            and a block adds its one only after it has seen that the gate is open.
// A block waits only for one that has started before it, so all need not be resident.
__device__ __align__(128) unsigned entered = 0u;
__device__ __align__(128) unsigned opened = 0u;

__device__ __forceinline__ unsigned load_acquire(const unsigned* p)
{
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(v)
                 : "l"(__cvta_generic_to_global(p))
                 : "memory");
    return v;
}

// Loads U vectors, a stride apart; what lies behind the end becomes -1, which no bin counts.
template <int U>
__device__ __forceinline__ void load_vectors(int4 (&v)[U], const int4* __restrict__ in,
                                             unsigned i, unsigned stride, unsigned n4)
{
#pragma unroll
    for (int k = 0; k < U; ++k) {
        unsigned j = i + (unsigned)k * stride;
        v[k] = make_int4(-1, -1, -1, -1);
        if (j < n4) {
            v[k] = __ldcs(in + j);
        }
    }
}

__device__ __forceinline__ void count_one(int* counts, int value, unsigned num_bins)
{
    if ((unsigned)value < num_bins) {
        atomicAdd(counts + value, 1);
    }
}

template <int U>
__device__ __forceinline__ void count_vectors(int* counts, const int4 (&v)[U],
                                              unsigned num_bins)
{
#pragma unroll
    for (int k = 0; k < U; ++k) {
        count_one(counts, v[k].x, num_bins);
        count_one(counts, v[k].y, num_bins);
        count_one(counts, v[k].z, num_bins);
        count_one(counts, v[k].w, num_bins);
    }
}

// T threads count; one more warp, the last, sees to the zeroing of the histogram meanwhile.
// ONCE: the grid times T times U covers all vectors, so one set of loads a thread is all.
template <int T, int U, bool ONCE>
__global__ void __launch_bounds__(T + 32)
count_shared(const int* __restrict__ input, int* histogram, unsigned n, unsigned num_bins)
{
    static_assert(T % 32 == 0 && T + 32 <= 1024, "whole warps");
    extern __shared__ int counts[];

    const unsigned tid = threadIdx.x;
    const bool worker = tid < (unsigned)T;
    const unsigned n4 = n >> 2;
    const unsigned rest = n & 3u;
    const unsigned stride = gridDim.x * (unsigned)T;
    const int4* in4 = reinterpret_cast<const int4*>(input);

    unsigned i = blockIdx.x * (unsigned)T + tid;
    int4 cur[U];
    int tail = -1;
    unsigned turn = 0u;

    // All loads and the draw are on their way while the shared counts are cleared.
    if (worker) {
        load_vectors<U>(cur, in4, i, stride, n4);
        if (blockIdx.x == gridDim.x - 1 && tid < rest) {
            tail = input[(size_t)n4 * 4 + tid];
        }
    } else if (tid == (unsigned)T) {
        turn = atomicInc(&entered, gridDim.x - 1u);
    }
    for (unsigned b = tid; b < num_bins; b += (unsigned)(T + 32)) {
        counts[b] = 0;
    }
    __syncthreads();

    if (worker) {
        if constexpr (ONCE) {
            count_vectors<U>(counts, cur, num_bins);
        } else {
            while (i < n4) {
                unsigned next = i + (unsigned)U * stride;
                int4 ahead[U];
                load_vectors<U>(ahead, in4, next, stride, n4);
                count_vectors<U>(counts, cur, num_bins);
#pragma unroll
                for (int k = 0; k < U; ++k) {
                    cur[k] = ahead[k];
                }
                i = next;
            }
        }
        count_one(counts, tail, num_bins);
    } else {
        const unsigned lane = tid - (unsigned)T;
        turn = __shfl_sync(0xffffffffu, turn, 0);
        if (turn == 0u) {
            // The histogram is aligned to 256 bytes: zero four bins a store.
            const unsigned quads = num_bins >> 2;
            int4* histogram4 = reinterpret_cast<int4*>(histogram);
            for (unsigned q = lane; q < quads; q += 32u) {
                histogram4[q] = make_int4(0, 0, 0, 0);
            }
            if (lane < (num_bins & 3u)) {
                histogram[quads * 4u + lane] = 0;
            }
            __syncwarp();
            if (lane == 0u) {
                __threadfence();
                atomicInc(&opened, gridDim.x - 1u);
            }
        } else if (lane == 0u) {
            while (load_acquire(&opened) == 0u) {
            }
            atomicInc(&opened, gridDim.x - 1u);
        }
    }
    __syncthreads();

    // The histogram is zero by now, or holds what other blocks have added.
    for (unsigned b = tid; b < num_bins; b += (unsigned)(T + 32)) {
        int sum = counts[b];
        if (sum != 0) {
            atomicAdd(histogram + b, sum);
        }
    }
}

// For more bins than shared memory holds.
__global__ void __launch_bounds__(256)
zero_bins(int* __restrict__ histogram, unsigned num_bins)
{
    unsigned b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < num_bins) {
        histogram[b] = 0;
    }
}

__global__ void __launch_bounds__(256)
count_global(const int* __restrict__ input, int* __restrict__ histogram,
             unsigned n, unsigned num_bins)
{
    const unsigned n4 = n >> 2;
    const unsigned rest = n & 3u;
    const unsigned stride = gridDim.x * blockDim.x;
    const int4* in4 = reinterpret_cast<const int4*>(input);

    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += stride) {
        int4 v = __ldcs(in4 + i);
        count_one(histogram, v.x, num_bins);
        count_one(histogram, v.y, num_bins);
        count_one(histogram, v.z, num_bins);
        count_one(histogram, v.w, num_bins);
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x < rest) {
        count_one(histogram, input[(size_t)n4 * 4 + threadIdx.x], num_bins);
    }
}

static unsigned grid_for(unsigned n4, unsigned per_block, unsigned most)
{
    unsigned blocks = (n4 + per_block - 1) / per_block;
    if (blocks < 1) {
        blocks = 1;
    }
    return blocks < most ? blocks : most;
}

extern "C" void solve(const int* input, int* histogram, int n, int num_bins)
{
    const unsigned un = (unsigned)n;
    const unsigned bins = (unsigned)num_bins;
    const unsigned n4 = un >> 2;
    const size_t bytes = sizeof(int) * (size_t)bins;

    if (bytes <= SHARED_DEFAULT) {
        if (n4 <= TINY_VECTORS) {
            // As many blocks as give each thread TINY_LOADS vectors; never capped.
            unsigned blocks = grid_for(n4, TINY_THREADS * TINY_LOADS, TINY_VECTORS);
            count_shared<TINY_THREADS, TINY_LOADS, true>
                <<<blocks, TINY_THREADS + 32, bytes>>>(input, histogram, un, bins);
        } else if (n4 <= SMS * (unsigned)(SMALL_THREADS * SMALL_LOADS)) {
            // One block an SM; with all of them, SMALL_LOADS vectors a thread are enough.
            unsigned blocks = grid_for(n4, SMALL_THREADS, SMS);
            count_shared<SMALL_THREADS, SMALL_LOADS, true>
                <<<blocks, SMALL_THREADS + 32, bytes>>>(input, histogram, un, bins);
        } else {
            unsigned blocks = grid_for(n4, THREADS, SMS * BLOCKS_PER_SM);
            count_shared<THREADS, UNROLL, false>
                <<<blocks, THREADS + 32, bytes>>>(input, histogram, un, bins);
        }
        return;
    }

    if (bytes <= SHARED_OPT_IN && un / 32u >= bins) {
        bool fits = cudaFuncSetAttribute(count_shared<THREADS, UNROLL, false>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         (int)bytes) == cudaSuccess;
        if (fits) {
            unsigned blocks = grid_for(n4, THREADS, SMS);
            count_shared<THREADS, UNROLL, false>
                <<<blocks, THREADS + 32, bytes>>>(input, histogram, un, bins);
            return;
        }
        cudaGetLastError();
    }

    zero_bins<<<(bins + 255u) / 256u, 256>>>(histogram, bins);
    unsigned blocks = grid_for(n4, 256, SMS * 6);
    count_global<<<blocks, 256>>>(input, histogram, un, bins);
}
