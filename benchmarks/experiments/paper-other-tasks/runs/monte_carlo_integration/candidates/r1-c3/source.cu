// One block when short; else resident blocks, flagged partial slots

#include <cuda_runtime.h>

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

extern "C" void solve(const float* y_samples, float* result, float a, float b, int n)
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
