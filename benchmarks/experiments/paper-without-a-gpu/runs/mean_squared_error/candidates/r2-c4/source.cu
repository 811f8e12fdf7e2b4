// One block, one cluster, or one packed atomic; loads first.

#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

typedef unsigned long long u64;

constexpr unsigned SMS = 132;         // at most this many blocks: 8-bit counters below hold it

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their sum in a slot;
// bits 16..63: sum of the others in units of 2^-16. Zero between calls.
__device__ u64 g_acc = 0ULL;
// (1 << 32) + bits of a sum that the units do not hold well. Zero between calls.
__device__ u64 g_slots[160] = {};

// Brings g_acc into L2 while the vectors are on their way; the value is not used.
__device__ __forceinline__ void warm_acc()
{
    u64 unused;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(unused) : "l"(&g_acc));
}

// Sum of N floats of shared memory (16-byte aligned, N a multiple of 4), four at once a load;
// all lanes read the same words.
template <int N>
__device__ __forceinline__ float sum_shared(const float* row)
{
    const float4* q = reinterpret_cast<const float4*>(row);
    constexpr int M = N / 4;
    float4 v[M];
#pragma unroll
    for (int k = 0; k < M; ++k) v[k] = q[k];
    if (M == 1) return (v[0].x + v[0].y) + (v[0].z + v[0].w);
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

// Sum over the lanes of a warp, in every lane; red holds one float a thread of the block.
__device__ __forceinline__ float warp_sum(float s, float* red, unsigned t)
{
    red[t] = s;
    __syncwarp();
    return sum_shared<32>(red + (t & ~31u));
}

__device__ __forceinline__ void add_squares(float4& s, const float4& x, const float4& y)
{
    const float a = x.x - y.x;
    const float b = x.y - y.y;
    const float c = x.z - y.z;
    const float d = x.w - y.w;
    s.x = fmaf(a, a, s.x);
    s.y = fmaf(b, b, s.y);
    s.z = fmaf(c, c, s.z);
    s.w = fmaf(d, d, s.w);
}

// V vectors a thread, T threads apart, from the tile that starts at base.
template <int T, int V>
__device__ __forceinline__ void gather(float4& s, const float4* __restrict__ p4,
                                       const float4* __restrict__ t4, unsigned base, unsigned t,
                                       unsigned end)
{
    float4 x[V], y[V];
    if (base + (unsigned)(T * V) <= end) {
        const float4* __restrict__ p = p4 + (base + t);
        const float4* __restrict__ q = t4 + (base + t);
#pragma unroll
        for (int k = 0; k < V; ++k) {
            x[k] = __ldg(p + k * T);
            y[k] = __ldg(q + k * T);
        }
    } else {
#pragma unroll
        for (int k = 0; k < V; ++k) {
            const unsigned i = base + t + (unsigned)(k * T);
            x[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            y[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            if (i < end) {
                x[k] = __ldg(p4 + i);
                y[k] = __ldg(t4 + i);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < V; ++k) add_squares(s, x[k], y[k]);
}

// One block: n <= T * V * 4.
template <int T, int V>
__global__ void __launch_bounds__(T)
mse_one(const float* __restrict__ predictions, const float* __restrict__ targets,
        float* __restrict__ mse, unsigned n)
{
    constexpr int W = T / 32;
    __shared__ __align__(16) float red[T];
    __shared__ __align__(16) float part[W];
    const unsigned t = threadIdx.x;
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    const float inv = 1.0f / (float)n;

    float d = 0.f;
    if (tail != 0u && t < tail) {
        const unsigned e = n4 * 4u + t;
        d = __ldg(predictions + e) - __ldg(targets + e);
    }
    float4 s = make_float4(d * d, 0.f, 0.f, 0.f);
    gather<T, V>(s, reinterpret_cast<const float4*>(predictions),
                 reinterpret_cast<const float4*>(targets), 0u, t, n4);
    const float v = warp_sum((s.x + s.y) + (s.z + s.w), red, t);
    if ((t & 31u) == 0u) part[t >> 5] = v;
    __syncthreads();
    if (t == 0u) mse[0] = sum_shared<W>(part) * inv;
}

// One cluster of 8 blocks: n <= 8 * T * V * 4.
template <int T, int V>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T)
mse_cluster(const float* __restrict__ predictions, const float* __restrict__ targets,
            float* __restrict__ mse, unsigned n)
{
    constexpr int W = T / 32;        // warps a block
    constexpr int SLOTS = 8 * W;     // one a warp of the cluster
    __shared__ __align__(16) float slots[SLOTS];
    __shared__ __align__(16) float red[T];

    // Tells that this block has started; waited for once the data are here.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

    const unsigned t = threadIdx.x;
    const unsigned rank = blockIdx.x;     // the grid is one cluster
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    const float inv = 1.0f / (float)n;

    float d = 0.f;
    if (tail != 0u && rank == 0u && t < tail) {
        const unsigned e = n4 * 4u + t;
        d = __ldg(predictions + e) - __ldg(targets + e);
    }
    float4 s = make_float4(d * d, 0.f, 0.f, 0.f);
    gather<T, V>(s, reinterpret_cast<const float4*>(predictions),
                 reinterpret_cast<const float4*>(targets), rank * (unsigned)(T * V), t, n4);
    const float v = warp_sum((s.x + s.y) + (s.z + s.w), red, t);

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if ((t & 31u) == 0u) {
        float* remote = cg::this_cluster().map_shared_rank(slots, 0);
        remote[rank * (unsigned)W + (t >> 5)] = v;
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

    if (rank == 0u && t < 32u) {
        float r;
        if (SLOTS == 128) {
            const float4 q = reinterpret_cast<const float4*>(slots)[t];
            r = warp_sum((q.x + q.y) + (q.z + q.w), red, t);
        } else {
            r = sum_shared<SLOTS>(slots);
        }
        if (t == 0u) mse[0] = r * inv;
    }
}

// Any n: block b sums vectors [b * per, (b + 1) * per). The block that arrives last finishes.
// LOOP: per may be several tiles; otherwise per == T * V.
template <int T, int V, bool LOOP>
__global__ void __launch_bounds__(T)
mse_grid(const float* __restrict__ predictions, const float* __restrict__ targets,
         float* __restrict__ mse, unsigned n, unsigned per)
{
    constexpr int W = T / 32;
    __shared__ __align__(16) float red[T];
    __shared__ __align__(16) float part[W];
    const unsigned t = threadIdx.x;
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    const float4* p4 = reinterpret_cast<const float4*>(predictions);
    const float4* t4 = reinterpret_cast<const float4*>(targets);
    const float inv = 1.0f / (float)n;

    if (t == (unsigned)(T - 1)) warm_acc();

    float d = 0.f;
    if (tail != 0u && blockIdx.x == gridDim.x - 1u && t < tail) {
        const size_t e = (size_t)n4 * 4u + t;
        d = __ldg(predictions + e) - __ldg(targets + e);
    }
    float4 s = make_float4(d * d, 0.f, 0.f, 0.f);
    const unsigned begin = blockIdx.x * per;
    if (LOOP) {
        const unsigned end = min(begin + per, n4);
        for (unsigned base = begin; base < end; base += (unsigned)(T * V))
            gather<T, V>(s, p4, t4, base, t, end);
    } else {
        gather<T, V>(s, p4, t4, begin, t, n4);
    }
    const float v = warp_sum((s.x + s.y) + (s.z + s.w), red, t);
    if ((t & 31u) == 0u) part[t >> 5] = v;
    __syncthreads();
    if (t != 0u) return;
    const float p = sum_shared<W>(part);

    // Scaling by 2^16 is exact. Rounded to an integer, a sum of at least 2^6 is off by no more
    // than 2^-23 of itself; a smaller one must be an integer. Others go through a slot.
    const float scaled = p * 65536.0f;
    u64 add;
    if (p < 16777216.0f && (p >= 64.0f || truncf(scaled) == scaled)) {
        add = (__float2ull_rn(scaled) << 16) + 1ULL;
    } else {
        __stcg(&g_slots[blockIdx.x], (1ULL << 32) | (u64)__float_as_uint(p));
        __threadfence();
        add = (1ULL << 8) + 1ULL;
    }
    const u64 old = atomicAdd(&g_acc, add);
    if ((unsigned)(old & 0xffULL) == gridDim.x - 1u) {
        const u64 total = old + add;
        const u64 fixedSum = total >> 16;
        float res;
        if (((total >> 8) & 0xffULL) == 0ULL) {
            res = __ull2float_rn(fixedSum) * (1.0f / 65536.0f) * inv;
        } else {
            __threadfence();
            double r = (double)fixedSum * (1.0 / 65536.0);
            for (unsigned c = 0; c < gridDim.x; c += 12u) {
                u64 w[12];
#pragma unroll
                for (int k = 0; k < 12; ++k) {
                    w[k] = 0ULL;
                    if (c + k < gridDim.x) w[k] = __ldcg(&g_slots[c + k]);
                }
#pragma unroll
                for (int k = 0; k < 12; ++k) {
                    if ((w[k] >> 32) != 0ULL) {
                        r += (double)__uint_as_float((unsigned)w[k]);
                        __stcg(&g_slots[c + k], 0ULL);
                    }
                }
            }
            res = (float)(r / (double)n);
        }
        mse[0] = res;
        g_acc = 0ULL;
    }
}

extern "C" void solve(const float* predictions, const float* targets, float* mse, int n)
{
    if (n <= 0) return;
    const unsigned un = (unsigned)n;
    const unsigned n4 = un >> 2;
    if (un <= 1024u) {
        mse_one<128, 2><<<1, 128>>>(predictions, targets, mse, un);
    } else if (un <= 4096u) {
        mse_one<256, 4><<<1, 256>>>(predictions, targets, mse, un);
    } else if (un <= 16384u) {
        mse_cluster<128, 4><<<8, 128>>>(predictions, targets, mse, un);
    } else if (un <= 65536u) {
        mse_cluster<512, 4><<<8, 512>>>(predictions, targets, mse, un);
    } else if (n4 <= SMS * 512u) {
        mse_grid<128, 4, false><<<(n4 + 511u) / 512u, 128>>>(predictions, targets, mse, un, 512u);
    } else if (n4 <= SMS * 1024u) {
        mse_grid<256, 4, false><<<(n4 + 1023u) / 1024u, 256>>>(predictions, targets, mse, un, 1024u);
    } else if (n4 <= SMS * 2048u) {
        mse_grid<512, 4, false><<<(n4 + 2047u) / 2048u, 512>>>(predictions, targets, mse, un, 2048u);
    } else {
        unsigned per = (n4 + SMS - 1u) / SMS;
        per = (per + 31u) & ~31u;
        mse_grid<512, 4, true><<<SMS, 512>>>(predictions, targets, mse, un, per);
    }
}
