// Loads issued first; atomic words carry arrivals, no zeroing gate.

#include <cuda_runtime.h>
#include <cstddef>

#define TINY_THREADS 256   // tunable: 256 384 512
#define TINY_LOADS 2       // tunable: 1 2 4
#define SMALL_THREADS 512  // tunable: 256 416 512 800
#define SMALL_LOADS 2      // tunable: 2 4
#define THREADS 512        // tunable: 256 512 768
#define BLOCKS_PER_SM 2    // tunable: 1 2 3
#define UNROLL 2           // tunable: 1 2 4
// tunable-if: THREADS * BLOCKS_PER_SM <= 1536

typedef unsigned long long u64;

static const unsigned SMS = 84;
static const unsigned SHARED_BINS = 12288;        // 48 KiB of counts
static const unsigned TINY_VECTORS = 32768;       // 131,072 values
static const unsigned PAIRED_LIMIT = 1u << 28;    // counts of fewer values fit 28 bits

// Meeting place of the blocks of one launch. Every block adds exactly once to each word:
// its counts in the low fields, and one arrival in the highest field. The block whose
// addition finds all others there already has the whole sum in hand: it writes the bins
// and sets the word back to 0, as it was when the module was loaded. So no block waits for
// another, nothing has to be zeroed before, and no count outlives a launch.
//   paired: bits 0-27 the even bin, 28-55 the odd bin, 56-63 arrivals (at most 255 blocks)
//   single: bits 0-31 the bin, 32-63 arrivals
__device__ __align__(256) u64 meeting[SHARED_BINS];

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

// Clears the counts of a block, two bins at a time.
template <int T>
__device__ __forceinline__ void clear_counts(int2* pairs, unsigned words)
{
    for (unsigned w = threadIdx.x; w < words; w += (unsigned)T) {
        pairs[w] = make_int2(0, 0);
    }
}

// Adds the counts of a block, two bins to a word; the last block to arrive writes them.
template <int T>
__device__ __forceinline__ void merge_paired(const int2* pairs, int* histogram,
                                             unsigned words, unsigned num_bins)
{
    const unsigned others = gridDim.x - 1u;
    const u64 mask = (1ull << 28) - 1ull;
    for (unsigned w = threadIdx.x; w < words; w += (unsigned)T) {
        int2 c = pairs[w];
        u64 add = (1ull << 56) | ((u64)(unsigned)c.y << 28) | (u64)(unsigned)c.x;
        u64 old = atomicAdd(meeting + w, add);
        if ((unsigned)(old >> 56) == others) {
            u64 all = old + add;
            int even = (int)(all & mask);
            int odd = (int)((all >> 28) & mask);
            if (2u * w + 1u < num_bins) {
                reinterpret_cast<int2*>(histogram)[w] = make_int2(even, odd);
            } else {
                histogram[2u * w] = even;
            }
            meeting[w] = 0ull;
        }
    }
}

// The same with a word for each bin, for counts that 28 bits may not hold.
template <int T>
__device__ __forceinline__ void merge_single(const int* counts, int* histogram,
                                             unsigned num_bins)
{
    const unsigned others = gridDim.x - 1u;
    for (unsigned b = threadIdx.x; b < num_bins; b += (unsigned)T) {
        u64 add = (1ull << 32) | (u64)(unsigned)counts[b];
        u64 old = atomicAdd(meeting + b, add);
        if ((unsigned)(old >> 32) == others) {
            histogram[b] = (int)(unsigned)((old + add) & 0xffffffffull);
            meeting[b] = 0ull;
        }
    }
}

// Few values: U loads a thread cover all of them, and all are under way before the shared
// counts are cleared. The grid must satisfy gridDim.x * T * U >= n / 4.
template <int T, int U>
__global__ void __launch_bounds__(T)
count_once(const int* __restrict__ input, int* histogram, unsigned n, unsigned num_bins)
{
    extern __shared__ int2 pairs[];
    int* counts = reinterpret_cast<int*>(pairs);

    const unsigned tid = threadIdx.x;
    const unsigned n4 = n >> 2;
    const unsigned rest = n & 3u;
    const unsigned words = (num_bins + 1u) >> 1;

    int4 v[U];
    load_vectors<U>(v, reinterpret_cast<const int4*>(input), blockIdx.x * (unsigned)T + tid,
                    gridDim.x * (unsigned)T, n4);
    int tail = -1;
    if (blockIdx.x == 0u && tid < rest) {
        tail = input[(size_t)n4 * 4 + tid];
    }

    clear_counts<T>(pairs, words);
    __syncthreads();

    count_vectors<U>(counts, v, num_bins);
    if (blockIdx.x == 0u && tid < rest) {
        count_one(counts, tail, num_bins);
    }
    __syncthreads();

    merge_paired<T>(pairs, histogram, words, num_bins);
}

// Many values: each thread counts U vectors while the next U are under way.
template <int T, int U, bool PAIRED>
__global__ void __launch_bounds__(T)
count_many(const int* __restrict__ input, int* histogram, unsigned n, unsigned num_bins)
{
    extern __shared__ int2 pairs[];
    int* counts = reinterpret_cast<int*>(pairs);

    const unsigned tid = threadIdx.x;
    const unsigned n4 = n >> 2;
    const unsigned rest = n & 3u;
    const unsigned words = (num_bins + 1u) >> 1;
    const unsigned stride = gridDim.x * (unsigned)T;
    const int4* in4 = reinterpret_cast<const int4*>(input);

    unsigned i = blockIdx.x * (unsigned)T + tid;
    int4 cur[U];
    load_vectors<U>(cur, in4, i, stride, n4);
    int tail = -1;
    if (blockIdx.x == gridDim.x - 1u && tid < rest) {
        tail = input[(size_t)n4 * 4 + tid];
    }

    clear_counts<T>(pairs, words);
    __syncthreads();

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
    count_one(counts, tail, num_bins);
    __syncthreads();

    if (PAIRED) {
        merge_paired<T>(pairs, histogram, words, num_bins);
    } else {
        merge_single<T>(counts, histogram, num_bins);
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
    if (blockIdx.x == gridDim.x - 1u && threadIdx.x < rest) {
        count_one(histogram, input[(size_t)n4 * 4 + threadIdx.x], num_bins);
    }
}

static unsigned grid_for(unsigned n4, unsigned per_block, unsigned most)
{
    unsigned blocks = (n4 + per_block - 1u) / per_block;
    if (blocks < 1u) {
        blocks = 1u;
    }
    return blocks < most ? blocks : most;
}

extern "C" void solve(const int* input, int* histogram, int n, int num_bins)
{
    const unsigned un = (unsigned)n;
    const unsigned bins = (unsigned)num_bins;
    const unsigned n4 = un >> 2;

    if (bins <= SHARED_BINS) {
        const size_t bytes = sizeof(int2) * (size_t)((bins + 1u) >> 1);

        if (n4 <= TINY_VECTORS) {
            // At most 128 blocks, and they cover everything in one go.
            unsigned blocks = grid_for(n4, TINY_THREADS * TINY_LOADS, 255u);
            count_once<TINY_THREADS, TINY_LOADS>
                <<<blocks, TINY_THREADS, bytes>>>(input, histogram, un, bins);
        } else if (n4 <= SMS * (unsigned)(SMALL_THREADS * SMALL_LOADS)) {
            // A block an SM; either the grid covers everything with one load a thread, or it
            // has all 84 blocks and covers it with SMALL_LOADS of them.
            unsigned blocks = grid_for(n4, SMALL_THREADS, SMS);
            count_once<SMALL_THREADS, SMALL_LOADS>
                <<<blocks, SMALL_THREADS, bytes>>>(input, histogram, un, bins);
        } else {
            unsigned blocks = grid_for(n4, THREADS, SMS * BLOCKS_PER_SM);
            if (un < PAIRED_LIMIT) {
                count_many<THREADS, UNROLL, true>
                    <<<blocks, THREADS, bytes>>>(input, histogram, un, bins);
            } else {
                count_many<THREADS, UNROLL, false>
                    <<<blocks, THREADS, bytes>>>(input, histogram, un, bins);
            }
        }
        return;
    }

    zero_bins<<<(bins + 255u) / 256u, 256>>>(histogram, bins);
    unsigned blocks = grid_for(n4, 256u, SMS * 6u);
    count_global<<<blocks, 256>>>(input, histogram, un, bins);
}
