// Bucket ranks and slice ranks with warp-uniform loops, votes, writes.
#include <cuda_runtime.h>

namespace small_sizes {

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

constexpr int PAD = 40; // words behind the keys that the rank loops may read

template <int T, int I>
struct Shape {
    static constexpr int N = T * I;
    static constexpr int REGION = (N + 4 > 2 * T) ? N + 4 : 2 * T; // words, multiple of 4
    static constexpr int BYTES = (REGION + N + PAD) * 4;
};

template <int T, int I>
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
        f[k] = (i < n) ? data[i] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < I; ++k)
        cnt[t + k * T] = 0;
    if (t < PAD)
        keys[n + t] = 0xffffffffu; // n <= N

    unsigned u[I];
    unsigned lo = 0xffffffffu, hi = 0;
#pragma unroll
    for (int k = 0; k < I; ++k) {
        int i = t + k * T;
        u[k] = 0xffffffffu; // behind every number, infinity too
        if (i < n) {
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
    lo = __reduce_min_sync(ALL, lane < W ? s_lo[lane] : 0xffffffffu);
    hi = __reduce_max_sync(ALL, lane < W ? s_hi[lane] : 0u);
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
        if (t + k * T < n) {
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
    unsigned before = __reduce_add_sync(ALL, (lane < W && lane < warp) ? s_sum[lane] : 0u);
    most = __reduce_max_sync(ALL, lane < W ? s_max[lane] : 0u);

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
            if (t + k * T < n)
                keys[cnt[d[k]] + r[k]] = u[k];
        }
        __syncthreads();
        // Rank within the bucket, by position, so that writes stay almost coalesced. All lanes of a warp take
        // as many steps as its largest bucket has keys: what lies behind a bucket is larger and never counts.
        unsigned key[I], begin[I], place[I];
        unsigned longest = 0;
#pragma unroll
        for (int k = 0; k < I; ++k) {
            unsigned p = t + k * T;
            key[k] = 0;
            begin[k] = 0;
            if (p < (unsigned)n) {
                key[k] = keys[p];
                unsigned b = digit_of<N>(decode(key[k]), low, scale);
                begin[k] = cnt[b];
                longest = max(longest, cnt[b + 1] - begin[k]);
            }
            place[k] = begin[k];
        }
        longest = __reduce_max_sync(ALL, longest);
        if (longest > 1) {
            for (unsigned j = 0; j < longest; j += 2) {
#pragma unroll
                for (int k = 0; k < I; ++k) {
                    unsigned p = t + k * T;
                    unsigned q = begin[k] + j;
                    unsigned first = keys[q];
                    unsigned second = keys[q + 1];
                    place[k] += (first < key[k] || (first == key[k] && q < p)) ? 1u : 0u;
                    place[k] += (second < key[k] || (second == key[k] && q + 1 < p)) ? 1u : 0u;
                }
            }
        }
#pragma unroll
        for (int k = 0; k < I; ++k) {
            if (t + k * T < n)
                data[place[k]] = decode(key[k]);
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

template <int T, int I>
static void launch(float* data, int n)
{
    constexpr int bytes = Shape<T, I>::BYTES;
    static_assert(bytes <= 46 * 1024, "fits without asking");
    sort_block<T, I><<<1, T, bytes>>>(data, n);
}

// n <= 4,096
static void solve(float* data, int n)
{
    if (n <= 1)
        return;
    if (n <= 512) {
        launch<512, 1>(data, n);
    } else if (n <= 1024) {
        launch<1024, 1>(data, n);
    } else if (n <= 2048) {
        launch<1024, 2>(data, n);
    } else {
        launch<1024, 4>(data, n);
    }
}
}  // namespace small_sizes

namespace large_sizes {

__device__ unsigned arrivals; // 0 between calls: wraps by itself

__device__ __forceinline__ unsigned to_key(float f)
{
    unsigned u = __float_as_uint(f);
    return u ^ ((unsigned)((int)u >> 31) | 0x80000000u);
}

__device__ __forceinline__ float from_key(unsigned k)
{
    unsigned u = (k & 0x80000000u) ? (k ^ 0x80000000u) : ~k;
    return __uint_as_float(u);
}

// Every block reads all keys. Block b owns the keys from limit b to limit b + 1, knows how many keys lie below,
// and ranks its own ones against each other. The others may write only when all have read: arrive after reading,
// wait before writing. All blocks are resident. 2,048 < n <= T * K, K a multiple of 4.
template <int T, int K>
__global__ void __launch_bounds__(T) rank_grid(float* data, int n)
{
    constexpr unsigned ALL = 0xffffffffu;
    constexpr int W = T / 32;
    constexpr int WRITERS = 4;          // warps that wait and write
    constexpr int FILLED = T + 160;     // words of the list that are padded
    static_assert(FILLED <= T * K && FILLED / 4 <= T, "padding fits");

    __shared__ __align__(16) unsigned list[T * K];
    __shared__ unsigned taken[T];
    __shared__ unsigned sorted[T];
    __shared__ unsigned smin[32], smax[32], slow[32];
    __shared__ unsigned match_count, departed;

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int B = gridDim.x;
    const int b = blockIdx.x;
    const float absent = __uint_as_float(0x7fffffffu);
    const float inf = __uint_as_float(0x7f800000u);

    // read; warps of different blocks start at different places
    float f[K];
    const int tt = (t + 32 * b) & (T - 1);
#pragma unroll
    for (int j = 0; j < K / 4; ++j) {
        const int v = tt + j * T;
        const int base = v * 4;
        if (base + 3 < n) {
            float4 q = __ldcg(reinterpret_cast<const float4*>(data) + v);
            f[4 * j] = q.x;
            f[4 * j + 1] = q.y;
            f[4 * j + 2] = q.z;
            f[4 * j + 3] = q.w;
        } else {
#pragma unroll
            for (int c = 0; c < 4; ++c)
                f[4 * j + c] = base + c < n ? __ldcg(data + base + c) : absent;
        }
    }

    // meanwhile prepare shared memory
    uint4* list4 = reinterpret_cast<uint4*>(list);
    if (t < FILLED / 4)
        list4[t] = make_uint4(ALL, ALL, ALL, ALL);
    taken[t] = 0;
    if (t == 0) {
        match_count = 0;
        departed = 0;
    }

    // range of the values; absent ones are NaN and never win
    float mn = inf, mx = -inf;
#pragma unroll
    for (int j = 0; j < K; ++j) {
        mn = fminf(mn, f[j]);
        mx = fmaxf(mx, f[j]);
    }
    unsigned kmin = __reduce_min_sync(ALL, to_key(mn));
    unsigned kmax = __reduce_max_sync(ALL, to_key(mx));
    if (lane == 0) {
        smin[warp] = kmin;
        smax[warp] = kmax;
    }
    __syncthreads();

    // this block has read everything
    if (t == T - 32) {
        size_t p = __cvta_generic_to_global(&arrivals);
        asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(p), "r"(2u * (unsigned)B - 1u) : "memory");
    }

    kmin = __reduce_min_sync(ALL, lane < W ? smin[lane] : ALL);
    kmax = __reduce_max_sync(ALL, lane < W ? smax[lane] : 0u);
    mn = from_key(kmin);
    mx = from_key(kmax);
    if (mn == -inf || mx == inf) { // the same for all threads: the range of the finite values instead
        mn = inf;
        mx = -inf;
#pragma unroll
        for (int j = 0; j < K; ++j) {
            if (fabsf(f[j]) < inf) {
                mn = fminf(mn, f[j]);
                mx = fmaxf(mx, f[j]);
            }
        }
        kmin = __reduce_min_sync(ALL, to_key(mn));
        kmax = __reduce_max_sync(ALL, to_key(mx));
        __syncthreads();
        if (lane == 0) {
            smin[warp] = kmin;
            smax[warp] = kmax;
        }
        __syncthreads();
        kmin = __reduce_min_sync(ALL, lane < W ? smin[lane] : ALL);
        kmax = __reduce_max_sync(ALL, lane < W ? smax[lane] : 0u);
        mn = from_key(kmin);
        mx = from_key(kmax);
    }

    // The limits of a block, by the same rounded expression in its neighbours. A NaN as the upper one admits
    // everything: in the last block, and in the first one if no value is finite.
    const float mnq = __fmul_rn(mn, 0.25f);
    const float step = __fdiv_rn(__fsub_rn(__fmul_rn(mx, 0.25f), mnq), (float)B);
    const float from = b == 0 ? -inf : __fmul_rn(4.0f, __fmaf_rn(step, (float)b, mnq));
    const float to = b == B - 1 ? absent : __fmul_rn(4.0f, __fmaf_rn(step, (float)(b + 1), mnq));

    unsigned lower = 0, total = 0;
    unsigned votes[K];
#pragma unroll
    for (int j = 0; j < K; ++j) {
        if (f[j] < from)
            ++lower;
        votes[j] = __ballot_sync(ALL, f[j] >= from && !(f[j] >= to));
        total += __popc(votes[j]);
    }
    lower = __reduce_add_sync(ALL, lower);
    if (lane == 0)
        slow[warp] = lower;
    if (total != 0) { // the same for a warp, as are the branches in it
        unsigned at = 0;
        if (lane == 0)
            at = atomicAdd(&match_count, total);
        at = __shfl_sync(ALL, at, 0);
        const unsigned below = (1u << lane) - 1u;
#pragma unroll
        for (int j = 0; j < K; ++j) {
            if (votes[j] != 0) {
                if (votes[j] >> lane & 1u)
                    list[at + __popc(votes[j] & below)] = to_key(f[j]);
                at += __popc(votes[j]);
            }
        }
    }
    __syncthreads();

    const int m = (int)match_count;
    lower = __reduce_add_sync(ALL, lane < W ? slow[lane] : 0u);

    // rank among the block's own keys; equal keys are the same bits, so any order of them will do
    if (m <= T) {
        int shift = 5;
        while (shift > 0 && (m << shift) > T)
            --shift;
        if (((warp * 32) >> shift) < m) { // the same for a warp
            const int g = 1 << shift;
            const int i = t >> shift;
            const int rounds = (((m + 3) >> 2) + g - 1) >> shift;
            const unsigned mine = list[i];
            unsigned count = 0;
            int v = t & (g - 1);
            for (int k = 0; k < rounds; ++k, v += g) { // the padding is not below any key
                const uint4 q = list4[v];
                count += q.x < mine;
                count += q.y < mine;
                count += q.z < mine;
                count += q.w < mine;
            }
            for (int o = g >> 1; o > 0; o >>= 1)
                count += __shfl_xor_sync(ALL, count, o);
            if (i < m && (t & (g - 1)) == 0)
                sorted[count + atomicAdd(&taken[count], 1u)] = mine;
        }
    }
    __syncthreads();

    if (m <= T && warp >= WRITERS)
        return; // no barrier follows for m <= T

    // wait until all blocks have read, whole warps at once
    if (warp < WRITERS) {
        size_t p = __cvta_generic_to_global(&arrivals);
        unsigned seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(p) : "memory");
        } while (__any_sync(ALL, seen < (unsigned)B));
        // the last of the 2 B increments wraps to 0; a block's last waiting warp makes its one
        if (lane == 0 && atomicAdd(&departed, 1u) == WRITERS - 1) {
            asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;" ::"l"(p), "r"(2u * (unsigned)B - 1u)
                         : "memory");
        }
    }

    if (m <= T) {
        for (int i = t; i < m; i += WRITERS * 32)
            data[lower + i] = from_key(sorted[i]);
    } else {
        __syncthreads();
        for (int i = t; i < m; i += T) {
            const unsigned key = list[i];
            unsigned count = 0;
            for (int j = 0; j < m; ++j)
                count += list[j] < key + (j < i ? 1u : 0u);
            data[lower + count] = from_key(key);
        }
    }
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

template <bool FULL>
__global__ void __launch_bounds__(TILE_THREADS) tile_kernel(float* data, unsigned n)
{
    __shared__ float s[TILE];
    const unsigned start = blockIdx.x * (unsigned)TILE;
    for (unsigned i = threadIdx.x; i < TILE; i += TILE_THREADS)
        s[i] = start + i < n ? data[start + i] : __uint_as_float(0x7f800000u);
    __syncthreads();
    if (FULL) {
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
    if (n <= 4096) {
        rank_grid<512, 8><<<64, 512>>>(data, n);
    } else if (n <= 8192) {
        rank_grid<512, 16><<<64, 512>>>(data, n);
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
    if (n < 2896) {
        ::small_sizes::solve(data, n);
    } else {
        ::large_sizes::solve(data, n);
    }
}
