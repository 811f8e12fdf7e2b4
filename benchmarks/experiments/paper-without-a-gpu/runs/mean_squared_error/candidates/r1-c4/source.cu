// All vectors loaded first; one atomic carries count and exact sum.

#include <cuda_runtime.h>

// At most this many blocks: both 8-bit counters below hold it.
static const unsigned MAX_BLOCKS = 132;

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their partial in a slot;
// bits 16..63: sum of the other partials in units of 2^-16. Zero between calls.
__device__ unsigned long long g_acc = 0ull;
// (1 << 32) | bits of the partial, for partials that the units do not hold exactly. Zero between calls.
__device__ unsigned long long g_slot[160] = {};

template <int THREADS, int VEC>
__device__ __forceinline__ void loadTile(float4 (&x)[VEC], float4 (&y)[VEC], const float4* __restrict__ p4, const float4* __restrict__ t4, unsigned base, unsigned end)
{
    const unsigned t = threadIdx.x;
    if (base + (unsigned)(THREADS * VEC) <= end) {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            const unsigned i = base + t + (unsigned)(k * THREADS);
            x[k] = __ldg(p4 + i);
            y[k] = __ldg(t4 + i);
        }
    } else {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            const unsigned i = base + t + (unsigned)(k * THREADS);
            x[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            y[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < end) {
                x[k] = __ldg(p4 + i);
                y[k] = __ldg(t4 + i);
            }
        }
    }
}

template <int VEC>
__device__ __forceinline__ void addTile(float4& acc, const float4 (&x)[VEC], const float4 (&y)[VEC])
{
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        const float dx = x[k].x - y[k].x;
        const float dy = x[k].y - y[k].y;
        const float dz = x[k].z - y[k].z;
        const float dw = x[k].w - y[k].w;
        acc.x = fmaf(dx, dx, acc.x);
        acc.y = fmaf(dy, dy, acc.y);
        acc.z = fmaf(dz, dz, acc.z);
        acc.w = fmaf(dw, dw, acc.w);
    }
}

// Block b takes the vectors [b * chunk, (b + 1) * chunk).
// LOOP: a chunk may be several tiles; otherwise chunk == THREADS * VEC.
template <int THREADS, int VEC, bool LOOP>
__global__ void __launch_bounds__(THREADS) mseKernel(const float* __restrict__ predictions, const float* __restrict__ targets, float* __restrict__ mse, unsigned n, unsigned chunk)
{
    constexpr int WARPS = THREADS / 32;
    __shared__ __align__(16) float ws[WARPS];

    const float4* __restrict__ p4 = reinterpret_cast<const float4*>(predictions);
    const float4* __restrict__ t4 = reinterpret_cast<const float4*>(targets);
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    const unsigned t = threadIdx.x;
    const unsigned begin = blockIdx.x * chunk;

    float4 x[VEC];
    float4 y[VEC];
    float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float extra = 0.0f;
    float rn;
    if (LOOP) {
        const unsigned end = min(begin + chunk, n4);
        for (unsigned base = begin; base < end; base += (unsigned)(THREADS * VEC)) {
            loadTile<THREADS, VEC>(x, y, p4, t4, base, end);
            addTile<VEC>(acc, x, y);
        }
        rn = 1.0f / (float)n;
    } else {
        loadTile<THREADS, VEC>(x, y, p4, t4, begin, n4);
        rn = 1.0f / (float)n;
    }
    if (tail != 0u && blockIdx.x == gridDim.x - 1u && t < tail) {
        const size_t i = (size_t)n4 * 4u + t;
        extra = __ldg(predictions + i) - __ldg(targets + i);
    }
    if (!LOOP) {
        addTile<VEC>(acc, x, y);
    }
    acc.x = fmaf(extra, extra, acc.x);

    float s = (acc.x + acc.y) + (acc.z + acc.w);
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        s += __shfl_xor_sync(0xffffffffu, s, o);
    }
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
    const float p = q[0];

    if (gridDim.x == 1u) {
        mse[0] = p * rn;
        return;
    }

    // Scaling by 2^16 is exact; a partial that is then no integer, or large, goes through a slot.
    const float scaled = p * 65536.0f;
    unsigned long long add;
    if (p < 16777216.0f && truncf(scaled) == scaled) {
        add = (__float2ull_rn(scaled) << 16) + 1ull;
    } else {
        __stcg(&g_slot[blockIdx.x], (1ull << 32) | (unsigned long long)__float_as_uint(p));
        __threadfence();
        add = (1ull << 8) + 1ull;
    }
    const unsigned long long old = atomicAdd(&g_acc, add);
    if ((unsigned)(old & 0xffull) == gridDim.x - 1u) {
        const unsigned long long total = old + add;
        double r = (double)(long long)(total >> 16) * (1.0 / 65536.0);
        if (((total >> 8) & 0xffull) != 0ull) {
            __threadfence();
            for (unsigned c = 0; c < gridDim.x; c += 12u) {
                unsigned long long w[12];
#pragma unroll
                for (int k = 0; k < 12; ++k) {
                    w[k] = 0ull;
                    if (c + k < gridDim.x) {
                        w[k] = __ldcg(&g_slot[c + k]);
                    }
                }
#pragma unroll
                for (int k = 0; k < 12; ++k) {
                    if ((w[k] >> 32) != 0ull) {
                        r += (double)__uint_as_float((unsigned)w[k]);
                        __stcg(&g_slot[c + k], 0ull);
                    }
                }
            }
        }
        mse[0] = (float)r * rn;
        g_acc = 0ull;
    }
}

template <int THREADS, int VEC>
static void launchOnce(const float* predictions, const float* targets, float* mse, unsigned n)
{
    const unsigned per = (unsigned)(THREADS * VEC);
    const unsigned n4 = n >> 2;
    const unsigned blocks = n4 == 0u ? 1u : (n4 + per - 1u) / per;
    mseKernel<THREADS, VEC, false><<<blocks, THREADS>>>(predictions, targets, mse, n, per);
}

extern "C" void solve(const float* predictions, const float* targets, float* mse, int n)
{
    const unsigned un = (unsigned)n;
    const unsigned n4 = un >> 2;
    if (n4 <= 256u) {
        // one block, up to 1,027 elements
        launchOnce<128, 2>(predictions, targets, mse, un);
    } else if (n4 <= 1024u) {
        // one block, up to 4,099 elements
        launchOnce<256, 4>(predictions, targets, mse, un);
    } else if (n4 <= MAX_BLOCKS * 256u) {
        launchOnce<128, 2>(predictions, targets, mse, un);
    } else if (n4 <= MAX_BLOCKS * 512u) {
        launchOnce<128, 4>(predictions, targets, mse, un);
    } else if (n4 <= MAX_BLOCKS * 2048u) {
        launchOnce<512, 4>(predictions, targets, mse, un);
    } else {
        unsigned chunk = (n4 + MAX_BLOCKS - 1u) / MAX_BLOCKS;
        chunk = (chunk + 31u) & ~31u;
        mseKernel<1024, 2, true><<<MAX_BLOCKS, 1024>>>(predictions, targets, mse, un, chunk);
    }
}
