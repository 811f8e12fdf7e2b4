// Cluster of eight value slices, small sub-buckets ranked, one barrier.
#include <cuda_runtime.h>

#define ALL 0xffffffffu

// Unsigned integers in the order of the floats, only for the reduction of the range.
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

// Limit number b of the slices, the same rounded expression in all blocks, monotone in b.
__device__ __forceinline__ float limit_of(float step, float mnq, int b)
{
    return __fmul_rn(4.0f, __fmaf_rn(step, (float)b, mnq));
}

// Eight blocks of a cluster, each reads all keys (at most T*K). Block b owns the keys in
// (limit(b), limit(b+1)], counts those below, and spreads its own over S sub-buckets of
// 32 slots by a monotone function. Groups of 16 lanes rank a sub-bucket each.
// V > 0: every warp estimates the range from a sample of 128*V keys; V = 0: the block does.
template <int T, int K, int V>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T, 1)
slice_sort(float* data, int n, int q)
{
    constexpr int W = T / 32;
    constexpr int R = (K == 8) ? 4 : 2; // sub-buckets a warp
    constexpr int S = R * W;
    constexpr int CAP = 32;
    constexpr int STRIDE = 36;
    constexpr int P = S / 32; // counters a lane
    constexpr unsigned NONE = 0xffffffffu;
    constexpr unsigned INF = 0x7f800000u;

    __shared__ __align__(16) unsigned pool[S * (STRIDE + CAP)]; // slots, then numbers of equals
    __shared__ __align__(16) unsigned cnt[S];
    __shared__ unsigned smin[32], smax[32], slow[32];
    __shared__ unsigned fill;
    static_assert(S * (STRIDE + CAP) >= T * K, "the fallback keeps all keys there");

    unsigned* taken = pool + S * STRIDE;

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int b = blockIdx.x;
    const float absent = __uint_as_float(0x7fffffffu);
    const float inf = __uint_as_float(INF);

    float f[K];
    if constexpr (K % 4 == 0) {
#pragma unroll
        for (int j = 0; j < K / 4; ++j) {
            const int v = t + j * T;
            const int base = v * 4;
            if (base + 3 < n) {
                const float4 a = reinterpret_cast<const float4*>(data)[v];
                f[4 * j] = a.x;
                f[4 * j + 1] = a.y;
                f[4 * j + 2] = a.z;
                f[4 * j + 3] = a.w;
            } else {
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    f[4 * j + c] = base + c < n ? data[base + c] : absent;
            }
        }
    } else {
#pragma unroll
        for (int j = 0; j < K; ++j) {
            const int i = t + j * T;
            f[j] = i < n ? data[i] : absent;
        }
    }

    float g[V > 0 ? 4 * V : 1];
    g[0] = absent;
    if constexpr (V > 0) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const int base = ((lane >> 3) + 4 * v) * q + (lane & 7) * 4;
            if (base + 3 < n) {
                const float4 a = *reinterpret_cast<const float4*>(data + base);
                g[4 * v] = a.x;
                g[4 * v + 1] = a.y;
                g[4 * v + 2] = a.z;
                g[4 * v + 3] = a.w;
            } else {
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    g[4 * v + c] = base + c < n ? data[base + c] : absent;
            }
        }
    }

    // meanwhile prepare shared memory
    {
        uint4* p4 = reinterpret_cast<uint4*>(pool);
        const uint4 far = make_uint4(INF, INF, INF, INF);
        const uint4 zero = make_uint4(0u, 0u, 0u, 0u);
        for (int v = t; v < S * STRIDE / 4; v += T)
            p4[v] = far;
        for (int v = t; v < S * CAP / 4; v += T)
            p4[S * STRIDE / 4 + v] = zero;
        if (t < S)
            cnt[t] = 0u;
        if (t == 0)
            fill = 0u;
    }

    // range, of a sample
    float mn = inf, mx = -inf;
    unsigned kmin, kmax;
    if constexpr (V > 0) {
        __syncthreads();
#pragma unroll
        for (int c = 0; c < 4 * V; ++c) {
            mn = fminf(mn, g[c]);
            mx = fmaxf(mx, g[c]);
        }
        kmin = __reduce_min_sync(ALL, to_key(mn));
        kmax = __reduce_max_sync(ALL, to_key(mx));
    } else {
#pragma unroll
        for (int j = 0; j < K; ++j) {
            if (K == 8 && (j % 4 == 1 || j % 4 == 2))
                continue; // half of the keys will do
            mn = fminf(mn, f[j]);
            mx = fmaxf(mx, f[j]);
        }
        kmin = __reduce_min_sync(ALL, to_key(mn));
        kmax = __reduce_max_sync(ALL, to_key(mx));
        if (lane == 0) {
            smin[warp] = kmin;
            smax[warp] = kmax;
        }
        __syncthreads();
    }

    // this thread has read everything it needs; the wait stands before the writes
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");

    if constexpr (V == 0) {
        kmin = __reduce_min_sync(ALL, lane < W ? smin[lane] : 0xffffffffu);
        kmax = __reduce_max_sync(ALL, lane < W ? smax[lane] : 0u);
    }
    mn = from_key(kmin);
    mx = from_key(kmax);
    const float mnq = __fmul_rn(mn, 0.25f);
    const float range = __fsub_rn(__fmul_rn(mx, 0.25f), mnq);
    const float step = (range > 0.0f && range < inf) ? __fmul_rn(range, 0.125f) : 0.0f;
    // below: f <= lo (never for block 0); mine: f <= hi and not below; absent keys are NaN: neither
    const float lo = b == 0 ? absent : limit_of(step, mnq, b);
    const float hi = b == 7 ? inf : limit_of(step, mnq, b + 1);
    const float nlq = -__fmaf_rn(step, (float)b, mnq);
    const float sub_scale = __fdividef((float)S, step);

    unsigned lower = 0;
    unsigned slot[K], pos[K];
#pragma unroll
    for (int j = 0; j < K; ++j) {
        const bool under = f[j] <= lo;
        const bool mine = f[j] <= hi && !under;
        lower += under ? 1u : 0u;
        slot[j] = 0;
        pos[j] = NONE;
        if (mine) {
            const float x = __fmul_rn(__fmaf_rn(f[j], 0.25f, nlq), sub_scale);
            const unsigned s = min(__float2uint_rz(x), (unsigned)(S - 1)); // NaN, negative: 0
            slot[j] = s * STRIDE;
            pos[j] = atomicAdd(&cnt[s], 1u);
        }
    }
    lower = __reduce_add_sync(ALL, lower);
    if (lane == 0)
        slow[warp] = lower;
#pragma unroll
    for (int j = 0; j < K; ++j) {
        if (pos[j] < (unsigned)CAP)
            pool[slot[j] + pos[j]] = __float_as_uint(f[j]);
    }
    __syncthreads();

    unsigned csum = 0;
    bool over = false;
#pragma unroll
    for (int p = 0; p < P; ++p) {
        const unsigned c = cnt[lane * P + p];
        csum += c;
        over = over || c > (unsigned)CAP;
    }
    const unsigned below = lane < W ? slow[lane] : 0u;
    const bool crowded = __any_sync(ALL, over); // the same for the whole block

    if (!crowded) {
        unsigned at = __reduce_add_sync(ALL, below + (lane * P < R * warp ? csum : 0u));
        const int half = lane >> 4;
        const int li = lane & 15;
        unsigned place[R];
        float value[R];
#pragma unroll
        for (int r = 0; r < R / 2; ++r) {
            const int s0 = R * warp + 2 * r;
            const unsigned c0 = cnt[s0];
            const unsigned c1 = cnt[s0 + 1];
            const int s = s0 + half;
            const int c = (int)(half ? c1 : c0);
            const unsigned offset = at + (half ? c0 : 0u);
            at += c0 + c1;
            const uint4* bucket = reinterpret_cast<const uint4*>(pool + s * STRIDE);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int i = li + 16 * h;
                place[2 * r + h] = NONE;
                value[2 * r + h] = 0.0f;
                if (i < c) {
                    const float key = __uint_as_float(pool[s * STRIDE + i]);
                    unsigned count = 0;
                    for (int v = 0; v * 4 < c; ++v) {
                        const uint4 a = bucket[v]; // empty slots hold infinity
                        count += __uint_as_float(a.x) < key ? 1u : 0u;
                        count += __uint_as_float(a.y) < key ? 1u : 0u;
                        count += __uint_as_float(a.z) < key ? 1u : 0u;
                        count += __uint_as_float(a.w) < key ? 1u : 0u;
                    }
                    value[2 * r + h] = key;
                    // equal keys: in any order
                    place[2 * r + h] = offset + count + atomicAdd(&taken[s * CAP + (int)count], 1u);
                }
            }
        }
        __syncwarp();
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#pragma unroll
        for (int r = 0; r < R; ++r) {
            if (place[r] != NONE)
                data[place[r]] = value[r];
        }
    } else {
        // a crowded sub-bucket: all keys of the slice in one list, each ranked against all
        const unsigned start = __reduce_add_sync(ALL, below);
#pragma unroll
        for (int j = 0; j < K; ++j) {
            if (pos[j] != NONE) {
                const unsigned p = atomicAdd(&fill, 1u);
                pool[p] = __float_as_uint(f[j]);
            }
        }
        __syncthreads();
        const int m = (int)fill;
        __syncwarp();
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        for (int i = t; i < m; i += T) {
            const float key = __uint_as_float(pool[i]);
            unsigned count = 0;
#pragma unroll 4
            for (int j = 0; j < m; ++j) {
                const float other = __uint_as_float(pool[j]);
                count += (other < key || (other == key && j < i)) ? 1u : 0u;
            }
            data[start + count] = key;
        }
    }
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

// Distance of the pieces of 32 keys that the sample is made of.
static int spread(int n, int pieces)
{
    return n >= 32 ? (n / 32 - 1) / (pieces - 1) * 32 : 0;
}

extern "C" void solve(float* data, int n)
{
    if (n <= 1)
        return;
    if (n <= 512) {
        slice_sort<512, 1, 1><<<8, 512>>>(data, n, spread(n, 4));
    } else if (n <= 1024) {
        slice_sort<512, 2, 2><<<8, 512>>>(data, n, spread(n, 8));
    } else if (n <= 2048) {
        slice_sort<1024, 2, 0><<<8, 1024>>>(data, n, 0);
    } else if (n <= 4096) {
        slice_sort<1024, 4, 0><<<8, 1024>>>(data, n, 0);
    } else if (n <= 8192) {
        slice_sort<1024, 8, 0><<<8, 1024>>>(data, n, 0);
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
