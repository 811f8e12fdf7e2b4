// Chooses one of two kernels by the size.
#include <cuda_runtime.h>

namespace small_sizes {
// One block when short; else resident blocks, flagged partial slots



constexpr int SHORT = 16384;      // elements that one block adds up
constexpr int SHORT_THREADS = 1024;
constexpr int LONG_THREADS = 512;
constexpr int MAX_BLOCKS = 264;   // 2 an SM: all resident
constexpr int UNROLL = 8;

// High word: 1 when the sum in the low word is there. 0 between calls.
__device__ unsigned long long slots[MAX_BLOCKS];

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// Up to U * stride vectors from first on, all under way at once; pairwise sum.
template <int U>
__device__ __forceinline__ float add_vectors(const float4* __restrict__ y, unsigned first, unsigned stride,
                                             unsigned vectors)
{
    float4 v[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const unsigned i = first + (unsigned)u * stride;
        v[u] = i < vectors ? __ldcs(y + i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    float s[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
        s[u] = (v[u].x + v[u].y) + (v[u].z + v[u].w);
#pragma unroll
    for (int o = U / 2; o > 0; o >>= 1)
#pragma unroll
        for (int u = 0; u < o; ++u)
            s[u] += s[u + o];
    return s[0];
}

__global__ void __launch_bounds__(SHORT_THREADS)
integrate_short(const float* __restrict__ y, float* __restrict__ result, float a, float b, int n)
{
    __shared__ float partial[SHORT_THREADS / 32];
    const int t = threadIdx.x;
    const unsigned vectors = (unsigned)n / 4u;
    const int rest = n & 3;
    float extra = 0.0f;
    if (t < rest)
        extra = __ldcs(y + (size_t)vectors * 4 + t);
    float sum = add_vectors<SHORT / 4 / SHORT_THREADS>(reinterpret_cast<const float4*>(y), t, SHORT_THREADS,
                                                       vectors);
    double factor = 0.0;
    if (t == 0)
        factor = ((double)b - (double)a) / (double)n;
    sum = warp_sum(sum + extra);
    if ((t & 31) == 0)
        partial[t >> 5] = sum;
    __syncthreads();
    if (t < 32) {
        sum = warp_sum(partial[t]);
        if (t == 0)
            *result = (float)(factor * (double)sum);
    }
}

__global__ void __launch_bounds__(LONG_THREADS, 2)
integrate_long(const float* __restrict__ y, float* __restrict__ result, float a, float b, int n)
{
    __shared__ float partial[LONG_THREADS / 32];
    __shared__ float combined[LONG_THREADS / 32];
    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int blocks = (int)gridDim.x;
    const unsigned vectors = (unsigned)n / 4u;
    const int rest = n & 3;
    const unsigned stride = gridDim.x * (unsigned)LONG_THREADS;
    const unsigned first = blockIdx.x * (unsigned)LONG_THREADS + t;
    const float4* __restrict__ y4 = reinterpret_cast<const float4*>(y);

    float extra = 0.0f;
    if (blockIdx.x == 0 && t < rest)
        extra = __ldcs(y + (size_t)vectors * 4 + t);

    float sum = add_vectors<UNROLL>(y4, first, stride, vectors);

    double factor = 0.0;
    if (blockIdx.x == 0 && t == 0)
        factor = ((double)b - (double)a) / (double)n;

    if (vectors > UNROLL * stride) { // long ones: groups in single, their sums in double precision
        double total = (double)sum;
        for (unsigned i = first + UNROLL * stride; i < vectors; i += UNROLL * stride)
            total += (double)add_vectors<UNROLL>(y4, i, stride, vectors);
        sum = (float)total;
    }

    sum = warp_sum(sum + extra);
    if (lane == 0)
        partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < LONG_THREADS / 32 ? partial[lane] : 0.0f;
#pragma unroll
        for (int o = LONG_THREADS / 64; o > 0; o >>= 1)
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
    }

    if (blockIdx.x != 0) {
        if (t == 0) {
            const unsigned long long word = (1ull << 32) | (unsigned long long)__float_as_uint(sum);
            asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(&slots[blockIdx.x])),
                         "l"(word)
                         : "memory");
        }
        return;
    }

    // block 0: thread i waits for the sum of block i, and clears its slot
    float value = 0.0f;
    if (t == 0) {
        value = sum;
    } else if (t < blocks) {
        const size_t place = __cvta_generic_to_global(&slots[t]);
        unsigned long long word;
        do {
            asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(place) : "memory");
        } while ((word >> 32) == 0);
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(place), "l"(0ull) : "memory");
        value = __uint_as_float((unsigned)word);
    }
    __syncwarp();
    value = warp_sum(value);
    if (lane == 0)
        combined[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = lane < LONG_THREADS / 32 ? combined[lane] : 0.0f;
#pragma unroll
        for (int o = LONG_THREADS / 64; o > 0; o >>= 1)
            value += __shfl_xor_sync(0xffffffffu, value, o);
        if (lane == 0)
            *result = (float)(factor * (double)value);
    }
}

 void solve(const float* y_samples, float* result, float a, float b, int n)
{
    if (n <= SHORT) {
        integrate_short<<<1, SHORT_THREADS>>>(y_samples, result, a, b, n);
    } else {
        const unsigned vectors = (unsigned)n / 4u;
        unsigned blocks = (vectors + LONG_THREADS - 1) / LONG_THREADS;
        if (blocks > MAX_BLOCKS)
            blocks = MAX_BLOCKS;
        integrate_long<<<blocks, LONG_THREADS>>>(y_samples, result, a, b, n);
    }
}
}  // namespace small_sizes

namespace large_sizes {
// One packed atomic a block carries sum and count together.



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
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        s += __shfl_xor_sync(0xffffffffu, s, o);
    }
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

 void solve(const float* y_samples, float* result, float a, float b, int n)
{
    double length = (double)b - (double)a;
    int quads = n / 4;
    if (quads <= 128 * 32) {
        launch<128, 1>(y_samples, result, length, n, 32);
    } else if (quads <= 256 * 66) {
        launch<256, 1>(y_samples, result, length, n, 66);
    } else if (quads <= 256 * 132 * 2) {
        launch<256, 2>(y_samples, result, length, n, 132);
    } else if (quads <= 512 * 132 * 4) {
        launch<512, 4>(y_samples, result, length, n, 132);
    } else {
        launch<1024, 8>(y_samples, result, length, n, 132);
    }
}
}  // namespace large_sizes

extern "C" void solve(const float* y_samples, float* result, float a, float b, int n)
{
    if ((long long)n < 32768LL) {
        ::small_sizes::solve(y_samples, result, a, b, n);
    } else {
        ::large_sizes::solve(y_samples, result, a, b, n);
    }
}
