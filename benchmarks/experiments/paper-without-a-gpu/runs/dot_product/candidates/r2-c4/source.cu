// Independent accumulators, shared-memory vector sums without shuffles, one atomic

#include <cuda_runtime.h>

// At most this many blocks: both 8-bit counters below hold it.
static const unsigned MAX_BLOCKS = 132;

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their partial in a slot;
// bits 16..63: signed sum of the other partials in units of 2^-28. Zero between calls.
__device__ unsigned long long g_acc = 0ull;
// (1 << 32) | bits of the partial, for partials that the units do not hold exactly. Zero between calls.
__device__ unsigned long long g_slot[160] = {};

__device__ __forceinline__ float4 add4(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ float4 mul4(float4 a, float4 b)
{
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

__device__ __forceinline__ float4 fma4(float4 a, float4 b, float4 c)
{
    return make_float4(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w));
}

// Tree over V (a power of two) float4.
template <int V>
__device__ __forceinline__ float tree(float4 (&v)[V])
{
#pragma unroll
    for (int w = V / 2; w > 0; w >>= 1) {
#pragma unroll
        for (int k = 0; k < w; ++k) {
            v[k] = add4(v[k], v[k + w]);
        }
    }
    return (v[0].x + v[0].y) + (v[0].z + v[0].w);
}

// VEC float4 of a and of b a thread, THREADS apart, from vector base on; all loads first.
template <int THREADS, int VEC, bool FULL>
__device__ __forceinline__ void load_tile(float4 (&x)[VEC], float4 (&y)[VEC], const float4* __restrict__ a4, const float4* __restrict__ b4, unsigned base, unsigned end)
{
    const unsigned i0 = base + threadIdx.x;
    if (FULL || base + (unsigned)(THREADS * VEC) <= end) {
        const float4* pa = a4 + i0;
        const float4* pb = b4 + i0;
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            x[k] = __ldg(pa + k * THREADS);
            y[k] = __ldg(pb + k * THREADS);
        }
    } else {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            const unsigned i = i0 + (unsigned)(k * THREADS);
            x[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            y[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < end) {
                x[k] = __ldg(a4 + i);
                y[k] = __ldg(b4 + i);
            }
        }
    }
}

// Sum over a block of T threads; the result is valid in thread 0 only.
template <int T>
__device__ __forceinline__ float block_sum(float s, float* all, float* few)
{
    const unsigned t = threadIdx.x;
    float r = 0.0f;
    all[t] = s;
    __syncthreads();
    if (t < 32u) {
        constexpr int K = T / 128;
        const float4* q = reinterpret_cast<const float4*>(all);
        float4 v[K];
#pragma unroll
        for (int k = 0; k < K; ++k) {
            v[k] = q[t + 32u * (unsigned)k];
        }
        few[t] = tree<K>(v);
        __syncwarp();
        if (t == 0u) {
            const float4* f = reinterpret_cast<const float4*>(few);
            float4 w[8];
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                w[k] = f[k];
            }
            r = tree<8>(w);
        }
    }
    return r;
}

// Block b takes the vectors [b * chunk, (b + 1) * chunk).
// LOOP: a chunk may be several tiles; otherwise chunk == THREADS * VEC.
// FULL: all tiles are whole and n is a multiple of 4.
template <int THREADS, int VEC, bool LOOP, bool FULL>
__global__ void __launch_bounds__(THREADS) dotKernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ result, unsigned n, unsigned chunk)
{
    __shared__ __align__(16) float all[THREADS];
    __shared__ __align__(16) float few[32];

    const float4* __restrict__ a4 = reinterpret_cast<const float4*>(a);
    const float4* __restrict__ b4 = reinterpret_cast<const float4*>(b);
    const unsigned n4 = n >> 2;
    const unsigned t = threadIdx.x;

    float ea = 0.0f;
    float eb = 0.0f;
    if (!FULL) {
        const unsigned tail = n & 3u;
        if (tail != 0u && blockIdx.x == gridDim.x - 1u && t < tail) {
            const size_t i = (size_t)n4 * 4u + t;
            ea = __ldg(a + i);
            eb = __ldg(b + i);
        }
    }

    const unsigned begin = blockIdx.x * chunk;
    float s;
    if (LOOP) {
        float4 acc[VEC];
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            acc[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        const unsigned end = min(begin + chunk, n4);
        for (unsigned base = begin; base < end; base += (unsigned)(THREADS * VEC)) {
            float4 x[VEC], y[VEC];
            load_tile<THREADS, VEC, false>(x, y, a4, b4, base, end);
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                acc[k] = fma4(x[k], y[k], acc[k]);
            }
        }
        s = tree<VEC>(acc);
    } else {
        float4 x[VEC], y[VEC];
        load_tile<THREADS, VEC, FULL>(x, y, a4, b4, begin, n4);
        // The accumulators' word comes into L2 while the elements are on their way.
        if (blockIdx.x == 0u && t == (unsigned)(THREADS - 32)) {
            asm volatile("prefetch.global.L2 [%0];" :: "l"(__cvta_generic_to_global(&g_acc)));
        }
        constexpr int H = VEC / 2;          // chains of two FMAs
        float4 acc[H];
#pragma unroll
        for (int k = 0; k < H; ++k) {
            acc[k] = fma4(x[k + H], y[k + H], mul4(x[k], y[k]));
        }
        s = tree<H>(acc);
    }
    if (!FULL) {
        s = fmaf(ea, eb, s);
    }

    const float p = block_sum<THREADS>(s, all, few);
    if (t != 0u) {
        return;
    }

    if (gridDim.x == 1u) {
        result[0] = p;
        return;
    }

    // Scaling by 2^28 is exact; a partial that is then no integer, or large, goes through a slot.
    const float scaled = p * 268435456.0f;
    unsigned long long add;
    if (fabsf(p) < 2048.0f && truncf(scaled) == scaled) {
        add = (((unsigned long long)__float2ll_rn(scaled)) << 16) + 1ull;
    } else {
        __stcg(&g_slot[blockIdx.x], (1ull << 32) | (unsigned long long)__float_as_uint(p));
        __threadfence();
        add = (1ull << 8) + 1ull;
    }
    const unsigned long long old = atomicAdd(&g_acc, add);
    if ((unsigned)(old & 0xffull) == gridDim.x - 1u) {
        const unsigned long long total = old + add;
        const long long fixedSum = ((long long)total) >> 16;
        if (((total >> 8) & 0xffull) == 0ull) {
            result[0] = __ll2float_rn(fixedSum) * (1.0f / 268435456.0f);
        } else {
            __threadfence();
            double r = (double)fixedSum * (1.0 / 268435456.0);
            for (unsigned c = 0; c < gridDim.x; c += 12u) {
                unsigned long long x[12];
#pragma unroll
                for (int k = 0; k < 12; ++k) {
                    x[k] = 0ull;
                    if (c + k < gridDim.x) {
                        x[k] = __ldcg(&g_slot[c + k]);
                    }
                }
#pragma unroll
                for (int k = 0; k < 12; ++k) {
                    if ((x[k] >> 32) != 0ull) {
                        r += (double)__uint_as_float((unsigned)x[k]);
                        __stcg(&g_slot[c + k], 0ull);
                    }
                }
            }
            result[0] = (float)r;
        }
        g_acc = 0ull;
    }
}

template <int THREADS, int VEC>
static void launchOnce(const float* a, const float* b, float* result, unsigned n)
{
    const unsigned per = (unsigned)(THREADS * VEC);
    const unsigned n4 = n >> 2;
    const unsigned blocks = n4 == 0u ? 1u : (n4 + per - 1u) / per;
    if ((n & 3u) == 0u && n4 == blocks * per) {
        dotKernel<THREADS, VEC, false, true><<<blocks, THREADS>>>(a, b, result, n, per);
    } else {
        dotKernel<THREADS, VEC, false, false><<<blocks, THREADS>>>(a, b, result, n, per);
    }
}

extern "C" void solve(const float* a, const float* b, float* result, int n)
{
    const unsigned un = (unsigned)n;
    const unsigned n4 = un >> 2;
    if (n4 <= MAX_BLOCKS * 256u) {
        launchOnce<128, 2>(a, b, result, un);
    } else if (n4 <= MAX_BLOCKS * 512u) {
        launchOnce<128, 4>(a, b, result, un);
    } else if (n4 <= MAX_BLOCKS * 1024u) {
        launchOnce<256, 4>(a, b, result, un);
    } else if (n4 <= MAX_BLOCKS * 2048u) {
        launchOnce<512, 4>(a, b, result, un);
    } else {
        unsigned chunk = (n4 + MAX_BLOCKS - 1u) / MAX_BLOCKS;
        chunk = (chunk + 31u) & ~31u;
        dotKernel<1024, 2, true, false><<<MAX_BLOCKS, 1024>>>(a, b, result, un, chunk);
    }
}
