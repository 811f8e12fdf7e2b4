// Packed shared exchanges, one-warp blocks, warmed atomic carrying sum and count.

#include <cuda_runtime.h>

// At most this many blocks: both 8-bit counters below hold it.
static const unsigned MAX_BLOCKS = 132;

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their partial in a slot;
// bits 16..63: signed sum of the other partials in units of 2^-30. Zero between calls.
__device__ unsigned long long g_acc = 0ull;
// (1 << 32) | bits of the partial, for partials that the units do not hold well. Zero between calls.
__device__ unsigned long long g_slot[160] = {};

// Brings g_acc into L2 while the vectors are on their way; the value is not used.
__device__ __forceinline__ void warm_acc()
{
    unsigned long long unused;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(unused) : "l"(&g_acc));
}

// Sum of N floats of shared memory (16-byte aligned, N a multiple of 4): four at once a load,
// all lanes read the same words.
template <int N>
__device__ __forceinline__ float sum_shared(const float* row)
{
    const float4* q = reinterpret_cast<const float4*>(row);
    constexpr int M = N / 4;
    float4 v[M];
#pragma unroll
    for (int k = 0; k < M; ++k) {
        v[k] = q[k];
    }
    if (M == 1) {
        return (v[0].x + v[0].y) + (v[0].z + v[0].w);
    }
    float4 a = v[0];
    float4 b = v[M > 1 ? 1 : 0];
#pragma unroll
    for (int k = 2; k + 1 < M; k += 2) {
        a.x += v[k].x;
        a.y += v[k].y;
        a.z += v[k].z;
        a.w += v[k].w;
        b.x += v[k + 1].x;
        b.y += v[k + 1].y;
        b.z += v[k + 1].z;
        b.w += v[k + 1].w;
    }
    return ((a.x + b.x) + (a.y + b.y)) + ((a.z + b.z) + (a.w + b.w));
}

template <int THREADS, int VEC>
__device__ __forceinline__ void tile(float4& acc, const float4* __restrict__ a4, const float4* __restrict__ b4, unsigned base, unsigned end)
{
    const unsigned t = threadIdx.x;
    float4 x[VEC];
    float4 y[VEC];
    if (base + (unsigned)(THREADS * VEC) <= end) {
        const float4* __restrict__ pa = a4 + (base + t);
        const float4* __restrict__ pb = b4 + (base + t);
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            x[k] = __ldg(pa + k * THREADS);
            y[k] = __ldg(pb + k * THREADS);
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
    __shared__ __align__(16) float red[THREADS];
    __shared__ __align__(16) float ws[WARPS < 4 ? 4 : WARPS];

    const float4* __restrict__ a4 = reinterpret_cast<const float4*>(a);
    const float4* __restrict__ b4 = reinterpret_cast<const float4*>(b);
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    const unsigned t = threadIdx.x;

    if (t == (unsigned)(THREADS - 1)) {
        warm_acc();
    }

    float ea = 0.0f;
    float eb = 0.0f;
    if (tail != 0u && blockIdx.x == gridDim.x - 1u && t < tail) {
        const size_t i = (size_t)n4 * 4u + t;
        ea = __ldg(a + i);
        eb = __ldg(b + i);
    }

    float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const unsigned begin = blockIdx.x * chunk;
    if (LOOP) {
        const unsigned end = min(begin + chunk, n4);
        for (unsigned base = begin; base < end; base += (unsigned)(THREADS * VEC)) {
            tile<THREADS, VEC>(acc, a4, b4, base, end);
        }
    } else {
        tile<THREADS, VEC>(acc, a4, b4, begin, n4);
    }
    acc.x = fmaf(ea, eb, acc.x);

    // One exchange within the warp: a float in, eight float4 out, instead of five shuffles.
    red[t] = (acc.x + acc.y) + (acc.z + acc.w);
    __syncwarp();
    float p = sum_shared<32>(red + (t & ~31u));

    if (THREADS > 32) {
        if ((t & 31u) == 0u) {
            ws[t >> 5] = p;
        }
        __syncthreads();
    }
    if (t != 0u) {
        return;
    }
    if (THREADS > 32) {
        p = sum_shared<(WARPS < 4 ? 4 : WARPS)>(ws);
    }

    if (gridDim.x == 1u) {
        result[0] = p;
        return;
    }

    // Scaling by 2^30 is exact. Rounded to an integer, a partial of at least 2^-8 is off by no more
    // than 2^-23 of itself; a smaller one must be an integer; others, and large ones, go through a slot.
    const float scaled = p * 1073741824.0f;
    const float size = fabsf(p);
    unsigned long long add;
    if (size < 512.0f && (size >= 0.00390625f || truncf(scaled) == scaled)) {
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
        float res;
        if (((total >> 8) & 0xffull) == 0ull) {
            res = __ll2float_rn(fixedSum) * (1.0f / 1073741824.0f);
        } else {
            __threadfence();
            double r = (double)fixedSum * (1.0 / 1073741824.0);
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
            res = (float)r;
        }
        result[0] = res;
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
        launchOnce<32, 4>(a, b, result, un);
    } else if (n4 <= MAX_BLOCKS * 256u) {
        launchOnce<32, 8>(a, b, result, un);
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
