// Rows in registers as float4, split over clusters, one exchange

#include <cuda_runtime.h>

namespace {

constexpr int GS = 256;  // channels whose gain and shift are kept in shared memory

__device__ __forceinline__ float silu(float z)
{
    // exp(-z) as 2^t, with the rounding of t put back by a factor
    const float L = 1.44269502162933349609375f;
    const float L_LOW = 1.9259630335e-8f;
    const float t = z * -L;
    float low = fmaf(z, -L, -t);
    low = fmaf(z, -L_LOW, low);
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(t));
    const float factor = fmaf(low, 0.693147180559945f, 1.0f);
    const float d = fmaf(e, factor, 1.0f);
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
    return z * r;
}

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        v += __shfl_xor_sync(0xffffffffu, v, o);
    }
    return v;
}

// Mean and 1 / sqrt(variance + eps) of a row from (count, mean, squares) of its warps; a whole warp calls it.
template <int N>
__device__ __forceinline__ float2 combine(const float4* stat, int lane, float inverse_count, float eps)
{
    constexpr int K = (N + 31) / 32;
    constexpr int UNROLL = K > 2 ? 2 : K;
    const float pivot = stat[0].y;
    float a = 0.0f;
#pragma unroll UNROLL
    for (int k = 0; k < K; ++k) {
        const int i = lane + 32 * k;
        if (i < N) {
            const float4 q = stat[i];
            a = fmaf(q.x, q.y - pivot, a);
        }
    }
    const float mean = fmaf(warp_sum(a), inverse_count, pivot);
    float b = 0.0f;
#pragma unroll UNROLL
    for (int k = 0; k < K; ++k) {
        const int i = lane + 32 * k;
        if (i < N) {
            const float4 q = stat[i];
            const float d = q.y - mean;
            b += fmaf(q.x * d, d, q.z);
        }
    }
    const float v = fmaf(warp_sum(b), inverse_count, eps);
    float r = rsqrtf(v);
    const float rest = fmaf(-v * r, r, 1.0f);
    r = fmaf(0.5f * r, rest, r);
    return make_float2(mean, r);
}

// A cluster of C blocks for each row of n float4, n <= C * T * V; pixels a multiple of 4.
template <int T, int V, int C, int MIN_BLOCKS>
__global__ void __launch_bounds__(T, MIN_BLOCKS)
group_norm(const float4* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
           float4* __restrict__ y, int groups, int width, int n, float inverse_channel, float inverse_count, float eps)
{
    constexpr int WARPS = T / 32;
    constexpr int ALL_WARPS = WARPS * C;
    __shared__ __align__(16) float4 stat[ALL_WARPS];
    __shared__ float2 gs[GS];
    __shared__ float2 result;

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned row = blockIdx.x / C;
    const int rank = (int)(blockIdx.x % C);
    const int per = (n + C - 1) / C;
    const int start = rank * per;
    const int mine = max(0, min(per, n - start));
    const size_t base = (size_t)row * (size_t)n + (size_t)start;

    const size_t first_channel = (size_t)(row % (unsigned)groups) * (size_t)width;
    gain += first_channel;
    shift += first_channel;
    const bool kept = width <= GS;

    float own_gain = 0.0f;
    float own_shift = 0.0f;
    if (kept && tid < width) {
        own_gain = __ldg(gain + tid);
        own_shift = __ldg(shift + tid);
    }

    float4 a[V];
    {
        const float4* from = x + base;
#pragma unroll
        for (int j = 0; j < V; ++j) {
            const int i = tid + j * T;
            a[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < mine) {
                a[j] = __ldcs(from + i);
            }
        }
    }

    if (C > 1) {
        // all blocks of the cluster must run before one writes into another's shared memory
        asm volatile("barrier.cluster.arrive.relaxed;\n" ::: "memory");
    }

    const int own_vectors = tid < mine ? (mine - tid + T - 1) / T : 0;
    const int warp_vectors = __reduce_add_sync(0xffffffffu, own_vectors);
    const float count = 4.0f * (float)warp_vectors;
    const float inverse = warp_vectors > 0 ? 1.0f / count : 0.0f;

    if (kept && tid < width) {
        gs[tid] = make_float2(own_gain, own_shift);
    }

    // the warp's own mean, roughly, then sums about it
    float s = 0.0f;
#pragma unroll
    for (int j = 0; j < V; ++j) {
        s += (a[j].x + a[j].y) + (a[j].z + a[j].w);
    }
    const float middle = warp_sum(s) * inverse;
    float s1 = 0.0f;
    float s2 = 0.0f;
#pragma unroll
    for (int j = 0; j < V; ++j) {
        if (tid + j * T < mine) {
            const float d0 = a[j].x - middle;
            const float d1 = a[j].y - middle;
            const float d2 = a[j].z - middle;
            const float d3 = a[j].w - middle;
            s1 += (d0 + d1) + (d2 + d3);
            s2 += fmaf(d0, d0, d1 * d1) + fmaf(d2, d2, d3 * d3);
        }
    }
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        s1 += __shfl_xor_sync(0xffffffffu, s1, o);
        s2 += __shfl_xor_sync(0xffffffffu, s2, o);
    }
    const float part = s1 * inverse;
    const float4 own = make_float4(count, middle + part, fmaxf(fmaf(-s1, part, s2), 0.0f), 0.0f);

    if (C > 1) {
        asm volatile("barrier.cluster.wait;\n" ::: "memory");
        if (lane < C) {
            const unsigned here = (unsigned)__cvta_generic_to_shared(&stat[rank * WARPS + warp]);
            unsigned there;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(there) : "r"(here), "r"(lane));
            asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(there), "f"(own.x), "f"(own.y),
                         "f"(own.z), "f"(own.w)
                         : "memory");
        }
        __syncwarp();
        asm volatile("barrier.cluster.arrive.release;\n" ::: "memory");
        asm volatile("barrier.cluster.wait.acquire;\n" ::: "memory");
    } else {
        if (lane == 0) {
            stat[warp] = own;
        }
        __syncthreads();
    }

    float2 mr;
    if (ALL_WARPS > 64) {
        if (warp == 0) {
            const float2 found = combine<ALL_WARPS>(stat, lane, inverse_count, eps);
            if (lane == 0) {
                result = found;
            }
        }
        __syncthreads();
        mr = result;
    } else {
        mr = combine<ALL_WARPS>(stat, lane, inverse_count, eps);
    }
    const float mean = mr.x;
    const float root = mr.y;

    float4* to = y + base;
#pragma unroll
    for (int j = 0; j < V; ++j) {
        const int i = tid + j * T;
        if (i < mine) {
            // exact: n < 2^17
            const int channel = (int)(((float)(start + i) + 0.5f) * inverse_channel);
            float2 g;
            if (kept) {
                g = gs[channel];
            } else {
                g = make_float2(__ldg(gain + channel), __ldg(shift + channel));
            }
            const float scale = root * g.x;
            float4 o;
            o.x = silu(fmaf(a[j].x - mean, scale, g.y));
            o.y = silu(fmaf(a[j].y - mean, scale, g.y));
            o.z = silu(fmaf(a[j].z - mean, scale, g.y));
            o.w = silu(fmaf(a[j].w - mean, scale, g.y));
            __stcs(to + i, o);
        }
    }
}

constexpr int ANY_THREADS = 512;

__device__ __forceinline__ double block_sum(double v, double* sums)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        v += __shfl_xor_sync(0xffffffffu, v, o);
    }
    if ((threadIdx.x & 31) == 0) {
        sums[threadIdx.x >> 5] = v;
    }
    __syncthreads();
    double total = 0.0;
    for (int w = 0; w < ANY_THREADS / 32; ++w) {
        total += sums[w];
    }
    __syncthreads();
    return total;
}

// any extents: a block for each row, which it reads three times
__global__ void __launch_bounds__(ANY_THREADS)
group_norm_any(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
               float* __restrict__ y, size_t rows, int groups, int width, int pixels, float eps)
{
    __shared__ double sums[ANY_THREADS / 32];
    const size_t count = (size_t)width * (size_t)pixels;
    for (size_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* from = x + row * count;
        float* to = y + row * count;
        const size_t first_channel = (row % (size_t)groups) * (size_t)width;

        double sum = 0.0;
        for (size_t i = threadIdx.x; i < count; i += ANY_THREADS) {
            sum += (double)from[i];
        }
        const double mean = block_sum(sum, sums) / (double)count;
        double squares = 0.0;
        for (size_t i = threadIdx.x; i < count; i += ANY_THREADS) {
            const double d = (double)from[i] - mean;
            squares += d * d;
        }
        const double variance = block_sum(squares, sums) / (double)count;
        const float root = (float)(1.0 / sqrt(variance + (double)eps));
        for (size_t i = threadIdx.x; i < count; i += ANY_THREADS) {
            const size_t channel = first_channel + i / (size_t)pixels;
            const float d = (float)((double)from[i] - mean);
            to[i] = silu(fmaf(d, root * gain[channel], shift[channel]));
        }
    }
}

template <int T, int V, int C, int MIN_BLOCKS>
void launch(const float* x, const float* gain, const float* shift, float* y, size_t rows, int groups, int width,
            int pixels, int n, float eps)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(rows * C), 1, 1);
    config.blockDim = dim3(T, 1, 1);
    config.dynamicSmemBytes = 0;
    config.stream = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = C;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = C > 1 ? 1 : 0;
    const float inverse_channel = 1.0f / (float)(pixels / 4);
    const float inverse_count = 1.0f / (4.0f * (float)n);
    cudaLaunchKernelEx(&config, group_norm<T, V, C, MIN_BLOCKS>, reinterpret_cast<const float4*>(x), gain, shift,
                       reinterpret_cast<float4*>(y), groups, width, n, inverse_channel, inverse_count, eps);
}

}  // namespace

extern "C" void solve(const float* x, const float* gain, const float* shift, float* y, int images, int groups,
                      int width, int pixels, float eps)
{
    const size_t rows = (size_t)images * (size_t)groups;
    const size_t count = (size_t)width * (size_t)pixels;
    if (pixels % 4 == 0 && count / 4 <= 65536 && rows <= ((size_t)1 << 31) / 8 - 1) {
        const int n = (int)(count / 4);
        if (n <= 2560) {
            launch<256, 10, 1, 4>(x, gain, shift, y, rows, groups, width, pixels, n, eps);
        } else if (n <= 5120) {
            launch<512, 5, 2, 3>(x, gain, shift, y, rows, groups, width, pixels, n, eps);
        } else if (n <= 10240) {
            launch<512, 5, 4, 3>(x, gain, shift, y, rows, groups, width, pixels, n, eps);
        } else if (n <= 20480) {
            launch<512, 5, 8, 3>(x, gain, shift, y, rows, groups, width, pixels, n, eps);
        } else {
            launch<1024, 8, 8, 1>(x, gain, shift, y, rows, groups, width, pixels, n, eps);
        }
        return;
    }
    const size_t blocks = rows < (size_t)1 << 20 ? rows : (size_t)1 << 20;
    group_norm_any<<<(unsigned)blocks, ANY_THREADS>>>(x, gain, shift, y, rows, groups, width, pixels, eps);
}
