// Packed exchanges, one barrier; clusters meet by st.async

#include <cuda_runtime.h>

typedef unsigned long long u64;

constexpr unsigned SMS = 132;           // at most this many blocks: both 8-bit counters hold it

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their sum in a slot;
// bits 16..63: the other blocks' sums in units of 2^-12. Zero between calls.
__device__ u64 g_acc = 0ull;
// (1 << 32) | bits of a sum that the units do not hold exactly. Zero between calls.
__device__ u64 g_slots[160] = {};

// Brings g_acc into L2 while the inputs are on their way. Adds nothing. Only thread 0 of
// block 0 does so, which adds its block's sum to the same word later.
__device__ __forceinline__ void touch_acc()
{
    if (blockIdx.x == 0u && threadIdx.x == 0u) {
        asm volatile("red.global.add.u64 [%0], %1;"
                     :: "l"((u64)__cvta_generic_to_global(&g_acc)), "l"(0ull) : "memory");
    }
}

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

// N consecutive floats of shared memory, by one lane: four sums in the order of arrival.
template <int N>
__device__ __forceinline__ float lane_sum(const float* sh)
{
    const float4* q = reinterpret_cast<const float4*>(sh);
    float4 v[N / 4];
#pragma unroll
    for (int k = 0; k < N / 4; ++k) v[k] = q[k];
    float4 a = v[0];
#pragma unroll
    for (int k = 1; k < N / 4; ++k) a = add4(a, v[k]);
    return sum4(a);
}

// Within a warp: 32 values become R (1, 2 or 4); lane l gets number l mod R. own: 32 floats of the warp.
template <int R>
__device__ __forceinline__ float warp_pack(float s, float* own)
{
    const unsigned lane = threadIdx.x & 31u;
    own[lane] = s;
    __syncwarp();
    const float4* q = reinterpret_cast<const float4*>(own) + (lane & (unsigned)(R - 1));
    float4 v[8 / R];
#pragma unroll
    for (int k = 0; k < 8 / R; ++k) v[k] = q[k * R];
    float4 a = v[0];
#pragma unroll
    for (int k = 1; k < 8 / R; ++k) a = add4(a, v[k]);
    return sum4(a);
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

// Four chains, in the order in which the vectors arrive.
template <int V>
__device__ __forceinline__ float squares(const float4 (&x)[V], const float4 (&y)[V])
{
    float4 a = square(x[0], y[0]);
#pragma unroll
    for (int k = 1; k < V; ++k) a = square_more(x[k], y[k], a);
    return sum4(a);
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

// Sum over a block of T threads; the result is valid in thread 0 only. Each warp packs its 32
// values into R by itself, then there is one barrier, and one lane adds up what is left.
template <int T, int R>
__device__ __forceinline__ float block_sum(float s, float* all, float* few)
{
    const unsigned t = threadIdx.x;
    const unsigned lane = t & 31u, warp = t >> 5;
    const float r = warp_pack<R>(s, all + warp * 32u);
    if (lane < (unsigned)R) few[warp * (unsigned)R + lane] = r;
    __syncthreads();
    return t == 0u ? lane_sum<T / 32 * R>(few) : 0.f;
}

// One block: n / 4 <= T * V.
template <int T, int V, bool FULL>
__global__ void __launch_bounds__(T)
mse_block(const float* __restrict__ predictions, const float* __restrict__ targets,
          float* __restrict__ mse, unsigned n)
{
    constexpr int R = T <= 128 ? 4 : 2;
    __shared__ __align__(16) float all[T];
    __shared__ __align__(16) float few[T / 32 * R];
    float d = 0.f;
    if (!FULL) d = rest(predictions, targets, n, true);
    float4 x[V], y[V];
    load_tile<T, V, FULL>(x, y, reinterpret_cast<const float4*>(predictions),
                          reinterpret_cast<const float4*>(targets), 0u, n >> 2);
    const float inv = reciprocal(n);
    float s = squares<V>(x, y);
    if (!FULL) s = fmaf(d, d, s);
    const float r = block_sum<T, R>(s, all, few);
    if (threadIdx.x == 0u) mse[0] = r * inv;
}

// One cluster of 8 blocks: n / 4 <= 8 * T * V. Each warp sends its sum to the first block by
// st.async; an mbarrier there counts the bytes.
template <int T, int V, bool FULL>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T)
mse_cluster(const float* __restrict__ predictions, const float* __restrict__ targets,
            float* __restrict__ mse, unsigned n)
{
    constexpr unsigned W = T / 32;
    constexpr unsigned SLOTS = 8 * W;
    __shared__ __align__(16) float slots[SLOTS];    // of the first block
    __shared__ __align__(16) float own[T];
    __shared__ __align__(8) u64 bar;                // of the first block

    const unsigned t = threadIdx.x;
    const unsigned lane = t & 31u;
    const unsigned warp = t >> 5;
    const unsigned rank = blockIdx.x;               // the grid is one cluster

    // Loads first: what follows up to the squares hides behind them.
    float d = 0.f;
    if (!FULL) d = rest(predictions, targets, n, rank == 0u);
    float4 x[V], y[V];
    load_tile<T, V, FULL>(x, y, reinterpret_cast<const float4*>(predictions),
                          reinterpret_cast<const float4*>(targets), rank * (unsigned)(T * V), n >> 2);

    const unsigned bar_own = (unsigned)__cvta_generic_to_shared(&bar);
    if (rank == 0u && t == 0u) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar_own) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(bar_own), "r"(SLOTS * 4u) : "memory");
    }
    __syncwarp();
    // Tells that this block has started and that the first block's mbarrier is ready.
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");

    const float inv = reciprocal(n);
    float s = squares<V>(x, y);
    if (!FULL) s = fmaf(d, d, s);
    const float r = warp_pack<1>(s, own + warp * 32u);

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (lane == 0u) {
        const unsigned slot_own = (unsigned)__cvta_generic_to_shared(slots + (rank * W + warp));
        unsigned slot_far, bar_far;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(slot_far) : "r"(slot_own), "r"(0u));
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar_far) : "r"(bar_own), "r"(0u));
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                     :: "r"(slot_far), "r"(__float_as_uint(r)), "r"(bar_far) : "memory");
    }

    if (rank == 0u && t == 0u) {
        unsigned done = 0u;
        do {
            asm volatile("{\n\t"
                         ".reg .pred p;\n\t"
                         "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
                         "selp.u32 %0, 1, 0, p;\n\t"
                         "}"
                         : "=r"(done) : "r"(bar_own), "r"(0u) : "memory");
        } while (done == 0u);
        mse[0] = lane_sum<(int)SLOTS>(slots) * inv;
    }
}

// At most SMS blocks, whose sums meet in one 64-bit atomic.
// LOOP: a block's share may be several tiles; otherwise it is one.
template <int T, int V, bool LOOP, bool FULL>
__global__ void __launch_bounds__(T)
mse_grid(const float* __restrict__ predictions, const float* __restrict__ targets,
         float* __restrict__ mse, unsigned n, unsigned per)
{
    constexpr int R = T <= 128 ? 4 : 2;
    __shared__ __align__(16) float all[T];
    __shared__ __align__(16) float few[T / 32 * R];

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
        touch_acc();
        inv = reciprocal(n);
        s = squares<V>(x, y);
    } else {
        const unsigned end = min(start + per, n4);
        touch_acc();
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

    const float p = block_sum<T, R>(s, all, few);
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
            mse_cluster<128, 4, true><<<8, 128>>>(predictions, targets, mse, un);
        else
            mse_cluster<128, 4, false><<<8, 128>>>(predictions, targets, mse, un);
    } else if (n4 <= 16384u) {
        if (whole && n4 == 16384u)
            mse_cluster<256, 8, true><<<8, 256>>>(predictions, targets, mse, un);
        else
            mse_cluster<256, 8, false><<<8, 256>>>(predictions, targets, mse, un);
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
