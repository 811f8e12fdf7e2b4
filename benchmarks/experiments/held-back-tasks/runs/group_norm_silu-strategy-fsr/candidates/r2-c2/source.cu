// Running chunk statistics; persistent clusters refill slots while writing

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

__device__ __forceinline__ float exp2_fast(float t)
{
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(t));
    return e;
}

__device__ __forceinline__ float reciprocal(float a)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

__device__ __forceinline__ float silu(float z)
{
    return z * reciprocal(1.0f + exp2_fast(z * -1.4426950408889634f));
}

// Four at once share a reciprocal, unless the product of their denominators may overflow.
__device__ __forceinline__ float4 silu4(float z0, float z1, float z2, float z3)
{
    const float a0 = 1.0f + exp2_fast(z0 * -1.4426950408889634f);
    const float a1 = 1.0f + exp2_fast(z1 * -1.4426950408889634f);
    const float a2 = 1.0f + exp2_fast(z2 * -1.4426950408889634f);
    const float a3 = 1.0f + exp2_fast(z3 * -1.4426950408889634f);
    float4 r;
    if (fminf(fminf(z0, z1), fminf(z2, z3)) > -20.0f) {
        const float p = a0 * a1;
        const float q = a2 * a3;
        const float i = reciprocal(p * q);
        const float ip = i * q;
        const float iq = i * p;
        r.x = z0 * (a1 * ip);
        r.y = z1 * (a0 * ip);
        r.z = z2 * (a3 * iq);
        r.w = z3 * (a2 * iq);
    } else {
        r.x = z0 * reciprocal(a0);
        r.y = z1 * reciprocal(a1);
        r.z = z2 * reciprocal(a2);
        r.w = z3 * reciprocal(a3);
    }
    return r;
}

__device__ __forceinline__ float4 finish4(const float4 v, float mean, float a, float b)
{
    return silu4(fmaf(v.x - mean, a, b), fmaf(v.y - mean, a, b), fmaf(v.z - mean, a, b), fmaf(v.w - mean, a, b));
}

__device__ __forceinline__ float inverse_root(float v)
{
    const float r = rsqrtf(v);
    const float e = fmaf(-v * r, r, 1.0f);
    return fmaf(0.5f * r, e, r);
}

__device__ __forceinline__ void cluster_arrive_relaxed()
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ uint32_t remote(const void* own, uint32_t rank)
{
    uint32_t at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(at)
                 : "r"((uint32_t)__cvta_generic_to_shared(own)), "r"(rank));
    return at;
}

__device__ __forceinline__ void copy16(float4* to, const float4* from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from))
                 : "memory");
}

__device__ __forceinline__ void commit_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N>
__device__ __forceinline__ void wait_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ __forceinline__ float4 load_stream(const float4* from)
{
    float4 v;
    asm volatile("ld.global.cs.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(__cvta_generic_to_global(from)));
    return v;
}

// Merges statistics of equally many values, each side 2 * half of them.
__device__ __forceinline__ void join(float& mean, float& m2, float other_mean, float other_m2, float half)
{
    const float d = other_mean - mean;
    m2 = fmaf(d * d, half, m2 + other_m2);
    mean = 0.5f * (mean + other_mean);
}

// Merges statistics of any counts.
__device__ __forceinline__ void merge(float& n, float& mean, float& m2, float on, float other_mean, float other_m2)
{
    if (on > 0.0f) {
        const float all = n + on;
        const float w = on / all;
        const float d = other_mean - mean;
        m2 += other_m2 + d * d * n * w;
        mean = fmaf(d, w, mean);
        n = all;
    }
}

// Running statistics: adds n values with mean bm and squares b2 to `before` chunks of n values.
__device__ __forceinline__ void add_chunk(float bm, float b2, float n, int before, float& mean, float& m2)
{
    if (before == 0) {
        mean = bm;
        m2 = b2;
    } else {
        const float d = bm - mean;
        m2 += fmaf(d * d, n * (float)before / (float)(before + 1), b2);
        mean = fmaf(d, 1.0f / (float)(before + 1), mean);
    }
}

__device__ __forceinline__ void add4(const float4 a, int before, float& mean, float& m2)
{
    const float bm = ((a.x + a.y) + (a.z + a.w)) * 0.25f;
    const float d0 = a.x - bm;
    const float d1 = a.y - bm;
    const float d2 = a.z - bm;
    const float d3 = a.w - bm;
    const float b2 = fmaf(d0, d0, d1 * d1) + fmaf(d2, d2, d3 * d3);
    add_chunk(bm, b2, 4.0f, before, mean, m2);
}

__device__ __forceinline__ void add8(const float4 a, const float4 b, int before, float& mean, float& m2)
{
    const float bm = (((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w))) * 0.125f;
    float d = a.x - bm;
    float s0 = d * d;
    d = a.y - bm;
    float s1 = d * d;
    d = a.z - bm;
    s0 = fmaf(d, d, s0);
    d = a.w - bm;
    s1 = fmaf(d, d, s1);
    d = b.x - bm;
    s0 = fmaf(d, d, s0);
    d = b.y - bm;
    s1 = fmaf(d, d, s1);
    d = b.z - bm;
    s0 = fmaf(d, d, s0);
    d = b.w - bm;
    s1 = fmaf(d, d, s1);
    add_chunk(bm, s0 + s1, 8.0f, before, mean, m2);
}

// Statistics of a warp from those of its lanes; half is doubled five times.
__device__ __forceinline__ void warp_stats(float& mean, float& m2, float& half)
{
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        const float other_mean = __shfl_xor_sync(0xffffffffu, mean, o);
        const float other_m2 = __shfl_xor_sync(0xffffffffu, m2, o);
        join(mean, m2, other_mean, other_m2, half);
        half *= 2.0f;
    }
}

// Statistics of the group from E entries, E a power of two up to 128.
__device__ __forceinline__ void group_stats(const float2* entry, int E, int lane, float half, float& mean, float& m2)
{
    const float2 e = entry[lane & (E - 1)];
    mean = e.x;
    m2 = e.y;
    if (E >= 64) {
        const float2 e1 = entry[lane + 32];
        join(mean, m2, e1.x, e1.y, half);
        if (E >= 128) {
            const float2 e2 = entry[lane + 64];
            const float2 e3 = entry[lane + 96];
            float mean2 = e2.x;
            float m22 = e2.y;
            join(mean2, m22, e3.x, e3.y, half);
            half *= 2.0f;
            join(mean, m2, mean2, m22, half);
        }
        half *= 2.0f;
    }
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        if (o < E) {
            const float other_mean = __shfl_xor_sync(0xffffffffu, mean, o);
            const float other_m2 = __shfl_xor_sync(0xffffffffu, m2, o);
            join(mean, m2, other_mean, other_m2, half);
            half *= 2.0f;
        }
    }
}

constexpr int most_width = 256;

// Groups that blocks of a cluster hold exactly: a thread keeps RV float4 in registers.
template <int T, int RV, int MINB>
__global__ void __launch_bounds__(T, MINB)
held(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
     float* __restrict__ y, int groups, int width, unsigned magic, float eps, int log_cluster)
{
    static_assert(T >= most_width, "one affine pair a thread");
    constexpr int W = T / 32;
    constexpr int N = RV * T;
    constexpr float own = 4.0f * RV;

    __shared__ float2 entry[8 * W];
    __shared__ float2 affine[most_width];

    const int C = 1 << log_cluster;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned rank = blockIdx.x & (unsigned)(C - 1);

    if (C > 1) {
        cluster_arrive_relaxed();
    }

    const size_t at = (size_t)blockIdx.x * N + tid;
    const float4* px = reinterpret_cast<const float4*>(x) + at;

    float4 v[RV];
#pragma unroll
    for (int k = 0; k < RV; ++k) {
        v[k] = __ldcs(px + k * T);
    }

    {
        const unsigned group = (blockIdx.x >> log_cluster) % (unsigned)groups;
        if (tid < width) {
            const size_t c = (size_t)group * width + tid;
            affine[tid] = make_float2(__ldg(gain + c), __ldg(shift + c));
        }
    }

    // Running statistics of this thread's values, chunk by chunk as they arrive.
    float mean = 0.0f;
    float m2 = 0.0f;
    if constexpr (RV % 2 == 0) {
#pragma unroll
        for (int k = 0; k < RV / 2; ++k) {
            add8(v[2 * k], v[2 * k + 1], k, mean, m2);
        }
    } else {
#pragma unroll
        for (int k = 0; k < RV; ++k) {
            add4(v[k], k, mean, m2);
        }
    }

    float half = 0.5f * own;
    __syncwarp();
    warp_stats(mean, m2, half);

    // Every warp tells every block of the cluster.
    if (C > 1) {
        cluster_wait();
        if (lane < C) {
            const uint32_t to = remote(entry + rank * W + warp, (uint32_t)lane);
            asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(mean), "f"(m2) : "memory");
        }
        __syncwarp();
        cluster_arrive();
        cluster_wait();
    } else {
        if (lane == 0) {
            entry[warp] = make_float2(mean, m2);
        }
        __syncthreads();
    }

    group_stats(entry, C * W, lane, half, mean, m2);
    const float scale = inverse_root(m2 / (4.0f * (float)(N * C)) + eps);

    // Results.
    float4* py = reinterpret_cast<float4*>(y) + at;
    const unsigned first = rank * (unsigned)N + (unsigned)tid;
#pragma unroll
    for (int k = 0; k < RV; ++k) {
        const float2 f = affine[__umulhi(first + (unsigned)(k * T), magic)];
        py[k * T] = finish4(v[k], mean, f.x * scale, f.y);
    }
}

// Clusters that stay and take group after group: each slot (registers, shared memory) is filled with
// the next group's value as soon as its result is written. The counter wraps to 0 in every call.
__device__ unsigned flow_counter = 0;

template <int T, int MINB>
__global__ void __launch_bounds__(T, MINB)
flow(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
     float* __restrict__ y, unsigned all, int groups, int width, unsigned magic, float eps, int log_cluster,
     unsigned last)
{
    static_assert(T >= most_width, "one affine pair a thread");
    constexpr int RV = 8;
    constexpr int SV = 8;
    constexpr int W = T / 32;
    constexpr int N = (RV + SV) * T;
    constexpr float own = 4.0f * (RV + SV);

    __shared__ float2 entry[2][8 * W];
    __shared__ float2 affine[2][most_width];
    __shared__ unsigned ticket[2];
    extern __shared__ float4 kept[];

    const int C = 1 << log_cluster;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned rank = blockIdx.x & (unsigned)(C - 1);
    const bool leader = rank == 0 && warp == 0;    // the warp that draws tickets

    // The first group.
    cluster_arrive_relaxed();
    unsigned drawn = 0;
    if (leader && lane == 0) {
        drawn = atomicInc(&flow_counter, last);
    }
    __syncwarp();
    cluster_wait();
    if (leader) {
        drawn = __shfl_sync(0xffffffffu, drawn, 0);
        if (lane < C) {
            const uint32_t to = remote(&ticket[1], (uint32_t)lane);
            asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(drawn) : "memory");
        }
    }
    __syncwarp();
    cluster_arrive();
    cluster_wait();
    unsigned g = *(volatile unsigned*)&ticket[1];
    if (g >= all) {
        return;
    }

    const unsigned first = rank * (unsigned)N + (unsigned)tid;
    float4 v[RV];
    {
        const float4* px = reinterpret_cast<const float4*>(x) + ((size_t)g << log_cluster) * N + first;
#pragma unroll
        for (int k = 0; k < RV; ++k) {
            v[k] = load_stream(px + k * T);
        }
#pragma unroll
        for (int k = 0; k < SV; ++k) {
            copy16(kept + k * T + tid, px + (RV + k) * T);
            if (k & 1) {
                commit_copies();
            }
        }
        if (tid < width) {
            const size_t c = (size_t)(g % (unsigned)groups) * width + tid;
            affine[0][tid] = make_float2(__ldg(gain + c), __ldg(shift + c));
        }
    }

    int p = 0;
    while (true) {
        drawn = 0;
        if (leader && lane == 0) {
            drawn = atomicInc(&flow_counter, last);
        }

        // Running statistics of this thread's values, in the order in which they were asked for.
        float mean = 0.0f;
        float m2 = 0.0f;
#pragma unroll
        for (int k = 0; k < RV / 2; ++k) {
            add8(v[2 * k], v[2 * k + 1], k, mean, m2);
        }
        wait_copies<3>();
        add8(kept[0 * T + tid], kept[1 * T + tid], RV / 2 + 0, mean, m2);
        wait_copies<2>();
        add8(kept[2 * T + tid], kept[3 * T + tid], RV / 2 + 1, mean, m2);
        wait_copies<1>();
        add8(kept[4 * T + tid], kept[5 * T + tid], RV / 2 + 2, mean, m2);
        wait_copies<0>();
        add8(kept[6 * T + tid], kept[7 * T + tid], RV / 2 + 3, mean, m2);

        float half = 0.5f * own;
        __syncwarp();
        warp_stats(mean, m2, half);

        // Every warp tells every block of the cluster; the leader tells the next group as well.
        if (lane < C) {
            const uint32_t to = remote(&entry[p][rank * W + warp], (uint32_t)lane);
            asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(mean), "f"(m2) : "memory");
        }
        __syncwarp();
        if (leader) {
            drawn = __shfl_sync(0xffffffffu, drawn, 0);
            if (lane < C) {
                const uint32_t to = remote(&ticket[p], (uint32_t)lane);
                asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(drawn) : "memory");
            }
        }
        __syncwarp();
        cluster_arrive();
        cluster_wait();

        const unsigned next = *(volatile unsigned*)&ticket[p];
        const bool more = next < all;
        group_stats(entry[p], C * W, lane, half, mean, m2);
        const float scale = inverse_root(m2 / (4.0f * (float)(N * C)) + eps);

        float4* py = reinterpret_cast<float4*>(y) + ((size_t)g << log_cluster) * N + first;
        const float4* pn = reinterpret_cast<const float4*>(x) + ((size_t)(more ? next : g) << log_cluster) * N + first;

        float2 pair = make_float2(0.0f, 0.0f);
        if (more && tid < width) {
            const size_t c = (size_t)(next % (unsigned)groups) * width + tid;
            pair = make_float2(__ldg(gain + c), __ldg(shift + c));
        }

#pragma unroll
        for (int k = 0; k < RV; ++k) {
            const float2 f = affine[p][__umulhi(first + (unsigned)(k * T), magic)];
            py[k * T] = finish4(v[k], mean, f.x * scale, f.y);
            if (more) {
                v[k] = load_stream(pn + k * T);
            }
        }
#pragma unroll
        for (int k = 0; k < SV; ++k) {
            const float2 f = affine[p][__umulhi(first + (unsigned)((RV + k) * T), magic)];
            const float4 q = kept[k * T + tid];
            if (more) {
                copy16(kept + k * T + tid, pn + (RV + k) * T);
            }
            if (k & 1) {
                commit_copies();
            }
            py[(RV + k) * T] = finish4(q, mean, f.x * scale, f.y);
        }

        if (!more) {
            break;
        }
        // Nobody reads this half any more: its readers have passed the barrier above since.
        if (tid < width) {
            affine[p ^ 1][tid] = pair;
        }
        g = next;
        p ^= 1;
    }
    wait_copies<0>();
}

template <int V>
__device__ __forceinline__ void load_unit(float (&d)[V], const float* p)
{
    if constexpr (V == 4) {
        const float4 t = *reinterpret_cast<const float4*>(p);
        d[0] = t.x;
        d[1] = t.y;
        d[2] = t.z;
        d[3] = t.w;
    } else {
        d[0] = *p;
    }
}

// Any extents: running statistics in one pass, a second that reads again through the caches.
template <int V>
__global__ void __launch_bounds__(256)
any_size(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
         float* __restrict__ y, unsigned long long all, int groups, int width, int pixels, float eps,
         int log_cluster)
{
    constexpr int T = 256;
    constexpr int W = T / 32;
    constexpr int B = 4;
    __shared__ float4 entry[8 * W];

    const int C = 1 << log_cluster;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned rank = blockIdx.x & (unsigned)(C - 1);
    const unsigned long long count = (unsigned long long)width * (unsigned long long)pixels;
    const unsigned long long units = count / V;
    const unsigned long long row = (unsigned long long)pixels / V;
    const unsigned long long per = (units + C - 1) / C;
    unsigned long long lo = per * rank;
    if (lo > units) {
        lo = units;
    }
    unsigned long long hi = lo + per;
    if (hi > units) {
        hi = units;
    }

    if (C > 1) {
        cluster_arrive();
        cluster_wait();
    }

    for (unsigned long long g = blockIdx.x >> log_cluster; g < all; g += gridDim.x >> log_cluster) {
        const float* from = x + g * count;
        float* to = y + g * count;

        float n = 0.0f;
        float mean = 0.0f;
        float m2 = 0.0f;
        for (unsigned long long u = lo + tid; u < hi; u += (unsigned long long)(B * T)) {
            float q[B][V];
            int valid = 0;
#pragma unroll
            for (int b = 0; b < B; ++b) {
                const unsigned long long w = u + (unsigned long long)(b * T);
                if (w < hi) {
                    load_unit<V>(q[b], from + w * V);
                    valid = b + 1;
                } else {
#pragma unroll
                    for (int i = 0; i < V; ++i) {
                        q[b][i] = 0.0f;
                    }
                }
            }
            float sum = 0.0f;
#pragma unroll
            for (int b = 0; b < B; ++b) {
#pragma unroll
                for (int i = 0; i < V; ++i) {
                    sum += q[b][i];
                }
            }
            const float bn = (float)(valid * V);
            const float bm = sum / bn;
            float b2 = 0.0f;
#pragma unroll
            for (int b = 0; b < B; ++b) {
                if (b < valid) {
#pragma unroll
                    for (int i = 0; i < V; ++i) {
                        const float d = q[b][i] - bm;
                        b2 = fmaf(d, d, b2);
                    }
                }
            }
            merge(n, mean, m2, bn, bm, b2);
        }
        __syncwarp();

#pragma unroll
        for (int o = 1; o < 32; o <<= 1) {
            const float on = __shfl_xor_sync(0xffffffffu, n, o);
            const float other_mean = __shfl_xor_sync(0xffffffffu, mean, o);
            const float other_m2 = __shfl_xor_sync(0xffffffffu, m2, o);
            merge(n, mean, m2, on, other_mean, other_m2);
        }
        n = __shfl_sync(0xffffffffu, n, 0);
        mean = __shfl_sync(0xffffffffu, mean, 0);
        m2 = __shfl_sync(0xffffffffu, m2, 0);

        if (C > 1) {
            if (lane < C) {
                const uint32_t there = remote(entry + rank * W + warp, (uint32_t)lane);
                asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(there), "f"(n), "f"(mean),
                             "f"(m2), "f"(0.0f)
                             : "memory");
            }
            __syncwarp();
            cluster_arrive();
            cluster_wait();
        } else {
            if (lane == 0) {
                entry[warp] = make_float4(n, mean, m2, 0.0f);
            }
            __syncthreads();
        }

        n = 0.0f;
        mean = 0.0f;
        m2 = 0.0f;
        for (int e = 0; e < C * W; ++e) {
            const float4 t = entry[e];
            merge(n, mean, m2, t.x, t.y, t.z);
        }
        const float scale = inverse_root(m2 / (float)count + eps);

        const size_t channel0 = (size_t)(g % (unsigned long long)groups) * (size_t)width;
        for (unsigned long long u = lo + tid; u < hi; u += (unsigned long long)T) {
            const size_t c = channel0 + (size_t)(u / row);
            const float a = __ldg(gain + c) * scale;
            const float b = __ldg(shift + c);
            float q[V];
            load_unit<V>(q, from + u * V);
#pragma unroll
            for (int i = 0; i < V; ++i) {
                q[i] = silu(fmaf(q[i] - mean, a, b));
            }
            if constexpr (V == 4) {
                *reinterpret_cast<float4*>(to + u * V) = make_float4(q[0], q[1], q[2], q[3]);
            } else {
                to[u] = q[0];
            }
        }

        // The entries are written anew for the next group.
        __syncwarp();
        if (C > 1) {
            cluster_arrive();
            cluster_wait();
        } else {
            __syncthreads();
        }
    }
}

template <class... P, class... A>
static void launch(void (*kernel)(P...), unsigned blocks, unsigned threads, size_t shared, int log_cluster, A... args)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks, 1, 1);
    config.blockDim = dim3(threads, 1, 1);
    config.dynamicSmemBytes = shared;
    config.stream = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = 1u << log_cluster;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = log_cluster > 0 ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
}

extern "C" void solve(const float* x, const float* gain, const float* shift, float* y, int images, int groups,
                      int width, int pixels, float eps)
{
    if (images <= 0 || groups <= 0 || width <= 0 || pixels <= 0) {
        return;
    }
    const unsigned long long all = (unsigned long long)images * (unsigned long long)groups;
    const unsigned long long count = (unsigned long long)width * (unsigned long long)pixels;
    const bool four = pixels % 4 == 0;
    const unsigned long long units = four ? count / 4 : count;

    if (four && width <= most_width && all <= (1ull << 27)) {
        // Exact for units up to 65,536: unit * (pixels / 4) stays below 2^32.
        const unsigned magic = (unsigned)((1ull << 32) / (unsigned)(pixels / 4) + 1ull);
        for (int l = 0; l <= 3; ++l) {
            const bool few = (all << l) <= 132;    // a block an SM: more warps hide more
            if (units == (unsigned long long)(256 * 10) << l) {
                if (few) {
                    launch(held<512, 5, 2>, (unsigned)(all << l), 512, 0, l, x, gain, shift, y, groups, width, magic,
                           eps, l);
                } else {
                    launch(held<256, 10, 4>, (unsigned)(all << l), 256, 0, l, x, gain, shift, y, groups, width, magic,
                           eps, l);
                }
                return;
            }
            if (units == (unsigned long long)(256 * 8) << l) {
                if (few) {
                    launch(held<512, 4, 2>, (unsigned)(all << l), 512, 0, l, x, gain, shift, y, groups, width, magic,
                           eps, l);
                } else {
                    launch(held<256, 8, 4>, (unsigned)(all << l), 256, 0, l, x, gain, shift, y, groups, width, magic,
                           eps, l);
                }
                return;
            }
        }
        for (int l = 2; l <= 3; ++l) {
            if (units == (unsigned long long)(512 * 16) << l) {
                const int bytes = 512 * 8 * 16;
                unsigned clusters = 264u >> l;    // two blocks an SM
                if (all < clusters) {
                    clusters = (unsigned)all;
                }
                // Each cluster draws once at first and once for each group it does.
                const unsigned last = (unsigned)all + clusters - 1u;
                cudaFuncSetAttribute(flow<512, 2>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
                launch(flow<512, 2>, clusters << l, 512, (size_t)bytes, l, x, gain, shift, y, (unsigned)all, groups,
                       width, magic, eps, l, last);
                return;
            }
        }
    }

    int l = 0;
    while (l < 3 && ((units >> l) > 4096 || ((all << (l + 1)) <= 132 && (units >> l) >= 1024))) {
        ++l;
    }
    const unsigned long long most = 1ull << 20;
    const unsigned clusters = (unsigned)(all < most ? all : most);
    if (four) {
        launch(any_size<4>, clusters << l, 256, 0, l, x, gain, shift, y, all, groups, width, pixels, eps, l);
    } else {
        launch(any_size<1>, clusters << l, 256, 0, l, x, gain, shift, y, all, groups, width, pixels, eps, l);
    }
}
