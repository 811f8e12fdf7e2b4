// Warp, block or cluster a group, values kept on chip.

#include <cuda_runtime.h>
#include <cstddef>

namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kStaged = 512;  // channels whose gain and shift fit into shared memory
constexpr unsigned kAll = 0xffffffffu;

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        v += __shfl_xor_sync(kAll, v, o);
    }
    return v;
}

__device__ __forceinline__ double warp_sum(double v)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        v += __shfl_xor_sync(kAll, v, o);
    }
    return v;
}

__device__ __forceinline__ float inverse_root(float v)
{
    const float r = rsqrtf(v);
    const float e = fmaf(-(v * r), r, 1.0f);
    return fmaf(0.5f * r, e, r);
}

// z / (1 + exp(-z)); the rounding of the exponent is put right by a factor near 1.
__device__ __forceinline__ float silu(float z)
{
    const float l = 1.4426950408889634f;
    const float p = __fmul_rn(z, -l);
    const float lo = __fmaf_rn(z, -l, -p);
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(p));
    const float w = __fmaf_rn(lo, 0.6931471805599453f, 1.0f);
    const float d = __fmaf_rn(e, w, 1.0f);
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
    return z * r;
}

__device__ __forceinline__ unsigned divide(unsigned n, unsigned magic, unsigned bits)
{
    return (__umulhi(magic, n) + n) >> bits;  // n < 2^31
}

template <int VEC>
__device__ __forceinline__ void load_unit(float* v, const float* from)
{
    if constexpr (VEC == 4) {
        const float4 t = __ldcs(reinterpret_cast<const float4*>(from));
        v[0] = t.x;
        v[1] = t.y;
        v[2] = t.z;
        v[3] = t.w;
    } else {
        v[0] = __ldcs(from);
    }
}

template <int VEC>
__device__ __forceinline__ void store_unit(float* to, const float* v, float mean, float scale, float shift)
{
    if constexpr (VEC == 4) {
        float4 t;
        t.x = silu(fmaf(v[0] - mean, scale, shift));
        t.y = silu(fmaf(v[1] - mean, scale, shift));
        t.z = silu(fmaf(v[2] - mean, scale, shift));
        t.w = silu(fmaf(v[3] - mean, scale, shift));
        __stcs(reinterpret_cast<float4*>(to), t);
    } else {
        __stcs(to, silu(fmaf(v[0] - mean, scale, shift)));
    }
}

// ---------------------------------------------------------------------------
// A warp for each group of at most 1,024 values.
// ---------------------------------------------------------------------------

template <int VEC>
__global__ void __launch_bounds__(256)
norm_warp(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
          float* __restrict__ y, long long rows, int groups, int width, int count, unsigned magic, unsigned bits,
          float eps)
{
    constexpr int N = 32 / VEC;
    const int lane = threadIdx.x & 31;
    const int n = count / VEC;
    const long long step = (long long)gridDim.x * 8;
    for (long long row = (long long)blockIdx.x * 8 + (threadIdx.x >> 5); row < rows; row += step) {
        const float* from = x + (size_t)row * (size_t)count;
        float* to = y + (size_t)row * (size_t)count;
        const size_t base = (size_t)(row % groups) * (size_t)width;

        float v[32];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const int u = i * 32 + lane;
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                v[i * VEC + k] = 0.0f;
            }
            if (u < n) {
                load_unit<VEC>(v + i * VEC, from + (size_t)u * VEC);
            }
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            sum += v[i];
        }
        const float mean = warp_sum(sum) / (float)count;
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (i * 32 + lane < n) {
#pragma unroll
                for (int k = 0; k < VEC; ++k) {
                    const float d = v[i * VEC + k] - mean;
                    squares = fmaf(d, d, squares);
                }
            }
        }
        const float r = inverse_root(warp_sum(squares) / (float)count + eps);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const int u = i * 32 + lane;
            if (u < n) {
                const unsigned ch = divide((unsigned)u, magic, bits);
                const float g = __ldg(gain + base + ch);
                const float s = __ldg(shift + base + ch);
                store_unit<VEC>(to + (size_t)u * VEC, v + i * VEC, mean, r * g, s);
            }
        }
    }
}

// ---------------------------------------------------------------------------
// A block, or a cluster of blocks, for each group. A thread keeps 4 V values in registers
// and 4 SV in shared memory, which nobody else reads. The warps' means and sums of squares
// go to every block of the cluster, and one barrier later each warp merges them all.
// ---------------------------------------------------------------------------

template <int V, int SV, int VEC, bool CLUSTER>
__global__ void __launch_bounds__(kThreads, 2)
norm_block(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
           float* __restrict__ y, int groups, int width, int count, int per, unsigned magic, unsigned bits,
           int log_blocks, float eps)
{
    static_assert(SV == 0 || VEC == 4, "shared values come as float4");
    constexpr int N = V * 4 / VEC;
    constexpr int TOTAL = N + SV;
    constexpr int PAIRS = CLUSTER ? kWarps * 8 : kWarps;
    constexpr int K = (PAIRS + 31) / 32;

    extern __shared__ float4 stage[];
    __shared__ float4 stats[PAIRS];
    __shared__ float2 weights[kStaged];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int blocks = CLUSTER ? 1 << log_blocks : 1;
    const int row = CLUSTER ? (int)(blockIdx.x >> log_blocks) : (int)blockIdx.x;
    const int rank = CLUSTER ? (int)(blockIdx.x & (unsigned)(blocks - 1)) : 0;

    if constexpr (CLUSTER) {
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
    }

    const int units = count / VEC;
    const int begin = rank * per;
    int n = units - begin;
    n = n < per ? n : per;
    n = n > 0 ? n : 0;
    const size_t offset = (size_t)row * (size_t)count + (size_t)begin * VEC;
    const float* from = x + offset;
    float* to = y + offset;

    // Loads
    float4* own = stage + tid;
    if constexpr (SV > 0) {
        const unsigned dst = (unsigned)__cvta_generic_to_shared(own);
#pragma unroll
        for (int i = 0; i < SV; ++i) {
            const int u = (N + i) * kThreads + tid;
            if (u < n) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(dst + (unsigned)(i * kThreads * 16)),
                             "l"(from + (size_t)u * VEC)
                             : "memory");
            }
        }
    }
    float v[N * VEC];
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const int u = i * kThreads + tid;
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            v[i * VEC + k] = 0.0f;
        }
        if (u < n) {
            load_unit<VEC>(v + i * VEC, from + (size_t)u * VEC);
        }
    }
    const size_t base = (size_t)(row % groups) * (size_t)width;
    const bool staged = width <= kStaged;
    if (staged && tid < width) {
        const unsigned dst = (unsigned)__cvta_generic_to_shared(weights + tid);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(dst), "l"(gain + base + tid) : "memory");
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(dst + 4u), "l"(shift + base + tid) : "memory");
    }
    asm volatile("cp.async.commit_group;\n" ::: "memory");

    // Values of this warp
    int held = TOTAL * 32;
    if (n != TOTAL * kThreads) {
        held = 0;
#pragma unroll
        for (int i = 0; i < TOTAL; ++i) {
            int some = n - (i * kThreads + warp * 32);
            some = some < 32 ? some : 32;
            held += some > 0 ? some : 0;
        }
    }
    const float values = (float)(held * VEC);

    // Mean of the warp
    float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < N * VEC; ++i) {
        part[i & 3] += v[i];
    }
    asm volatile("cp.async.wait_group 0;\n" ::: "memory");
    if constexpr (SV > 0) {
#pragma unroll
        for (int i = 0; i < SV; ++i) {
            if ((N + i) * kThreads + tid < n) {
                const float4 t = own[i * kThreads];
                part[0] += t.x;
                part[1] += t.y;
                part[2] += t.z;
                part[3] += t.w;
            }
        }
    }
    const float sum = warp_sum((part[0] + part[1]) + (part[2] + part[3]));
    const float local = held > 0 ? sum / values : 0.0f;

    // Squares about it
    part[0] = part[1] = part[2] = part[3] = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (i * kThreads + tid < n) {
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                const float d = v[i * VEC + k] - local;
                part[(i * VEC + k) & 3] = fmaf(d, d, part[(i * VEC + k) & 3]);
            }
        }
    }
    if constexpr (SV > 0) {
#pragma unroll
        for (int i = 0; i < SV; ++i) {
            if ((N + i) * kThreads + tid < n) {
                const float4 t = own[i * kThreads];
                const float d0 = t.x - local;
                const float d1 = t.y - local;
                const float d2 = t.z - local;
                const float d3 = t.w - local;
                part[0] = fmaf(d0, d0, part[0]);
                part[1] = fmaf(d1, d1, part[1]);
                part[2] = fmaf(d2, d2, part[2]);
                part[3] = fmaf(d3, d3, part[3]);
            }
        }
    }
    const float squares = warp_sum((part[0] + part[1]) + (part[2] + part[3]));

    // Hand it to everyone
    if constexpr (CLUSTER) {
        asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
        if (lane < blocks) {
            const unsigned here = (unsigned)__cvta_generic_to_shared(stats + rank * kWarps + warp);
            unsigned there;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(there) : "r"(here), "r"(lane));
            asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(there), "f"(local), "f"(squares),
                         "f"(values), "f"(0.0f)
                         : "memory");
        }
        __syncwarp();
        asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
        asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
    } else {
        if (lane == 0) {
            stats[warp] = make_float4(local, squares, values, 0.0f);
        }
        __syncthreads();
    }

    // Merge
    const int pairs = kWarps * blocks;
    const float pivot = stats[0].x;
    float4 st[K];
    float moved = 0.0f;
#pragma unroll
    for (int k = 0; k < K; ++k) {
        const int p = k * 32 + lane;
        st[k] = make_float4(pivot, 0.0f, 0.0f, 0.0f);
        if (p < pairs) {
            st[k] = stats[p];
        }
        moved = fmaf(st[k].z, st[k].x - pivot, moved);
    }
    const float total = (float)count;
    const float mean = pivot + warp_sum(moved) / total;
    float spread = 0.0f;
#pragma unroll
    for (int k = 0; k < K; ++k) {
        const float d = st[k].x - mean;
        spread += fmaf(st[k].z * d, d, st[k].y);
    }
    const float r = inverse_root(warp_sum(spread) / total + eps);

    // Results
#pragma unroll
    for (int i = 0; i < TOTAL; ++i) {
        const int u = i * kThreads + tid;
        if (u < n) {
            const unsigned ch = divide((unsigned)(begin + u), magic, bits);
            float g, s;
            if (staged) {
                const float2 t = weights[ch];
                g = t.x;
                s = t.y;
            } else {
                g = __ldg(gain + base + ch);
                s = __ldg(shift + base + ch);
            }
            if (i < N) {
                store_unit<VEC>(to + (size_t)u * VEC, v + (i < N ? i : 0) * VEC, mean, r * g, s);
            } else if constexpr (SV > 0) {
                const float4 t = own[(i - N) * kThreads];
                const float w[4] = {t.x, t.y, t.z, t.w};
                store_unit<VEC>(to + (size_t)u * VEC, w, mean, r * g, s);
            }
        }
    }
}

// ---------------------------------------------------------------------------
// Groups too long for the chip: sums in double about the first value, then the results.
// ---------------------------------------------------------------------------

__device__ __forceinline__ double2 block_sum(double a, double b, double2* sums)
{
    a = warp_sum(a);
    b = warp_sum(b);
    if ((threadIdx.x & 31) == 0) {
        sums[threadIdx.x >> 5] = make_double2(a, b);
    }
    __syncthreads();
    double2 t = make_double2(0.0, 0.0);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        t.x += sums[i].x;
        t.y += sums[i].y;
    }
    return t;
}

__global__ void __launch_bounds__(256)
long_stats(const float* __restrict__ x, double2* __restrict__ partial, long long count, long long chunk, int parts)
{
    __shared__ double2 sums[8];
    const size_t row = blockIdx.x / (unsigned)parts;
    const long long begin = (long long)(blockIdx.x % (unsigned)parts) * chunk;
    const long long end = begin + chunk < count ? begin + chunk : count;
    const float* from = x + row * (size_t)count;
    const double pivot = (double)from[0];
    double a = 0.0, b = 0.0;
#pragma unroll 4
    for (long long i = begin + threadIdx.x; i < end; i += 256) {
        const double d = (double)from[i] - pivot;
        a += d;
        b = fma(d, d, b);
    }
    const double2 t = block_sum(a, b, sums);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = t;
    }
}

__global__ void __launch_bounds__(256)
long_apply(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
           float* __restrict__ y, const double2* __restrict__ partial, long long count, long long chunk, int parts,
           int groups, int width, int pixels, float eps)
{
    __shared__ double2 sums[8];
    const size_t row = blockIdx.x / (unsigned)parts;
    const long long begin = (long long)(blockIdx.x % (unsigned)parts) * chunk;
    const long long end = begin + chunk < count ? begin + chunk : count;
    const float* from = x + row * (size_t)count;
    float* to = y + row * (size_t)count;

    double a = 0.0, b = 0.0;
    if ((int)threadIdx.x < parts) {
        const double2 t = partial[row * (size_t)parts + threadIdx.x];
        a = t.x;
        b = t.y;
    }
    const double2 t = block_sum(a, b, sums);
    const double away = t.x / (double)count;
    double variance = t.y / (double)count - away * away;
    variance = variance > 0.0 ? variance : 0.0;
    const float mean = (float)((double)from[0] + away);
    const float r = (float)(1.0 / sqrt(variance + (double)eps));
    const size_t base = (row % (size_t)groups) * (size_t)width;
    const bool narrow = count <= 0x7fffffffLL;

#pragma unroll 2
    for (long long i = begin + threadIdx.x; i < end; i += 256) {
        const size_t ch = narrow ? (size_t)((unsigned)i / (unsigned)pixels) : (size_t)(i / pixels);
        const float g = __ldg(gain + base + ch);
        const float s = __ldg(shift + base + ch);
        to[i] = silu(fmaf(from[i] - mean, r * g, s));
    }
}

// ---------------------------------------------------------------------------

template <int V, int SV, int VEC>
void launch_cluster(const float* x, const float* gain, const float* shift, float* y, long long rows, int groups,
                    int width, int count, unsigned magic, unsigned bits, int log_blocks, float eps)
{
    const int blocks = 1 << log_blocks;
    const int units = count / VEC;
    const int per = (units + blocks - 1) / blocks;
    const size_t bytes = (size_t)SV * kThreads * 16;

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(rows * blocks));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = bytes;
    config.stream = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = (unsigned)blocks;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = 1;

    auto kernel = norm_block<V, SV, VEC, true>;
    if (bytes > 0) {
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
    }
    cudaLaunchKernelEx(&config, kernel, x, gain, shift, y, groups, width, count, per, magic, bits, log_blocks, eps);
}

template <int VEC>
bool launch_on_chip(const float* x, const float* gain, const float* shift, float* y, long long rows, int groups,
                    int width, long long count, int pixels, float eps)
{
    // Division of units by units of a channel
    const unsigned long long d = (unsigned long long)(pixels / VEC);
    unsigned bits = 0;
    while ((1ull << bits) < d) {
        ++bits;
    }
    const unsigned magic = (unsigned)(((1ull << 32) * ((1ull << bits) - d)) / d + 1);

    if (count <= 1024) {
        long long blocks = (rows + 7) / 8;
        if (blocks > (1ll << 30)) {
            blocks = 1ll << 30;
        }
        norm_warp<VEC><<<(unsigned)blocks, 256>>>(x, gain, shift, y, rows, groups, width, (int)count, magic, bits,
                                                  eps);
        return true;
    }
    const long long capacity = 20 * kThreads;
    if (count <= 8 * capacity) {
        int log_blocks = 0;
        while (count > (capacity << log_blocks)) {
            ++log_blocks;
        }
        while (log_blocks < 3 && (rows << log_blocks) < 100 && (count >> (log_blocks + 1)) >= 2048) {
            ++log_blocks;
        }
        if (log_blocks == 0) {
            norm_block<5, 0, VEC, false><<<(unsigned)rows, kThreads>>>(x, gain, shift, y, groups, width, (int)count,
                                                                       (int)count / VEC, magic, bits, 0, eps);
        } else {
            launch_cluster<5, 0, VEC>(x, gain, shift, y, rows, groups, width, (int)count, magic, bits, log_blocks,
                                      eps);
        }
        return true;
    }
    if constexpr (VEC == 4) {
        if (count <= 8ll * 64 * kThreads) {
            launch_cluster<6, 10, 4>(x, gain, shift, y, rows, groups, width, (int)count, magic, bits, 3, eps);
            return true;
        }
    }
    return false;
}

}  // namespace

extern "C" void solve(const float* x, const float* gain, const float* shift, float* y, int images, int groups,
                      int width, int pixels, float eps)
{
    const long long rows = (long long)images * groups;
    const long long count = (long long)width * pixels;

    const bool done = pixels % 4 == 0
                          ? launch_on_chip<4>(x, gain, shift, y, rows, groups, width, count, pixels, eps)
                          : launch_on_chip<1>(x, gain, shift, y, rows, groups, width, count, pixels, eps);
    if (done) {
        return;
    }

    // More than 80 thousand values a group
    long long parts = (count + 16383) / 16384;
    if (parts > 256) {
        parts = 256;
    }
    const long long chunk = (count + parts - 1) / parts;
    double2* partial = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&partial), (size_t)(rows * parts) * sizeof(double2), 0);
    long_stats<<<(unsigned)(rows * parts), 256>>>(x, partial, count, chunk, (int)parts);
    long_apply<<<(unsigned)(rows * parts), 256>>>(x, gain, shift, y, partial, count, chunk, (int)parts, groups, width,
                                                  pixels, eps);
    cudaFreeAsync(partial, 0);
}
