// Warp bitonic runs, merge-path rounds; clusters merge blocks' runs.

#include <cuda_runtime.h>

namespace {

constexpr int MAX_THREADS = 512;
constexpr int TILE = 4 * MAX_THREADS;        // elements of a block
constexpr int PAD = 0x7fffffff;              // above the key of +infinity

// float bits <-> integers in the same order; its own inverse
__device__ __forceinline__ int flip(int b)
{
    return b ^ ((b >> 31) & 0x7fffffff);
}

__device__ __forceinline__ void order(int& a, int& b)
{
    int lo = min(a, b);
    int hi = max(a, b);
    a = lo;
    b = hi;
}

__device__ __forceinline__ void bitonic4(int (&v)[4])
{
    order(v[0], v[2]);
    order(v[1], v[3]);
    order(v[0], v[1]);
    order(v[2], v[3]);
}

// Sorts the 128 keys of a warp, four consecutive ones a lane.
__device__ __forceinline__ void warp_sort(int (&v)[4])
{
    const int lane = threadIdx.x & 31;
    order(v[0], v[1]);
    order(v[2], v[3]);
    order(v[0], v[2]);
    order(v[1], v[3]);
    order(v[1], v[2]);
#pragma unroll
    for (int s = 0; s < 5; ++s) {
        {
            const bool low = (lane & (1 << s)) == 0;
            int o[4];
#pragma unroll
            for (int r = 0; r < 4; ++r) o[r] = __shfl_xor_sync(0xffffffffu, v[3 - r], (2 << s) - 1);
#pragma unroll
            for (int r = 0; r < 4; ++r) v[r] = low ? min(v[r], o[r]) : max(v[r], o[r]);
        }
#pragma unroll
        for (int t = s - 1; t >= 0; --t) {
            const bool low = (lane & (1 << t)) == 0;
            int o[4];
#pragma unroll
            for (int r = 0; r < 4; ++r) o[r] = __shfl_xor_sync(0xffffffffu, v[r], 1 << t);
#pragma unroll
            for (int r = 0; r < 4; ++r) v[r] = low ? min(v[r], o[r]) : max(v[r], o[r]);
        }
        bitonic4(v);
    }
}

// Elements d .. d + 3 of the merge of two sorted runs in shared memory.
__device__ __forceinline__ void merge4(const int* a, int la, const int* b, int lb, int d, int (&v)[4])
{
    int lo = max(0, d - lb);
    int hi = min(d, la);
    while (lo < hi) {
        int mid = (lo + hi) >> 1;
        if (a[mid] <= b[d - 1 - mid]) lo = mid + 1;
        else hi = mid;
    }
    const int i = lo;
    const int j = d - lo;
    int p[4], q[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        p[k] = i + k < la ? a[i + k] : PAD;
        q[k] = j + k < lb ? b[j + k] : PAD;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = min(p[k], q[3 - k]);
    bitonic4(v);
}

// Sorts the 4 * blockDim.x keys of a block; they stay in registers. Returns the buffer to write next.
__device__ __forceinline__ int block_sort(int (&v)[4], int (*s)[TILE])
{
    const int at = 4 * (int)threadIdx.x;
    const int cap = 4 * (int)blockDim.x;
    int cur = 0;
    warp_sort(v);
    for (int len = 128; len < cap; len *= 2) {
        *reinterpret_cast<int4*>(&s[cur][at]) = make_int4(v[0], v[1], v[2], v[3]);
        __syncthreads();
        const int base = at & ~(2 * len - 1);
        const int* a = s[cur] + base;
        merge4(a, len, a + len, len, at - base, v);
        cur ^= 1;
    }
    return cur;
}

__device__ __forceinline__ void load4(const int* in, long long at, int n, int (&v)[4])
{
    if (at + 3 < n) {
        int4 w = *reinterpret_cast<const int4*>(in + at);
        v[0] = flip(w.x);
        v[1] = flip(w.y);
        v[2] = flip(w.z);
        v[3] = flip(w.w);
    } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) v[k] = at + k < n ? flip(in[at + k]) : PAD;
    }
}

__device__ __forceinline__ void store4(int* out, long long at, int n, int (&v)[4], bool last)
{
    if (last) {
#pragma unroll
        for (int k = 0; k < 4; ++k) v[k] = flip(v[k]);
    }
    if (at + 3 < n) {
        *reinterpret_cast<int4*>(out + at) = make_int4(v[0], v[1], v[2], v[3]);
    } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (at + k < n) out[at + k] = v[k];
        }
    }
}

// A warp finds together how many of the first d merged elements come from a.
template <class A, class B>
__device__ __forceinline__ int warp_split(A a, int la, B b, int lb, int d)
{
    const int lane = threadIdx.x & 31;
    int lo = max(0, d - lb);
    int hi = min(d, la);
    while (lo < hi) {
        const int step = (hi - lo + 31) >> 5;
        const int m = lo + lane * step;
        bool before = false;
        if (m < hi) before = a(m) <= b(d - 1 - m);
        const int count = __popc(__ballot_sync(0xffffffffu, before));
        if (count == 0) {
            hi = lo;
        } else {
            hi = min(hi, lo + count * step);
            lo = lo + (count - 1) * step + 1;
        }
    }
    return lo;
}

// One block sorts a tile.
__global__ void __launch_bounds__(MAX_THREADS)
tile_sort(const int* in, int* out, int n, bool last)
{
    __shared__ __align__(16) int s[2][TILE];
    const long long at = (long long)blockIdx.x * TILE + 4 * threadIdx.x;
    int v[4];
    load4(in, at, n, v);
    block_sort(v, s);
    store4(out, at, n, v, last);
}

__device__ __forceinline__ int load_remote(unsigned address, int block)
{
    unsigned remote;
    int value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(block));
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(value) : "r"(remote) : "memory");
    return value;
}

__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// A run spread over blocks of the cluster, TILE elements each.
struct RemoteRun {
    unsigned address;
    int block;
    __device__ __forceinline__ int operator()(int i) const
    {
        return load_remote(address + 4u * (unsigned)(i & (TILE - 1)), block + i / TILE);
    }
};

struct GlobalRun {
    const int* p;
    __device__ __forceinline__ int operator()(int i) const { return p[i]; }
};

// One cluster sorts everything: the grid is one cluster.
__global__ void __launch_bounds__(MAX_THREADS)
cluster_sort(int* data, int n)
{
    __shared__ __align__(16) int s[2][TILE];
    __shared__ __align__(16) int tile[TILE];
    __shared__ int split[2];
    const int tid = threadIdx.x;
    const int rank = blockIdx.x;
    const int blocks = gridDim.x;
    const int at = 4 * tid;
    int v[4];
    load4(data, (long long)rank * TILE + at, n, v);
    int cur = block_sort(v, s);

    for (int half = 1; half < blocks; half *= 2) {
        *reinterpret_cast<int4*>(&s[cur][at]) = make_int4(v[0], v[1], v[2], v[3]);
        cluster_arrive();
        cluster_wait();

        const int first = rank & ~(2 * half - 1);
        const int len = half * TILE;
        const unsigned address = (unsigned)__cvta_generic_to_shared(&s[cur][0]);
        const RemoteRun a{address, first};
        const RemoteRun b{address, first + half};
        const int d0 = (rank - first) * TILE;
        const int warp = tid >> 5;
        if (warp < 2) {
            const int i = warp_split(a, len, b, len, d0 + warp * TILE);
            if ((tid & 31) == 0) split[warp] = i;
        }
        __syncthreads();
        const int i0 = split[0];
        const int j0 = d0 - i0;
        const int la = split[1] - i0;
        int w[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int e = tid + k * MAX_THREADS;
            const bool of_a = e < la;
            const int i = of_a ? i0 + e : j0 + e - la;
            w[k] = load_remote(address + 4u * (unsigned)(i & (TILE - 1)),
                               (of_a ? first : first + half) + i / TILE);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) tile[tid + k * MAX_THREADS] = w[k];
        __syncthreads();
        if (2 * half >= blocks) cluster_arrive();      // nothing remote is read any more
        merge4(tile, la, tile + la, TILE - la, at, v);
        cur ^= 1;
    }

    store4(data, (long long)rank * TILE + at, n, v, true);
    cluster_wait();                                     // others may still read this block's run
}

// Merges pairs of runs of `width` elements in global memory; a block makes one tile of the result.
__global__ void __launch_bounds__(MAX_THREADS)
merge_pass(const int* in, int* out, int n, long long width, bool last)
{
    __shared__ __align__(16) int tile[TILE];
    __shared__ int split[2];
    const int tid = threadIdx.x;
    const long long start = (long long)blockIdx.x * TILE;
    const long long base = start & ~(2 * width - 1);
    const long long rest = n - base;
    const int len_a = (int)min(width, rest);
    const int len_b = (int)(min(2 * width, rest) - len_a);
    const GlobalRun a{in + base};
    const GlobalRun b{in + base + len_a};
    const int d0 = (int)(start - base);
    const int d1 = (int)min((long long)d0 + TILE, (long long)len_a + len_b);
    const int warp = tid >> 5;
    if (warp < 2) {
        const int i = warp_split(a, len_a, b, len_b, warp == 0 ? d0 : d1);
        if ((tid & 31) == 0) split[warp] = i;
    }
    __syncthreads();
    const int i0 = split[0];
    const int j0 = d0 - i0;
    const int la = split[1] - i0;
    const int total = d1 - d0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int e = tid + k * MAX_THREADS;
        if (e < total) tile[e] = e < la ? a(i0 + e) : b(j0 + e - la);
    }
    __syncthreads();
    int v[4];
    merge4(tile, la, tile + la, total - la, 4 * tid, v);
    store4(out, start + 4 * tid, n, v, last);
}

} // namespace

extern "C" void solve(float* data, int n)
{
    if (n <= 1) return;
    int* keys = reinterpret_cast<int*>(data);

    if (n <= TILE) {
        int threads = 32;
        while (4 * threads < n) threads *= 2;
        tile_sort<<<1, threads>>>(keys, keys, n, true);
        return;
    }

    if (n <= 8 * TILE) {
        int blocks = 2;
        while (blocks * TILE < n) blocks *= 2;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(blocks, 1, 1);
        config.blockDim = dim3(MAX_THREADS, 1, 1);
        config.dynamicSmemBytes = 0;
        config.stream = 0;
        cudaLaunchAttribute attribute[1];
        attribute[0].id = cudaLaunchAttributeClusterDimension;
        attribute[0].val.clusterDim.x = blocks;
        attribute[0].val.clusterDim.y = 1;
        attribute[0].val.clusterDim.z = 1;
        config.attrs = attribute;
        config.numAttrs = 1;
        cudaLaunchKernelEx(&config, cluster_sort, keys, n);
        return;
    }

    const int tiles = (int)(((long long)n + TILE - 1) / TILE);
    int passes = 0;
    for (long long width = TILE; width < n; width *= 2) ++passes;
    int* other = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&other), (size_t)n * sizeof(int), 0);
    int* from = passes % 2 != 0 ? other : keys;
    tile_sort<<<tiles, MAX_THREADS>>>(keys, from, n, false);
    for (long long width = TILE; width < n; width *= 2) {
        int* to = from == keys ? other : keys;
        merge_pass<<<tiles, MAX_THREADS>>>(from, to, n, width, 2 * width >= n);
        from = to;
    }
    cudaFreeAsync(other, 0);
}
