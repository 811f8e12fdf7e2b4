// Register bitonic runs per block, ranked against each other in clusters

#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int kPad = 0x7ffffffe; // above every key of a number, and one more does not overflow

// Integers in the order of the numbers; the conversion is its own inverse.
__device__ __forceinline__ int to_key(float f)
{
    int b = __float_as_int(f);
    return b ^ ((b >> 31) & 0x7fffffff);
}

__device__ __forceinline__ float from_key(int k)
{
    return __int_as_float(k ^ ((k >> 31) & 0x7fffffff));
}

__device__ __forceinline__ void order(int& a, int& b)
{
    int low = min(a, b);
    b = max(a, b);
    a = low;
}

__device__ __forceinline__ void keep(int (&k)[4], int o0, int o1, int o2, int o3, bool low)
{
    k[0] = low ? min(k[0], o0) : max(k[0], o0);
    k[1] = low ? min(k[1], o1) : max(k[1], o1);
    k[2] = low ? min(k[2], o2) : max(k[2], o2);
    k[3] = low ? min(k[3], o3) : max(k[3], o3);
}

__device__ __forceinline__ void lane_step(int (&k)[4], int distance, int tid)
{
    int o0 = __shfl_xor_sync(0xffffffffu, k[0], distance);
    int o1 = __shfl_xor_sync(0xffffffffu, k[1], distance);
    int o2 = __shfl_xor_sync(0xffffffffu, k[2], distance);
    int o3 = __shfl_xor_sync(0xffffffffu, k[3], distance);
    keep(k, o0, o1, o2, o3, (tid & distance) == 0);
}

__device__ __forceinline__ void thread_steps(int (&k)[4])
{
    order(k[0], k[2]);
    order(k[1], k[3]);
    order(k[0], k[1]);
    order(k[2], k[3]);
}

// A cluster of C blocks sorts C * R elements, four a thread; without clusters where C is 1.
template <int C, int R>
__global__ void __launch_bounds__(R / 4)
sort_tile(const float* in, float* out, unsigned n)
{
    constexpr int T = R / 4;
    __shared__ __align__(16) int runs[C > 1 ? C * R : 4];
    __shared__ int4 swap[2][T];

    const int tid = threadIdx.x;
    const unsigned base = (blockIdx.x / C) * (unsigned)(C * R);
    const int b = blockIdx.x % C;
    const unsigned first = base + (unsigned)(b * R + 4 * tid);

    if constexpr (C > 1)
        asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");

    int k[4];
    if (first + 3 < n) {
        float4 v = *reinterpret_cast<const float4*>(in + first);
        k[0] = to_key(v.x);
        k[1] = to_key(v.y);
        k[2] = to_key(v.z);
        k[3] = to_key(v.w);
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
            k[e] = first + e < n ? to_key(in[first + e]) : kPad;
    }

    // runs of 4 in a thread: every exchange ascends, the first step of a merge is mirrored
    order(k[0], k[1]);
    order(k[2], k[3]);
    order(k[0], k[3]);
    order(k[1], k[2]);
    order(k[0], k[1]);
    order(k[2], k[3]);

    // runs of 8 to 128 in a warp
#pragma unroll
    for (int span = 2; span <= 32; span *= 2) { // threads of a merged run
        int o0 = __shfl_xor_sync(0xffffffffu, k[3], span - 1);
        int o1 = __shfl_xor_sync(0xffffffffu, k[2], span - 1);
        int o2 = __shfl_xor_sync(0xffffffffu, k[1], span - 1);
        int o3 = __shfl_xor_sync(0xffffffffu, k[0], span - 1);
        keep(k, o0, o1, o2, o3, (tid & (span / 2)) == 0);
#pragma unroll
        for (int d = span / 4; d >= 1; d /= 2)
            lane_step(k, d, tid);
        thread_steps(k);
    }

    // wider runs in the block
    int flip = 0;
#pragma unroll 1
    for (int span = 64; span <= T; span *= 2) {
        swap[flip][tid] = make_int4(k[0], k[1], k[2], k[3]);
        __syncthreads();
        int4 o = swap[flip][tid ^ (span - 1)];
        keep(k, o.w, o.z, o.y, o.x, (tid & (span / 2)) == 0);
        flip ^= 1;
#pragma unroll 1
        for (int d = span / 4; d >= 32; d /= 2) {
            swap[flip][tid] = make_int4(k[0], k[1], k[2], k[3]);
            __syncthreads();
            int4 p = swap[flip][tid ^ d];
            keep(k, p.x, p.y, p.z, p.w, (tid & d) == 0);
            flip ^= 1;
        }
#pragma unroll
        for (int d = 16; d >= 1; d /= 2)
            lane_step(k, d, tid);
        thread_steps(k);
    }

    if constexpr (C == 1) {
        if (first + 3 < n) {
            *reinterpret_cast<float4*>(out + first) =
                make_float4(from_key(k[0]), from_key(k[1]), from_key(k[2]), from_key(k[3]));
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (first + e < n)
                    out[first + e] = from_key(k[e]);
        }
    } else {
        // every block gets all runs; its own keys find their ranks in the others
        cg::cluster_group cluster = cg::this_cluster();
        asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); // all blocks have started
        int4* slot = reinterpret_cast<int4*>(runs + b * R) + tid;
        const int4 mine = make_int4(k[0], k[1], k[2], k[3]);
#pragma unroll
        for (int r = 0; r < C; ++r)
            *cluster.map_shared_rank(slot, r) = mine;
        asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
        asm volatile("barrier.cluster.wait.aligned;" ::: "memory");

        constexpr int G = R <= 256 ? 4 : R <= 512 ? 2 : 1; // keys a thread searches at once
        const int start = (tid / 32) * 128 + tid % 32;
#pragma unroll 1
        for (int g = 0; g < 4; g += G) {
            int key[G];
            int pos[G][C - 1];
#pragma unroll
            for (int q = 0; q < G; ++q) {
                key[q] = runs[b * R + start + (g + q) * 32];
#pragma unroll
                for (int j = 0; j < C - 1; ++j)
                    pos[q][j] = (j + (j >= b ? 1 : 0)) * R;
            }
#pragma unroll 1
            for (int s = R / 2; s >= 1; s /= 2) {
#pragma unroll
                for (int q = 0; q < G; ++q) {
#pragma unroll
                    for (int j = 0; j < C - 1; ++j) {
                        // equal keys of an earlier run come first
                        int limit = key[q] + (j < b ? 1 : 0);
                        if (runs[pos[q][j] + s - 1] < limit)
                            pos[q][j] += s;
                    }
                }
            }
#pragma unroll
            for (int q = 0; q < G; ++q) {
                int rank = start + (g + q) * 32;
#pragma unroll
                for (int j = 0; j < C - 1; ++j) {
                    int limit = key[q] + (j < b ? 1 : 0);
                    int p = pos[q][j];
                    p += runs[p] < limit ? 1 : 0;
                    rank += p - (j + (j >= b ? 1 : 0)) * R;
                }
                unsigned at = base + (unsigned)rank;
                if (at < n)
                    out[at] = from_key(key[q]);
            }
        }
    }
}

// Merges neighbouring runs: every element finds its rank in the other run.
__global__ void __launch_bounds__(256)
merge_pass(const float* __restrict__ in, float* __restrict__ out, unsigned n, unsigned width)
{
    unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= n)
        return;
    float key = in[i];
    unsigned own = i & ~(width - 1);
    unsigned other = own ^ width;
    if (other >= n) {
        out[i] = key;
        return;
    }
    bool right = other < own;
    unsigned low = other;
    unsigned high = other + width < n ? other + width : n;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        float v = in[middle];
        bool before = right ? v <= key : v < key;
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    unsigned begin = right ? other : own;
    out[begin + (i - own) + (low - other)] = key;
}

template <int C, int R>
static void launch_tiles(const float* in, float* out, unsigned n)
{
    unsigned tiles = (n - 1) / (unsigned)(C * R) + 1;
    if constexpr (C == 1) {
        sort_tile<C, R><<<tiles, R / 4>>>(in, out, n);
    } else {
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(tiles * C);
        config.blockDim = dim3(R / 4);
        config.dynamicSmemBytes = 0;
        config.stream = 0;
        cudaLaunchAttribute attribute[1];
        attribute[0].id = cudaLaunchAttributeClusterDimension;
        attribute[0].val.clusterDim.x = C;
        attribute[0].val.clusterDim.y = 1;
        attribute[0].val.clusterDim.z = 1;
        config.attrs = attribute;
        config.numAttrs = 1;
        cudaLaunchKernelEx(&config, sort_tile<C, R>, in, out, n);
    }
}

extern "C" void solve(float* data, int n)
{
    if (n <= 1)
        return;
    const unsigned count = (unsigned)n;
    const float* source = data;
    if (n <= 512) {
        launch_tiles<1, 512>(source, data, count);
    } else if (n <= 1024) {
        launch_tiles<1, 1024>(source, data, count);
    } else if (n <= 2048) {
        launch_tiles<8, 256>(source, data, count);
    } else if (n <= 4096) {
        launch_tiles<8, 512>(source, data, count);
    } else if (n <= 8192) {
        launch_tiles<8, 1024>(source, data, count);
    } else {
        int passes = 0;
        for (unsigned width = 8192; width < count; width *= 2)
            ++passes;
        float* spare = nullptr;
        cudaMallocAsync(reinterpret_cast<void**>(&spare), sizeof(float) * (size_t)count, 0);
        float* from = passes % 2 == 0 ? data : spare;
        float* to = passes % 2 == 0 ? spare : data;
        launch_tiles<8, 1024>(source, from, count);
        for (unsigned width = 8192; width < count; width *= 2) {
            merge_pass<<<(count - 1) / 256 + 1, 256>>>(from, to, count, width);
            float* swapped = from;
            from = to;
            to = swapped;
        }
        cudaFreeAsync(spare, 0);
    }
}
