// Chooses one of two kernels by the size.
#include <cuda_runtime.h>

namespace small_sizes {
// Register runs, shared bins, arrival-counting 64-bit merge in one launch.



static const unsigned MAX_GRID = 132;   // fits the 16-bit arrival counters

// One word a bin: bits 0..15 blocks that arrived, bits 16..63 the count. Zero between calls.
__device__ unsigned long long g_bins[256] = {};

// Counts a run of equal keys in registers; one shared atomic when the key changes.
template <int COPIES>
__device__ __forceinline__ void step(int v, int& key, int& cnt, int* __restrict__ h, unsigned nb)
{
    const bool change = v != key;
    if (change && (unsigned)key < nb) {
        atomicAdd(h + key * COPIES, cnt);
    }
    cnt = change ? 1 : cnt + 1;
    key = v;
}

template <int THREADS, int VEC>
__device__ __forceinline__ void loadTile(int4 (&v)[VEC], const int4* __restrict__ in4, unsigned base, unsigned end)
{
    const unsigned t = threadIdx.x;
    if (base + (unsigned)(THREADS * VEC) <= end) {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            v[k] = __ldg(in4 + (base + t + (unsigned)(k * THREADS)));
        }
    } else {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            const unsigned i = base + t + (unsigned)(k * THREADS);
            v[k] = make_int4(-1, -1, -1, -1);
            if (i < end) {
                v[k] = __ldg(in4 + i);
            }
        }
    }
}

__device__ __forceinline__ void mergeBin(int* __restrict__ histogram, unsigned bin, int count)
{
    if (gridDim.x == 1u) {
        histogram[bin] = count;
        return;
    }
    const unsigned long long add = ((unsigned long long)(unsigned)count << 16) + 1ull;
    const unsigned long long old = atomicAdd(&g_bins[bin], add);
    if ((unsigned)(old & 0xffffull) == gridDim.x - 1u) {
        histogram[bin] = (int)((old + add) >> 16);
        g_bins[bin] = 0ull;
    }
}

// num_bins <= 256. Block b counts the vectors [b * chunk, (b + 1) * chunk).
// LOOP: a chunk may be several tiles; otherwise chunk == THREADS * VEC.
template <int THREADS, int VEC, int COPIES, bool LOOP>
__global__ void __launch_bounds__(THREADS) histSmall(const int* __restrict__ input, int* __restrict__ histogram, unsigned n, unsigned nb, unsigned chunk)
{
    __shared__ __align__(16) int h[256 * COPIES];

    const int4* __restrict__ in4 = reinterpret_cast<const int4*>(input);
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    const unsigned t = threadIdx.x;

    const unsigned begin = min(blockIdx.x * chunk, n4);
    const unsigned end = min(begin + chunk, n4);

    int4 nxt[VEC];
    loadTile<THREADS, VEC>(nxt, in4, begin, end);
    int extra = -1;
    if (tail != 0u && blockIdx.x == gridDim.x - 1u && t < tail) {
        extra = __ldg(input + ((size_t)n4 * 4u + t));
    }

    for (unsigned i = t; i < 64u * COPIES; i += THREADS) {
        reinterpret_cast<int4*>(h)[i] = make_int4(0, 0, 0, 0);
    }
    __syncthreads();

    int* const mine = h + (t & (unsigned)(COPIES - 1));
    int key = -1;
    int cnt = 0;
    if (LOOP) {
        for (unsigned base = begin; base < end; base += (unsigned)(THREADS * VEC)) {
            int4 cur[VEC];
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                cur[k] = nxt[k];
            }
            loadTile<THREADS, VEC>(nxt, in4, base + (unsigned)(THREADS * VEC), end);
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                step<COPIES>(cur[k].x, key, cnt, mine, nb);
                step<COPIES>(cur[k].y, key, cnt, mine, nb);
                step<COPIES>(cur[k].z, key, cnt, mine, nb);
                step<COPIES>(cur[k].w, key, cnt, mine, nb);
            }
        }
    } else {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            step<COPIES>(nxt[k].x, key, cnt, mine, nb);
            step<COPIES>(nxt[k].y, key, cnt, mine, nb);
            step<COPIES>(nxt[k].z, key, cnt, mine, nb);
            step<COPIES>(nxt[k].w, key, cnt, mine, nb);
        }
    }
    if (tail != 0u) {
        step<COPIES>(extra, key, cnt, mine, nb);
    }
    if ((unsigned)key < nb) {
        atomicAdd(mine + key * COPIES, cnt);
    }
    __syncthreads();

    if (COPIES == 1) {
        if (t < nb) {
            mergeBin(histogram, t, h[t]);
        }
    } else {
        // 16 copies, 1,024 threads: four threads a bin.
        const int4 w = reinterpret_cast<const int4*>(h)[t & 1023u & (unsigned)(64 * COPIES - 1)];
        int s = (w.x + w.y) + (w.z + w.w);
        s += __shfl_xor_sync(0xffffffffu, s, 1);
        s += __shfl_xor_sync(0xffffffffu, s, 2);
        const unsigned bin = t >> 2;
        if ((t & 3u) == 0u && bin < nb) {
            mergeBin(histogram, bin, s);
        }
    }
}

// Bins in dynamic shared memory; histogram was cleared before.
__global__ void __launch_bounds__(1024) histShared(const int* __restrict__ input, int* __restrict__ histogram, unsigned n, unsigned nb)
{
    extern __shared__ int hd[];
    const unsigned t = threadIdx.x;
    for (unsigned i = t; i < nb; i += blockDim.x) {
        hd[i] = 0;
    }
    __syncthreads();

    const int4* __restrict__ in4 = reinterpret_cast<const int4*>(input);
    const unsigned n4 = n >> 2;
    int key = -1;
    int cnt = 0;
    for (unsigned i = blockIdx.x * blockDim.x + t; i < n4; i += gridDim.x * blockDim.x) {
        const int4 v = __ldg(in4 + i);
        step<1>(v.x, key, cnt, hd, nb);
        step<1>(v.y, key, cnt, hd, nb);
        step<1>(v.z, key, cnt, hd, nb);
        step<1>(v.w, key, cnt, hd, nb);
    }
    if (blockIdx.x == 0u && t < (n & 3u)) {
        step<1>(__ldg(input + ((size_t)n4 * 4u + t)), key, cnt, hd, nb);
    }
    if ((unsigned)key < nb) {
        atomicAdd(hd + key, cnt);
    }
    __syncthreads();
    for (unsigned i = t; i < nb; i += blockDim.x) {
        const int c = hd[i];
        if (c != 0) {
            atomicAdd(histogram + i, c);
        }
    }
}

// Any number of bins; histogram was cleared before.
__global__ void __launch_bounds__(256) histGlobal(const int* __restrict__ input, int* histogram, unsigned n, unsigned nb)
{
    const unsigned t = threadIdx.x;
    const int4* __restrict__ in4 = reinterpret_cast<const int4*>(input);
    const unsigned n4 = n >> 2;
    int key = -1;
    int cnt = 0;
    for (unsigned i = blockIdx.x * blockDim.x + t; i < n4; i += gridDim.x * blockDim.x) {
        const int4 v = __ldg(in4 + i);
        const int a[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const bool change = a[k] != key;
            if (change && (unsigned)key < nb) {
                atomicAdd(histogram + key, cnt);
            }
            cnt = change ? 1 : cnt + 1;
            key = a[k];
        }
    }
    if ((unsigned)key < nb) {
        atomicAdd(histogram + key, cnt);
    }
    if (blockIdx.x == 0u && t < (n & 3u)) {
        const int v = __ldg(input + ((size_t)n4 * 4u + t));
        if ((unsigned)v < nb) {
            atomicAdd(histogram + v, 1);
        }
    }
}

 void solve(const int* input, int* histogram, int n, int num_bins)
{
    const unsigned un = (unsigned)n;
    const unsigned nb = (unsigned)num_bins;
    const unsigned n4 = un >> 2;

    if (nb <= 256u) {
        if (n4 <= MAX_GRID * 256u) {
            const unsigned blocks = n4 == 0u ? 1u : (n4 + 255u) / 256u;
            histSmall<256, 1, 1, false><<<blocks, 256>>>(input, histogram, un, nb, 256u);
        } else if (n4 <= MAX_GRID * 512u) {
            const unsigned blocks = (n4 + 511u) / 512u;
            histSmall<256, 2, 1, false><<<blocks, 256>>>(input, histogram, un, nb, 512u);
        } else if (n4 <= MAX_GRID * 2048u) {
            const unsigned blocks = (n4 + 2047u) / 2048u;
            histSmall<512, 4, 1, false><<<blocks, 512>>>(input, histogram, un, nb, 2048u);
        } else {
            unsigned chunk = (n4 + MAX_GRID - 1u) / MAX_GRID;
            chunk = (chunk + 31u) & ~31u;
            histSmall<1024, 4, 16, true><<<MAX_GRID, 1024>>>(input, histogram, un, nb, chunk);
        }
        return;
    }

    cudaMemsetAsync(histogram, 0, (size_t)nb * sizeof(int), 0);
    if (nb <= 12288u && un / 2u >= nb) {
        unsigned blocks = (n4 + 4095u) / 4096u;
        blocks = blocks < 1u ? 1u : (blocks > MAX_GRID ? MAX_GRID : blocks);
        histShared<<<blocks, 1024, nb * sizeof(int)>>>(input, histogram, un, nb);
    } else {
        unsigned blocks = (n4 + 255u) / 256u;
        blocks = blocks < 1u ? 1u : (blocks > 1056u ? 1056u : blocks);
        histGlobal<<<blocks, 256>>>(input, histogram, un, nb);
    }
}
}  // namespace small_sizes

namespace large_sizes {
// Shared copies; one self-counting 64-bit atomic per bin and block merges.



constexpr int MAX_SHARED_WORDS = 12288;            // 48 KiB

// Low half: values counted so far. High half: blocks that have added theirs.
// The block that comes last to a bin writes the bin and puts zero back, so that
// every call leaves this as it found it.
__device__ unsigned long long g_bins[MAX_SHARED_WORDS];

template <int T, int U>
__device__ __forceinline__ void load_batch(int4 (&v)[U], const int4* __restrict__ in4, int i, int end)
{
#pragma unroll
    for (int k = 0; k < U; k++) {
        v[k] = make_int4(-1, -1, -1, -1);
        if (i + k * T < end) v[k] = __ldcs(in4 + i + k * T);
    }
}

template <int C>
__device__ __forceinline__ void count_one(int* s, int x, int num_bins, int copy)
{
    if ((unsigned)x < (unsigned)num_bins) atomicAdd(&s[x * C + copy], 1);
}

__device__ __forceinline__ void merge_bin(int* __restrict__ histogram, int b, unsigned count)
{
    const unsigned long long old = atomicAdd(&g_bins[b], (1ULL << 32) | (unsigned long long)count);
    if ((unsigned)(old >> 32) == gridDim.x - 1u) {
        histogram[b] = (int)((unsigned)old + count);
        atomicExch(&g_bins[b], 0ULL);
    }
}

// C copies in each block's shared memory: 1, or 32 (one for each lane: no conflicts).
template <int T, int U, int C>
__global__ void __launch_bounds__(T)
histogram_shared(const int* __restrict__ input, int* __restrict__ histogram,
                 int n, int num_bins, int per_block)
{
    extern __shared__ int4 smem4[];
    int* s = reinterpret_cast<int*>(smem4);

    const int t = threadIdx.x;
    const int copy = (C == 1) ? 0 : (t & (C - 1));
    const int n4 = n >> 2;
    const int4* in4 = reinterpret_cast<const int4*>(input);
    const int start = (int)blockIdx.x * per_block;
    const int end = min(start + per_block, n4);

    // first loads are on their way while the copies are cleared
    int i = start + t;
    int4 v[U];
    load_batch<T, U>(v, in4, i, end);
    int tail = -1;
    if (blockIdx.x == 0 && t < (n & 3)) tail = input[(n4 << 2) + t];

    if (C == 1) {
        for (int b = t; b < num_bins; b += T) s[b] = 0;
    } else {
        const int words4 = num_bins * (C / 4);
        for (int b = t; b < words4; b += T) smem4[b] = make_int4(0, 0, 0, 0);
    }
    __syncthreads();

    while (i < end) {
        int4 w[U];
        load_batch<T, U>(w, in4, i + U * T, end);
#pragma unroll
        for (int k = 0; k < U; k++) {
            count_one<C>(s, v[k].x, num_bins, copy);
            count_one<C>(s, v[k].y, num_bins, copy);
            count_one<C>(s, v[k].z, num_bins, copy);
            count_one<C>(s, v[k].w, num_bins, copy);
        }
#pragma unroll
        for (int k = 0; k < U; k++) v[k] = w[k];
        i += U * T;
    }
    count_one<C>(s, tail, num_bins, copy);
    __syncthreads();

    if (C == 1) {
        for (int b = t; b < num_bins; b += T) merge_bin(histogram, b, (unsigned)s[b]);
    } else {
        // four lanes add up the 32 copies of a bin
        const int q = t & 3;
        for (int b0 = 0; b0 < num_bins; b0 += T / 4) {
            const int b = b0 + (t >> 2);
            int sum = 0;
            if (b < num_bins) {
                const int odd = b & 1;
                const int4 x = smem4[b * 8 + q + 4 * odd];
                const int4 y = smem4[b * 8 + q + 4 * (odd ^ 1)];
                sum = (x.x + x.y) + (x.z + x.w) + (y.x + y.y) + (y.z + y.w);
            }
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            if (q == 0 && b < num_bins) merge_bin(histogram, b, (unsigned)sum);
        }
    }
}

// Too many bins for shared memory.
__global__ void __launch_bounds__(256) clear_bins(int* histogram, int num_bins)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long b = (long long)blockIdx.x * blockDim.x + threadIdx.x; b < num_bins; b += stride)
        histogram[b] = 0;
}

__global__ void __launch_bounds__(256)
histogram_global(const int* __restrict__ input, int* histogram, int n, int num_bins)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const int n4 = n >> 2;
    const int4* in4 = reinterpret_cast<const int4*>(input);
    for (long long i = first; i < n4; i += stride) {
        const int4 v = __ldcs(in4 + i);
        if ((unsigned)v.x < (unsigned)num_bins) atomicAdd(&histogram[v.x], 1);
        if ((unsigned)v.y < (unsigned)num_bins) atomicAdd(&histogram[v.y], 1);
        if ((unsigned)v.z < (unsigned)num_bins) atomicAdd(&histogram[v.z], 1);
        if ((unsigned)v.w < (unsigned)num_bins) atomicAdd(&histogram[v.w], 1);
    }
    if (first < (n & 3)) {
        const int x = input[((long long)n4 << 2) + first];
        if ((unsigned)x < (unsigned)num_bins) atomicAdd(&histogram[x], 1);
    }
}

template <int T, int U, int C>
static void launch(const int* input, int* histogram, int n, int num_bins, int blocks)
{
    const int n4 = n >> 2;
    const int per_block = (n4 + blocks - 1) / blocks;
    histogram_shared<T, U, C><<<blocks, T, (size_t)num_bins * C * sizeof(int)>>>(
        input, histogram, n, num_bins, per_block);
}

 void solve(const int* input, int* histogram, int n, int num_bins)
{
    if (num_bins <= 0) return;
    const int SMS = 132;

    if (num_bins > MAX_SHARED_WORDS) {
        const long long cb = ((long long)num_bins + 255) / 256;
        clear_bins<<<(unsigned)(cb < 8 * SMS ? cb : 8 * SMS), 256>>>(histogram, num_bins);
        const long long nb = ((long long)n / 4 + 256) / 256;
        histogram_global<<<(unsigned)(nb < 8 * SMS ? nb : 8 * SMS), 256>>>(input, histogram, n, num_bins);
        return;
    }

    const int n4 = n >> 2;
    if (n4 <= 96 * 256) {
        const int blocks = n4 > 0 ? (n4 + 255) / 256 : 1;
        launch<256, 1, 1>(input, histogram, n, num_bins, blocks);
    } else if (n4 <= SMS * 512) {
        launch<512, 1, 1>(input, histogram, n, num_bins, (n4 + 511) / 512);
    } else if (n4 <= SMS * 1024 * 2) {
        launch<1024, 2, 1>(input, histogram, n, num_bins, SMS);
    } else if (num_bins * 32 <= MAX_SHARED_WORDS) {
        launch<1024, 4, 32>(input, histogram, n, num_bins, SMS);
    } else {
        launch<1024, 4, 1>(input, histogram, n, num_bins, SMS);
    }
}
}  // namespace large_sizes

extern "C" void solve(const int* input, int* histogram, int n, int num_bins)
{
    if ((long long)n < 524288LL) {
        ::small_sizes::solve(input, histogram, n, num_bins);
    } else {
        ::large_sizes::solve(input, histogram, n, num_bins);
    }
}
