// Unchecked full tiles; rank sort by two limits, one-block wide digit.
#include <cuda_runtime.h>

// Unsigned integers in the order of the floats.
__device__ __forceinline__ unsigned encode(float f)
{
    unsigned b = __float_as_uint(f);
    return b ^ ((unsigned)((int)b >> 31) | 0x80000000u);
}

__device__ __forceinline__ float decode(unsigned u)
{
    return __uint_as_float(u ^ ((u >> 31) ? 0x80000000u : 0xffffffffu));
}

namespace small_sizes {

// Monotone map of values to 0 .. N-1: each rounded step keeps the order.
template <int N>
__device__ __forceinline__ unsigned digit_of(float x, float low, float scale)
{
    float v = __fmul_rn(__fsub_rn(x, low), scale);
    unsigned d = __float2uint_rz(v);
    return min(d, (unsigned)(N - 1));
}

__device__ __forceinline__ unsigned warp_inclusive(unsigned v, int lane)
{
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
        unsigned w = __shfl_up_sync(0xffffffffu, v, o);
        if (lane >= o)
            v += w;
    }
    return v;
}

template <int T, int I>
struct Shape {
    static constexpr int N = T * I;
    static constexpr int REGION = (N + 4 > 2 * T) ? N + 4 : 2 * T; // words, multiple of 4
    static constexpr int BYTES = (REGION + N) * 4;
};

// FULL: n == T * I, no bounds to check.
template <int T, int I, bool FULL>
__global__ void __launch_bounds__(T, 1) sort_block(float* data, int n)
{
    constexpr int N = T * I;
    constexpr int W = T / 32;
    constexpr unsigned ALL = 0xffffffffu;
    constexpr unsigned LIMIT = 32;

    extern __shared__ uint4 raw[];
    unsigned* cnt = reinterpret_cast<unsigned*>(raw);
    unsigned* keys = cnt + Shape<T, I>::REGION;
    __shared__ unsigned s_lo[32], s_hi[32], s_sum[32], s_max[32];

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;

    float f[I];
#pragma unroll
    for (int k = 0; k < I; ++k) {
        int i = t + k * T;
        f[k] = (FULL || i < n) ? data[i] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < I; ++k)
        cnt[t + k * T] = 0;

    unsigned u[I];
    unsigned lo = 0xffffffffu, hi = 0;
#pragma unroll
    for (int k = 0; k < I; ++k) {
        int i = t + k * T;
        u[k] = 0xffffffffu; // behind every number, infinity too
        if (FULL || i < n) {
            u[k] = encode(f[k]);
            lo = min(lo, u[k]);
            hi = max(hi, u[k]);
        }
    }
    lo = __reduce_min_sync(ALL, lo);
    hi = __reduce_max_sync(ALL, hi);
    if (lane == 0) {
        s_lo[warp] = lo;
        s_hi[warp] = hi;
    }
    __syncthreads();
    lo = __reduce_min_sync(ALL, (W == 32 || lane < W) ? s_lo[lane] : 0xffffffffu);
    hi = __reduce_max_sync(ALL, (W == 32 || lane < W) ? s_hi[lane] : 0u);
    if (lo == hi)
        return; // all equal, the whole block leaves

    const float low = decode(lo);
    const float scale = fminf(__fdividef((float)N, __fsub_rn(decode(hi), low)), 3.402823466e+38f);

    // Counts of the wide digit; the order of arrival in a bucket does not matter.
    unsigned d[I], r[I];
#pragma unroll
    for (int k = 0; k < I; ++k) {
        d[k] = 0;
        r[k] = 0;
        if (FULL || t + k * T < n) {
            d[k] = digit_of<N>(f[k], low, scale);
            r[k] = atomicAdd(&cnt[d[k]], 1u);
        }
    }
    __syncthreads();

    // Scan: thread t owns the counters t*I .. t*I+I-1.
    unsigned c[I];
    if constexpr (I % 4 == 0) {
#pragma unroll
        for (int j = 0; j < I / 4; ++j) {
            uint4 v = reinterpret_cast<const uint4*>(cnt)[t * (I / 4) + j];
            c[4 * j] = v.x;
            c[4 * j + 1] = v.y;
            c[4 * j + 2] = v.z;
            c[4 * j + 3] = v.w;
        }
    } else if constexpr (I == 2) {
        uint2 v = reinterpret_cast<const uint2*>(cnt)[t];
        c[0] = v.x;
        c[1] = v.y;
    } else {
#pragma unroll
        for (int j = 0; j < I; ++j)
            c[j] = cnt[t * I + j];
    }
    unsigned sum = 0, most = 0;
#pragma unroll
    for (int j = 0; j < I; ++j) {
        sum += c[j];
        most = max(most, c[j]);
    }
    unsigned inc = warp_inclusive(sum, lane);
    most = __reduce_max_sync(ALL, most);
    if (lane == 31)
        s_sum[warp] = inc;
    if (lane == 0)
        s_max[warp] = most;
    __syncthreads();
    unsigned before = __reduce_add_sync(ALL, ((W == 32 || lane < W) && lane < warp) ? s_sum[lane] : 0u);
    most = __reduce_max_sync(ALL, (W == 32 || lane < W) ? s_max[lane] : 0u);

    if (most <= LIMIT) { // the same for all threads
        unsigned at = before + inc - sum;
#pragma unroll
        for (int j = 0; j < I; ++j) {
            unsigned count = c[j];
            c[j] = at;
            at += count;
        }
        if constexpr (I % 4 == 0) {
#pragma unroll
            for (int j = 0; j < I / 4; ++j)
                reinterpret_cast<uint4*>(cnt)[t * (I / 4) + j] =
                    make_uint4(c[4 * j], c[4 * j + 1], c[4 * j + 2], c[4 * j + 3]);
        } else if constexpr (I == 2) {
            reinterpret_cast<uint2*>(cnt)[t] = make_uint2(c[0], c[1]);
        } else {
#pragma unroll
            for (int j = 0; j < I; ++j)
                cnt[t * I + j] = c[j];
        }
        if (t == 0)
            cnt[N] = (unsigned)n;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < I; ++k) {
            if (FULL || t + k * T < n)
                keys[cnt[d[k]] + r[k]] = u[k];
        }
        __syncthreads();
        // Rank within the bucket, by position, so that writes stay almost coalesced.
#pragma unroll
        for (int k = 0; k < I; ++k) {
            unsigned p = t + k * T;
            if (FULL || p < (unsigned)n) {
                unsigned key = keys[p];
                float value = decode(key);
                unsigned b = digit_of<N>(value, low, scale);
                unsigned begin = cnt[b];
                unsigned end = cnt[b + 1];
                unsigned place = begin;
                if (end - begin > 1) {
                    for (unsigned j = begin; j < end; ++j) {
                        unsigned other = keys[j];
                        place += (other < key || (other == key && j < p)) ? 1u : 0u;
                    }
                }
                data[place] = value;
            }
        }
        return;
    }

    // Crowded buckets: radix sort from the lowest bits up, 6 bits a pass, all N keys.
    // Counters lie as [warp][64]; they are scanned in the order digit, warp: 64*W = 2*T of them.
    const int q0 = 2 * t, q1 = 2 * t + 1;
    const int a0 = (q0 % W) * 64 + q0 / W;
    const int a1 = (q1 % W) * 64 + q1 / W;
    unsigned* mine = cnt + warp * 64;
    __syncthreads();
#pragma unroll 1
    for (int shift = 0; shift < 32; shift += 6) {
        cnt[q0] = 0;
        cnt[q1] = 0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < I; ++k) {
            unsigned g = (u[k] >> shift) & 63u;
            unsigned same = ALL;
#pragma unroll
            for (int b = 0; b < 6; ++b) {
                bool bit = (g >> b) & 1u;
                unsigned votes = __ballot_sync(ALL, bit);
                same &= bit ? votes : ~votes;
            }
            unsigned below = __popc(same & ((1u << lane) - 1u));
            unsigned previous = mine[g];
            __syncwarp();
            if (below == 0)
                mine[g] = previous + __popc(same);
            __syncwarp();
            r[k] = previous + below;
        }
        __syncthreads();
        unsigned x0 = cnt[a0];
        unsigned x1 = cnt[a1];
        unsigned pair = x0 + x1;
        unsigned run = warp_inclusive(pair, lane);
        if (lane == 31)
            s_sum[warp] = run;
        __syncthreads();
        unsigned base = __reduce_add_sync(ALL, (lane < W && lane < warp) ? s_sum[lane] : 0u);
        base += run - pair;
        cnt[a0] = base;
        cnt[a1] = base + x0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < I; ++k) {
            unsigned g = (u[k] >> shift) & 63u;
            keys[mine[g] + r[k]] = u[k];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < I; ++k)
            u[k] = keys[warp * (32 * I) + k * 32 + lane];
    }
#pragma unroll
    for (int k = 0; k < I; ++k) {
        int i = t + k * T;
        if (i < n)
            data[i] = decode(keys[i]);
    }
}

template <int T, int I, bool FULL>
static void launch(float* data, int n)
{
    sort_block<T, I, FULL><<<1, T, Shape<T, I>::BYTES>>>(data, n);
}

// up to 4,096
static void solve(float* data, int n)
{
    if (n == 1024) {
        launch<1024, 1, true>(data, n);
    } else if (n < 1024) {
        launch<1024, 1, false>(data, n);
    } else if (n == 2048) {
        launch<1024, 2, true>(data, n);
    } else if (n < 2048) {
        launch<1024, 2, false>(data, n);
    } else {
        launch<1024, 4, false>(data, n);
    }
}
}  // namespace small_sizes

namespace large_sizes {

__device__ unsigned arrivals; // 0 between calls: wraps by itself

// Every block reads all keys. Block b of B owns the keys from limit(b) to below limit(b + 1), counts those
// below and ranks its own ones against each other. Any limits that do not descend are right.
// The others may write only when all have read: arrive after reading, wait before writing.
// FULL: n == T * K, no bounds to check, no absent keys.
template <int T, int K, int B, bool CLUSTER, bool FULL>
__device__ __forceinline__ void rank_body(float* data, int n)
{
    __shared__ __align__(16) float list[T * K];
    __shared__ unsigned taken[T];
    __shared__ unsigned smin[32], smax[32], slow[32];
    __shared__ unsigned match_count;

    constexpr int W = T / 32;
    constexpr unsigned ALL = 0xffffffffu;
    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int b = blockIdx.x;
    const float nan = __uint_as_float(0x7fffffffu); // also stands for an absent key
    const float inf = __uint_as_float(0x7f800000u);

    // read; warps of different blocks start at different places
    float f[K];
    const int tt = (t + 32 * b) & (T - 1);
    if constexpr (K % 4 == 0) {
#pragma unroll
        for (int j = 0; j < K / 4; ++j) {
            const int v = tt + j * T;
            const int base = v * 4;
            if (FULL || base + 3 < n) {
                float4 q = __ldcg(reinterpret_cast<const float4*>(data) + v);
                f[4 * j] = q.x;
                f[4 * j + 1] = q.y;
                f[4 * j + 2] = q.z;
                f[4 * j + 3] = q.w;
            } else {
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    f[4 * j + c] = base + c < n ? __ldcg(data + base + c) : nan;
            }
        }
    } else {
#pragma unroll
        for (int j = 0; j < K; ++j) {
            const int i = tt + j * T;
            f[j] = (FULL || i < n) ? __ldcg(data + i) : nan;
        }
    }

    // meanwhile prepare shared memory
    float4* list4 = reinterpret_cast<float4*>(list);
    if constexpr (K % 4 == 0) {
#pragma unroll
        for (int j = 0; j < K / 4; ++j)
            list4[t + j * T] = make_float4(inf, inf, inf, inf);
    } else {
#pragma unroll
        for (int j = 0; j < K; ++j)
            list[t + j * T] = inf;
    }
    taken[t] = 0;
    if (t == 0)
        match_count = 0;

    // range of the finite values of a sample, the same one in all blocks: it only sets the limits
    constexpr int EVERY = K % 4 == 0 ? (K >= 8 ? 4 : 2) : 1;
    float mn = inf, mx = -inf;
#pragma unroll
    for (int j = 0; j < K; j += EVERY) {
        if (fabsf(f[j]) < inf) { // false for absent ones as well
            mn = fminf(mn, f[j]);
            mx = fmaxf(mx, f[j]);
        }
    }
    unsigned kmin = __reduce_min_sync(ALL, encode(mn));
    unsigned kmax = __reduce_max_sync(ALL, encode(mx));
    // the arrival must not pass any of the reads: use them all before the barrier
#pragma unroll
    for (int j = 0; j < K; ++j)
        asm volatile("" : "+f"(f[j])::"memory");
    if (lane == 0) {
        smin[warp] = kmin;
        smax[warp] = kmax;
    }
    __syncthreads();

    // this block has read everything
    if constexpr (CLUSTER) {
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    } else {
        if (t == T - 32) {
            size_t p = __cvta_generic_to_global(&arrivals);
            asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(p), "r"(2u * (unsigned)B - 1u)
                         : "memory");
        }
    }

    kmin = __reduce_min_sync(ALL, (W == 32 || lane < W) ? smin[lane] : 0xffffffffu);
    kmax = __reduce_max_sync(ALL, (W == 32 || lane < W) ? smax[lane] : 0u);
    mn = decode(kmin);
    mx = decode(kmax);
    if (!(mn <= mx)) { // nothing finite
        mn = 0.0f;
        mx = 0.0f;
    }
    // quarters, so that nothing overflows; every step is rounded alike in all blocks and keeps the order
    const float low = __fmul_rn(mn, 0.25f);
    const float step = __fmul_rn(__fsub_rn(__fmul_rn(mx, 0.25f), low), 1.0f / (float)B);
    float from = __fmul_rn(__fmaf_rn(step, (float)b, low), 4.0f);
    float to = __fmul_rn(__fmaf_rn(step, (float)(b + 1), low), 4.0f);
    if (b == 0)
        from = -inf;
    if (b == B - 1)
        to = nan; // nothing reaches it

    unsigned lower = 0, mask = 0;
#pragma unroll
    for (int j = 0; j < K; ++j) {
        const bool below = f[j] < from;
        bool match = !below && !(f[j] >= to);
        if (!FULL)
            match = match && f[j] == f[j];
        lower += below ? 1u : 0u;
        if (match)
            mask |= 1u << j;
    }
    lower = __reduce_add_sync(ALL, lower);
    if (lane == 0)
        slow[warp] = lower;
    if (mask) {
        unsigned p = atomicAdd(&match_count, (unsigned)__popc(mask));
#pragma unroll
        for (int j = 0; j < K; ++j)
            if (mask >> j & 1u)
                list[p++] = f[j];
    }
    __syncthreads();

    const int m = (int)match_count;
    lower = __reduce_add_sync(ALL, (W == 32 || lane < W) ? slow[lane] : 0u);

    // rank among the block's own keys; equal keys may come in any order
    float mine = 0.0f;
    unsigned place = 0;
    bool writer = false;
    if (m <= T) {
        int shift = 5;
        while (shift > 0 && (m << shift) > T)
            --shift;
        const int g = 1 << shift;
        const int i = t >> shift;
        const int sub = t & (g - 1);
        unsigned count = 0;
        if (i < m) {
            mine = list[i];
            for (int v = sub; v * 4 < m; v += g) {
                const float4 q = list4[v];
                count += q.x < mine;
                count += q.y < mine;
                count += q.z < mine;
                count += q.w < mine;
            }
        }
        __syncwarp();
        for (int o = g >> 1; o > 0; o >>= 1)
            count += __shfl_xor_sync(ALL, count, o);
        writer = i < m && sub == 0;
        if (writer)
            place = lower + count + atomicAdd(&taken[count], 1u);
    }

    // wait until all blocks have read
    if constexpr (CLUSTER) {
        __syncwarp();
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    } else {
        if (t == T - 32) {
            size_t p = __cvta_generic_to_global(&arrivals);
            unsigned seen;
            do {
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(p) : "memory");
            } while (seen < (unsigned)B);
            // the last of the 2 B increments wraps to 0
            asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;" ::"l"(p), "r"(2u * (unsigned)B - 1u)
                         : "memory");
        }
        __syncthreads();
    }

    if (m <= T) {
        if (writer)
            data[place] = mine;
    } else {
        for (int i = t; i < m; i += T) {
            const float key = list[i];
            unsigned count = 0;
            for (int v = 0; v * 4 < m; ++v) {
                const float4 q = list4[v];
                const int j = 4 * v;
                count += q.x < key || (q.x == key && j < i);
                count += q.y < key || (q.y == key && j + 1 < i);
                count += q.z < key || (q.z == key && j + 2 < i);
                count += q.w < key || (q.w == key && j + 3 < i);
            }
            data[lower + count] = key;
        }
    }
}

template <int T, int K, bool FULL>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T) rank_cluster(float* data, int n)
{
    rank_body<T, K, 8, true, FULL>(data, n);
}

template <int T, int K, bool FULL>
__global__ void __launch_bounds__(T) rank_grid(float* data, int n)
{
    rank_body<T, K, 128, false, FULL>(data, n);
}

// ---- larger vectors: a bitonic network whose exchanges all ascend ----

constexpr int TILE = 4096;
constexpr int TILE_THREADS = 512;

__device__ __forceinline__ void tile_step(float* s, unsigned distance, bool mirrored)
{
    for (unsigned pair = threadIdx.x; pair < TILE / 2; pair += TILE_THREADS) {
        const unsigned below = pair & (distance - 1);
        const unsigned low = (pair - below) * 2 + below;
        const unsigned high = mirrored ? low + 2 * (distance - below) - 1 : low + distance;
        const float left = s[low];
        const float right = s[high];
        if (left > right) {
            s[low] = right;
            s[high] = left;
        }
    }
    __syncthreads();
}

template <bool ALL_STEPS>
__global__ void __launch_bounds__(TILE_THREADS) tile_kernel(float* data, unsigned n)
{
    __shared__ float s[TILE];
    const unsigned start = blockIdx.x * (unsigned)TILE;
    for (unsigned i = threadIdx.x; i < TILE; i += TILE_THREADS)
        s[i] = start + i < n ? data[start + i] : __uint_as_float(0x7f800000u);
    __syncthreads();
    if (ALL_STEPS) {
        for (unsigned half = 1; half < TILE; half *= 2)
            for (unsigned distance = half; distance > 0; distance /= 2)
                tile_step(s, distance, distance == half);
    } else {
        for (unsigned distance = TILE / 2; distance > 0; distance /= 2)
            tile_step(s, distance, false);
    }
    for (unsigned i = threadIdx.x; i < TILE; i += TILE_THREADS)
        if (start + i < n)
            data[start + i] = s[i];
}

__global__ void __launch_bounds__(256) global_step(float* data, unsigned n, unsigned distance, bool mirrored)
{
    const unsigned pair = blockIdx.x * 256u + threadIdx.x;
    const unsigned below = pair & (distance - 1);
    const unsigned low = (pair - below) * 2 + below;
    const unsigned high = mirrored ? low + 2 * (distance - below) - 1 : low + distance;
    if (low < n && high < n) {
        const float left = data[low];
        const float right = data[high];
        if (left > right) {
            data[low] = right;
            data[high] = left;
        }
    }
}

static void solve(float* data, int n)
{
    if (n == 512) {
        rank_cluster<512, 1, true><<<8, 512>>>(data, n);
    } else if (n < 512) {
        rank_cluster<512, 1, false><<<8, 512>>>(data, n);
    } else if (n == 4096) {
        rank_grid<1024, 4, true><<<128, 1024>>>(data, n);
    } else if (n < 4096) {
        rank_grid<1024, 4, false><<<128, 1024>>>(data, n);
    } else if (n == 8192) {
        rank_grid<1024, 8, true><<<128, 1024>>>(data, n);
    } else if (n < 8192) {
        rank_grid<1024, 8, false><<<128, 1024>>>(data, n);
    } else {
        const unsigned size = (unsigned)n;
        const unsigned tiles = (size - 1) / TILE + 1;
        tile_kernel<true><<<tiles, TILE_THREADS>>>(data, size);
        for (unsigned half = TILE; half < size; half *= 2) {
            for (unsigned distance = half; distance >= TILE; distance /= 2) {
                const unsigned pairs = (size / (2 * distance) + 1) * distance;
                global_step<<<(pairs + 255) / 256, 256>>>(data, size, distance, distance == half);
            }
            tile_kernel<false><<<tiles, TILE_THREADS>>>(data, size);
        }
    }
}
}  // namespace large_sizes

extern "C" void solve(float* data, int n)
{
    if (n <= 1)
        return;
    if (n > 512 && n < 2896) {
        ::small_sizes::solve(data, n);
    } else {
        ::large_sizes::solve(data, n);
    }
}
