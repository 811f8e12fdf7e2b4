// Cluster-wide bins by remote shared atomics; self-counting merge when larger
#include <cuda_runtime.h>

namespace {

constexpr int SMS = 132;
constexpr int MAX_SHARED_WORDS = 12288;            // 48 KiB

// Low half: values counted so far. High half: blocks that have added theirs.
// The block that comes last to a bin writes the bin and puts zero back, so that
// every call leaves this as it found it.
__device__ unsigned long long g_bins[MAX_SHARED_WORDS];

__device__ __forceinline__ void merge_bin(int* __restrict__ histogram, int b, unsigned count)
{
    if (gridDim.x == 1u) {
        histogram[b] = (int)count;
        return;
    }
    const unsigned long long old = atomicAdd(&g_bins[b], (1ULL << 32) | (unsigned long long)count);
    if ((unsigned)(old >> 32) == gridDim.x - 1u) {
        histogram[b] = (int)((unsigned)old + count);
        g_bins[b] = 0ULL;
    }
}

// ---------------------------------------------------------------------------
// One cluster of 8 blocks holds one set of up to 256 bins: bin x lives in block x & 7,
// row x >> 3, in 32 copies, one for each lane (no bank conflicts).
// At most 8 * 2048 vectors.

__device__ __forceinline__ int4 load_now(const int4* p)
{
    int4 v;
    asm volatile("ld.global.nc.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

__device__ __forceinline__ void count_remote(unsigned mine, int x, unsigned nb)
{
    if ((unsigned)x < nb) {
        const unsigned ux = (unsigned)x;
        const unsigned local = mine + ((ux & 0xf8u) << 4);      // row (x >> 3) of 128 bytes
        unsigned remote;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(ux & 7u));
        asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;"
                     :: "r"(remote), "r"(1u) : "memory");
    }
}

__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(1024)
hist_cluster(const int* __restrict__ input, int* __restrict__ histogram,
             unsigned n, unsigned nb, unsigned chunk)
{
    __shared__ __align__(128) unsigned part[1024];

    const unsigned t = threadIdx.x;
    const unsigned lane = t & 31u;
    const unsigned rank = blockIdx.x;       // the grid is one cluster
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    const int4* in4 = reinterpret_cast<const int4*>(input);
    const unsigned i0 = rank * chunk + t;
    const unsigned i1 = i0 + 1024u;
    const unsigned end = min(rank * chunk + chunk, n4);

    int4 a = make_int4(-1, -1, -1, -1);
    int4 b = make_int4(-1, -1, -1, -1);
    if (i0 < end) a = load_now(in4 + i0);
    if (i1 < end) b = load_now(in4 + i1);
    int extra = -1;
    if (rank == 0u && t < tail) extra = __ldg(input + (4u * n4 + t));

    part[t] = 0u;
    __syncwarp();
    // All blocks run and have cleared their part; overlaps with the loads.
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

    const unsigned mine = (unsigned)__cvta_generic_to_shared(part) + lane * 4u;
    count_remote(mine, a.x, nb);
    count_remote(mine, a.y, nb);
    count_remote(mine, a.z, nb);
    count_remote(mine, a.w, nb);
    count_remote(mine, b.x, nb);
    count_remote(mine, b.y, nb);
    count_remote(mine, b.z, nb);
    count_remote(mine, b.w, nb);
    if (tail != 0u) count_remote(mine, extra, nb);

    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

    // Warp w adds up the 32 copies of row w.
    const unsigned sum = __reduce_add_sync(0xffffffffu, part[t]);
    const unsigned bin = (t >> 5) * 8u + rank;
    if (lane == 0u && bin < nb) histogram[bin] = (int)sum;
}

// ---------------------------------------------------------------------------
// num_bins <= 256, at most T * V vectors a block, all loaded at once.

template <int T, int V>
__global__ void __launch_bounds__(T)
hist_once(const int* __restrict__ input, int* __restrict__ histogram,
          unsigned n, unsigned nb, unsigned chunk)
{
    __shared__ __align__(16) int h[256];

    const unsigned t = threadIdx.x;
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    const int4* __restrict__ in4 = reinterpret_cast<const int4*>(input);
    const unsigned begin = blockIdx.x * chunk;
    const unsigned end = min(begin + chunk, n4);

    int4 v[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
        const unsigned i = begin + t + (unsigned)(k * T);
        v[k] = make_int4(-1, -1, -1, -1);
        if (i < end) v[k] = __ldg(in4 + i);
    }
    int extra = -1;
    if (tail != 0u && blockIdx.x == gridDim.x - 1u && t < tail) {
        extra = __ldg(input + ((size_t)n4 * 4u + t));
    }

    if (t < 256u) h[t] = 0;
    __syncthreads();

#pragma unroll
    for (int k = 0; k < V; ++k) {
        if ((unsigned)v[k].x < nb) atomicAdd(h + v[k].x, 1);
        if ((unsigned)v[k].y < nb) atomicAdd(h + v[k].y, 1);
        if ((unsigned)v[k].z < nb) atomicAdd(h + v[k].z, 1);
        if ((unsigned)v[k].w < nb) atomicAdd(h + v[k].w, 1);
    }
    if (tail != 0u) {
        if ((unsigned)extra < nb) atomicAdd(h + extra, 1);
    }
    __syncthreads();

    if (t < nb) merge_bin(histogram, (int)t, (unsigned)h[t]);
}

// ---------------------------------------------------------------------------
// Any n, bins in dynamic shared memory.

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
    if (blockIdx.x == 0 && t < (n & 3)) tail = input[((size_t)n4 << 2) + t];

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
void launch(const int* input, int* histogram, int n, int num_bins, int blocks)
{
    const int n4 = n >> 2;
    const int per_block = (n4 + blocks - 1) / blocks;
    histogram_shared<T, U, C><<<blocks, T, (size_t)num_bins * C * sizeof(int)>>>(
        input, histogram, n, num_bins, per_block);
}

}  // namespace

extern "C" void solve(const int* input, int* histogram, int n, int num_bins)
{
    if (num_bins <= 0) return;
    const int n4 = n >> 2;

    if (num_bins > MAX_SHARED_WORDS) {
        const long long cb = ((long long)num_bins + 255) / 256;
        clear_bins<<<(unsigned)(cb < 8 * SMS ? cb : 8 * SMS), 256>>>(histogram, num_bins);
        const long long gb = ((long long)n / 4 + 256) / 256;
        histogram_global<<<(unsigned)(gb < 8 * SMS ? gb : 8 * SMS), 256>>>(input, histogram, n, num_bins);
        return;
    }

    if (num_bins <= 256 && n4 <= SMS * 2048) {
        const unsigned un = (unsigned)n;
        const unsigned nb = (unsigned)num_bins;
        const unsigned u4 = (unsigned)n4;
        if (u4 <= 512u) {
            hist_once<512, 1><<<1, 512>>>(input, histogram, un, nb, 512u);
        } else if (u4 <= 8u * 2048u) {
            const unsigned chunk = ((u4 + 7u) / 8u + 7u) & ~7u;
            hist_cluster<<<8, 1024>>>(input, histogram, un, nb, chunk);
        } else if (u4 <= (unsigned)SMS * 256u) {
            hist_once<256, 1><<<(u4 + 255u) / 256u, 256>>>(input, histogram, un, nb, 256u);
        } else if (u4 <= (unsigned)SMS * 512u) {
            hist_once<512, 1><<<(u4 + 511u) / 512u, 512>>>(input, histogram, un, nb, 512u);
        } else {
            const unsigned chunk = ((u4 + SMS - 1u) / SMS + 7u) & ~7u;
            const unsigned blocks = (u4 + chunk - 1u) / chunk;
            if (chunk <= 1024u) {
                hist_once<1024, 1><<<blocks, 1024>>>(input, histogram, un, nb, chunk);
            } else {
                hist_once<1024, 2><<<blocks, 1024>>>(input, histogram, un, nb, chunk);
            }
        }
        return;
    }

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
