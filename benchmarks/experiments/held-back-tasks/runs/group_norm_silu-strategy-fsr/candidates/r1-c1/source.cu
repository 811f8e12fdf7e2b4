// Rows in warps' registers as float4, shuffles, one cluster exchange.

#include <cuda_runtime.h>

__device__ __forceinline__ float silu(float z)
{
    const float log2e = 1.44269504f;
    float a = fabsf(z);
    float h = -a * log2e;
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(h));
    float r = fmaf(-a, log2e, -h);  // what rounding h lost
    e = fmaf(e, r * 0.69314718f, e);
    float top = z < 0.0f ? z * e : z;
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + e));
    return top * inverse;
}

__device__ __forceinline__ float4 finish4(float4 v, float mean, float rstd, float2 gs)
{
    float a = rstd * gs.x;
    float4 o;
    o.x = silu(fmaf(v.x - mean, a, gs.y));
    o.y = silu(fmaf(v.y - mean, a, gs.y));
    o.z = silu(fmaf(v.z - mean, a, gs.y));
    o.w = silu(fmaf(v.w - mean, a, gs.y));
    return o;
}

// left = vectors of the warp's chunk minus lane: vector k is this lane's if 32 k < left
template <int NT, int V, int S, bool FULL>
__device__ __forceinline__ void take(const float4* src, float4 (&v)[V], float4* own, int left)
{
#pragma unroll
    for (int k = 0; k < S; ++k) {
        if (FULL || (V + k) * 32 < left) {
            unsigned to = (unsigned)__cvta_generic_to_shared(own + k * NT);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(src + (V + k) * 32) : "memory");
        }
    }
#pragma unroll
    for (int k = 0; k < V; ++k) {
        if (FULL) {
            v[k] = __ldcs(src + k * 32);
        } else {
            v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (k * 32 < left) {
                v[k] = __ldcs(src + k * 32);
            }
        }
    }
}

__device__ __forceinline__ void add4(float4 v, float c, float& s1, float& s2, float& s3)
{
    float dx = v.x - c, dy = v.y - c, dz = v.z - c, dw = v.w - c;
    s1 += (dx + dy) + (dz + dw);
    s2 = fmaf(dx, dx, s2);
    s3 = fmaf(dy, dy, s3);
    s2 = fmaf(dz, dz, s2);
    s3 = fmaf(dw, dw, s3);
}

// Mean and sum of squared differences from it, of the n vectors of a warp
template <int NT, int V, int S, bool FULL>
__device__ __forceinline__ float2 warp_stats(const float4 (&v)[V], const float4* own, int left, int n)
{
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < V; ++k) {
        sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    }
    // a centre near the values: the mean of lane 0's registers
    float c = __shfl_sync(0xffffffffu, sum, 0);
    if (FULL) {
        c *= 1.0f / (4 * V);
    } else {
        int own0 = min(V, (n + 31) / 32);
        c = c / (float)(4 * max(own0, 1));
    }
    float s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
#pragma unroll
    for (int k = 0; k < V; ++k) {
        if (FULL || k * 32 < left) {
            add4(v[k], c, s1, s2, s3);
        }
    }
    if (S > 0) {
        asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
        for (int k = 0; k < S; ++k) {
            if (FULL || (V + k) * 32 < left) {
                add4(own[k * NT], c, s1, s2, s3);
            }
        }
    }
    s2 += s3;
#pragma unroll
    for (int o = 16; o > 0; o /= 2) {
        s1 += __shfl_xor_sync(0xffffffffu, s1, o);
        s2 += __shfl_xor_sync(0xffffffffu, s2, o);
    }
    float inverse = 1.0f / (float)(4 * max(n, 1));
    float shifted = s1 * inverse;
    return make_float2(c + shifted, fmaxf(fmaf(-s1, shifted, s2), 0.0f));
}

template <int NT, int V, int S, bool FULL>
__device__ __forceinline__ void put(float4* dst, const float4 (&v)[V], const float4* own, const float2* table,
                                    unsigned index, unsigned first, unsigned magic, int lg, int left, float mean,
                                    float rstd)
{
#pragma unroll
    for (int k = 0; k < V; ++k) {
        if (FULL || k * 32 < left) {
            unsigned channel = (__umulhi(2 * (index + k * 32), magic) >> lg) - first;
            dst[k * 32] = finish4(v[k], mean, rstd, table[channel]);
        }
    }
#pragma unroll
    for (int k = 0; k < S; ++k) {
        if (FULL || (V + k) * 32 < left) {
            unsigned channel = (__umulhi(2 * (index + (V + k) * 32), magic) >> lg) - first;
            dst[(V + k) * 32] = finish4(own[k * NT], mean, rstd, table[channel]);
        }
    }
}

// A cluster of 1 << cl_log blocks for each group. Every warp keeps a contiguous chunk of V vectors a lane in
// registers (and S in shared memory); their means and squares go to all blocks of the cluster at once.
template <int NT, int V, int S>
__global__ void __launch_bounds__(NT, 1024 / NT)
fused(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
      float* __restrict__ y, unsigned groups, unsigned width, unsigned count4, unsigned slice4, unsigned magic, int lg,
      int cl_log, float eps)
{
    constexpr int WARPS = NT / 32;
    constexpr int CHUNK = (V + S) * 32;
    extern __shared__ float4 dynamic[];
    __shared__ float2 part[8 * WARPS];
    float4* own = dynamic + threadIdx.x;
    float2* table = reinterpret_cast<float2*>(dynamic + S * NT);

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int cl = 1 << cl_log;
    const unsigned rank = blockIdx.x & (unsigned)(cl - 1);
    const unsigned row = blockIdx.x >> cl_log;

    if (cl_log > 0) {  // waited for before the first store to another block
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    }

    const unsigned begin = rank * slice4;
    const int m = begin < count4 ? (int)min(slice4, count4 - begin) : 0;
    const int n = min(max(m - warp * CHUNK, 0), CHUNK);
    const int left = n - lane;
    const unsigned index = begin + (unsigned)(warp * CHUNK + lane);
    const size_t offset = (size_t)row * count4 + index;
    const float4* src = reinterpret_cast<const float4*>(x) + offset;
    float4* dst = reinterpret_cast<float4*>(y) + offset;

    float4 v[V];
    if (n == CHUNK) {
        take<NT, V, S, true>(src, v, own, left);
    } else {
        take<NT, V, S, false>(src, v, own, left);
    }

    const unsigned first = __umulhi(2 * begin, magic) >> lg;
    if (m > 0) {
        const unsigned last = __umulhi(2 * (begin + (unsigned)m - 1), magic) >> lg;
        const unsigned channels = last - first + 1;
        const size_t from = (size_t)(row % groups) * width + first;
        for (unsigned i = threadIdx.x; i < channels; i += NT) {
            table[i] = make_float2(__ldg(gain + from + i), __ldg(shift + from + i));
        }
    }
    __syncwarp();

    float2 mine;
    if (n == CHUNK) {
        mine = warp_stats<NT, V, S, true>(v, own, left, n);
    } else {
        mine = warp_stats<NT, V, S, false>(v, own, left, n);
    }
    if (n == 0) {
        mine = make_float2(0.0f, 0.0f);
    }
    __syncwarp();

    if (cl_log > 0) {
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        if (lane < cl) {
            unsigned here = (unsigned)__cvta_generic_to_shared(&part[rank * WARPS + warp]);
            unsigned there;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(lane));
            asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(mine.x), "f"(mine.y)
                         : "memory");
        }
        __syncwarp();
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    } else {
        if (lane == 0) {
            part[warp] = mine;
        }
        __syncthreads();
    }

    // every warp puts the parts together
    const float c = part[0].x;
    float s1 = 0.0f, s2 = 0.0f;
    for (int i = lane; i < cl * WARPS; i += 32) {
        const unsigned b = (unsigned)(i / WARPS) * slice4;
        const int mi = b < count4 ? (int)min(slice4, count4 - b) : 0;
        const int ni = min(max(mi - (i % WARPS) * CHUNK, 0), CHUNK);
        if (ni > 0) {
            const float2 p = part[i];
            const float d = p.x - c;
            const float nd = (float)(4 * ni) * d;
            s1 += nd;
            s2 += fmaf(nd, d, p.y);
        }
    }
    __syncwarp();
#pragma unroll
    for (int o = 16; o > 0; o /= 2) {
        s1 += __shfl_xor_sync(0xffffffffu, s1, o);
        s2 += __shfl_xor_sync(0xffffffffu, s2, o);
    }
    const float inverse = 1.0f / (float)(4 * count4);
    const float moved = s1 * inverse;
    const float mean = c + moved;
    const float a = fmaf(fmaxf(fmaf(-s1, moved, s2), 0.0f), inverse, eps);
    float rstd = rsqrtf(a);
    rstd = fmaf(0.5f * rstd, fmaf(-a * rstd, rstd, 1.0f), rstd);

    if (n == CHUNK) {
        put<NT, V, S, true>(dst, v, own, table, index, first, magic, lg, left, mean, rstd);
    } else {
        put<NT, V, S, false>(dst, v, own, table, index, first, magic, lg, left, mean, rstd);
    }
}

// Any other shape: a block a row, three readings, sums in double.
__device__ double block_sum(double own, double* sums)
{
#pragma unroll
    for (int o = 16; o > 0; o /= 2) {
        own += __shfl_xor_sync(0xffffffffu, own, o);
    }
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.x / 32] = own;
    }
    __syncthreads();
    double total = 0.0;
    for (int i = 0; i < 16; ++i) {
        total += sums[i];
    }
    __syncthreads();
    return total;
}

__global__ void __launch_bounds__(512)
general(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
        float* __restrict__ y, long long rows, int groups, int width, int pixels, long long count, float eps)
{
    __shared__ double sums[16];
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* from = x + (size_t)row * (size_t)count;
        float* to = y + (size_t)row * (size_t)count;
        const size_t base = (size_t)(row % groups) * (size_t)width;
        double sum = 0.0;
        for (long long i = threadIdx.x; i < count; i += 512) {
            sum += (double)from[i];
        }
        const double mean = block_sum(sum, sums) / (double)count;
        double squares = 0.0;
        for (long long i = threadIdx.x; i < count; i += 512) {
            double d = (double)from[i] - mean;
            squares += d * d;
        }
        const double var = block_sum(squares, sums) / (double)count;
        const float rstd = (float)(1.0 / sqrt(var + (double)eps));
        for (long long i = threadIdx.x; i < count; i += 512) {
            size_t channel;
            if (count <= 0x7fffffffLL) {
                channel = (unsigned)i / (unsigned)pixels;
            } else {
                channel = (size_t)(i / pixels);
            }
            float d = (float)((double)from[i] - mean);
            to[i] = silu(fmaf(d, rstd * gain[base + channel], shift[base + channel]));
        }
    }
}

template <int NT, int V, int S>
static void launch(const float* x, const float* gain, const float* shift, float* y, long long rows, int groups,
                   int width, unsigned count4, unsigned slice4, unsigned magic, int lg, int cl_log, float eps,
                   size_t table)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(rows << cl_log));
    config.blockDim = dim3(NT);
    config.dynamicSmemBytes = (size_t)S * NT * 16 + table;
    config.stream = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = 1u << cl_log;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = cl_log > 0 ? 1 : 0;
    cudaLaunchKernelEx(&config, fused<NT, V, S>, x, gain, shift, y, (unsigned)groups, (unsigned)width, count4, slice4,
                       magic, lg, cl_log, eps);
}

extern "C" void solve(const float* x, const float* gain, const float* shift, float* y, int images, int groups,
                      int width, int pixels, float eps)
{
    const long long rows = (long long)images * groups;
    const long long count = (long long)width * pixels;

    if (pixels % 4 == 0 && count / 4 <= 65536) {
        const unsigned count4 = (unsigned)(count / 4);
        const bool big = count4 > 20480;
        const int cl_log = count4 <= 2560 ? 0 : count4 <= 5120 ? 1 : count4 <= 10240 ? 2 : 3;
        const unsigned cl = 1u << cl_log;
        const unsigned slice4 = (count4 + cl - 1) / cl;
        const unsigned pd = (unsigned)pixels / 4;
        // channels that a slice touches, at most
        const size_t table = ((size_t)(slice4 + pd - 2) / pd + 1) * 8 + 8;

        // n / pd = umulhi(2 n, magic) >> lg for n < 2^31
        int lg = 0;
        while ((1ull << lg) < pd) {
            ++lg;
        }
        const unsigned magic = (unsigned)(((1ull << (31 + lg)) + pd - 1) / pd);

        if ((rows << cl_log) <= 0x7fffffffLL && (!big || table <= 16384)) {
            if (big) {
                cudaFuncSetAttribute(fused<512, 8, 8>, cudaFuncAttributeMaxDynamicSharedMemorySize, 81920);
                cudaFuncSetAttribute(fused<512, 8, 8>, cudaFuncAttributePreferredSharedMemoryCarveout, 71);
                launch<512, 8, 8>(x, gain, shift, y, rows, groups, width, count4, slice4, magic, lg, cl_log, eps,
                                  table);
            } else if ((rows << cl_log) <= 264) {
                launch<512, 5, 0>(x, gain, shift, y, rows, groups, width, count4, slice4, magic, lg, cl_log, eps,
                                  table);
            } else {
                launch<256, 10, 0>(x, gain, shift, y, rows, groups, width, count4, slice4, magic, lg, cl_log, eps,
                                   table);
            }
            return;
        }
    }
    const unsigned blocks = (unsigned)(rows < (1 << 20) ? rows : (1 << 20));
    general<<<blocks, 512>>>(x, gain, shift, y, rows, groups, width, pixels, count, eps);
}
