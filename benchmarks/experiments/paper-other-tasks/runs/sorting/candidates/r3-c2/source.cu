// Cluster value slices; fixed-capacity buckets sorted in registers by owners.

#include <cuda_runtime.h>

namespace {

constexpr unsigned ALL = 0xffffffffu;

// Unsigned integers in the order of the floats, for the integer reductions.
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

__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ unsigned warp_inclusive(unsigned v, int lane)
{
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
        unsigned w = __shfl_up_sync(ALL, v, o);
        if (lane >= o)
            v += w;
    }
    return v;
}

// The same for v < 16, without a chain of shuffles.
__device__ __forceinline__ unsigned warp_inclusive_small(unsigned v, int lane)
{
    const unsigned upto = 0xffffffffu >> (31 - lane);
    const unsigned b0 = __ballot_sync(ALL, (v & 1u) != 0u);
    const unsigned b1 = __ballot_sync(ALL, (v & 2u) != 0u);
    const unsigned b2 = __ballot_sync(ALL, (v & 4u) != 0u);
    const unsigned b3 = __ballot_sync(ALL, (v & 8u) != 0u);
    return (unsigned)__popc(b0 & upto) + 2u * (unsigned)__popc(b1 & upto)
         + 4u * (unsigned)__popc(b2 & upto) + 8u * (unsigned)__popc(b3 & upto);
}

// Block b owns the keys f with f >= lower and not f >= upper: every key has one owner, since the limits
// never descend with b. Below the first limit is nothing; the last one is a NaN, which nothing reaches,
// so infinity is the last block's. An absent key is a NaN and belongs to nobody.
struct Limits {
    float lower, upper, from, step;
};

template <int B>
__device__ __forceinline__ Limits limits_of(float mn, float mx, int b)
{
    constexpr float part = 1.0f / (float)B;
    Limits l;
    l.step = __fsub_rn(__fmul_rn(mx, part), __fmul_rn(mn, part)); // never overflows
    l.lower = b == 0 ? __uint_as_float(0xff800000u) : __fmaf_rn(l.step, (float)b, mn);
    l.upper = b == B - 1 ? __uint_as_float(0x7fffffffu) : __fmaf_rn(l.step, (float)(b + 1), mn);
    l.from = b == 0 ? mn : l.lower;
    return l;
}

// Monotone map of a block's own values to 0 .. ND - 1, whatever comes of scale: a NaN becomes 0.
template <int ND>
__device__ __forceinline__ unsigned digit_of(float x, float from, float scale)
{
    float v = __fmaf_rn(__fsub_rn(x, from), scale, 8388608.0f);
    v = fminf(fmaxf(v, 8388608.0f), 8388608.0f + (float)(ND - 1));
    return __float_as_uint(v) - 0x4b000000u;
}

template <int K>
__device__ __forceinline__ float pick(const float (&f)[K], int j)
{
    const bool j0 = (j & 1) != 0, j1 = (j & 2) != 0;
    float a = j0 ? f[1] : f[0];
    float b = j0 ? f[3] : f[2];
    a = j1 ? b : a;
    if (K > 4) {
        float c = j0 ? f[5 % K] : f[4 % K];
        float d = j0 ? f[7 % K] : f[6 % K];
        c = j1 ? d : c;
        a = (j & 4) != 0 ? c : a;
    }
    return a;
}

__device__ __forceinline__ void exchange(float& a, float& b)
{
    const float low = fminf(a, b);
    b = fmaxf(a, b);
    a = low;
}

// Every block of the cluster reads all keys; it counts those below its slice and puts those in it into buckets
// of room for CAP. Thread t sorts bucket t and writes it when all blocks have read.
template <int B, int T, int K, int CAP>
__global__ void __launch_bounds__(T) sort_cluster(float* data, int n)
{
    static_assert(CAP < 16 && CAP >= K, "the small scan counts to 15; keys has room for every key");
    constexpr int W = T / 32;
    __shared__ float keys[CAP * T]; // place i of bucket d: i * T + d
    __shared__ unsigned cnt[T];
    __shared__ unsigned smin[32], smax[32], slow[32], ssum[32];
    __shared__ unsigned all_own;

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int b = blockIdx.x; // the grid is the cluster
    const float absent = __uint_as_float(0x7fffffffu);
    const float inf = __uint_as_float(0x7f800000u);

    float f[K];
#pragma unroll
    for (int j = 0; j < K / 4; ++j) {
        const int v = t + j * T;
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
    cnt[t] = 0;

    // range of the finite values
    float mn = inf, mx = -inf;
#pragma unroll
    for (int j = 0; j < K; ++j) {
        if (fabsf(f[j]) < inf) { // false for absent ones as well
            mn = fminf(mn, f[j]);
            mx = fmaxf(mx, f[j]);
        }
    }
    unsigned kmin = __reduce_min_sync(ALL, to_key(mn));
    unsigned kmax = __reduce_max_sync(ALL, to_key(mx));
    if (lane == 0) {
        smin[warp] = kmin;
        smax[warp] = kmax;
    }
    __syncthreads();
    cluster_arrive(); // this block has read everything

    kmin = __reduce_min_sync(ALL, lane < W ? smin[lane] : 0xffffffffu);
    kmax = __reduce_max_sync(ALL, lane < W ? smax[lane] : 0u);
    const Limits l = limits_of<B>(from_key(kmin), from_key(kmax), b);
    const float scale = __fdividef((float)T, l.step);

    unsigned lower = 0;
    unsigned own = 0; // bit j: key j is in the slice
#pragma unroll
    for (int j = 0; j < K; ++j) {
        lower += f[j] < l.lower ? 1u : 0u;
        if (f[j] >= l.lower && !(f[j] >= l.upper))
            own |= 1u << j;
    }
    lower = __reduce_add_sync(ALL, lower);
    if (lane == 0)
        slow[warp] = lower;

    // each lane goes from one of its own keys to the next: few rounds
    unsigned left = own;
    while (left != 0u) {
        const int j = __ffs((int)left) - 1;
        left &= left - 1u;
        const float x = pick<K>(f, j);
        const unsigned d = digit_of<T>(x, l.from, scale);
        const unsigned at = atomicAdd(&cnt[d], 1u);
        if (at < (unsigned)CAP)
            keys[at * T + d] = x;
    }
    __syncthreads();

    // thread t owns bucket t
    const unsigned c = cnt[t];
    const unsigned inc = warp_inclusive_small(c, lane); // not used where some c is more than CAP
    if (lane == 31)
        ssum[warp] = inc;
    float r0 = inf, r1 = inf, r2 = inf, r3 = inf;
    if (c > 0u)
        r0 = keys[t];
    if (c > 1u)
        r1 = keys[T + t];
    if (c > 2u)
        r2 = keys[2 * T + t];
    if (c > 3u)
        r3 = keys[3 * T + t];
    exchange(r0, r1);
    exchange(r2, r3);
    exchange(r0, r2);
    exchange(r1, r3);
    exchange(r1, r2);
    __syncwarp();
    lower = __reduce_add_sync(ALL, lane < W ? slow[lane] : 0u);
    const int overflow = __syncthreads_or(c > (unsigned)CAP ? 1 : 0);
    const unsigned before = __reduce_add_sync(ALL, (lane < W && lane < warp) ? ssum[lane] : 0u);

    __syncwarp();
    cluster_wait(); // all blocks have read

    if (!overflow) {
        float* to = data + (lower + before + inc - c);
        if (c <= 4u) {
            if (c > 0u)
                to[0] = r0;
            if (c > 1u)
                to[1] = r1;
            if (c > 2u)
                to[2] = r2;
            if (c > 3u)
                to[3] = r3;
        } else {
            for (unsigned i = 0; i < c; ++i) {
                const float key = keys[i * T + t];
                unsigned place = 0;
                for (unsigned j = 0; j < c; ++j) {
                    const float other = keys[j * T + t];
                    place += (other < key || (other == key && j < i)) ? 1u : 0u;
                }
                to[place] = key;
            }
        }
        return;
    }

    // Some bucket is too small: buckets of the lengths that they need, one behind the other.
    __syncthreads();
    const unsigned whole = warp_inclusive(c, lane);
    if (lane == 31)
        ssum[warp] = whole;
    __syncthreads();
    const unsigned ahead = __reduce_add_sync(ALL, (lane < W && lane < warp) ? ssum[lane] : 0u);
    cnt[t] = ahead + whole - c;
    if (t == T - 1)
        all_own = ahead + whole;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < K; ++j) {
        if (own >> j & 1u) {
            const unsigned d = digit_of<T>(f[j], l.from, scale);
            keys[atomicAdd(&cnt[d], 1u)] = f[j];
        }
    }
    __syncthreads();
    // cnt[d] is the end of bucket d now
    const unsigned m = all_own;
    for (unsigned p = t; p < m; p += T) {
        const float key = keys[p];
        const unsigned d = digit_of<T>(key, l.from, scale);
        const unsigned begin = d > 0u ? cnt[d - 1u] : 0u;
        const unsigned end = cnt[d];
        unsigned place = begin;
        for (unsigned j = begin; j < end; ++j) {
            const float other = keys[j];
            place += (other < key || (other == key && j < p)) ? 1u : 0u;
        }
        data[lower + place] = key;
    }
}

// At most 512 keys: one a thread, ranked against those of the same slice.
constexpr int RANK_B = 8;

__global__ void __cluster_dims__(RANK_B, 1, 1) __launch_bounds__(512) rank_cluster(float* data, int n)
{
    constexpr int T = 512;
    constexpr int W = T / 32;
    __shared__ __align__(16) unsigned list[T];
    __shared__ unsigned taken[T];
    __shared__ unsigned smin[32], smax[32], slow[32];
    __shared__ unsigned match_count;

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int b = blockIdx.x;
    const float inf = __uint_as_float(0x7f800000u);

    const float f = t < n ? __ldcg(data + t) : __uint_as_float(0x7fffffffu);
    list[t] = 0xffffffffu;
    taken[t] = 0;
    if (t == 0)
        match_count = 0;

    float mn = inf, mx = -inf;
    if (fabsf(f) < inf) {
        mn = f;
        mx = f;
    }
    unsigned kmin = __reduce_min_sync(ALL, to_key(mn));
    unsigned kmax = __reduce_max_sync(ALL, to_key(mx));
    if (lane == 0) {
        smin[warp] = kmin;
        smax[warp] = kmax;
    }
    __syncthreads();
    cluster_arrive(); // this block has read everything

    kmin = __reduce_min_sync(ALL, lane < W ? smin[lane] : 0xffffffffu);
    kmax = __reduce_max_sync(ALL, lane < W ? smax[lane] : 0u);
    const Limits l = limits_of<RANK_B>(from_key(kmin), from_key(kmax), b);

    unsigned lower = __popc(__ballot_sync(ALL, f < l.lower));
    if (lane == 0)
        slow[warp] = lower;
    const bool match = f >= l.lower && !(f >= l.upper);
    const unsigned matches = __ballot_sync(ALL, match);
    unsigned at = 0;
    if (lane == 0 && matches != 0)
        at = atomicAdd(&match_count, (unsigned)__popc(matches));
    at = __shfl_sync(ALL, at, 0);
    if (match)
        list[at + __popc(matches & ((1u << lane) - 1u))] = to_key(f);
    __syncthreads();

    const int m = (int)match_count;
    lower = __reduce_add_sync(ALL, lane < W ? slow[lane] : 0u);

    // equal keys are the same bits, so any order of them will do
    const uint4* list4 = reinterpret_cast<const uint4*>(list);
    unsigned mine = 0, place = 0;
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
            const uint4 q = list4[v];
            count += q.x < mine;
            count += q.y < mine;
            count += q.z < mine;
            count += q.w < mine;
        }
    }
    __syncwarp();
    for (int o = g >> 1; o > 0; o >>= 1)
        count += __shfl_xor_sync(ALL, count, o);
    const bool writer = i < m && sub == 0;
    if (writer)
        place = lower + count + atomicAdd(&taken[count], 1u);

    __syncwarp();
    cluster_wait(); // all blocks have read
    if (writer)
        data[place] = from_key(mine);
}

// ---- larger vectors: a bitonic network whose exchanges all ascend ----

constexpr unsigned TILE = 4096;
constexpr unsigned TILE_THREADS = 512;

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
    const unsigned start = blockIdx.x * TILE;
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

template <int B, int T, int K, int CAP>
bool launch_sort(float* data, int n)
{
    if (B > 8) {
        static const cudaError_t once = cudaFuncSetAttribute(
            sort_cluster<B, T, K, CAP>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
        if (once != cudaSuccess) {
            cudaGetLastError();
            return false;
        }
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(B);
    config.blockDim = dim3(T);
    config.dynamicSmemBytes = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = B;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    if (cudaLaunchKernelEx(&config, sort_cluster<B, T, K, CAP>, data, n) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return true;
}

} // namespace

extern "C" void solve(float* data, int n)
{
    if (n <= 1)
        return;
    if (n <= 512) {
        rank_cluster<<<RANK_B, 512>>>(data, n);
    } else if (n <= 1024) {
        launch_sort<8, 256, 4, 12>(data, n);
    } else if (n <= 2048) {
        launch_sort<8, 512, 4, 12>(data, n);
    } else if (n <= 4096) {
        launch_sort<8, 512, 8, 12>(data, n);
    } else if (n <= 8192) {
        if (!launch_sort<16, 1024, 8, 10>(data, n))
            launch_sort<8, 1024, 8, 10>(data, n);
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
