// Tiny inputs: three bins and arrivals in one atomic word.

#include <cuda_runtime.h>
#include <cstddef>

#define TINY_THREADS 256   // tunable: 128 192 224 256 352 512
#define TINY_WIDTH 4       // tunable: 2 4
#define TINY_FIELDS 3      // tunable: 1 2 3
#define TINY_PER_SM 2      // tunable: 1 2
#define THREADS 512        // tunable: 480 512
#define BLOCKS_PER_SM 1    // tunable: 1 2
#define SMALL_THREADS 512  // tunable: 416 512
#define UNROLL 2           // tunable: 1 2
// tunable-if: (THREADS + 32) * BLOCKS_PER_SM <= 1536

static const unsigned SMS = 84;
static const size_t SHARED_DEFAULT = 48 * 1024;
static const size_t SHARED_OPT_IN = 99 * 1024;

// ---------------------------------------------------------------------------------------
// Tiny inputs: fewer than 2^17 values, at most TINY_BINS bins.
//
// A word holds the totals of F bins, B bits each, and above them the number of blocks that
// have added theirs. Every block adds to every word exactly once; whoever finds that all the
// others have been there writes the F bins and sets the word back to 0, as it was when the
// module was loaded. So nothing has to be zeroed first, no block waits for another, and no
// word carries anything from one launch to the next.
// ---------------------------------------------------------------------------------------

static const unsigned TINY_BINS = 1024;
static const int TINY_BITS = 17;

__device__ __align__(128) unsigned long long totals[TINY_BINS];

template <int F> struct Packed { typedef unsigned long long word; };
template <> struct Packed<1> { typedef unsigned word; };

static_assert(8 * sizeof(Packed<TINY_FIELDS>::word) - TINY_FIELDS * TINY_BITS >= 9,
              "arrivals need room for 2 blocks an SM");
static_assert(SMS * TINY_PER_SM < 512, "arrivals need room");

__device__ __forceinline__ void count_one(int* counts, int value, unsigned num_bins)
{
    if ((unsigned)value < num_bins) {
        atomicAdd(counts + value, 1);
    }
}

// Loads E values; what lies behind the end becomes -1, which no bin counts.
template <int E>
__device__ __forceinline__ void load_values(int (&v)[E], const int* __restrict__ in,
                                            unsigned j, unsigned groups)
{
    static_assert(E == 2 || E == 4, "8 or 16 bytes a load");
#pragma unroll
    for (int e = 0; e < E; ++e) {
        v[e] = -1;
    }
    if (j < groups) {
        if constexpr (E == 4) {
            int4 t = __ldcs(reinterpret_cast<const int4*>(in) + j);
            v[0] = t.x;
            v[1] = t.y;
            v[2] = t.z;
            v[3] = t.w;
        } else {
            int2 t = __ldcs(reinterpret_cast<const int2*>(in) + j);
            v[0] = t.x;
            v[1] = t.y;
        }
    }
}

template <int T, int E, int F, int B>
__global__ void __launch_bounds__(T)
count_tiny(const int* __restrict__ input, int* __restrict__ histogram,
           unsigned n, unsigned num_bins)
{
    typedef typename Packed<F>::word word;
    extern __shared__ int counts[];

    const unsigned tid = threadIdx.x;
    const unsigned groups = n / (unsigned)E;
    const unsigned rest = n % (unsigned)E;
    const unsigned stride = gridDim.x * (unsigned)T;
    const unsigned words = (num_bins + (unsigned)F - 1u) / (unsigned)F;

    // The first load is on its way while the shared counts are cleared.
    unsigned i = blockIdx.x * (unsigned)T + tid;
    int cur[E];
    load_values<E>(cur, input, i, groups);
    int tail = -1;
    if (blockIdx.x == gridDim.x - 1 && tid < rest) {
        tail = input[groups * (unsigned)E + tid];
    }
    for (unsigned b = tid; b < words * (unsigned)F; b += (unsigned)T) {
        counts[b] = 0;
    }
    __syncthreads();

    while (i < groups) {
        const unsigned next = i + stride;
        int ahead[E];
        load_values<E>(ahead, input, next, groups);
#pragma unroll
        for (int e = 0; e < E; ++e) {
            count_one(counts, cur[e], num_bins);
        }
#pragma unroll
        for (int e = 0; e < E; ++e) {
            cur[e] = ahead[e];
        }
        i = next;
    }
    count_one(counts, tail, num_bins);
    __syncthreads();

    word* sums = reinterpret_cast<word*>(totals);
    const word mask = ((word)1 << B) - (word)1;

    for (unsigned w = tid; w < words; w += (unsigned)T) {
        word mine = 0;
#pragma unroll
        for (int k = 0; k < F; ++k) {
            mine |= (word)(unsigned)counts[w * (unsigned)F + (unsigned)k] << (k * B);
        }
        const word before = atomicAdd(sums + w, mine + ((word)1 << (F * B)));
        if ((unsigned)(before >> (F * B)) == gridDim.x - 1u) {
            const word all = before + mine;
#pragma unroll
            for (int k = 0; k < F; ++k) {
                const unsigned b = w * (unsigned)F + (unsigned)k;
                if (b < num_bins) {
                    histogram[b] = (int)((all >> (k * B)) & mask);
                }
            }
            sums[w] = 0;
        }
    }
}

// ---------------------------------------------------------------------------------------
// Larger inputs: one launch, the first block zeroes the histogram while all count.
//
// Gate between the blocks of one launch. Every block adds exactly one to each word with an
// atomicInc that wraps at the number of blocks, so both are 0 again, as they were when the
// module was loaded, by the end of each launch. They hold no counts and no results.
//   entered: who draws 0 has started first and zeroes the histogram.
//   opened:  not 0 as soon as the histogram is zeroed; wraps to 0 with the last block,
//            and a block adds its one only after it has seen that the gate is open.
// A block waits only for one that has started before it, so all need not be resident.
// ---------------------------------------------------------------------------------------

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

// T threads count; one more warp, the last, sees to the zeroing of the histogram meanwhile.
template <int T, int U>
__global__ void __launch_bounds__(T + 32)
count_shared(const int* __restrict__ input, int* histogram, unsigned n, unsigned num_bins)
{
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

    if (worker) {
        // The first loads are on their way while the shared counts are cleared.
        load_vectors<U>(cur, in4, i, stride, n4);
        if (blockIdx.x == gridDim.x - 1 && tid < rest) {
            tail = input[(size_t)n4 * 4 + tid];
        }
        for (unsigned b = tid; b < num_bins; b += (unsigned)T) {
            counts[b] = 0;
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

    // The histogram is zero by now, or holds what other blocks have added.
    for (unsigned b = tid; b < num_bins; b += (unsigned)(T + 32)) {
        int sum = counts[b];
        if (sum != 0) {
            atomicAdd(histogram + b, sum);
        }
    }
}

// ---------------------------------------------------------------------------------------
// For more bins than shared memory holds.
// ---------------------------------------------------------------------------------------

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

static unsigned grid_for(unsigned groups, unsigned threads, unsigned most)
{
    unsigned blocks = (groups + threads - 1) / threads;
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
    const size_t one_copy = sizeof(int) * (size_t)bins;

    if (un < (1u << TINY_BITS) && bins <= TINY_BINS) {
        const unsigned words = (bins + TINY_FIELDS - 1u) / TINY_FIELDS;
        const size_t bytes = sizeof(int) * (size_t)words * TINY_FIELDS;
        const unsigned blocks = grid_for(un / TINY_WIDTH, TINY_THREADS, SMS * TINY_PER_SM);
        count_tiny<TINY_THREADS, TINY_WIDTH, TINY_FIELDS, TINY_BITS>
            <<<blocks, TINY_THREADS, bytes>>>(input, histogram, un, bins);
        return;
    }

    if (one_copy <= SHARED_DEFAULT) {
        if (n4 < SMS * (unsigned)(THREADS * BLOCKS_PER_SM)) {
            const unsigned blocks = grid_for(n4, SMALL_THREADS, SMS);
            count_shared<SMALL_THREADS, UNROLL>
                <<<blocks, SMALL_THREADS + 32, one_copy>>>(input, histogram, un, bins);
        } else {
            const unsigned blocks = grid_for(n4, THREADS, SMS * BLOCKS_PER_SM);
            count_shared<THREADS, UNROLL>
                <<<blocks, THREADS + 32, one_copy>>>(input, histogram, un, bins);
        }
        return;
    }

    if (one_copy <= SHARED_OPT_IN && un / 32u >= bins) {
        const bool fits = cudaFuncSetAttribute(count_shared<THREADS, UNROLL>,
                                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               (int)one_copy) == cudaSuccess;
        if (fits) {
            const unsigned blocks = grid_for(n4, THREADS, SMS);
            count_shared<THREADS, UNROLL>
                <<<blocks, THREADS + 32, one_copy>>>(input, histogram, un, bins);
            return;
        }
        cudaGetLastError();
    }

    zero_bins<<<(bins + 255u) / 256u, 256>>>(histogram, bins);
    const unsigned blocks = grid_for(n4, 256, SMS * 6);
    count_global<<<blocks, 256>>>(input, histogram, un, bins);
}
