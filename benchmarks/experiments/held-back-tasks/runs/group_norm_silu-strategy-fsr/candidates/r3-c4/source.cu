// Few long rows: scratch partials, overlapped second kernel; else clusters

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

__device__ __forceinline__ float silu(float z)
{
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(z * -1.4426950408889634f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
    return z * r;
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

__device__ __forceinline__ uint32_t shared_address(const void* p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ uint32_t remote(const void* own, uint32_t rank)
{
    uint32_t at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(own)), "r"(rank));
    return at;
}

// One lane: set up the warp's barrier and fetch a contiguous slice.
__device__ __forceinline__ void bulk_fetch(uint64_t* bar, void* to, const void* from, uint32_t bytes)
{
    const uint32_t b = shared_address(bar);
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
            shared_address(to)),
        "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(b), "l"(policy)
        : "memory");
}

__device__ __forceinline__ void bulk_wait(uint64_t* bar)
{
    const uint32_t b = shared_address(bar);
    uint32_t done = 0;
    while (!done) {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
            "selp.u32 %0, 1, 0, p;\n"
            "}\n"
            : "=r"(done)
            : "r"(b), "r"(0u)
            : "memory");
    }
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

constexpr int most_width = 256;

// Groups that blocks of a cluster hold exactly: a thread keeps RV float4 in registers, SV in shared memory.
// STAGE: what goes to registers arrives by a bulk copy of the warp's own slice (then SV is 0).
template <int T, int RV, int SV, int MINB, bool STAGE>
__global__ void __launch_bounds__(T, MINB)
held(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
     float* __restrict__ y, int groups, int width, unsigned magic, float eps, int log_cluster)
{
    static_assert(T >= most_width, "one affine pair a thread");
    static_assert(!STAGE || SV == 0, "staged or kept");
    constexpr int W = T / 32;
    constexpr int N = (RV + SV) * T;
    constexpr float own = 4.0f * (RV + SV);
    constexpr bool SLICE = STAGE || SV > 0;      // a warp's values are contiguous
    constexpr int STEP = SLICE ? 32 : T;
    constexpr int BV = STAGE ? RV : SV;          // float4 a thread that come by bulk copy

    __shared__ float2 entry[8 * W];
    __shared__ float2 affine[most_width];
    __shared__ alignas(8) uint64_t bars[W];
    extern __shared__ float4 kept[];

    const int C = 1 << log_cluster;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned rank = blockIdx.x & (unsigned)(C - 1);

    const int start = SLICE ? warp * 32 * (RV + SV) + lane : tid;
    const size_t at = (size_t)blockIdx.x * N + start;
    const float4* px = reinterpret_cast<const float4*>(x) + at;
    float4* mine = kept + warp * 32 * BV + lane;

    if constexpr (BV > 0) {
        if (lane == 0) {
            bulk_fetch(bars + warp, mine, px + (STAGE ? 0 : RV * 32), (uint32_t)(BV * 32 * 16));
        }
        __syncwarp();
    }

    if (C > 1) {
        cluster_arrive_relaxed();
    }

    float4 v[RV];
    if constexpr (!STAGE) {
#pragma unroll
        for (int k = 0; k < RV; ++k) {
            v[k] = __ldcs(px + k * STEP);
        }
    }

    {
        const unsigned group = (blockIdx.x >> log_cluster) % (unsigned)groups;
        if (tid < width) {
            const size_t c = (size_t)group * width + tid;
            affine[tid] = make_float2(__ldg(gain + c), __ldg(shift + c));
        }
        __syncwarp();
    }

    if constexpr (STAGE) {
        bulk_wait(bars + warp);
#pragma unroll
        for (int k = 0; k < RV; ++k) {
            v[k] = mine[k * 32];
        }
    }

    // Statistics of this thread's values.
    float4 s = v[0];
#pragma unroll
    for (int k = 1; k < RV; ++k) {
        s.x += v[k].x;
        s.y += v[k].y;
        s.z += v[k].z;
        s.w += v[k].w;
    }
    if constexpr (SV > 0) {
        bulk_wait(bars + warp);
#pragma unroll 4
        for (int k = 0; k < SV; ++k) {
            const float4 q = mine[k * 32];
            s.x += q.x;
            s.y += q.y;
            s.z += q.z;
            s.w += q.w;
        }
        asm volatile("" ::: "memory");
    }
    float mean = ((s.x + s.y) + (s.z + s.w)) / own;
    s = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < RV; ++k) {
        float d = v[k].x - mean;
        s.x = fmaf(d, d, s.x);
        d = v[k].y - mean;
        s.y = fmaf(d, d, s.y);
        d = v[k].z - mean;
        s.z = fmaf(d, d, s.z);
        d = v[k].w - mean;
        s.w = fmaf(d, d, s.w);
    }
    if constexpr (SV > 0) {
#pragma unroll 4
        for (int k = 0; k < SV; ++k) {
            const float4 q = mine[k * 32];
            float d = q.x - mean;
            s.x = fmaf(d, d, s.x);
            d = q.y - mean;
            s.y = fmaf(d, d, s.y);
            d = q.z - mean;
            s.z = fmaf(d, d, s.z);
            d = q.w - mean;
            s.w = fmaf(d, d, s.w);
        }
    }
    float m2 = (s.x + s.y) + (s.z + s.w);
    __syncwarp();

    // Of the warp's.
    float half = 0.5f * own;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        const float other_mean = __shfl_xor_sync(0xffffffffu, mean, o);
        const float other_m2 = __shfl_xor_sync(0xffffffffu, m2, o);
        join(mean, m2, other_mean, other_m2, half);
        half *= 2.0f;
    }

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

    // Of the group's.
    const int E = C * W;
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
    const float scale = inverse_root(m2 / (4.0f * (float)(N * C)) + eps);

    // Results.
    float4* py = reinterpret_cast<float4*>(y) + at;
    const unsigned first = rank * (unsigned)N + (unsigned)start;
#pragma unroll
    for (int k = 0; k < RV; ++k) {
        const float2 f = affine[__umulhi(first + (unsigned)(k * STEP), magic)];
        const float a = f.x * scale;
        float4 r;
        r.x = silu(fmaf(v[k].x - mean, a, f.y));
        r.y = silu(fmaf(v[k].y - mean, a, f.y));
        r.z = silu(fmaf(v[k].z - mean, a, f.y));
        r.w = silu(fmaf(v[k].w - mean, a, f.y));
        py[k * STEP] = r;
    }
    if constexpr (SV > 0) {
#pragma unroll 4
        for (int k = 0; k < SV; ++k) {
            const float2 f = affine[__umulhi(first + (unsigned)((RV + k) * 32), magic)];
            const float a = f.x * scale;
            const float4 q = mine[k * 32];
            float4 r;
            r.x = silu(fmaf(q.x - mean, a, f.y));
            r.y = silu(fmaf(q.y - mean, a, f.y));
            r.z = silu(fmaf(q.z - mean, a, f.y));
            r.w = silu(fmaf(q.w - mean, a, f.y));
            py[(RV + k) * 32] = r;
        }
    }
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

// ---- Few, long rows: parts of a row in many blocks, their statistics in scratch memory.

constexpr int most_parts = 1056;
__device__ float4 partial[most_parts];

template <int V, int K>
__global__ void __launch_bounds__(256)
part_statistics(const float* __restrict__ x, unsigned long long units, unsigned parts, unsigned long long per)
{
    constexpr int T = 256;
    constexpr int W = T / 32;
    __shared__ float4 entry[W];

    // The second kernel may start to load; it waits for this one before it reads the scratch.
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned g = blockIdx.x / parts;
    const unsigned p = blockIdx.x - g * parts;
    unsigned long long lo = per * p;
    if (lo > units) {
        lo = units;
    }
    unsigned long long hi = lo + per;
    if (hi > units) {
        hi = units;
    }
    const float* from = x + (unsigned long long)g * units * V;

    float n = 0.0f;
    float mean = 0.0f;
    float m2 = 0.0f;
    for (unsigned long long u = lo + tid; u < hi; u += (unsigned long long)(K * T)) {
        float q[K][V];
        int valid = 0;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            const unsigned long long w = u + (unsigned long long)(k * T);
            if (w < hi) {
                load_unit<V>(q[k], from + w * V);
                valid = k + 1;
            } else {
#pragma unroll
                for (int i = 0; i < V; ++i) {
                    q[k][i] = 0.0f;
                }
            }
        }
        float s[V];
#pragma unroll
        for (int i = 0; i < V; ++i) {
            s[i] = q[0][i];
        }
#pragma unroll
        for (int k = 1; k < K; ++k) {
#pragma unroll
            for (int i = 0; i < V; ++i) {
                s[i] += q[k][i];
            }
        }
        float sum = s[0];
#pragma unroll
        for (int i = 1; i < V; ++i) {
            sum += s[i];
        }
        const float bn = (float)(valid * V);
        const float bm = sum / bn;
#pragma unroll
        for (int i = 0; i < V; ++i) {
            s[i] = 0.0f;
        }
#pragma unroll
        for (int k = 0; k < K; ++k) {
            if (k < valid) {
#pragma unroll
                for (int i = 0; i < V; ++i) {
                    const float d = q[k][i] - bm;
                    s[i] = fmaf(d, d, s[i]);
                }
            }
        }
        float b2 = s[0];
#pragma unroll
        for (int i = 1; i < V; ++i) {
            b2 += s[i];
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
    if (lane == 0) {
        entry[warp] = make_float4(n, mean, m2, 0.0f);
    }
    __syncthreads();
    if (warp == 0) {
        const float4 t = entry[lane & (W - 1)];
        n = t.x;
        mean = t.y;
        m2 = t.z;
#pragma unroll
        for (int o = 1; o < W; o <<= 1) {
            const float on = __shfl_xor_sync(0xffffffffu, n, o);
            const float other_mean = __shfl_xor_sync(0xffffffffu, mean, o);
            const float other_m2 = __shfl_xor_sync(0xffffffffu, m2, o);
            merge(n, mean, m2, on, other_mean, other_m2);
        }
        if (lane == 0) {
            partial[blockIdx.x] = make_float4(n, mean, m2, 0.0f);
        }
    }
}

template <int V, int K>
__global__ void __launch_bounds__(256)
part_results(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
             float* __restrict__ y, unsigned long long units, unsigned parts, unsigned long long per, int groups,
             int width, int pixels, float eps)
{
    constexpr int T = 256;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const unsigned g = blockIdx.x / parts;
    const unsigned p = blockIdx.x - g * parts;
    unsigned long long lo = per * p;
    if (lo > units) {
        lo = units;
    }
    unsigned long long hi = lo + per;
    if (hi > units) {
        hi = units;
    }
    const float* from = x + (unsigned long long)g * units * V;
    float* to = y + (unsigned long long)g * units * V;
    const unsigned row = (unsigned)pixels / V;
    const bool narrow = units < (1ull << 31);
    const size_t channel0 = (size_t)(g % (unsigned)groups) * (size_t)width;

    float q[K][V];
    float ga[K];
    float sh[K];

    auto load = [&](unsigned long long u) {
#pragma unroll
        for (int k = 0; k < K; ++k) {
            const unsigned long long w = u + (unsigned long long)(k * T);
            if (w < hi) {
                load_unit<V>(q[k], from + w * V);
            } else {
#pragma unroll
                for (int i = 0; i < V; ++i) {
                    q[k][i] = 0.0f;
                }
            }
        }
#pragma unroll
        for (int k = 0; k < K; ++k) {
            const unsigned long long w = u + (unsigned long long)(k * T);
            ga[k] = 0.0f;
            sh[k] = 0.0f;
            if (w < hi) {
                const size_t c = channel0 + (narrow ? (size_t)((unsigned)w / row) : (size_t)(w / row));
                ga[k] = __ldg(gain + c);
                sh[k] = __ldg(shift + c);
            }
        }
    };

    // The first values are on their way before the statistics are known.
    unsigned long long u = lo + tid;
    load(u);

    asm volatile("griddepcontrol.wait;" ::: "memory");

    float n = 0.0f;
    float mean = 0.0f;
    float m2 = 0.0f;
    for (unsigned i = lane; i < parts; i += 32) {
        const float4 t = __ldcg(&partial[g * parts + i]);
        merge(n, mean, m2, t.x, t.y, t.z);
    }
    __syncwarp();
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        if ((unsigned)o < parts) {
            const float on = __shfl_xor_sync(0xffffffffu, n, o);
            const float other_mean = __shfl_xor_sync(0xffffffffu, mean, o);
            const float other_m2 = __shfl_xor_sync(0xffffffffu, m2, o);
            merge(n, mean, m2, on, other_mean, other_m2);
        }
    }
    mean = __shfl_sync(0xffffffffu, mean, 0);
    m2 = __shfl_sync(0xffffffffu, m2, 0);
    const float scale = inverse_root(m2 / (float)(units * V) + eps);

    while (u < hi) {
#pragma unroll
        for (int k = 0; k < K; ++k) {
            const unsigned long long w = u + (unsigned long long)(k * T);
            if (w < hi) {
                const float a = ga[k] * scale;
                float r[V];
#pragma unroll
                for (int i = 0; i < V; ++i) {
                    r[i] = silu(fmaf(q[k][i] - mean, a, sh[k]));
                }
                if constexpr (V == 4) {
                    *reinterpret_cast<float4*>(to + w * V) = make_float4(r[0], r[1], r[2], r[3]);
                } else {
                    to[w] = r[0];
                }
            }
        }
        u += (unsigned long long)(K * T);
        if (u < hi) {
            load(u);
        }
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

template <class... P, class... A>
static void launch_overlapped(void (*kernel)(P...), unsigned blocks, unsigned threads, A... args)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks, 1, 1);
    config.blockDim = dim3(threads, 1, 1);
    config.dynamicSmemBytes = 0;
    config.stream = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
}

template <int V, int K>
static void split(const float* x, const float* gain, const float* shift, float* y, unsigned long long all,
                  unsigned long long units, int groups, int width, int pixels, float eps)
{
    const unsigned long long chunk = (unsigned long long)K * 256;
    unsigned long long parts = (units + chunk - 1) / chunk;
    const unsigned long long limit = (unsigned long long)most_parts / all;
    if (parts > limit) {
        parts = limit;
    }
    unsigned long long per = (units + parts - 1) / parts;
    per = (per + 31) / 32 * 32;
    const unsigned blocks = (unsigned)(all * parts);
    launch(part_statistics<V, K>, blocks, 256, 0, 0, x, units, (unsigned)parts, per);
    launch_overlapped(part_results<V, K>, blocks, 256, x, gain, shift, y, units, (unsigned)parts, per, groups, width,
                      pixels, eps);
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

    // Few, long rows.
    if (all <= 64 && count >= 32768) {
        if (four) {
            split<4, 5>(x, gain, shift, y, all, units, groups, width, pixels, eps);
        } else {
            split<1, 12>(x, gain, shift, y, all, units, groups, width, pixels, eps);
        }
        return;
    }

    if (four && width <= most_width && all <= (1ull << 27)) {
        // Exact for units up to 65,536: unit * (pixels / 4) stays below 2^32.
        const unsigned magic = (unsigned)((1ull << 32) / (unsigned)(pixels / 4) + 1ull);
        if (units == 256ull * 10) {
            launch(held<256, 10, 0, 4, true>, (unsigned)all, 256, (size_t)(256 * 10 * 16), 0, x, gain, shift, y,
                   groups, width, magic, eps, 0);
            return;
        }
        if (units == 256ull * 8) {
            launch(held<256, 8, 0, 4, true>, (unsigned)all, 256, (size_t)(256 * 8 * 16), 0, x, gain, shift, y,
                   groups, width, magic, eps, 0);
            return;
        }
        for (int l = 1; l <= 3; ++l) {
            if (units == (unsigned long long)(256 * 10) << l) {
                launch(held<256, 10, 0, 4, false>, (unsigned)(all << l), 256, 0, l, x, gain, shift, y, groups, width,
                       magic, eps, l);
                return;
            }
            if (units == (unsigned long long)(256 * 8) << l) {
                launch(held<256, 8, 0, 4, false>, (unsigned)(all << l), 256, 0, l, x, gain, shift, y, groups, width,
                       magic, eps, l);
                return;
            }
        }
        for (int l = 2; l <= 3; ++l) {
            if (units == (unsigned long long)(512 * 16) << l) {
                const int bytes = 512 * 8 * 16;
                cudaFuncSetAttribute(held<512, 8, 8, 2, false>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
                launch(held<512, 8, 8, 2, false>, (unsigned)(all << l), 512, (size_t)bytes, l, x, gain, shift, y,
                       groups, width, magic, eps, l);
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
