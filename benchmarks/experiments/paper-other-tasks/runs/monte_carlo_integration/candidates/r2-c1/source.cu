// Middle sizes: one 16-block cluster, st.async sums onto an mbarrier

#include <cuda_runtime.h>
#include <stdint.h>

constexpr int SHORT = 16384;          // elements that one block adds up
constexpr int MIDDLE = 262144;        // elements that one cluster adds up
constexpr int THREADS = 1024;
constexpr int CLUSTER = 16;

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

// ---------------------------------------------------------------- one block

__global__ void __launch_bounds__(THREADS)
integrate_short(const float* __restrict__ y, float* __restrict__ result, double unit, int n)
{
    __shared__ float partial[THREADS / 32];
    const int t = threadIdx.x;
    const unsigned vectors = (unsigned)n / 4u;
    const int rest = n & 3;
    float extra = 0.0f;
    if (t < rest)
        extra = __ldcs(y + (size_t)vectors * 4 + t);
    float4 v[SHORT / 4 / THREADS];
    load_vectors(v, reinterpret_cast<const float4*>(y), t, THREADS, vectors);
    float sum = warp_sum(add_vectors(v) + extra);
    if ((t & 31) == 0)
        partial[t >> 5] = sum;
    __syncthreads();
    if (t < 32) {
        sum = warp_sum(partial[t]);
        if (t == 0)
            *result = (float)(unit * (double)sum);
    }
}

// ---------------------------------------------------------------- one cluster

template <int V>
__global__ void __launch_bounds__(THREADS, 1)
integrate_cluster(const float* __restrict__ y, float* __restrict__ result, double unit, int n)
{
    __shared__ float partial[THREADS / 32];
    __shared__ __align__(16) float sums[CLUSTER];
    __shared__ __align__(8) uint64_t ready;

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const unsigned rank = blockIdx.x; // the grid is the cluster
    const uint32_t bar = (uint32_t)__cvta_generic_to_shared(&ready);

    if (rank == 0 && t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(1u) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(CLUSTER * 4u)
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
    load_vectors(v, reinterpret_cast<const float4*>(y), rank * THREADS + t, CLUSTER * THREADS, vectors);

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

    float sum = warp_sum(add_vectors(v) + extra);
    if (lane == 0)
        partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = warp_sum(partial[lane]);
        if (lane == 0) {
            const uint32_t place = (uint32_t)__cvta_generic_to_shared(&sums[rank]);
            asm volatile(
                "{\n"
                ".reg .b32 to, signal;\n"
                "mapa.shared::cluster.u32 to, %0, 0;\n"
                "mapa.shared::cluster.u32 signal, %1, 0;\n"
                "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [to], %2, [signal];\n"
                "}\n" ::"r"(place), "r"(bar), "r"(__float_as_uint(sum)) : "memory");
        }
        __syncwarp();
        if (rank == 0) {
            // Nobody writes here any more once all 64 bytes have come, so the block may leave then.
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
            float value = lane < CLUSTER ? sums[lane] : 0.0f;
#pragma unroll
            for (int o = CLUSTER / 2; o > 0; o >>= 1)
                value += __shfl_xor_sync(0xffffffffu, value, o);
            if (lane == 0)
                *result = (float)(unit * (double)value);
        }
    }
}

template <int V>
static bool launch_cluster(const float* y, float* result, double unit, int n)
{
    static const cudaError_t once =
        cudaFuncSetAttribute(integrate_cluster<V>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (once != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(CLUSTER);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = CLUSTER;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    if (cudaLaunchKernelEx(&config, integrate_cluster<V>, y, result, unit, n) != cudaSuccess) {
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
    if (n <= SHORT) {
        integrate_short<<<1, THREADS>>>(y_samples, result, unit, n);
        return;
    }
    if (n <= MIDDLE) {
        const int each = 4 * CLUSTER * THREADS; // elements that one vector a thread covers
        const bool launched = n < each + 4      ? launch_cluster<1>(y_samples, result, unit, n)
                              : n < 2 * each + 4 ? launch_cluster<2>(y_samples, result, unit, n)
                                                 : launch_cluster<4>(y_samples, result, unit, n);
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
