// Fixed-point warp sums by redux, st.async straight to one warp

#include <cuda_runtime.h>
#include <stdint.h>

constexpr int SHORT_T = 512;
constexpr int SHORT_V = 8;
constexpr int SHORT = SHORT_T * SHORT_V * 4; // elements that one block adds up
constexpr int CLUSTER = 16;
constexpr int MARK = (int)0x80000000u;       // this part is a float, not fixed point

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// Vectors first, first + stride ... , V of them, all under way at once.
template <int V>
__device__ __forceinline__ void load_vectors(float4 (&v)[V], const float4* __restrict__ y, unsigned first,
                                             unsigned stride, unsigned vectors)
{
#pragma unroll
    for (int u = 0; u < V; ++u) {
        const unsigned i = first + (unsigned)u * stride;
        v[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i < vectors)
            v[u] = __ldcs(y + i);
    }
}

template <int V>
__device__ __forceinline__ float add_vectors(const float4 (&v)[V])
{
    float s[V];
#pragma unroll
    for (int u = 0; u < V; ++u)
        s[u] = (v[u].x + v[u].y) + (v[u].z + v[u].w);
#pragma unroll
    for (int o = V / 2; o > 0; o >>= 1)
#pragma unroll
        for (int u = 0; u < o; ++u)
            s[u] += s[u + o];
    return s[0];
}

// The sum of a warp: in units of 1 / toq where that is exact enough, else MARK and a float.
__device__ __forceinline__ int2 warp_part(float s, float toq)
{
    const float q = s * toq;
    const int total = __reduce_add_sync(0xffffffffu, __float2int_rn(q));
    const bool fits = __all_sync(0xffffffffu, fabsf(q) < 67108864.0f) != 0;
    int2 part = make_int2(total, 0);
    if (!(fits && (total >= 33554432 || total <= -33554432))) {
        part.x = MARK;
        part.y = __float_as_int(warp_sum(s));
    }
    return part;
}

// One warp adds parts, 2 K a lane, and stores the result.
template <int K>
__device__ __forceinline__ void add_parts(const int4 (&e)[K], float* __restrict__ result, float factor,
                                          double unit, double fromq)
{
    long long sum = 0;
    bool marked = false;
#pragma unroll
    for (int k = 0; k < K; ++k) {
        sum += (long long)e[k].x + (long long)e[k].z;
        marked = marked || e[k].x == MARK || e[k].z == MARK;
    }
    const int low = __reduce_add_sync(0xffffffffu, (int)(sum & 0xffff));
    const int high = __reduce_add_sync(0xffffffffu, (int)(sum >> 16));
    if (!__any_sync(0xffffffffu, marked)) {
        if ((threadIdx.x & 31) == 0)
            *result = fmaf((float)high, 65536.0f, (float)low) * factor;
    } else {
        double d = 0.0;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            d += e[k].x == MARK ? (double)__int_as_float(e[k].y) : (double)e[k].x * fromq;
            d += e[k].z == MARK ? (double)__int_as_float(e[k].w) : (double)e[k].z * fromq;
        }
#pragma unroll
        for (int o = 16; o > 0; o >>= 1)
            d += __shfl_xor_sync(0xffffffffu, d, o);
        if ((threadIdx.x & 31) == 0)
            *result = (float)(unit * d);
    }
}

// ---------------------------------------------------------------- one block

__global__ void __launch_bounds__(SHORT_T)
integrate_short(const float* __restrict__ y, float* __restrict__ result, float toq, float factor, double unit,
                double fromq, int n)
{
    __shared__ int4 parts[SHORT_T / 64];
    const int t = threadIdx.x;
    const unsigned vectors = (unsigned)n / 4u;
    const int rest = n & 3;
    float extra = 0.0f;
    if (t < rest)
        extra = __ldcs(y + (size_t)vectors * 4 + t);
    float4 v[SHORT_V];
    load_vectors(v, reinterpret_cast<const float4*>(y), t, SHORT_T, vectors);
    __syncwarp();
    const int2 part = warp_part(add_vectors(v) + extra, toq);
    if ((t & 31) == 0)
        reinterpret_cast<int2*>(parts)[t >> 5] = part;
    __syncthreads();
    if (t < 32) {
        int4 e[1];
        e[0] = make_int4(0, 0, 0, 0);
        if (t < SHORT_T / 64)
            e[0] = parts[t];
        __syncwarp();
        add_parts(e, result, factor, unit, fromq);
    }
}

// ---------------------------------------------------------------- one cluster

template <int T, int V>
__global__ void __launch_bounds__(T, 1)
integrate_cluster(const float* __restrict__ y, float* __restrict__ result, float toq, float factor, double unit,
                  double fromq, int n)
{
    constexpr int WARPS = T / 32;
    __shared__ int4 sums[CLUSTER * WARPS / 2];
    __shared__ __align__(8) uint64_t ready;

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const unsigned rank = blockIdx.x; // the grid is the cluster
    const uint32_t bar = (uint32_t)__cvta_generic_to_shared(&ready);

    if (rank == 0 && t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(1u) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar),
                     "r"((unsigned)(CLUSTER * WARPS * 8))
                     : "memory");
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");

    // The cluster's barrier hides under the loads.
    const unsigned vectors = (unsigned)n / 4u;
    const unsigned rest = (unsigned)n & 3u;
    float extra = 0.0f;
    if (rank == 0 && (unsigned)t < rest)
        extra = __ldcs(y + (size_t)vectors * 4 + t);
    float4 v[V];
    load_vectors(v, reinterpret_cast<const float4*>(y), rank * T + t, CLUSTER * T, vectors);

    // Where this warp's part goes: in the first block, next to the other warps' parts.
    const uint32_t place = (uint32_t)__cvta_generic_to_shared(sums) + (rank * WARPS + (unsigned)warp) * 8u;
    uint32_t to, signal;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(to) : "r"(place));
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(signal) : "r"(bar));

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

    const int2 part = warp_part(add_vectors(v) + extra, toq);
    if (lane == 0) {
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(to),
                     "r"(part.x), "r"(part.y), "r"(signal)
                     : "memory");
    }
    __syncwarp();
    if (rank == 0 && warp == 0) {
        // Nobody writes here any more once all bytes have come, so the block may leave then.
        uint32_t done;
        do {
            asm volatile(
                "{\n"
                ".reg .pred p;\n"
                "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                "selp.u32 %0, 1, 0, p;\n"
                "}\n" : "=r"(done) : "r"(bar), "r"(0u) : "memory");
        } while (done == 0u);
        __syncwarp();
        int4 e[WARPS / 4];
#pragma unroll
        for (int k = 0; k < WARPS / 4; ++k)
            e[k] = sums[lane + 32 * k];
        add_parts(e, result, factor, unit, fromq);
    }
}

template <int T, int V>
static bool launch_cluster(const float* y, float* result, double unit, int n)
{
    static const cudaError_t once =
        cudaFuncSetAttribute(integrate_cluster<T, V>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (once != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(CLUSTER);
    config.blockDim = dim3(T);
    config.dynamicSmemBytes = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = CLUSTER;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    const double toq = 4194304.0 / V;
    if (cudaLaunchKernelEx(&config, integrate_cluster<T, V>, y, result, (float)toq, (float)(unit / toq), unit,
                           1.0 / toq, n) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return true;
}

// ---------------------------------------------------------------- many blocks

// bits 53..63: blocks done; bit 52: something is in sum_rest; bits 0..51: biased fixed-point sum.
// The last block of each call sets both back to zero.
__device__ unsigned long long sum_word = 0ull;
__device__ double sum_rest = 0.0;

// toq is a power of two; unit = (b - a) / n.
template <int T, int V>
__global__ void __launch_bounds__(T)
integrate(const float* __restrict__ y, float* __restrict__ result, unsigned quads, unsigned tail, float toq,
          double fromq, double unit)
{
    __shared__ float4 part4[(T / 32 + 3) / 4];
    float* part = reinterpret_cast<float*>(part4);
    const float4* y4 = reinterpret_cast<const float4*>(y);
    const unsigned stride = gridDim.x * T;

    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    if (blockIdx.x == 0 && threadIdx.x < tail) {
        s0 = __ldg(y + (size_t)quads * 4 + threadIdx.x);
    }
    for (unsigned i = blockIdx.x * T + threadIdx.x; i < quads; i += V * stride) {
        float4 x[V];
#pragma unroll
        for (int k = 0; k < V; ++k) {
            x[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i + k * stride < quads) {
                x[k] = __ldg(y4 + (i + k * stride));
            }
        }
#pragma unroll
        for (int k = 0; k < V; ++k) {
            s0 += x[k].x;
            s1 += x[k].y;
            s2 += x[k].z;
            s3 += x[k].w;
        }
    }

    float s = (s0 + s1) + (s2 + s3);
    __syncwarp();
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) {
        part[threadIdx.x >> 5] = s;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float4 p[T / 128];
#pragma unroll
        for (int k = 0; k < T / 128; ++k) {
            p[k] = part4[k];
        }
#pragma unroll
        for (int d = T / 256; d > 0; d >>= 1) {
#pragma unroll
            for (int k = 0; k < d; ++k) {
                p[k].x += p[k + d].x;
                p[k].y += p[k + d].y;
                p[k].z += p[k + d].z;
                p[k].w += p[k + d].w;
            }
        }
        float v = (p[0].x + p[0].y) + (p[0].z + p[0].w);
        if (gridDim.x == 1) {
            *result = (float)((double)v * unit);
        } else {
            const unsigned long long flag = 1ull << 52;
            const unsigned long long bias = 1ull << 40;
            const unsigned long long one = (1ull << 53) + bias;
            unsigned long long add = one;
            float q = v * toq;
            float size = fabsf(q);
            if (v == 0.0f || (size >= 134217728.0f && size < 1099511627776.0f)) {
                add = one + (unsigned long long)__float2ll_rn(q);
            } else {
                // out of the range of the fixed point: a double beside it
                atomicAdd(&sum_rest, (double)v);
                __threadfence();
                atomicOr(&sum_word, flag);
            }
            unsigned long long old = atomicAdd(&sum_word, add);
            if ((old >> 53) == (unsigned long long)(gridDim.x - 1)) {
                unsigned long long total = old + add;
                long long sum = (long long)(total & (flag - 1ull)) - (long long)(bias * gridDim.x);
                double r = (double)sum * fromq;
                if (total & flag) {
                    __threadfence();
                    r += __ldcg(&sum_rest) * unit;
                    sum_rest = 0.0;
                }
                *result = (float)r;
                sum_word = 0ull;
            }
        }
    }
}

template <int T, int V>
static void launch(const float* y, float* result, double length, int n, int most)
{
    unsigned quads = (unsigned)n / 4u;
    unsigned tail = (unsigned)n % 4u;
    unsigned grid = (quads + T - 1) / T;
    if (grid > (unsigned)most) {
        grid = (unsigned)most;
    }
    if (grid < 1u) {
        grid = 1u;
    }
    // a mean of 1 in a block becomes a number between 2^33 and 2^34
    double each = (double)n / grid;
    double toq = 17179869184.0;
    for (double m = 1.0; m < each; m *= 2.0) {
        toq *= 0.5;
    }
    integrate<T, V><<<grid, T>>>(y, result, quads, tail, (float)toq, length / ((double)n * toq),
                                 length / (double)n);
}

extern "C" void solve(const float* y_samples, float* result, float a, float b, int n)
{
    const double length = (double)b - (double)a;
    const double unit = length / (double)n;
    // the last multiplication of the short kernels is in fp32
    if (unit > 1e-24 && unit < 1e24) {
        if (n <= SHORT) {
            const double toq = 4194304.0 / SHORT_V;
            integrate_short<<<1, SHORT_T>>>(y_samples, result, (float)toq, (float)(unit / toq), unit, 1.0 / toq, n);
            return;
        }
        bool launched = false;
        if (n < 4 * CLUSTER * 256 * 4 + 4) {
            launched = launch_cluster<256, 4>(y_samples, result, unit, n);
        } else if (n < 4 * CLUSTER * 512 * 8 + 4) {
            launched = launch_cluster<512, 8>(y_samples, result, unit, n);
        }
        if (launched) {
            return;
        }
    }
    const int quads = n / 4;
    if (quads <= 256 * 66) {
        launch<256, 1>(y_samples, result, length, n, 66);
    } else if (quads <= 256 * 132 * 2) {
        launch<256, 2>(y_samples, result, length, n, 132);
    } else if (quads <= 512 * 132 * 4) {
        launch<512, 4>(y_samples, result, length, n, 132);
    } else {
        launch<1024, 8>(y_samples, result, length, n, 132);
    }
}
