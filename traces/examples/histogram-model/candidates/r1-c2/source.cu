// Per-warp shared histograms, prefetched int4 loads, one block reduction.

#include <cuda_runtime.h>

#define THREADS 256      // tunable: 128 256 512
#define SM_THREADS 1536  // tunable: 512 1024 1536
#define UNROLL 2         // tunable: 1 2 4
#define VECTORS 1        // tunable: 1 2 4
#define ZERO_KERNEL 1    // tunable: 0 1
// tunable-if: SM_THREADS % THREADS == 0
// tunable-if: UNROLL * SM_THREADS <= 4096

constexpr int SMS = 84;              // only sizes the grids, results do not depend on it
constexpr int WARPS = THREADS / 32;
constexpr int SMALL_BINS = 256;      // room of a warp's copy in the fast kernel
constexpr int MID_THREADS = 512;
constexpr int MID_WARPS = MID_THREADS / 32;
constexpr int MID_ROOM = 12288;      // ints in 48 KiB of shared memory

__global__ void zero_bins(int* __restrict__ histogram, int num_bins)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (size_t)num_bins; i += stride) {
        histogram[i] = 0;
    }
}

__device__ __forceinline__ int4 load_or_none(const int4* __restrict__ p, unsigned i, unsigned count)
{
    int4 v = make_int4(-1, -1, -1, -1);   // -1 is never counted
    if (i < count) {
        v = __ldg(p + i);
    }
    return v;
}

__device__ __forceinline__ void count_one(int* copy, int value, unsigned bins)
{
    if ((unsigned)value < bins) {
        atomicAdd(&copy[value], 1);
    }
}

// num_bins <= 256: every warp has a copy of its own.
__global__ void __launch_bounds__(THREADS, SM_THREADS / THREADS)
count_small(const int* __restrict__ input, int* __restrict__ histogram, int n, int num_bins)
{
    __shared__ __align__(16) int copies[WARPS][SMALL_BINS];

    const unsigned tid = threadIdx.x;
    const unsigned lane = tid & 31u;
    int* mine = copies[tid >> 5];
    const unsigned bins = (unsigned)num_bins;

    const int4* __restrict__ vectors = reinterpret_cast<const int4*>(input);
    const unsigned count = (unsigned)n >> 2;
    const unsigned stride = gridDim.x * THREADS;
    unsigned i = blockIdx.x * THREADS + tid;

    // The first loads are on their way while the copy is cleared.
    int4 now[UNROLL];
#pragma unroll
    for (int k = 0; k < UNROLL; k++) {
        now[k] = load_or_none(vectors, i + k * stride, count);
    }

    int4* clear = reinterpret_cast<int4*>(mine);
#pragma unroll
    for (int k = 0; k < SMALL_BINS / 128; k++) {
        clear[k * 32 + lane] = make_int4(0, 0, 0, 0);
    }
    __syncwarp();

    for (; i < count; i += UNROLL * stride) {
        int4 next[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            next[k] = load_or_none(vectors, i + (UNROLL + k) * stride, count);
        }
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            count_one(mine, now[k].x, bins);
            count_one(mine, now[k].y, bins);
            count_one(mine, now[k].z, bins);
            count_one(mine, now[k].w, bins);
        }
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            now[k] = next[k];
        }
    }

    // At most three values behind the last whole vector.
    if (blockIdx.x == 0 && tid < ((unsigned)n & 3u)) {
        count_one(mine, input[(size_t)count * 4 + tid], bins);
    }

    __syncthreads();

    for (unsigned b = tid; b < bins; b += THREADS) {
        int sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            sum += copies[w][b];
        }
        if (sum != 0) {
            atomicAdd(&histogram[b], sum);
        }
    }
}

// Up to 12288 bins: as many copies as fit, shared by the warps in turn.
__global__ void __launch_bounds__(MID_THREADS)
count_mid(const int* __restrict__ input, int* __restrict__ histogram, int n, int num_bins, int num_copies)
{
    extern __shared__ int room[];

    const int tid = threadIdx.x;
    const int all = num_copies * num_bins;
    for (int k = tid; k < all; k += MID_THREADS) {
        room[k] = 0;
    }
    __syncthreads();

    int* mine = room + ((tid >> 5) % num_copies) * num_bins;
    const unsigned bins = (unsigned)num_bins;
    const int4* __restrict__ vectors = reinterpret_cast<const int4*>(input);
    const unsigned count = (unsigned)n >> 2;
    const unsigned stride = gridDim.x * MID_THREADS;

    for (unsigned i = blockIdx.x * MID_THREADS + tid; i < count; i += 2 * stride) {
        int4 a = load_or_none(vectors, i, count);
        int4 b = load_or_none(vectors, i + stride, count);
        count_one(mine, a.x, bins);
        count_one(mine, a.y, bins);
        count_one(mine, a.z, bins);
        count_one(mine, a.w, bins);
        count_one(mine, b.x, bins);
        count_one(mine, b.y, bins);
        count_one(mine, b.z, bins);
        count_one(mine, b.w, bins);
    }
    if (blockIdx.x == 0 && (unsigned)tid < ((unsigned)n & 3u)) {
        count_one(mine, input[(size_t)count * 4 + tid], bins);
    }

    __syncthreads();

    for (int b = tid; b < num_bins; b += MID_THREADS) {
        int sum = 0;
        for (int c = 0; c < num_copies; c++) {
            sum += room[c * num_bins + b];
        }
        if (sum != 0) {
            atomicAdd(&histogram[b], sum);
        }
    }
}

// More bins than shared memory holds.
__global__ void __launch_bounds__(256)
count_large(const int* __restrict__ input, int* __restrict__ histogram, int n, int num_bins)
{
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (size_t)n; i += stride) {
        int value = __ldg(input + i);
        if ((unsigned)value < (unsigned)num_bins) {
            atomicAdd(&histogram[value], 1);
        }
    }
}

static int blocks_for(unsigned work, unsigned per_block, unsigned most)
{
    unsigned blocks = work == 0 ? 1u : (work - 1u) / per_block + 1u;
    return (int)(blocks < most ? blocks : most);
}

extern "C" void solve(const int* input, int* histogram, int n, int num_bins)
{
#if ZERO_KERNEL
    zero_bins<<<blocks_for((unsigned)num_bins, 256u, SMS * 12u), 256>>>(histogram, num_bins);
#else
    cudaMemsetAsync(histogram, 0, sizeof(int) * (size_t)num_bins, 0);
#endif

    const unsigned count = (unsigned)n >> 2;
    if (num_bins <= SMALL_BINS) {
        int blocks = blocks_for(count, THREADS * VECTORS, SMS * (SM_THREADS / THREADS));
        count_small<<<blocks, THREADS>>>(input, histogram, n, num_bins);
    } else if (num_bins <= MID_ROOM) {
        int num_copies = MID_ROOM / num_bins;
        if (num_copies > MID_WARPS) {
            num_copies = MID_WARPS;
        }
        size_t bytes = sizeof(int) * (size_t)num_copies * (size_t)num_bins;
        int blocks = blocks_for(count, MID_THREADS * 2u, SMS * 2u);
        count_mid<<<blocks, MID_THREADS, bytes>>>(input, histogram, n, num_bins, num_copies);
    } else {
        int blocks = blocks_for((unsigned)n, 256u, SMS * 24u);
        count_large<<<blocks, 256>>>(input, histogram, n, num_bins);
    }
}
