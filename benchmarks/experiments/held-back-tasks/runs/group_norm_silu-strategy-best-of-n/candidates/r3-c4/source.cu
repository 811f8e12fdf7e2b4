// Row kept on chip by warp, block or cluster; one exchange.

#include <cuda_runtime.h>
#include <stddef.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

static constexpr int THREADS = 512;
static constexpr int WARPS = THREADS / 32;
static constexpr unsigned FULL = 0xffffffffu;

__device__ __forceinline__ float add_warp(float v)
{
#pragma unroll
    for (int k = 16; k > 0; k /= 2) {
        v += __shfl_xor_sync(FULL, v, k);
    }
    return v;
}

__device__ __forceinline__ float silu(float z)
{
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(z * -1.4426950408889634f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
    return z * r;
}

__device__ __forceinline__ float inverse_root(float v)
{
    float r = rsqrtf(v);
    float h = fmaf(-(v * r), r, 1.0f);
    return fmaf(0.5f * r, h, r);
}

// magic is ceil(2^32 / divisor), 0 for the divisor 1; n and divisor are 65,536 at most
__device__ __forceinline__ unsigned divide(unsigned n, unsigned magic)
{
    return magic ? __umulhi(n, magic) : n;
}

__device__ __forceinline__ void copy16(void* to, const void* from)
{
    unsigned s = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(s), "l"(from) : "memory");
}

__device__ __forceinline__ float sum4(float4 v)
{
    return (v.x + v.y) + (v.z + v.w);
}

__device__ __forceinline__ void spread4(float4 v, float m, float& t, float& q)
{
    float a = v.x - m, b = v.y - m, c = v.z - m, d = v.w - m;
    t += (a + b) + (c + d);
    q = fmaf(a, a, q);
    q = fmaf(b, b, q);
    q = fmaf(c, c, q);
    q = fmaf(d, d, q);
}

__device__ __forceinline__ float4 finish4(float4 v, float high, float low, float inverse, float gain, float shift)
{
    float a = inverse * gain;
    float b = fmaf(-low, a, shift);
    float4 o;
    o.x = silu(fmaf(v.x - high, a, b));
    o.y = silu(fmaf(v.y - high, a, b));
    o.z = silu(fmaf(v.z - high, a, b));
    o.w = silu(fmaf(v.w - high, a, b));
    return o;
}

// K blocks (a cluster) for a row; a thread keeps V float4 in registers and S in shared memory.
template <int K, int V, int S>
__global__ void __launch_bounds__(THREADS, 2)
    on_chip(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
            float* __restrict__ y, unsigned groups, unsigned width, unsigned count4, unsigned magic, unsigned chunk4,
            float eps)
{
    __shared__ float4 table[K * WARPS];
    extern __shared__ float4 part[];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned rank = K > 1 ? blockIdx.x % K : 0u;
    const unsigned row = blockIdx.x / K;

    if (K > 1) {
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
    }

    const unsigned begin = rank * chunk4;
    const int rest = (int)count4 - (int)begin;
    const int left = rest < (int)chunk4 ? rest : (int)chunk4;
    const size_t offset = (size_t)row * count4 + begin;
    const float4* from = reinterpret_cast<const float4*>(x) + offset;
    float4* to = reinterpret_cast<float4*>(y) + offset;
    const size_t channel0 = (size_t)(row % groups) * width;
    const float* gains = gain + channel0;
    const float* shifts = shift + channel0;

    float4 v[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
        const int at = tid + i * THREADS;
        v[i] = at < left ? __ldg(from + at) : make_float4(0.f, 0.f, 0.f, 0.f);
    }
    if (S > 0) {
#pragma unroll
        for (int i = 0; i < S; ++i) {
            const int at = tid + (V + i) * THREADS;
            if (at < left) {
                copy16(&part[i * THREADS + tid], from + at);
            } else {
                part[i * THREADS + tid] = make_float4(0.f, 0.f, 0.f, 0.f);
            }
        }
    }

    float g[V], h[V];
    if (S == 0) {
#pragma unroll
        for (int i = 0; i < V; ++i) {
            const int at = tid + i * THREADS;
            g[i] = 0.f;
            h[i] = 0.f;
            if (at < left) {
                const unsigned c = divide(begin + at, magic);
                g[i] = __ldg(gains + c);
                h[i] = __ldg(shifts + c);
            }
        }
    }

    int valid = 0;
#pragma unroll
    for (int i = 0; i < V + S; ++i) {
        const int more = left - (i * THREADS + warp * 32);
        valid += min(max(more, 0), 32);
    }
    const float n = (float)(valid * 4);
    const float scale = valid > 0 ? 1.0f / n : 0.0f;

    // mean of the warp's values
    float s = 0.f;
#pragma unroll
    for (int i = 0; i < V; ++i) {
        s += sum4(v[i]);
    }
    if (S > 0) {
        asm volatile("cp.async.wait_all;\n" ::: "memory");
#pragma unroll
        for (int i = 0; i < S; ++i) {
            s += sum4(part[i * THREADS + tid]);
        }
    }
    const float m = add_warp(s) * scale;

    // what the mean is off by, and the squares
    float t = 0.f, q = 0.f;
#pragma unroll
    for (int i = 0; i < V; ++i) {
        if (tid + i * THREADS < left) {
            spread4(v[i], m, t, q);
        }
    }
    if (S > 0) {
#pragma unroll
        for (int i = 0; i < S; ++i) {
            if (tid + (V + i) * THREADS < left) {
                spread4(part[i * THREADS + tid], m, t, q);
            }
        }
    }
#pragma unroll
    for (int k = 16; k > 0; k /= 2) {
        t += __shfl_xor_sync(FULL, t, k);
        q += __shfl_xor_sync(FULL, q, k);
    }
    const float delta = t * scale;
    const float4 entry = make_float4(m, delta, fmaxf(fmaf(-t, delta, q), 0.f), n);

    if (K > 1) {
        asm volatile("barrier.cluster.wait.aligned;\n" ::: "memory");
        cg::cluster_group cluster = cg::this_cluster();
        if (lane < K) {
            float4* remote = cluster.map_shared_rank(&table[rank * WARPS + warp], lane);
            *remote = entry;
        }
        __syncwarp();
        asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
        asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
    } else {
        if (lane == 0) {
            table[warp] = entry;
        }
        __syncthreads();
    }

    // every warp puts all entries together, in the same order
    constexpr int EACH = (K * WARPS + 31) / 32;
    const float over = 1.0f / (float)(count4 * 4u);
    const float r = table[0].x;
    float u[EACH], w[EACH];
    float a = 0.f, b = 0.f;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int at = lane + i * 32;
        u[i] = 0.f;
        w[i] = 0.f;
        if (at < K * WARPS) {
            const float4 e = table[at];
            if (e.w > 0.f) {
                u[i] = (e.x - r) + e.y;
                w[i] = e.w;
                b += e.z;
            }
        }
        a = fmaf(w[i], u[i], a);
    }
    const float d = add_warp(a) * over;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const float f = u[i] - d;
        b = fmaf(w[i] * f, f, b);
    }
    const float inverse = inverse_root(fmaf(add_warp(b), over, eps));
    // high + low = r + d, exactly
    const float high = r + d;
    const float back = high - r;
    const float low = (r - (high - back)) + (d - back);

#pragma unroll
    for (int i = 0; i < V; ++i) {
        const int at = tid + i * THREADS;
        if (at < left) {
            float gi, hi;
            if (S == 0) {
                gi = g[i];
                hi = h[i];
            } else {
                const unsigned c = divide(begin + at, magic);
                gi = __ldg(gains + c);
                hi = __ldg(shifts + c);
            }
            __stcs(to + at, finish4(v[i], high, low, inverse, gi, hi));
        }
    }
    if (S > 0) {
#pragma unroll 4
        for (int i = 0; i < S; ++i) {
            const int at = tid + (V + i) * THREADS;
            if (at < left) {
                const unsigned c = divide(begin + at, magic);
                const float gi = __ldg(gains + c);
                const float hi = __ldg(shifts + c);
                __stcs(to + at, finish4(part[i * THREADS + tid], high, low, inverse, gi, hi));
            }
        }
    }
}

// Mean, its error, squares and number of up to 1,024 values that a warp holds.
__device__ __forceinline__ float4 warp_stats(const float (&v)[32], int n, int lane)
{
    float s = 0.f;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        s += v[i];
    }
    const float scale = 1.0f / (float)n;
    const float m = add_warp(s) * scale;
    float t = 0.f, q = 0.f;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        if (lane + i * 32 < n) {
            const float d = v[i] - m;
            t += d;
            q = fmaf(d, d, q);
        }
    }
    t = add_warp(t);
    q = add_warp(q);
    const float delta = t * scale;
    return make_float4(m, delta, fmaxf(fmaf(-t, delta, q), 0.f), (float)n);
}

// A warp for each row of up to 1,024 values.
__global__ void __launch_bounds__(256)
    warp_rows(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
              float* __restrict__ y, size_t rows, size_t groups, size_t width, int count, unsigned magic, float eps)
{
    const int lane = threadIdx.x & 31;
    const size_t step = (size_t)gridDim.x * 8;
    for (size_t row = (size_t)blockIdx.x * 8 + (threadIdx.x >> 5); row < rows; row += step) {
        const float* from = x + row * count;
        float* to = y + row * count;
        const size_t channel0 = (row % groups) * width;
        float v[32];
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const int at = lane + i * 32;
            v[i] = at < count ? __ldg(from + at) : 0.f;
        }
        const float4 e = warp_stats(v, count, lane);
        const float inverse = inverse_root(e.z / e.w + eps);
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const int at = lane + i * 32;
            if (at < count) {
                const size_t c = channel0 + divide((unsigned)at, magic);
                const float a = inverse * __ldg(gain + c);
                const float b = fmaf(-e.y, a, __ldg(shift + c));
                to[at] = silu(fmaf(v[i] - e.x, a, b));
            }
        }
    }
}

// Any other rows: statistics of segments of 1,024 values, a warp for each.
__global__ void __launch_bounds__(256)
    segment_stats(const float* __restrict__ x, float4* __restrict__ entries, size_t tasks, size_t segments,
                  size_t count)
{
    const int lane = threadIdx.x & 31;
    const size_t step = (size_t)gridDim.x * 8;
    for (size_t task = (size_t)blockIdx.x * 8 + (threadIdx.x >> 5); task < tasks; task += step) {
        const size_t row = task / segments;
        const size_t base = (task - row * segments) * 1024;
        const int n = (int)(count - base < 1024 ? count - base : 1024);
        const float* from = x + row * count + base;
        float v[32];
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const int at = lane + i * 32;
            v[i] = at < n ? __ldg(from + at) : 0.f;
        }
        const float4 e = warp_stats(v, n, lane);
        if (lane == 0) {
            entries[task] = e;
        }
    }
}

__device__ __forceinline__ double add_block(double* sums, double v)
{
#pragma unroll
    for (int k = 16; k > 0; k /= 2) {
        v += __shfl_xor_sync(FULL, v, k);
    }
    if ((threadIdx.x & 31) == 0) {
        sums[threadIdx.x >> 5] = v;
    }
    __syncthreads();
    double total = 0.0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        total += sums[i];
    }
    __syncthreads();
    return total;
}

__global__ void __launch_bounds__(256)
    row_stats(const float4* __restrict__ entries, float4* __restrict__ stats, size_t rows, size_t segments,
              size_t count, float eps)
{
    __shared__ double sums[8];
    for (size_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const float4* e = entries + row * segments;
        const double r = (double)e[0].x;
        double a = 0.0;
        for (size_t i = threadIdx.x; i < segments; i += 256) {
            const float4 k = e[i];
            a += (double)k.w * (((double)k.x - r) + (double)k.y);
        }
        const double mean = r + add_block(sums, a) / (double)count;
        double b = 0.0;
        for (size_t i = threadIdx.x; i < segments; i += 256) {
            const float4 k = e[i];
            const double d = ((double)k.x - mean) + (double)k.y;
            b += (double)k.z + (double)k.w * d * d;
        }
        const double variance = add_block(sums, b) / (double)count;
        if (threadIdx.x == 0) {
            const float high = (float)mean;
            const float low = (float)(mean - (double)high);
            stats[row] = make_float4(high, low, (float)(1.0 / sqrt(variance + (double)eps)), 0.f);
        }
    }
}

__global__ void __launch_bounds__(256)
    segment_finish(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
                   float* __restrict__ y, const float4* __restrict__ stats, size_t tasks, size_t segments,
                   size_t count, size_t groups, size_t width, unsigned pixels)
{
    const int lane = threadIdx.x & 31;
    const size_t step = (size_t)gridDim.x * 8;
    for (size_t task = (size_t)blockIdx.x * 8 + (threadIdx.x >> 5); task < tasks; task += step) {
        const size_t row = task / segments;
        const size_t base = (task - row * segments) * 1024;
        const int n = (int)(count - base < 1024 ? count - base : 1024);
        const float* from = x + row * count + base;
        float* to = y + row * count + base;
        const float4 e = stats[row];
        const size_t first = base / pixels;
        const unsigned within = (unsigned)(base - first * pixels);
        const size_t channel0 = (row % groups) * width + first;
#pragma unroll 8
        for (int i = 0; i < 32; ++i) {
            const int at = lane + i * 32;
            if (at < n) {
                const size_t c = channel0 + (within + (unsigned)at) / pixels;
                const float a = e.z * __ldg(gain + c);
                const float b = fmaf(-e.y, a, __ldg(shift + c));
                to[at] = silu(fmaf(__ldg(from + at) - e.x, a, b));
            }
        }
    }
}

static unsigned magic_of(unsigned divisor)
{
    return divisor <= 1 ? 0u : (unsigned)(((1ull << 32) + divisor - 1) / divisor);
}

template <int K, int V, int S>
static void launch(const float* x, const float* gain, const float* shift, float* y, size_t rows, unsigned groups,
                   unsigned width, unsigned count4, unsigned magic, float eps)
{
    const unsigned chunk4 = (count4 + K - 1) / K;
    const size_t shared = (size_t)S * THREADS * sizeof(float4);
    if (S > 0) {
        cudaFuncSetAttribute(on_chip<K, V, S>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    }
    if (K == 1) {
        on_chip<K, V, S><<<(unsigned)rows, THREADS, shared>>>(x, gain, shift, y, groups, width, count4, magic, chunk4,
                                                              eps);
        return;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(rows * K), 1, 1);
    config.blockDim = dim3(THREADS, 1, 1);
    config.dynamicSmemBytes = shared;
    config.stream = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = K;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, on_chip<K, V, S>, x, gain, shift, y, groups, width, count4, magic, chunk4, eps);
}

extern "C" void solve(const float* x, const float* gain, const float* shift, float* y, int images, int groups,
                      int width, int pixels, float eps)
{
    const size_t rows = (size_t)images * (size_t)groups;
    const size_t count = (size_t)width * (size_t)pixels;
    if (rows == 0 || count == 0) {
        return;
    }

    if (count <= 1024) {
        const size_t need = (rows + 7) / 8;
        const unsigned grid = (unsigned)(need < 132u * 256u ? need : 132u * 256u);
        warp_rows<<<grid, 256>>>(x, gain, shift, y, rows, (size_t)groups, (size_t)width, (int)count,
                                 magic_of((unsigned)pixels), eps);
        return;
    }

    if (pixels % 4 == 0 && count <= 262144) {
        const unsigned count4 = (unsigned)(count / 4);
        const unsigned magic = magic_of((unsigned)pixels / 4u);
        const unsigned g = (unsigned)groups, w = (unsigned)width;
        if (count4 > 8u * 5u * THREADS) {
            launch<8, 8, 8>(x, gain, shift, y, rows, g, w, count4, magic, eps);
            return;
        }
        int k = 1;
        while (count4 > (unsigned)k * 5u * THREADS) {
            k *= 2;
        }
        while (k < 8 && rows * (size_t)(k * 2) <= 132 && count4 > (unsigned)k * THREADS) {
            k *= 2;
        }
        if (k == 1) {
            launch<1, 5, 0>(x, gain, shift, y, rows, g, w, count4, magic, eps);
        } else if (k == 2) {
            launch<2, 5, 0>(x, gain, shift, y, rows, g, w, count4, magic, eps);
        } else if (k == 4) {
            launch<4, 5, 0>(x, gain, shift, y, rows, g, w, count4, magic, eps);
        } else {
            launch<8, 5, 0>(x, gain, shift, y, rows, g, w, count4, magic, eps);
        }
        return;
    }

    const size_t segments = (count + 1023) / 1024;
    const size_t tasks = rows * segments;
    float4* memory = nullptr;
    cudaMallocAsync((void**)&memory, (tasks + rows) * sizeof(float4), 0);
    float4* stats = memory + tasks;
    const size_t need = (tasks + 7) / 8;
    const unsigned grid = (unsigned)(need < 132u * 64u ? need : 132u * 64u);
    const unsigned grid_rows = (unsigned)(rows < 132u * 64u ? rows : 132u * 64u);
    segment_stats<<<grid, 256>>>(x, memory, tasks, segments, count);
    row_stats<<<grid_rows, 256>>>(memory, stats, rows, segments, count, eps);
    segment_finish<<<grid, 256>>>(x, gain, shift, y, stats, tasks, segments, count, (size_t)groups, (size_t)width,
                                  (unsigned)pixels);
    cudaFreeAsync(memory, 0);
}
