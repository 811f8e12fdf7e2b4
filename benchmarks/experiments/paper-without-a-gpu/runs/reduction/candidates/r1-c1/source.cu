// Warp shuffles; block, cluster, or one atomic per block

#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// Both are zero between calls: the last block of a launch resets them.
__device__ float g_sum = 0.0f;
__device__ unsigned int g_count = 0u;

__device__ __forceinline__ float warp_sum(float s)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        s += __shfl_xor_sync(0xffffffffu, s, o);
    }
    return s;
}

// Sum of V float4 a thread, starting at first, T threads apart, n4 whole float4.
template <int T, int V>
__device__ __forceinline__ float4 gather(const float4* __restrict__ p, int first, int n4)
{
    float4 v[V];
#pragma unroll
    for (int k = 0; k < V; k++) {
        int i = first + k * T;
        v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i < n4) {
            v[k] = __ldg(p + i);
        }
    }
    float4 a = v[0];
#pragma unroll
    for (int k = 1; k < V; k++) {
        a.x += v[k].x;
        a.y += v[k].y;
        a.z += v[k].z;
        a.w += v[k].w;
    }
    return a;
}

// One block: n <= T * 32.
template <int T>
__global__ void __launch_bounds__(T)
single_block(const float* __restrict__ input, float* __restrict__ output, int n)
{
    const int tid = threadIdx.x;
    const int n4 = n >> 2;
    float extra = 0.0f;
    if (tid < (n & 3)) {
        extra = __ldg(input + 4 * n4 + tid);
    }
    float4 a = gather<T, 8>(reinterpret_cast<const float4*>(input), tid, n4);
    float s = ((a.x + a.y) + (a.z + a.w)) + extra;
    s = warp_sum(s);
    if (T == 32) {
        if (tid == 0) {
            output[0] = s;
        }
    } else {
        __shared__ __align__(16) float part[T / 32 < 4 ? 4 : T / 32];
        if ((tid & 31) == 0) {
            part[tid >> 5] = s;
        }
        __syncthreads();
        if (tid == 0) {
            float r = 0.0f;
#pragma unroll
            for (int k = 0; k < T / 128; k++) {
                float4 q = reinterpret_cast<const float4*>(part)[k];
                r += (q.x + q.y) + (q.z + q.w);
            }
            output[0] = r;
        }
    }
}

// One cluster of 8 blocks: n <= T * 256.
template <int T>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T)
cluster_sum(const float* __restrict__ input, float* __restrict__ output, int n)
{
    constexpr int W = T / 32;        // warps a block
    constexpr int SLOTS = 8 * W;     // one a warp of the cluster
    constexpr int LANES = SLOTS / 16;
    __shared__ __align__(16) float slots[SLOTS];

    // Tells that this block has started; waited for once the data are here.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

    const int tid = threadIdx.x;
    const int rank = blockIdx.x;     // the grid is one cluster
    const int n4 = n >> 2;
    float extra = 0.0f;
    if (rank == 0 && tid < (n & 3)) {
        extra = __ldg(input + 4 * n4 + tid);
    }
    float4 a = gather<T, 8>(reinterpret_cast<const float4*>(input), rank * (8 * T) + tid, n4);
    float s = ((a.x + a.y) + (a.z + a.w)) + extra;
    s = warp_sum(s);

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if ((tid & 31) == 0) {
        float* remote = cg::this_cluster().map_shared_rank(slots, 0);
        remote[rank * W + (tid >> 5)] = s;
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

    if (rank == 0 && tid < 32) {
        const float4* q = reinterpret_cast<const float4*>(slots);
        const int l = tid & (LANES - 1);
        float4 b = q[l];
#pragma unroll
        for (int k = 1; k < 4; k++) {
            float4 c = q[l + k * LANES];
            b.x += c.x;
            b.y += c.y;
            b.z += c.z;
            b.w += c.w;
        }
        float r = (b.x + b.y) + (b.z + b.w);
#pragma unroll
        for (int o = LANES / 2; o > 0; o >>= 1) {
            r += __shfl_xor_sync(0xffffffffu, r, o);
        }
        if (tid == 0) {
            output[0] = r;
        }
    }
}

// Any n: 128 threads, four float4 a thread and step, one atomicAdd a block.
__global__ void __launch_bounds__(128)
many_blocks(const float* __restrict__ input, float* __restrict__ output, int n)
{
    __shared__ __align__(16) float part[4];
    const int tid = threadIdx.x;
    const int n4 = n >> 2;
    const float4* p = reinterpret_cast<const float4*>(input);

    float extra = 0.0f;
    if (blockIdx.x == 0 && tid < (n & 3)) {
        extra = __ldg(input + 4 * n4 + tid);
    }
    int i = blockIdx.x * 512 + tid;
    const int step = gridDim.x * 512;
    float4 a = gather<128, 4>(p, i, n4);
    for (i += step; i < n4; i += step) {
        float4 b = gather<128, 4>(p, i, n4);
        a.x += b.x;
        a.y += b.y;
        a.z += b.z;
        a.w += b.w;
    }
    float s = ((a.x + a.y) + (a.z + a.w)) + extra;
    s = warp_sum(s);
    if ((tid & 31) == 0) {
        part[tid >> 5] = s;
    }
    __syncthreads();
    if (tid == 0) {
        float4 q = *reinterpret_cast<const float4*>(part);
        atomicAdd(&g_sum, (q.x + q.y) + (q.z + q.w));
        __threadfence();
        unsigned int ticket = atomicAdd(&g_count, 1u);
        if (ticket == gridDim.x - 1) {
            // All blocks have added: take the sum, leave zeros behind.
            float r = *reinterpret_cast<volatile float*>(&g_sum);
            output[0] = r;
            *reinterpret_cast<volatile float*>(&g_sum) = 0.0f;
            *reinterpret_cast<volatile unsigned int*>(&g_count) = 0u;
        }
    }
}

extern "C" void solve(const float* input, float* output, int n)
{
    if (n <= 1024) {
        single_block<32><<<1, 32>>>(input, output, n);
    } else if (n <= 4096) {
        single_block<128><<<1, 128>>>(input, output, n);
    } else if (n <= 16384) {
        cluster_sum<64><<<8, 64>>>(input, output, n);
    } else if (n <= 65536) {
        cluster_sum<256><<<8, 256>>>(input, output, n);
    } else {
        int n4 = n >> 2;
        int blocks = (n4 + 511) / 512;
        if (blocks > 1056) {
            blocks = 1056;
        }
        many_blocks<<<blocks, 128>>>(input, output, n);
    }
}
