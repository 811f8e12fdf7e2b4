// Warps' sums meet in cluster's first block; one store a cluster.

#include <cuda_runtime.h>

namespace {

constexpr int CL = 8;        // blocks of a cluster
constexpr int MAXC = 16;     // clusters: 128 blocks, all resident at once

// Flag in the high half, a cluster's sum in the low one. One writer and one reader each; the
// reader leaves zero behind, so that every call finds and leaves zeros.
__device__ unsigned long long g_slot[MAXC];

__device__ __forceinline__ unsigned long long peek(const unsigned long long* p)
{
    unsigned long long v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void poke(unsigned long long* p, unsigned long long v)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ float warp_sum(float s)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    return s;
}

template <int T, int V, bool LOOP>
__global__ void __cluster_dims__(CL, 1, 1) __launch_bounds__(T)
    dot_cluster(const float* __restrict__ a, const float* __restrict__ b,
                float* __restrict__ result, int n)
{
    constexpr int W = T / 32;
    __shared__ float box[CL * W];

    // All blocks of the cluster have started when this completes, which the loads hide.
    asm volatile("barrier.cluster.arrive;" ::: "memory");

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int rank = blockIdx.x & (CL - 1);
    const int c = blockIdx.x / CL;
    const int C = gridDim.x / CL;
    const int n4 = n >> 2;
    const int stride = gridDim.x * T;
    const float4* __restrict__ pa = reinterpret_cast<const float4*>(a);
    const float4* __restrict__ pb = reinterpret_cast<const float4*>(b);

    float4 acc[V];
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = make_float4(0.f, 0.f, 0.f, 0.f);

    int i = blockIdx.x * T + t;
    float tail = 0.f;
    if (blockIdx.x == 0 && t < (n & 3)) {
        const int j = (n4 << 2) + t;
        tail = __ldg(a + j) * __ldg(b + j);
    }

    do {
        float4 x[V], y[V];
#pragma unroll
        for (int k = 0; k < V; ++k) {
            const int j = i + k * stride;
            x[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            y[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            if (j < n4) {
                x[k] = __ldg(pa + j);
                y[k] = __ldg(pb + j);
            }
        }
#pragma unroll
        for (int k = 0; k < V; ++k) {
            acc[k].x = fmaf(x[k].x, y[k].x, acc[k].x);
            acc[k].y = fmaf(x[k].y, y[k].y, acc[k].y);
            acc[k].z = fmaf(x[k].z, y[k].z, acc[k].z);
            acc[k].w = fmaf(x[k].w, y[k].w, acc[k].w);
        }
        i += V * stride;
    } while (LOOP && i < n4);

    // The last cluster's first warp collects. Its first look brings the slots into L2 early.
    const bool collector = c == C - 1 && rank == 0 && warp == 0;
    unsigned long long w = 0;
    if (collector && lane < C - 1) w = peek(&g_slot[lane]);

    float s = tail;
#pragma unroll
    for (int k = 0; k < V; ++k) s += (acc[k].x + acc[k].y) + (acc[k].z + acc[k].w);
    s = warp_sum(s);

    asm volatile("barrier.cluster.wait;" ::: "memory");
    if (lane == 0) {
        const unsigned local = (unsigned)__cvta_generic_to_shared(&box[rank * W + warp]);
        unsigned remote;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(0));
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote), "f"(s) : "memory");
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    asm volatile("barrier.cluster.wait;" ::: "memory");
    if (rank != 0 || warp != 0) return;

    float r = 0.f;
#pragma unroll
    for (int k = 0; k < CL * W / 32; ++k) r += box[lane + 32 * k];
    r = warp_sum(r);

    if (!collector) {
        if (lane == 0)
            poke(&g_slot[c], (1ull << 32) | (unsigned long long)__float_as_uint(r));
        return;
    }
    float q = lane == C - 1 ? r : 0.f;
    if (lane < C - 1) {
        while ((w >> 32) == 0ull) w = peek(&g_slot[lane]);
        q = __uint_as_float((unsigned)w);
        poke(&g_slot[lane], 0ull);
    }
    __syncwarp();
    q = warp_sum(q);
    if (lane == 0) result[0] = q;
}

inline int clusters(int n4, int vectors_a_block)
{
    const int per = CL * vectors_a_block;
    int c = (n4 + per - 1) / per;
    if (c < 1) c = 1;
    if (c > MAXC) c = MAXC;
    return c;
}

}  // namespace

extern "C" void solve(const float* a, const float* b, float* result, int n)
{
    const int n4 = n >> 2;
    const int full = MAXC * CL * 256;
    if (n4 <= full) {
        dot_cluster<256, 1, false><<<clusters(n4, 256) * CL, 256>>>(a, b, result, n);
    } else if (n4 <= 2 * full) {
        dot_cluster<256, 2, false><<<clusters(n4, 512) * CL, 256>>>(a, b, result, n);
    } else if (n4 <= 4 * full) {
        dot_cluster<256, 4, false><<<clusters(n4, 1024) * CL, 256>>>(a, b, result, n);
    } else {
        dot_cluster<512, 4, true><<<clusters(n4, 2048) * CL, 512>>>(a, b, result, n);
    }
}
