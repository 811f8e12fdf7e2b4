// One-warp blocks when short; one atomic carries sum and count

#include <cuda_runtime.h>

// At most this many blocks: both 8-bit counters below hold it.
static const unsigned MAX_BLOCKS = 132;

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their partial in a slot;
// bits 16..63: signed sum of the other partials in units of 2^-28. Zero between calls.
__device__ unsigned long long g_acc = 0ull;
// (1 << 32) | bits of the partial, for partials that the units do not hold exactly. Zero between calls.
__device__ unsigned long long g_slot[160] = {};

template <int THREADS, int VEC>
__device__ __forceinline__ void tile(float4& acc, const float4* __restrict__ a4, const float4* __restrict__ b4, unsigned base, unsigned end)
{
    const unsigned t = threadIdx.x;
    float4 x[VEC];
    float4 y[VEC];
    if (base + (unsigned)(THREADS * VEC) <= end) {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            const unsigned i = base + t + (unsigned)(k * THREADS);
            x[k] = __ldg(a4 + i);
            y[k] = __ldg(b4 + i);
        }
    } else {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            const unsigned i = base + t + (unsigned)(k * THREADS);
            x[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            y[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < end) {
                x[k] = __ldg(a4 + i);
                y[k] = __ldg(b4 + i);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        acc.x = fmaf(x[k].x, y[k].x, acc.x);
        acc.y = fmaf(x[k].y, y[k].y, acc.y);
        acc.z = fmaf(x[k].z, y[k].z, acc.z);
        acc.w = fmaf(x[k].w, y[k].w, acc.w);
    }
}

// Block b takes the vectors [b * chunk, (b + 1) * chunk).
// LOOP: a chunk may be several tiles; otherwise chunk == THREADS * VEC.
template <int THREADS, int VEC, bool LOOP>
__global__ void __launch_bounds__(THREADS) dotKernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ result, unsigned n, unsigned chunk)
{
    constexpr int WARPS = THREADS / 32;

    const float4* __restrict__ a4 = reinterpret_cast<const float4*>(a);
    const float4* __restrict__ b4 = reinterpret_cast<const float4*>(b);
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    const unsigned t = threadIdx.x;

    float ea = 0.0f;
    float eb = 0.0f;
    if (tail != 0u && blockIdx.x == gridDim.x - 1u && t < tail) {
        const size_t i = (size_t)n4 * 4u + t;
        ea = __ldg(a + i);
        eb = __ldg(b + i);
    }

    float4 acc = make_float4(ea * eb, 0.0f, 0.0f, 0.0f);
    const unsigned begin = blockIdx.x * chunk;
    if constexpr (LOOP) {
        const unsigned end = min(begin + chunk, n4);
        for (unsigned base = begin; base < end; base += (unsigned)(THREADS * VEC)) {
            tile<THREADS, VEC>(acc, a4, b4, base, end);
        }
    } else {
        tile<THREADS, VEC>(acc, a4, b4, begin, n4);
    }

    float s = (acc.x + acc.y) + (acc.z + acc.w);
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        s += __shfl_xor_sync(0xffffffffu, s, o);
    }

    float p = s;
    if constexpr (WARPS > 1) {
        __shared__ __align__(16) float ws[WARPS];
        if ((t & 31u) == 0u) {
            ws[t >> 5] = s;
        }
        __syncthreads();
        if (t != 0u) {
            return;
        }
        float q[WARPS / 4];
#pragma unroll
        for (int k = 0; k < WARPS / 4; ++k) {
            const float4 w = reinterpret_cast<const float4*>(ws)[k];
            q[k] = (w.x + w.y) + (w.z + w.w);
        }
#pragma unroll
        for (int w = WARPS / 8; w > 0; w >>= 1) {
#pragma unroll
            for (int k = 0; k < w; ++k) {
                q[k] += q[k + w];
            }
        }
        p = q[0];
    } else {
        if (t != 0u) {
            return;
        }
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
        double r = (double)fixedSum * (1.0 / 268435456.0);
        if (((total >> 8) & 0xffull) != 0ull) {
            __threadfence();
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
        }
        result[0] = (float)r;
        g_acc = 0ull;
    }
}

template <int THREADS, int VEC>
static void launchOnce(const float* a, const float* b, float* result, unsigned n)
{
    const unsigned per = (unsigned)(THREADS * VEC);
    const unsigned n4 = n >> 2;
    const unsigned blocks = n4 == 0u ? 1u : (n4 + per - 1u) / per;
    dotKernel<THREADS, VEC, false><<<blocks, THREADS>>>(a, b, result, n, per);
}

extern "C" void solve(const float* a, const float* b, float* result, int n)
{
    const unsigned un = (unsigned)n;
    const unsigned n4 = un >> 2;
    if (n4 <= MAX_BLOCKS * 128u) {
        // one warp a block: no barrier, no shared memory
        launchOnce<32, 4>(a, b, result, un);
    } else if (n4 <= MAX_BLOCKS * 256u) {
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
        dotKernel<1024, 2, true><<<MAX_BLOCKS, 1024>>>(a, b, result, un, chunk);
    }
}
