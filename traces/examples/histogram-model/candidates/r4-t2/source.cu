// Small inputs: arrivals counted inside bin words; no gate.

#include <cuda_runtime.h>
#include <cstddef>

#define TINY_THREADS 512   // tunable: 256 384 512 768 1024
#define TINY_VEC 2         // tunable: 1 2
#define TINY_LIMIT 131072  // tunable: 0 131072 262144
#define THREADS 512        // tunable: 512 736
#define BLOCKS_PER_SM 2    // tunable: 1 2
#define SMALL_THREADS 512  // tunable: 416 512
#define UNROLL 2           // tunable: 2 4
// tunable-if: TINY_THREADS * TINY_VEC * 1020 >= TINY_LIMIT
// tunable-if: (THREADS + 32) * BLOCKS_PER_SM <= 1536

typedef unsigned long long u64;

static const unsigned SMS = 84;
static const unsigned TINY_PAIRS = 1024;
static const size_t SHARED_DEFAULT = 48 * 1024;
static const size_t SHARED_OPT_IN = 99 * 1024;

// Meeting words of the blocks of one launch, one for each pair of bins: 28 bits of count for
// either bin and, above them, 8 bits for the number of blocks that have added theirs. Who adds
// last sees the whole sum in what the addition returns, writes it to the histogram and puts the
// word back to 0. All are 0 before and after every launch; no block ever waits.
__device__ __align__(256) u64 joined[TINY_PAIRS] = {};

// Gate between the blocks of one launch, for larger inputs, where it is hidden behind the loads.
// Every block adds exactly one to each word with an atomicInc that wraps at the number of
// blocks, so both are 0 again by the end of each launch. They hold no counts and no results.
//   entered: who draws 0 has started first and zeroes the histogram.
//   opened:  not 0 as soon as the histogram is zeroed; wraps to 0 with the last block,
//            and a block adds its one only after it has seen that the gate is open.
// A block waits only for one that has started before it, so all need not be resident.
__device__ __align__(128) unsigned entered = 0u;
__device__ __align__(128) unsigned opened = 0u;

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

// One pass, at most 255 blocks, fewer than 2^28 values, at most 2 * TINY_PAIRS bins.
template <int T, int V>
__global__ void __launch_bounds__(T)
count_tiny(const int* __restrict__ input, int* __restrict__ histogram,
           unsigned n, unsigned num_bins)
{
    extern __shared__ __align__(16) int counts[];
    int2* both = reinterpret_cast<int2*>(counts);

    const unsigned tid = threadIdx.x;
    const unsigned n4 = n >> 2;
    const unsigned rest = n & 3u;
    const unsigned pairs = (num_bins + 1u) >> 1;

    // The loads are on their way while the shared counts are cleared.
    int4 v[V];
    load_vectors<V>(v, reinterpret_cast<const int4*>(input),
                    blockIdx.x * (unsigned)(T * V) + tid, (unsigned)T, n4);
    int tail = -1;
    if (blockIdx.x == gridDim.x - 1u && tid < rest) {
        tail = input[(size_t)n4 * 4 + tid];
    }
    for (unsigned p = tid; p < pairs; p += (unsigned)T) {
        both[p] = make_int2(0, 0);
    }
    __syncthreads();

#pragma unroll
    for (int k = 0; k < V; ++k) {
        count_one(counts, v[k].x, num_bins);
        count_one(counts, v[k].y, num_bins);
        count_one(counts, v[k].z, num_bins);
        count_one(counts, v[k].w, num_bins);
    }
    count_one(counts, tail, num_bins);
    __syncthreads();

    const u64 mask = ((u64)1 << 28) - 1;
    for (unsigned p = tid; p < pairs; p += (unsigned)T) {
        const int2 c = both[p];
        const u64 word = ((u64)1 << 56) | ((u64)(unsigned)c.y << 28) | (u64)(unsigned)c.x;
        const u64 old = atomicAdd(joined + p, word);
        if ((unsigned)(old >> 56) == gridDim.x - 1u) {
            const u64 total = old + word;
            const int lo = (int)(total & mask);
            const int hi = (int)((total >> 28) & mask);
            if (2u * p + 1u < num_bins) {
                reinterpret_cast<int2*>(histogram)[p] = make_int2(lo, hi);
            } else {
                histogram[2u * p] = lo;
            }
            joined[p] = 0;
        }
    }
}

// T threads count; one more warp, the last, sees to the zeroing of the histogram meanwhile.
template <int T, int U>
__global__ void __launch_bounds__(T + 32)
count_shared(const int* __restrict__ input, int* histogram, unsigned n, unsigned num_bins)
{
    extern __shared__ __align__(16) int counts[];
    int2* both = reinterpret_cast<int2*>(counts);

    const unsigned tid = threadIdx.x;
    const bool worker = tid < (unsigned)T;
    const unsigned n4 = n >> 2;
    const unsigned rest = n & 3u;
    const unsigned stride = gridDim.x * (unsigned)T;
    const int4* in4 = reinterpret_cast<const int4*>(input);
    const unsigned pairs = (num_bins + 1u) >> 1;

    unsigned i = blockIdx.x * (unsigned)T + tid;
    int4 cur[U];
    int tail = -1;
    unsigned turn = 0u;

    if (worker) {
        // The first loads are on their way while the shared counts are cleared.
        load_vectors<U>(cur, in4, i, stride, n4);
        if (blockIdx.x == gridDim.x - 1u && tid < rest) {
            tail = input[(size_t)n4 * 4 + tid];
        }
        for (unsigned p = tid; p < pairs; p += (unsigned)T) {
            both[p] = make_int2(0, 0);
        }
    } else if (tid == (unsigned)T) {
        turn = atomicInc(&entered, gridDim.x - 1u);
    }
    __syncthreads();

    if (worker) {
        while (i < n4) {
            unsigned next = i + (unsigned)U * stride;
            int4 ahead[U];
            load_vectors<U>(ahead, in4, next, stride, n4);
#pragma unroll
            for (int k = 0; k < U; ++k) {
                count_one(counts, cur[k].x, num_bins);
                count_one(counts, cur[k].y, num_bins);
                count_one(counts, cur[k].z, num_bins);
                count_one(counts, cur[k].w, num_bins);
            }
#pragma unroll
            for (int k = 0; k < U; ++k) {
                cur[k] = ahead[k];
            }
            i = next;
        }
        count_one(counts, tail, num_bins);
    } else {
        const unsigned lane = tid - (unsigned)T;
        turn = __shfl_sync(0xffffffffu, turn, 0);
        if (turn == 0u) {
            for (unsigned b = lane; b < num_bins; b += 32u) {
                histogram[b] = 0;
            }
            __threadfence();
            __syncwarp();
            if (lane == 0u) {
                atomicInc(&opened, gridDim.x - 1u);
            }
        } else if (lane == 0u) {
            volatile unsigned* gate = &opened;
            while (*gate == 0u) {
            }
            __threadfence();
            atomicInc(&opened, gridDim.x - 1u);
        }
    }
    __syncthreads();

    // The histogram is zero by now, or holds what other blocks have added. Two bins go with one
    // addition of 64 bits: no bin reaches 2^31, so nothing carries from the lower to the upper.
    for (unsigned p = tid; p < pairs; p += (unsigned)(T + 32)) {
        const int2 c = both[p];
        if (2u * p + 1u < num_bins) {
            const u64 word = ((u64)(unsigned)c.y << 32) | (u64)(unsigned)c.x;
            if (word != 0) {
                atomicAdd(reinterpret_cast<u64*>(histogram) + p, word);
            }
        } else if (c.x != 0) {
            atomicAdd(histogram + 2u * p, c.x);
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

    // One copy of the counts, rounded up to whole pairs.
    const size_t one_copy = 2 * sizeof(int) * (((size_t)bins + 1) / 2);

    if (un <= (unsigned)TINY_LIMIT && bins <= 2u * TINY_PAIRS) {
        // The limit keeps this at 255 blocks at most, and every vector has its thread.
        unsigned blocks = grid_for(n4, TINY_THREADS * TINY_VEC, 255u);
        count_tiny<TINY_THREADS, TINY_VEC>
            <<<blocks, TINY_THREADS, one_copy>>>(input, histogram, un, bins);
        return;
    }

    if (one_copy <= SHARED_DEFAULT) {
        if (n4 < SMS * (unsigned)(THREADS * BLOCKS_PER_SM)) {
            unsigned blocks = grid_for(n4, SMALL_THREADS, SMS);
            count_shared<SMALL_THREADS, UNROLL>
                <<<blocks, SMALL_THREADS + 32, one_copy>>>(input, histogram, un, bins);
        } else {
            unsigned blocks = grid_for(n4, THREADS, SMS * BLOCKS_PER_SM);
            count_shared<THREADS, UNROLL>
                <<<blocks, THREADS + 32, one_copy>>>(input, histogram, un, bins);
        }
        return;
    }

    if (one_copy <= SHARED_OPT_IN && un / 32u >= bins) {
        bool fits = cudaFuncSetAttribute(count_shared<THREADS, UNROLL>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         (int)one_copy) == cudaSuccess;
        if (fits) {
            unsigned blocks = grid_for(n4, THREADS, SMS);
            count_shared<THREADS, UNROLL>
                <<<blocks, THREADS + 32, one_copy>>>(input, histogram, un, bins);
            return;
        }
        cudaGetLastError();
    }

    zero_bins<<<(bins + 255u) / 256u, 256>>>(histogram, bins);
    unsigned blocks = grid_for(n4, 256, SMS * 6);
    count_global<<<blocks, 256>>>(input, histogram, un, bins);
}
