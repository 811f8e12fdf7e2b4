// One cluster up to 65,536; else shared-memory sums, one atomic

#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

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

// 32 consecutive floats of shared memory, by one lane.
__device__ __forceinline__ float sum32(const float* sh)
{
    const float4* q = reinterpret_cast<const float4*>(sh);
    float4 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        v[k] = q[k];
    }
    return tree<8>(v);
}

__device__ __forceinline__ void fma4(float4& acc, const float4& x, const float4& y)
{
    acc.x = fmaf(x.x, y.x, acc.x);
    acc.y = fmaf(x.y, y.y, acc.y);
    acc.z = fmaf(x.z, y.z, acc.z);
    acc.w = fmaf(x.w, y.w, acc.w);
}

// VEC float4 of each vector a thread, THREADS apart; all loads are issued before the first product.
template <int THREADS, int VEC, bool FULL>
__device__ __forceinline__ void tile(float4 (&acc)[2], const float4* __restrict__ a4, const float4* __restrict__ b4, unsigned base, unsigned end)
{
    const unsigned first = base + threadIdx.x;
    float4 x[VEC];
    float4 y[VEC];
    if (FULL || base + (unsigned)(THREADS * VEC) <= end) {
        const float4* pa = a4 + first;
        const float4* pb = b4 + first;
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            x[k] = __ldg(pa + k * THREADS);
            y[k] = __ldg(pb + k * THREADS);
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
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        fma4(acc[k & 1], x[k], y[k]);
    }
}

// One cluster of 8 blocks: n / 4 <= 8 * T * V. FULL: n == 4 * 8 * T * V.
template <int T, int V, bool FULL>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T)
clusterDot(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ result, unsigned n)
{
    constexpr int W = T / 32;               // warps a block
    constexpr int R = 4;                    // values that a warp passes on
    constexpr int SLOTS = 8 * W * R;
    constexpr int K = SLOTS / 128;          // float4 a lane of the last warp
    __shared__ __align__(16) float slots[SLOTS];
    __shared__ __align__(16) float own[T];

    // Tells that this block has started; waited for once the data are here.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

    const unsigned t = threadIdx.x;
    const unsigned lane = t & 31u;
    const unsigned warp = t >> 5;
    const unsigned rank = blockIdx.x;       // the grid is one cluster
    const unsigned n4 = n >> 2;

    float ea = 0.0f;
    float eb = 0.0f;
    if (!FULL) {
        if (rank == 0u && t < (n & 3u)) {
            ea = __ldg(a + (4u * n4 + t));
            eb = __ldg(b + (4u * n4 + t));
        }
    }

    float4 acc[2];
    acc[0] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    acc[1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    tile<T, V, FULL>(acc, reinterpret_cast<const float4*>(a), reinterpret_cast<const float4*>(b), rank * (unsigned)(T * V), n4);
    if (!FULL) {
        acc[0].x = fmaf(ea, eb, acc[0].x);
    }

    // Within the warp: 32 values become 4.
    own[t] = tree<2>(acc);
    __syncwarp();
    const float4* q = reinterpret_cast<const float4*>(own + warp * 32u);
    const float4 h = add4(q[lane & 3u], q[(lane & 3u) + 4u]);
    const float r = (h.x + h.y) + (h.z + h.w);

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (lane < (unsigned)R) {
        float* remote = cg::this_cluster().map_shared_rank(slots, 0);
        remote[(rank * (unsigned)W + warp) * (unsigned)R + lane] = r;
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

    if (rank != 0u || t >= 32u) {
        return;
    }
    const float4* s4 = reinterpret_cast<const float4*>(slots);
    float4 v[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
        v[k] = s4[t + 32u * (unsigned)k];
    }
    own[t] = tree<K>(v);
    __syncwarp();
    if (t == 0u) {
        result[0] = sum32(own);
    }
}

// Block b takes the vectors [b * chunk, (b + 1) * chunk).
// LOOP: a chunk may be several tiles; otherwise chunk == THREADS * VEC.
// FULL: every tile is whole and n is a multiple of 4.
template <int THREADS, int VEC, bool LOOP, bool FULL>
__global__ void __launch_bounds__(THREADS)
dotKernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ result, unsigned n, unsigned chunk)
{
    constexpr int K = THREADS / 128;
    __shared__ __align__(16) float all[THREADS];
    __shared__ __align__(16) float few[32];

    const float4* __restrict__ a4 = reinterpret_cast<const float4*>(a);
    const float4* __restrict__ b4 = reinterpret_cast<const float4*>(b);
    const unsigned n4 = n >> 2;
    const unsigned t = threadIdx.x;

    float ea = 0.0f;
    float eb = 0.0f;
    if (!FULL) {
        if (blockIdx.x == gridDim.x - 1u && t < (n & 3u)) {
            const size_t i = (size_t)n4 * 4u + t;
            ea = __ldg(a + i);
            eb = __ldg(b + i);
        }
    }

    float4 acc[2];
    acc[0] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    acc[1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (LOOP) {
        const unsigned begin = blockIdx.x * chunk;
        const unsigned end = min(begin + chunk, n4);
        for (unsigned base = begin; base < end; base += (unsigned)(THREADS * VEC)) {
            tile<THREADS, VEC, false>(acc, a4, b4, base, end);
        }
    } else {
        tile<THREADS, VEC, FULL>(acc, a4, b4, blockIdx.x * (unsigned)(THREADS * VEC), n4);
    }
    if (!FULL) {
        acc[0].x = fmaf(ea, eb, acc[0].x);
    }

    // One barrier; the rest is the first warp's, through shared memory.
    all[t] = tree<2>(acc);
    __syncthreads();
    if (t >= 32u) {
        return;
    }
    {
        const float4* q = reinterpret_cast<const float4*>(all);
        float4 v[K];
#pragma unroll
        for (int k = 0; k < K; ++k) {
            v[k] = q[t + 32u * (unsigned)k];
        }
        few[t] = tree<K>(v);
    }
    __syncwarp();
    if (t != 0u) {
        return;
    }
    const float p = sum32(few);

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
    if (n4 <= 256u) {
        launchOnce<128, 2>(a, b, result, un);       // one block
    } else if (n4 <= 16384u) {
        if (un == 65536u) {
            clusterDot<512, 4, true><<<8, 512>>>(a, b, result, un);
        } else {
            clusterDot<512, 4, false><<<8, 512>>>(a, b, result, un);
        }
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
        dotKernel<1024, 2, true, false><<<MAX_BLOCKS, 1024>>>(a, b, result, un, chunk);
    }
}
