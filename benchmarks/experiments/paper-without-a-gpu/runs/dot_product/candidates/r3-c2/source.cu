// cub::BlockReduce raking; early-touched atomic carries sum and count.

#include <cuda_runtime.h>
#include <cub/block/block_reduce.cuh>

// At most this many blocks: both 8-bit counters below hold it.
static const unsigned MAX_BLOCKS = 132;

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their partial in a slot;
// bits 16..63: signed sum of the other partials in units of 2^-28. Zero between calls.
__device__ unsigned long long g_acc = 0ull;
// (1 << 32) | bits of the partial, for partials that the units do not hold exactly. Zero between calls.
__device__ unsigned long long g_slot[160] = {};

// Brings g_acc into L2 while the vectors are on their way. Adds nothing.
// Only thread 0 of block 0, which adds its partial to the same word later.
__device__ __forceinline__ void touchAcc()
{
    if (blockIdx.x == 0u && threadIdx.x == 0u) {
        asm volatile("red.global.add.u64 [%0], %1;"
                     :: "l"((unsigned long long)__cvta_generic_to_global(&g_acc)), "l"(0ull) : "memory");
    }
}

template <int THREADS, int VEC, bool FULL>
__device__ __forceinline__ void load(float4 (&x)[VEC], float4 (&y)[VEC], const float4* __restrict__ a4, const float4* __restrict__ b4, unsigned base, unsigned end)
{
    const unsigned first = base + threadIdx.x;
    if (FULL || base + (unsigned)(THREADS * VEC) <= end) {
        const float4* __restrict__ p = a4 + first;
        const float4* __restrict__ q = b4 + first;
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            x[k] = __ldg(p + k * THREADS);
            y[k] = __ldg(q + k * THREADS);
        }
    } else {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            const unsigned i = first + (unsigned)(k * THREADS);
            x[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            y[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < end) {
                x[k] = __ldg(a4 + i);
                y[k] = __ldg(b4 + i);
            }
        }
    }
}

template <int VEC>
__device__ __forceinline__ void fma4(float4& acc, const float4 (&x)[VEC], const float4 (&y)[VEC])
{
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        acc.x = fmaf(x[k].x, y[k].x, acc.x);
        acc.y = fmaf(x[k].y, y[k].y, acc.y);
        acc.z = fmaf(x[k].z, y[k].z, acc.z);
        acc.w = fmaf(x[k].w, y[k].w, acc.w);
    }
}

// Thread 0 of each block: the block's partial joins the others.
__device__ __forceinline__ void merge(float* __restrict__ result, float p)
{
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
            // One rounding; the scaling is exact.
            result[0] = __ll2float_rn(fixedSum) * (1.0f / 268435456.0f);
        } else {
            double r = (double)fixedSum * (1.0 / 268435456.0);
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
            result[0] = (float)r;
        }
        g_acc = 0ull;
    }
}

// Block b takes the vectors [b * chunk, (b + 1) * chunk).
// LOOP: a chunk may be several tiles; otherwise chunk == THREADS * VEC.
// FULL: no LOOP, every tile is whole and n is a multiple of 4.
template <int THREADS, int VEC, bool LOOP, bool FULL>
__global__ void __launch_bounds__(THREADS) dotKernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ result, unsigned n, unsigned chunk)
{
    typedef cub::BlockReduce<float, THREADS, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY> Reduce;
    __shared__ typename Reduce::TempStorage temp;

    const float4* __restrict__ a4 = reinterpret_cast<const float4*>(a);
    const float4* __restrict__ b4 = reinterpret_cast<const float4*>(b);
    const unsigned n4 = n >> 2;
    const unsigned t = threadIdx.x;

    float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (LOOP) {
        touchAcc();
        const unsigned begin = blockIdx.x * chunk;
        const unsigned end = min(begin + chunk, n4);
        for (unsigned base = begin; base < end; base += (unsigned)(THREADS * VEC)) {
            float4 x[VEC];
            float4 y[VEC];
            load<THREADS, VEC, false>(x, y, a4, b4, base, end);
            fma4<VEC>(acc, x, y);
        }
    } else {
        float4 x[VEC];
        float4 y[VEC];
        load<THREADS, VEC, FULL>(x, y, a4, b4, blockIdx.x * (unsigned)(THREADS * VEC), n4);
        touchAcc();
        fma4<VEC>(acc, x, y);
    }

    float s = (acc.x + acc.y) + (acc.z + acc.w);
    if (!FULL) {
        const unsigned tail = n & 3u;
        if (tail != 0u && blockIdx.x == gridDim.x - 1u && t < tail) {
            const size_t i = (size_t)n4 * 4u + t;
            s = fmaf(__ldg(a + i), __ldg(b + i), s);
        }
    }

    const float p = Reduce(temp).Sum(s);
    if (t == 0u) {
        merge(result, p);
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
