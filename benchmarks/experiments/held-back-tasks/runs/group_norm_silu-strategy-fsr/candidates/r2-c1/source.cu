// Warp slices by bulk copies, merged statistics across a cluster

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

__device__ __forceinline__ uint32_t remote(const void* own, uint32_t rank)
{
    uint32_t at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(at)
                 : "r"((uint32_t)__cvta_generic_to_shared(own)), "r"(rank));
    return at;
}

__device__ __forceinline__ uint64_t evict_first()
{
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ bool arrived(uint32_t bar)
{
    uint32_t done;
    asm volatile(
        "{\n\t"
        ".reg .pred p;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t"
        "}"
        : "=r"(done)
        : "r"(bar)
        : "memory");
    return done != 0;
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
// With SV == 0 each warp owns a contiguous slice of RV * 32 units; BULK brings it by one bulk copy.
template <int T, int RV, int SV, int MINB, bool BULK>
__global__ void __launch_bounds__(T, MINB)
held(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
     float* __restrict__ y, int groups, int width, unsigned magic, float eps, int log_cluster)
{
    static_assert(T >= most_width, "one affine pair a thread");
    static_assert(!BULK || SV == 0, "bulk copies feed registers only");
    constexpr int W = T / 32;
    constexpr int N = (RV + SV) * T;
    constexpr int STEP = SV > 0 ? T : 32;
    constexpr float own = 4.0f * (RV + SV);

    __shared__ float2 entry[8 * W];
    __shared__ float2 affine[most_width];
    __shared__ __align__(8) unsigned long long bars[BULK ? W : 1];
    extern __shared__ __align__(128) float4 kept[];

    const int C = 1 << log_cluster;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned rank = blockIdx.x & (unsigned)(C - 1);

    // This thread's first unit of the block.
    const int mine = SV > 0 ? tid : warp * (RV * 32) + lane;
    const size_t at = (size_t)blockIdx.x * N + (size_t)mine;
    const float4* px = reinterpret_cast<const float4*>(x) + at;

    if constexpr (BULK) {
        const uint32_t bar = (uint32_t)__cvta_generic_to_shared(bars + warp);
        if (lane == 0) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(RV * 512)
                         : "memory");
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
                "[%3], %4;" ::"r"((uint32_t)__cvta_generic_to_shared(kept + warp * (RV * 32))),
                "l"(px), "r"(RV * 512), "r"(bar), "l"(evict_first())
                : "memory");
        }
        __syncwarp();
    }

    if (C > 1) {
        cluster_arrive_relaxed();
    }

    if constexpr (SV > 0) {
        const uint64_t policy = evict_first();
#pragma unroll
        for (int k = 0; k < SV; ++k) {
            asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
                             (uint32_t)__cvta_generic_to_shared(kept + k * T + tid)),
                         "l"(px + (RV + k) * T), "l"(policy)
                         : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }

    float4 v[RV];
    if constexpr (!BULK) {
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
    }

    if constexpr (BULK) {
        __syncwarp();
        const uint32_t bar = (uint32_t)__cvta_generic_to_shared(bars + warp);
        while (!arrived(bar)) {
        }
        __syncwarp();
#pragma unroll
        for (int k = 0; k < RV; ++k) {
            v[k] = kept[mine + k * 32];
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
        asm volatile("cp.async.wait_group 0;" ::: "memory");
#pragma unroll 4
        for (int k = 0; k < SV; ++k) {
            const float4 q = kept[k * T + tid];
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
            const float4 q = kept[k * T + tid];
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
    const unsigned first = rank * (unsigned)N + (unsigned)mine;
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
            const float2 f = affine[__umulhi(first + (unsigned)((RV + k) * T), magic)];
            const float a = f.x * scale;
            const float4 q = kept[k * T + tid];
            float4 r;
            r.x = silu(fmaf(q.x - mean, a, f.y));
            r.y = silu(fmaf(q.y - mean, a, f.y));
            r.z = silu(fmaf(q.z - mean, a, f.y));
            r.w = silu(fmaf(q.w - mean, a, f.y));
            py[(RV + k) * T] = r;
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

// Slices of RV float4 a thread: by bulk copies where several blocks share an SM, straight to registers else.
template <int RV>
static void launch_slices(const float* x, const float* gain, const float* shift, float* y, unsigned blocks, int groups,
                          int width, unsigned magic, float eps, int l)
{
    if (blocks >= 264u) {
        cudaFuncSetAttribute(held<256, RV, 0, 4, true>, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
        launch(held<256, RV, 0, 4, true>, blocks, 256u, (size_t)(256 * RV * 16), l, x, gain, shift, y, groups, width,
               magic, eps, l);
    } else {
        launch(held<256, RV, 0, 4, false>, blocks, 256u, (size_t)0, l, x, gain, shift, y, groups, width, magic, eps,
               l);
    }
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
            if (units == (unsigned long long)(256 * 10) << l) {
                launch_slices<10>(x, gain, shift, y, (unsigned)(all << l), groups, width, magic, eps, l);
                return;
            }
            if (units == (unsigned long long)(256 * 8) << l) {
                launch_slices<8>(x, gain, shift, y, (unsigned)(all << l), groups, width, magic, eps, l);
                return;
            }
        }
        for (int l = 2; l <= 3; ++l) {
            if (units == (unsigned long long)(512 * 16) << l) {
                const int bytes = 512 * 8 * 16;
                cudaFuncSetAttribute(held<512, 8, 8, 2, false>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
                launch(held<512, 8, 8, 2, false>, (unsigned)(all << l), 512u, (size_t)bytes, l, x, gain, shift, y,
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
        launch(any_size<4>, clusters << l, 256u, (size_t)0, l, x, gain, shift, y, all, groups, width, pixels, eps, l);
    } else {
        launch(any_size<1>, clusters << l, 256u, (size_t)0, l, x, gain, shift, y, all, groups, width, pixels, eps, l);
    }
}
