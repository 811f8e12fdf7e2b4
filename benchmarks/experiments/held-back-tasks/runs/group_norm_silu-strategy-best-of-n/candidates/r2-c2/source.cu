// Row parts in registers as float4, clusters share long rows.

#include <cuda_runtime.h>
#include <cstdint>
#include <cstddef>

constexpr int max_width = 512;   // channels of a group whose gain and shift fit in shared memory

// ---------------------------------------------------------------- pieces

__device__ __forceinline__ float warp_sum(float a)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        a += __shfl_xor_sync(0xffffffffu, a, o);
    }
    return a;
}

__device__ __forceinline__ float silu(float z)
{
    float u = expf(-fabsf(z));               // at most 1
    float top = z < 0.0f ? z * u : z;
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + u));
    return top * r;
}

__device__ __forceinline__ unsigned cluster_rank()
{
    unsigned r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

__device__ __forceinline__ void cluster_arrive_relaxed()
{
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// Writes e to the place `own` has in the block `rank` of the cluster.
__device__ __forceinline__ void put_remote(float4* own, unsigned rank, float4 e)
{
    uint32_t here = (uint32_t)__cvta_generic_to_shared(own);
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(there), "f"(e.x), "f"(e.y), "f"(e.z),
                 "f"(e.w)
                 : "memory");
}

// Of the values that a warp holds: how many, their mean as a sum of two parts, the sum of squares about it.
template <int T, int V>
__device__ __forceinline__ float4 warp_stats(const float4 (&v)[V], int mine, int tid)
{
    const int warp = tid >> 5;
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
#pragma unroll
    for (int k = 0; k < V; ++k) {            // absent ones are zero
        a += v[k].x;
        b += v[k].y;
        c += v[k].z;
        d += v[k].w;
    }
    float s = warp_sum((a + b) + (c + d));
    int rest = mine % T - 32 * warp;
    rest = rest < 0 ? 0 : (rest > 32 ? 32 : rest);
    float n = (float)(4 * (32 * (mine / T) + rest));
    float inv = n > 0.0f ? 1.0f / n : 0.0f;
    float m = s * inv;
    float s0 = 0.0f, s1 = 0.0f, q0 = 0.0f, q1 = 0.0f;
#pragma unroll
    for (int k = 0; k < V; ++k) {
        if (k * T + tid < mine) {
            float e0 = v[k].x - m, e1 = v[k].y - m, e2 = v[k].z - m, e3 = v[k].w - m;
            s0 += e0;
            s1 += e1;
            q0 = fmaf(e0, e0, q0);
            q1 = fmaf(e1, e1, q1);
            s0 += e2;
            s1 += e3;
            q0 = fmaf(e2, e2, q0);
            q1 = fmaf(e3, e3, q1);
        }
    }
    float sd = s0 + s1, sq = q0 + q1;
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        sd += __shfl_xor_sync(0xffffffffu, sd, o);
        sq += __shfl_xor_sync(0xffffffffu, sq, o);
    }
    float low = sd * inv;
    return make_float4(n, m, low, fmaxf(sq - sd * low, 0.0f));
}

// From all warps' statistics: pivot, what the mean lies above it, 1 / sqrt(variance + eps).
__device__ __forceinline__ void merge(const float4* entry, int count, int lane, float total, float eps, float& pivot,
                                      float& above, float& scale)
{
    pivot = entry[0].y;
    float s = 0.0f;
    for (int i = lane; i < count; i += 32) {
        float4 e = entry[i];
        s += e.x * ((e.y - pivot) + e.z);
    }
    above = warp_sum(s) / total;
    float q = 0.0f;
    for (int i = lane; i < count; i += 32) {
        float4 e = entry[i];
        float d = ((e.y - pivot) + e.z) - above;
        q += e.w + e.x * d * d;
    }
    scale = 1.0f / sqrtf(warp_sum(q) / total + eps);
}

template <int T, int V>
__device__ __forceinline__ void finish(const float4 (&v)[V], float4* to, const float2* gs, int start, int mine,
                                       int tid, int pv, unsigned magic, float pivot, float above, float scale)
{
#pragma unroll
    for (int k = 0; k < V; ++k) {
        int i = k * T + tid;
        if (i < mine) {
            unsigned at = (unsigned)(start + i);
            unsigned c = pv == 1 ? at : __umulhi(at, magic);
            float2 g = gs[c];
            float a = scale * g.x;
            float4 r;
            r.x = silu(fmaf((v[k].x - pivot) - above, a, g.y));
            r.y = silu(fmaf((v[k].y - pivot) - above, a, g.y));
            r.z = silu(fmaf((v[k].z - pivot) - above, a, g.y));
            r.w = silu(fmaf((v[k].w - pivot) - above, a, g.y));
            to[i] = r;
        }
    }
}

// ---------------------------------------------------------------- a block, or a cluster of up to 8, for each row

template <int T, int V, int B, bool C>
__global__ void __launch_bounds__(T, B)
norm_regs(const float4* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
          float4* __restrict__ y, int groups, int width, int n4, int pv, unsigned magic, int split, int part, float eps)
{
    constexpr int W = T / 32;
    __shared__ __align__(16) float4 entry[C ? 8 * W : W];
    __shared__ float2 gs[max_width];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    unsigned rank = 0;
    unsigned row = blockIdx.x;
    if (C) {
        cluster_arrive_relaxed();            // waited for before the first access to another block
        rank = cluster_rank();
        row = blockIdx.x / (unsigned)split;
    }
    const int start = (int)rank * part;
    int mine = n4 - start;
    mine = mine < 0 ? 0 : (mine > part ? part : mine);
    const size_t base = (size_t)row * (size_t)n4 + (size_t)start;
    const float4* from = x + base;

    float4 v[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
        int i = k * T + tid;
        v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i < mine) {
            v[k] = __ldcs(from + i);
        }
    }
    const size_t first = (size_t)(row % (unsigned)groups) * (size_t)width;
    for (int c = tid; c < width; c += T) {
        gs[c] = make_float2(gain[first + c], shift[first + c]);
    }

    float4 e = warp_stats<T, V>(v, mine, tid);
    if (C) {
        cluster_wait();
        if (lane < split) {
            put_remote(&entry[rank * W + warp], (unsigned)lane, e);
        }
        cluster_arrive();
        cluster_wait();
    } else {
        if (lane == 0) {
            entry[warp] = e;
        }
        __syncthreads();
    }
    float pivot, above, scale;
    merge(entry, C ? split * W : W, lane, (float)n4 * 4.0f, eps, pivot, above, scale);
    finish<T, V>(v, y + base, gs, start, mine, tid, pv, magic, pivot, above, scale);
}

// ---------------------------------------------------------------- long rows: clusters that stay, the next row on its way

constexpr int LT = 512;
constexpr int LV = 16;
constexpr int stage_bytes = LT * LV * 16;

__device__ __forceinline__ void fetch_row(uint32_t stage, uint32_t bar, const float4* from, int vectors,
                                          uint64_t policy)
{
    uint32_t bytes = (uint32_t)vectors * 16u;
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
    const char* p = reinterpret_cast<const char*>(from);
    for (uint32_t at = 0; at < bytes; at += 16384u) {
        uint32_t size = bytes - at < 16384u ? bytes - at : 16384u;
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                     "[%0], [%1], %2, [%3], %4;" ::"r"(stage + at),
                     "l"(p + at), "r"(size), "r"(bar), "l"(policy)
                     : "memory");
    }
}

__device__ __forceinline__ void wait_phase(uint32_t bar, uint32_t parity)
{
    uint32_t done = 0;
    while (!done) {
        asm volatile("{\n\t"
                     ".reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t"
                     "}"
                     : "=r"(done)
                     : "r"(bar), "r"(parity)
                     : "memory");
    }
}

__global__ void __launch_bounds__(LT, 1)
norm_stream(const float4* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
            float4* __restrict__ y, long long rows, int groups, int width, int n4, int pv, unsigned magic, int split,
            int part, float eps)
{
    constexpr int W = LT / 32;
    extern __shared__ __align__(128) unsigned char raw[];
    __shared__ __align__(16) float4 entry[2][8 * W];
    __shared__ float2 gs[2][max_width];
    __shared__ __align__(8) uint64_t full;

    const float4* stage = reinterpret_cast<const float4*>(raw);
    const uint32_t stage_at = (uint32_t)__cvta_generic_to_shared(raw);
    const uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full);
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned rank = cluster_rank();
    const long long step = gridDim.x / (unsigned)split;
    const int start = (int)rank * part;
    int mine = n4 - start;
    mine = mine < 0 ? 0 : (mine > part ? part : mine);

    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    if (tid == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster_arrive();
    cluster_wait();

    long long row = blockIdx.x / (unsigned)split;
    if (tid == 0 && row < rows) {
        fetch_row(stage_at, bar, x + ((size_t)row * (size_t)n4 + (size_t)start), mine, policy);
    }
    uint32_t phase = 0;
    for (; row < rows; row += step) {
        const uint32_t p = phase;
        wait_phase(bar, p);
        phase ^= 1u;

        float4 v[LV];
#pragma unroll
        for (int k = 0; k < LV; ++k) {
            int i = k * LT + tid;
            v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < mine) {
                v[k] = stage[i];
            }
        }
        __syncthreads();
        if (tid == 0 && row + step < rows) {
            fetch_row(stage_at, bar, x + ((size_t)(row + step) * (size_t)n4 + (size_t)start), mine, policy);
        }
        const size_t first = (size_t)(row % groups) * (size_t)width;
        for (int c = tid; c < width; c += LT) {
            gs[p][c] = make_float2(gain[first + c], shift[first + c]);
        }

        float4 e = warp_stats<LT, LV>(v, mine, tid);
        if (lane < split) {
            put_remote(&entry[p][rank * W + warp], (unsigned)lane, e);
        }
        cluster_arrive();
        cluster_wait();
        float pivot, above, scale;
        merge(entry[p], split * W, lane, (float)n4 * 4.0f, eps, pivot, above, scale);
        finish<LT, LV>(v, y + ((size_t)row * (size_t)n4 + (size_t)start), gs[p], start, mine, tid, pv, magic, pivot,
                       above, scale);
    }
}

// ---------------------------------------------------------------- anything else

__device__ __forceinline__ double block_sum(double a, double* sums)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        a += __shfl_xor_sync(0xffffffffu, a, o);
    }
    __syncthreads();
    if ((threadIdx.x & 31) == 0) {
        sums[threadIdx.x >> 5] = a;
    }
    __syncthreads();
    double t = 0.0;
    for (int w = 0; w < (int)(blockDim.x >> 5); ++w) {
        t += sums[w];
    }
    return t;
}

__global__ void __launch_bounds__(512)
norm_any(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
         float* __restrict__ y, long long rows, int groups, int width, int pixels, float eps)
{
    __shared__ double sums[16];
    const long long count = (long long)width * pixels;
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* from = x + (size_t)row * (size_t)count;
        float* to = y + (size_t)row * (size_t)count;
        const size_t first = (size_t)(row % groups) * (size_t)width;

        double s = 0.0;
        for (long long i = threadIdx.x; i < count; i += blockDim.x) {
            s += (double)from[i];
        }
        double mean = block_sum(s, sums) / (double)count;
        float pivot = (float)mean;
        float above = (float)(mean - (double)pivot);
        double q = 0.0;
        for (long long i = threadIdx.x; i < count; i += blockDim.x) {
            float d = (from[i] - pivot) - above;
            q += (double)d * (double)d;
        }
        float scale = (float)(1.0 / sqrt(block_sum(q, sums) / (double)count + (double)eps));
        for (long long i = threadIdx.x; i < count; i += blockDim.x) {
            size_t c;
            if (count <= 0x7fffffffLL) {
                c = first + (unsigned)i / (unsigned)pixels;
            } else {
                c = first + (size_t)(i / pixels);
            }
            float d = (from[i] - pivot) - above;
            to[i] = silu(fmaf(d, scale * gain[c], shift[c]));
        }
    }
}

// ---------------------------------------------------------------- host

template <int T, int V, int B>
static cudaError_t launch_regs(const float* x, const float* gain, const float* shift, float* y, long long rows,
                               int groups, int width, int n4, int pv, unsigned magic, int split, int part, float eps)
{
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* y4 = reinterpret_cast<float4*>(y);
    if (split == 1) {
        norm_regs<T, V, B, false><<<(unsigned)rows, T>>>(x4, gain, shift, y4, groups, width, n4, pv, magic, split, part,
                                                         eps);
        return cudaSuccess;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(rows * split));
    config.blockDim = dim3(T);
    config.dynamicSmemBytes = 0;
    config.stream = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = (unsigned)split;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, norm_regs<T, V, B, true>, x4, gain, shift, y4, groups, width, n4, pv, magic,
                              split, part, eps);
}

extern "C" void solve(const float* x, const float* gain, const float* shift, float* y, int images, int groups,
                      int width, int pixels, float eps)
{
    if (images <= 0 || groups <= 0 || width <= 0 || pixels <= 0) {
        return;
    }
    const long long rows = (long long)images * groups;
    const long long count = (long long)width * pixels;
    bool done = false;

    if (pixels % 4 == 0 && width <= max_width && count / 4 <= 65536 && rows * 8 <= 0x7fffffffLL) {
        const int n4 = (int)(count / 4);
        const int pv = pixels / 4;
        const unsigned magic = pv == 1 ? 0u : 0xffffffffu / (unsigned)pv + 1u;
        if (n4 <= 2560 * 8) {
            int split = 1;
            while (n4 > 2560 * split) {
                split *= 2;
            }
            const int part = (n4 + split - 1) / split;
            cudaError_t error;
            if (rows * split <= 132) {
                error = launch_regs<512, 5, 2>(x, gain, shift, y, rows, groups, width, n4, pv, magic, split, part, eps);
            } else {
                error = launch_regs<256, 10, 4>(x, gain, shift, y, rows, groups, width, n4, pv, magic, split, part, eps);
            }
            done = error == cudaSuccess;
        } else {
            const int split = n4 <= LT * LV * 4 ? 4 : 8;
            const int part = (n4 + split - 1) / split;
            cudaFuncSetAttribute(norm_stream, cudaFuncAttributeMaxDynamicSharedMemorySize, stage_bytes);

            cudaLaunchConfig_t config = {};
            config.gridDim = dim3((unsigned)(128 / split * split));
            config.blockDim = dim3(LT);
            config.dynamicSmemBytes = stage_bytes;
            config.stream = 0;
            cudaLaunchAttribute attribute[1];
            attribute[0].id = cudaLaunchAttributeClusterDimension;
            attribute[0].val.clusterDim.x = (unsigned)split;
            attribute[0].val.clusterDim.y = 1;
            attribute[0].val.clusterDim.z = 1;
            config.attrs = attribute;
            config.numAttrs = 1;

            static int resident[2] = {0, 0};     // clusters of 4, of 8 that fit on the chip at once
            int& fit = resident[split == 8];
            if (fit < 1) {
                int n = 0;
                if (cudaOccupancyMaxActiveClusters(&n, norm_stream, &config) != cudaSuccess || n < 1) {
                    cudaGetLastError();
                    n = 128 / split;
                }
                fit = n;
            }
            long long clusters = rows < fit ? rows : fit;
            config.gridDim = dim3((unsigned)(clusters * split));
            cudaError_t error = cudaLaunchKernelEx(&config, norm_stream, reinterpret_cast<const float4*>(x), gain,
                                                   shift, reinterpret_cast<float4*>(y), rows, groups, width, n4, pv,
                                                   magic, split, part, eps);
            done = error == cudaSuccess;
        }
        if (!done) {
            cudaGetLastError();
        }
    }
    if (!done) {
        const unsigned blocks = (unsigned)(rows < 1000000LL ? rows : 1000000LL);
        norm_any<<<blocks, 512>>>(x, gain, shift, y, rows, groups, width, pixels, eps);
    }
}
