// Many-block rank sort, keys prefiltered per block, overlapped barrier

#include <cuda_runtime.h>

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

// Every block reads all keys. Block b owns the keys of one slice of the value range (a monotone function
// of the value), knows how many keys lie in lower slices, and ranks its own ones against each other.
// The others may write only when all have read: arrive after reading, wait before writing.
template <int T, int K, bool CLUSTER>
__device__ __forceinline__ void rank_body(float* data, int n)
{
    __shared__ __align__(16) unsigned list[T * K];
    __shared__ unsigned taken[T];
    __shared__ unsigned smin[32], smax[32], slow[32];
    __shared__ unsigned match_count;

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
    if constexpr (K % 4 == 0) {
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
    } else {
#pragma unroll
        for (int j = 0; j < K; ++j) {
            const int i = tt + j * T;
            f[j] = i < n ? __ldcg(data + i) : absent;
        }
    }

    // meanwhile prepare shared memory
    uint4* list4 = reinterpret_cast<uint4*>(list);
    const int vectors = (n + 3) / 4;
    for (int v = t; v < vectors; v += T)
        list4[v] = make_uint4(0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu);
    taken[t] = 0;
    if (t == 0)
        match_count = 0;

    // range of the finite values
    float mn = inf, mx = -inf;
#pragma unroll
    for (int j = 0; j < K; ++j) {
        if (fabsf(f[j]) < inf) { // false for absent ones as well
            mn = fminf(mn, f[j]);
            mx = fmaxf(mx, f[j]);
        }
    }
    unsigned kmin = __reduce_min_sync(0xffffffffu, to_key(mn));
    unsigned kmax = __reduce_max_sync(0xffffffffu, to_key(mx));
    // an infinity also depends on having been read; keep the reads before the arrival
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

    kmin = __reduce_min_sync(0xffffffffu, lane < T / 32 ? smin[lane] : 0xffffffffu);
    kmax = __reduce_max_sync(0xffffffffu, lane < T / 32 ? smax[lane] : 0u);
    mn = from_key(kmin);
    mx = from_key(kmax);
    const float mnq = mn * 0.25f;
    const float range = mx * 0.25f - mnq;
    const float scale = range > 1e-30f ? (float)B / range : 0.0f;

    unsigned lower = 0, matches = 0, mask = 0;
#pragma unroll
    for (int j = 0; j < K; ++j) {
        const float c = fminf(fmaxf(f[j], mn), mx);
        const float x = __fmul_rn(__fsub_rn(__fmul_rn(c, 0.25f), mnq), scale);
        int s = __float2int_rz(x); // NaN gives 0
        s = s < 0 ? 0 : (s > B - 1 ? B - 1 : s);
        if (scale == 0.0f)
            s = 0;
        const bool valid = f[j] == f[j];
        if (valid && s < b)
            ++lower;
        if (valid && s == b) {
            ++matches;
            mask |= 1u << j;
        }
    }
    lower = __reduce_add_sync(0xffffffffu, lower);
    if (lane == 0)
        slow[warp] = lower;
    if (matches) {
        unsigned p = atomicAdd(&match_count, matches);
#pragma unroll
        for (int j = 0; j < K; ++j)
            if (mask >> j & 1u)
                list[p++] = to_key(f[j]);
    }
    __syncthreads();

    const int m = (int)match_count;
    lower = __reduce_add_sync(0xffffffffu, lane < T / 32 ? slow[lane] : 0u);

    // rank among the block's own keys; equal keys are the same bits, so any order of them will do
    unsigned mine = 0, place = 0;
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
                const uint4 q = list4[v];
                count += q.x < mine;
                count += q.y < mine;
                count += q.z < mine;
                count += q.w < mine;
            }
        }
        __syncwarp();
        for (int o = g >> 1; o > 0; o >>= 1)
            count += __shfl_xor_sync(0xffffffffu, count, o);
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
            data[place] = from_key(mine);
    } else {
        for (int i = t; i < m; i += T) {
            const unsigned key = list[i];
            unsigned count = 0;
            for (int v = 0; v * 4 < m; ++v) {
                const uint4 q = list4[v];
                const int j = 4 * v;
                count += q.x < key + (j < i ? 1u : 0u);
                count += q.y < key + (j + 1 < i ? 1u : 0u);
                count += q.z < key + (j + 2 < i ? 1u : 0u);
                count += q.w < key + (j + 3 < i ? 1u : 0u);
            }
            data[lower + count] = from_key(key);
        }
    }
}

template <int T, int K>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T) rank_cluster(float* data, int n)
{
    rank_body<T, K, true>(data, n);
}

template <int T, int K>
__global__ void __launch_bounds__(T) rank_grid(float* data, int n)
{
    rank_body<T, K, false>(data, n);
}

// ---- larger vectors: a bitonic network whose exchanges all ascend ----

#define TILE 4096
#define TILE_THREADS 512

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

extern "C" void solve(float* data, int n)
{
    if (n <= 1)
        return;
    if (n <= 512) {
        rank_cluster<512, 1><<<8, 512>>>(data, n);
    } else if (n <= 1024) {
        rank_cluster<512, 2><<<8, 512>>>(data, n);
    } else if (n <= 2048) {
        rank_grid<512, 4><<<64, 512>>>(data, n);
    } else if (n <= 4096) {
        rank_grid<1024, 4><<<128, 1024>>>(data, n);
    } else if (n <= 8192) {
        rank_grid<1024, 8><<<128, 1024>>>(data, n);
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
