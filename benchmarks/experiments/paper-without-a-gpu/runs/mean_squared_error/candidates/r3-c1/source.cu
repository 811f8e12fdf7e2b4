// One cluster up to 65,536 elements; beyond, one exact atomic

#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

typedef unsigned long long u64;

constexpr unsigned SMS = 132;           // at most this many blocks: both 8-bit counters hold it

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their sum in a slot;
// bits 16..63: the other blocks' sums in units of 2^-12. Zero between calls.
__device__ u64 g_acc = 0ull;
// (1 << 32) | bits of a sum that the units do not hold exactly. Zero between calls.
__device__ u64 g_slots[160] = {};

__device__ __forceinline__ float4 add4(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ float sum4(float4 q) { return (q.x + q.y) + (q.z + q.w); }

// acc + (x - y)^2, element by element
__device__ __forceinline__ float4 square_more(float4 x, float4 y, float4 acc)
{
    const float dx = x.x - y.x, dy = x.y - y.y, dz = x.z - y.z, dw = x.w - y.w;
    return make_float4(fmaf(dx, dx, acc.x), fmaf(dy, dy, acc.y), fmaf(dz, dz, acc.z), fmaf(dw, dw, acc.w));
}

__device__ __forceinline__ float4 square(float4 x, float4 y)
{
    const float dx = x.x - y.x, dy = x.y - y.y, dz = x.z - y.z, dw = x.w - y.w;
    return make_float4(dx * dx, dy * dy, dz * dz, dw * dw);
}

// Tree over V (a power of two) float4.
template <int V>
__device__ __forceinline__ float tree(float4 (&v)[V])
{
#pragma unroll
    for (int w = V / 2; w > 0; w >>= 1) {
#pragma unroll
        for (int k = 0; k < w; ++k) v[k] = add4(v[k], v[k + w]);
    }
    return sum4(v[0]);
}

// 32 consecutive floats of shared memory, by one lane.
__device__ __forceinline__ float sum32(const float* sh)
{
    const float4* q = reinterpret_cast<const float4*>(sh);
    float4 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = q[k];
    return tree<8>(v);
}

// 1 / n, computed where it stands: while the loads are on their way.
__device__ __forceinline__ float reciprocal(unsigned n)
{
    float r;
    asm volatile("rcp.rn.f32 %0, %1;" : "=f"(r) : "f"((float)n));
    return r;
}

// V vectors of each input a thread, T apart, from vector base on; all loads first.
template <int T, int V, bool FULL>
__device__ __forceinline__ void load_tile(float4 (&x)[V], float4 (&y)[V], const float4* __restrict__ p4,
                                          const float4* __restrict__ t4, unsigned base, unsigned end)
{
    const unsigned i0 = base + threadIdx.x;
    if (FULL || base + (unsigned)(T * V) <= end) {
        const float4* p = p4 + i0;
        const float4* q = t4 + i0;
#pragma unroll
        for (int k = 0; k < V; ++k) {
            x[k] = __ldg(p + k * T);
            y[k] = __ldg(q + k * T);
        }
    } else {
#pragma unroll
        for (int k = 0; k < V; ++k) {
            const unsigned i = i0 + (unsigned)(k * T);
            x[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            y[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            if (i < end) {
                x[k] = __ldg(p4 + i);
                y[k] = __ldg(t4 + i);
            }
        }
    }
}

template <int V>
__device__ __forceinline__ float squares(const float4 (&x)[V], const float4 (&y)[V])
{
    constexpr int H = V / 2;
    float4 acc[H];
#pragma unroll
    for (int k = 0; k < H; ++k) acc[k] = square_more(x[k + H], y[k + H], square(x[k], y[k]));
    return tree<H>(acc);
}

// The difference of the up to three elements behind the last whole vector.
__device__ __forceinline__ float rest(const float* __restrict__ predictions, const float* __restrict__ targets,
                                      unsigned n, bool mine)
{
    float d = 0.f;
    if (mine && threadIdx.x < (n & 3u)) {
        const size_t j = (size_t)(n >> 2) * 4u + threadIdx.x;
        d = __ldg(predictions + j) - __ldg(targets + j);
    }
    return d;
}

// Sum over a block of T threads; the result is valid in thread 0 only. One barrier.
template <int T>
__device__ __forceinline__ float block_sum(float s, float* all, float* few)
{
    const unsigned t = threadIdx.x;
    float r = 0.f;
    all[t] = s;
    __syncthreads();
    if (t < 32u) {
        constexpr int K = T / 128;
        const float4* q = reinterpret_cast<const float4*>(all);
        float4 v[K];
#pragma unroll
        for (int k = 0; k < K; ++k) v[k] = q[t + 32u * (unsigned)k];
        few[t] = tree<K>(v);
        __syncwarp();
        if (t == 0u) r = sum32(few);
    }
    return r;
}

// One block: n / 4 <= T * V.
template <int T, int V, bool FULL>
__global__ void __launch_bounds__(T)
mse_block(const float* __restrict__ predictions, const float* __restrict__ targets,
          float* __restrict__ mse, unsigned n)
{
    __shared__ __align__(16) float all[T];
    __shared__ __align__(16) float few[32];
    float d = 0.f;
    if (!FULL) d = rest(predictions, targets, n, true);
    float4 x[V], y[V];
    load_tile<T, V, FULL>(x, y, reinterpret_cast<const float4*>(predictions),
                          reinterpret_cast<const float4*>(targets), 0u, n >> 2);
    const float inv = reciprocal(n);
    float s = squares<V>(x, y);
    if (!FULL) s = fmaf(d, d, s);
    const float r = block_sum<T>(s, all, few);
    if (threadIdx.x == 0u) mse[0] = r * inv;
}

// One cluster of 8 blocks: n / 4 <= 8 * TT * V.
template <int TT, int V, bool FULL>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(TT)
mse_cluster(const float* __restrict__ predictions, const float* __restrict__ targets,
            float* __restrict__ mse, unsigned n)
{
    constexpr unsigned T = (unsigned)TT;
    constexpr unsigned R = 4;                       // values that a warp passes on
    constexpr int SLOTS = (int)(8u * (T / 32u) * R);
    constexpr int K = SLOTS / 128;                  // vectors a lane at the end
    __shared__ __align__(16) float slots[SLOTS];    // those of the first block are used
    __shared__ __align__(16) float own[T];

    // Tells that this block has started; waited for once the data are here.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

    const unsigned t = threadIdx.x;
    const unsigned lane = t & 31u;
    const unsigned warp = t >> 5;
    const unsigned rank = blockIdx.x;               // the grid is one cluster

    float d = 0.f;
    if (!FULL) d = rest(predictions, targets, n, rank == 0u);
    float4 x[V], y[V];
    load_tile<TT, V, FULL>(x, y, reinterpret_cast<const float4*>(predictions),
                               reinterpret_cast<const float4*>(targets), rank * (T * (unsigned)V), n >> 2);
    const float inv = reciprocal(n);
    float s = squares<V>(x, y);
    if (!FULL) s = fmaf(d, d, s);

    // Within the warp: 32 values become 4.
    own[t] = s;
    __syncwarp();
    const float4* q = reinterpret_cast<const float4*>(own + warp * 32u);
    const float4 a = q[lane & 3u];
    const float4 b = q[(lane & 3u) + 4u];
    const float r = sum4(add4(a, b));

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (lane < R) {
        float* remote = cg::this_cluster().map_shared_rank(slots, 0);
        remote[(rank * (T / 32) + warp) * R + lane] = r;
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

    if (rank == 0u && t < 32u) {
        const float4* c = reinterpret_cast<const float4*>(slots);
        float4 v[K];
#pragma unroll
        for (int k = 0; k < K; ++k) v[k] = c[t + 32u * (unsigned)k];
        own[t] = tree<K>(v);
        __syncwarp();
        if (t == 0u) mse[0] = sum32(own) * inv;
    }
}

// At most SMS blocks, whose sums meet in one 64-bit atomic.
// LOOP: a block's share may be several tiles; otherwise it is one.
template <int T, int V, bool LOOP, bool FULL>
__global__ void __launch_bounds__(T)
mse_grid(const float* __restrict__ predictions, const float* __restrict__ targets,
         float* __restrict__ mse, unsigned n, unsigned per)
{
    __shared__ __align__(16) float all[T];
    __shared__ __align__(16) float few[32];

    const unsigned t = threadIdx.x;
    const unsigned n4 = n >> 2;
    const float4* p4 = reinterpret_cast<const float4*>(predictions);
    const float4* t4 = reinterpret_cast<const float4*>(targets);
    const unsigned start = blockIdx.x * per;

    float d = 0.f;
    if (!FULL) d = rest(predictions, targets, n, blockIdx.x == gridDim.x - 1u);

    float s, inv;
    if (!LOOP) {
        float4 x[V], y[V];
        load_tile<T, V, FULL>(x, y, p4, t4, start, n4);
        inv = reciprocal(n);
        s = squares<V>(x, y);
    } else {
        const unsigned end = min(start + per, n4);
        inv = reciprocal(n);
        float4 acc[V];
#pragma unroll
        for (int k = 0; k < V; ++k) acc[k] = make_float4(0.f, 0.f, 0.f, 0.f);
        for (unsigned base = start; base < end; base += (unsigned)(T * V)) {
            float4 x[V], y[V];
            load_tile<T, V, false>(x, y, p4, t4, base, end);
#pragma unroll
            for (int k = 0; k < V; ++k) acc[k] = square_more(x[k], y[k], acc[k]);
        }
        s = tree<V>(acc);
    }
    if (!FULL) s = fmaf(d, d, s);

    const float p = block_sum<T>(s, all, few);
    if (t != 0u) return;

    // Scaling by 2^12 is exact. Sums from 2^11 to 2^28 are whole numbers of units, smaller
    // ones may be; the others go through a slot.
    const float scaled = p * 4096.f;
    u64 add;
    if (p < 268435456.f && truncf(scaled) == scaled) {
        add = (__float2ull_rn(scaled) << 16) + 1ull;
    } else {
        __stcg(&g_slots[blockIdx.x], (1ull << 32) | (u64)__float_as_uint(p));
        __threadfence();
        add = (1ull << 8) + 1ull;
    }
    const u64 old = atomicAdd(&g_acc, add);
    if ((unsigned)(old & 0xffull) == gridDim.x - 1u) {
        // The last block: all sums are in.
        const u64 total = old + add;
        const u64 units = total >> 16;
        if (((total >> 8) & 0xffull) == 0ull) {
            mse[0] = (__ull2float_rn(units) * (1.f / 4096.f)) * inv;
        } else {
            __threadfence();
            double r = (double)units * (1.0 / 4096.0);
            for (unsigned c = 0; c < gridDim.x; c += 12u) {
                u64 w[12];
#pragma unroll
                for (int k = 0; k < 12; ++k) {
                    w[k] = 0ull;
                    if (c + k < gridDim.x) w[k] = __ldcg(&g_slots[c + k]);
                }
#pragma unroll
                for (int k = 0; k < 12; ++k) {
                    if ((w[k] >> 32) != 0ull) {
                        r += (double)__uint_as_float((unsigned)w[k]);
                        __stcg(&g_slots[c + k], 0ull);
                    }
                }
            }
            mse[0] = (float)(r / (double)n);
        }
        g_acc = 0ull;
    }
}

template <int T, int V>
static void launch_grid(const float* predictions, const float* targets, float* mse, unsigned n)
{
    const unsigned per = (unsigned)(T * V);
    const unsigned n4 = n >> 2;
    const unsigned blocks = (n4 + per - 1u) / per;
    if ((n & 3u) == 0u && n4 == blocks * per)
        mse_grid<T, V, false, true><<<blocks, T>>>(predictions, targets, mse, n, per);
    else
        mse_grid<T, V, false, false><<<blocks, T>>>(predictions, targets, mse, n, per);
}

extern "C" void solve(const float* predictions, const float* targets, float* mse, int n)
{
    if (n <= 0) return;
    const unsigned un = (unsigned)n;
    const unsigned n4 = un >> 2;
    const bool whole = (un & 3u) == 0u;     // no elements behind the last vector
    if (n4 <= 256u) {
        if (whole && n4 == 256u)
            mse_block<128, 2, true><<<1, 128>>>(predictions, targets, mse, un);
        else
            mse_block<128, 2, false><<<1, 128>>>(predictions, targets, mse, un);
    } else if (n4 <= 1024u) {
        if (whole && n4 == 1024u)
            mse_block<256, 4, true><<<1, 256>>>(predictions, targets, mse, un);
        else
            mse_block<256, 4, false><<<1, 256>>>(predictions, targets, mse, un);
    } else if (n4 <= 4096u) {
        if (whole && n4 == 4096u)
            mse_cluster<256, 2, true><<<8, 256>>>(predictions, targets, mse, un);
        else
            mse_cluster<256, 2, false><<<8, 256>>>(predictions, targets, mse, un);
    } else if (n4 <= 16384u) {
        if (whole && n4 == 16384u)
            mse_cluster<512, 4, true><<<8, 512>>>(predictions, targets, mse, un);
        else
            mse_cluster<512, 4, false><<<8, 512>>>(predictions, targets, mse, un);
    } else if (n4 <= SMS * 256u) {
        launch_grid<128, 2>(predictions, targets, mse, un);
    } else if (n4 <= SMS * 512u) {
        launch_grid<128, 4>(predictions, targets, mse, un);
    } else if (n4 <= SMS * 1024u) {
        launch_grid<256, 4>(predictions, targets, mse, un);
    } else {
        unsigned per = (n4 + SMS - 1u) / SMS;
        per = (per + 31u) & ~31u;
        const unsigned blocks = (n4 + per - 1u) / per;
        mse_grid<512, 4, true, false><<<blocks, 512>>>(predictions, targets, mse, un, per);
    }
}
