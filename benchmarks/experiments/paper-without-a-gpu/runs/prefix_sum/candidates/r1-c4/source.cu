// Chained tiles: publish totals, gather all predecessors at once

#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

typedef unsigned long long u64;

// A slot a tile: low word the sum, high word its tag, 2 * epoch, + 1 if the sum
// includes all tiles before. Tags of earlier calls never equal those of this one.
static constexpr unsigned MAX_TILES = 1u << 18;
__device__ u64 g_slot[MAX_TILES];
__device__ unsigned g_epoch = 0u;
__device__ unsigned g_ticket = 0u;      // zero between calls

__device__ __forceinline__ u64 load_slot(const u64* p)
{
    u64 w;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(w) : "l"(p) : "memory");
    return w;
}

__device__ __forceinline__ void store_slot(u64* p, unsigned tag, float value)
{
    u64 w = ((u64)tag << 32) | (u64)__float_as_uint(value);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(w) : "memory");
}

__device__ __forceinline__ unsigned load_word(const unsigned* p)
{
    unsigned w;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(w) : "l"(p) : "memory");
    return w;
}

__device__ __forceinline__ void store_word(unsigned* p, unsigned w)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(w) : "memory");
}

__device__ __forceinline__ float warp_sum(float s)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        s += __shfl_xor_sync(0xffffffffu, s, o);
    }
    return s;
}

// A warp owns R rows of 128 numbers, a lane four neighbours of each.
template <int R>
__device__ __forceinline__ void load_rows(const float* __restrict__ input, unsigned n, unsigned first, float4 (&v)[R])
{
#pragma unroll
    for (int r = 0; r < R; r++) {
        const unsigned i = first + r * 128u;
        v[r] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i + 3u < n) {
            v[r] = __ldg(reinterpret_cast<const float4*>(input + i));
        } else if (i < n) {
            v[r].x = __ldg(input + i);
            if (i + 1u < n) v[r].y = __ldg(input + i + 1u);
            if (i + 2u < n) v[r].z = __ldg(input + i + 2u);
        }
    }
}

template <int R>
__device__ __forceinline__ void store_rows(float* __restrict__ output, unsigned n, unsigned first,
                                           const float4 (&v)[R], const float (&add)[R], float base)
{
#pragma unroll
    for (int r = 0; r < R; r++) {
        const unsigned i = first + r * 128u;
        const float c = base + add[r];
        const float4 o = make_float4(v[r].x + c, v[r].y + c, v[r].z + c, v[r].w + c);
        if (i + 3u < n) {
            *reinterpret_cast<float4*>(output + i) = o;
        } else if (i < n) {
            output[i] = o.x;
            if (i + 1u < n) output[i + 1u] = o.y;
            if (i + 2u < n) output[i + 2u] = o.z;
        }
    }
}

// v: prefix sums within each four. s: inclusive sums of the lanes of each row.
template <int R>
__device__ __forceinline__ void scan_lanes(float4 (&v)[R], float (&s)[R], int lane)
{
#pragma unroll
    for (int r = 0; r < R; r++) {
        const float xy = v[r].x + v[r].y;
        const float zw = v[r].z + v[r].w;
        v[r].y = xy;
        v[r].z = xy + v[r].z;
        v[r].w = xy + zw;
        s[r] = v[r].w;
    }
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
#pragma unroll
        for (int r = 0; r < R; r++) {
            const float t = __shfl_up_sync(0xffffffffu, s[r], o);
            if (lane >= o) {
                s[r] += t;
            }
        }
    }
}

// add: what comes before this lane in its warp. Gives the warp's total.
template <int R>
__device__ __forceinline__ float offsets(const float (&s)[R], float (&add)[R], int lane)
{
    float carry = 0.0f;
#pragma unroll
    for (int r = 0; r < R; r++) {
        float before = __shfl_up_sync(0xffffffffu, s[r], 1);
        if (lane == 0) {
            before = 0.0f;
        }
        const float total = __shfl_sync(0xffffffffu, s[r], 31);
        add[r] = carry + before;
        carry += total;
    }
    return carry;
}

template <int R>
__device__ __forceinline__ float sum_of(const float (&s)[R])
{
    float t = s[0];
#pragma unroll
    for (int r = 1; r < R; r++) {
        t += s[r];
    }
    return t;
}

// Totals of W warps: those before this warp, and all.
template <int W>
__device__ __forceinline__ float before_and_all(const float* tot, int warp, float& all)
{
    float pre = 0.0f;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < W; k++) {
        const float t = tot[k];
        pre += k < warp ? t : 0.0f;
        sum += t;
    }
    all = sum;
    return pre;
}

// One block: n <= T * 4 * R.
template <int T, int R>
__global__ void __launch_bounds__(T)
scan_block(const float* __restrict__ input, float* __restrict__ output, int n)
{
    constexpr int W = T / 32;
    __shared__ __align__(16) float tot[W];
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const unsigned first = warp * (128u * R) + lane * 4u;
    float4 v[R];
    float s[R], add[R];
    load_rows<R>(input, (unsigned)n, first, v);
    scan_lanes<R>(v, s, lane);
    if (lane == 31) {
        tot[warp] = sum_of<R>(s);
    }
    offsets<R>(s, add, lane);
    __syncthreads();
    float all;
    const float base = before_and_all<W>(tot, warp, all);
    store_rows<R>(output, (unsigned)n, first, v, add, base);
}

// One cluster of 8 blocks of 128 threads: n <= 16,384.
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(128)
scan_cluster(const float* __restrict__ input, float* __restrict__ output, int n)
{
    constexpr int R = 4;
    __shared__ __align__(16) float slots[32];     // totals of the cluster's warps

    // Tells that this block has started; waited for once the data are here.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int rank = blockIdx.x;                  // the grid is one cluster
    const int me = rank * 4 + warp;
    const unsigned first = me * (128u * R) + lane * 4u;
    float4 v[R];
    float s[R], add[R];
    load_rows<R>(input, (unsigned)n, first, v);
    scan_lanes<R>(v, s, lane);
    const float total = offsets<R>(s, add, lane);

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (lane < 8 && lane >= rank) {
        float* remote = cg::this_cluster().map_shared_rank(slots, lane);
        remote[me] = total;
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

    float b0 = 0.0f, b1 = 0.0f, b2 = 0.0f, b3 = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        if (k <= rank) {
            const float4 q = reinterpret_cast<const float4*>(slots)[k];
            b0 += 4 * k + 0 < me ? q.x : 0.0f;
            b1 += 4 * k + 1 < me ? q.y : 0.0f;
            b2 += 4 * k + 2 < me ? q.z : 0.0f;
            b3 += 4 * k + 3 < me ? q.w : 0.0f;
        }
    }
    store_rows<R>(output, (unsigned)n, first, v, add, (b0 + b1) + (b2 + b3));
}

// At most 128 tiles of 512 * R, all resident together: a tile's number is its block's.
// Each thread fetches the total of one tile before.
template <int R>
__global__ void __launch_bounds__(128)
scan_chain(const float* __restrict__ input, float* __restrict__ output, int n)
{
    __shared__ __align__(16) float tot[4];
    __shared__ __align__(16) float pre[4];
    __shared__ unsigned s_epoch;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int tile = blockIdx.x;

    u64 w = 0;
    if (tid < tile) {
        w = load_slot(g_slot + tid);              // first look, brings the line nearer
    }
    unsigned epoch = 0;
    if (tid == 0) {
        epoch = load_word(&g_epoch);
    }
    const unsigned first = (unsigned)tile * (512u * R) + warp * (128u * R) + lane * 4u;
    float4 v[R];
    float s[R], add[R];
    load_rows<R>(input, (unsigned)n, first, v);
    if (tid == 0) {
        s_epoch = (epoch + 1u) & 0x7fffffffu;
    }
    scan_lanes<R>(v, s, lane);
    if (lane == 31) {
        tot[warp] = sum_of<R>(s);
    }
    __syncthreads();
    const unsigned e = s_epoch;
    float all;
    float base = before_and_all<4>(tot, warp, all);
    if (tid == 0 && tile + 1 < (int)gridDim.x) {
        store_slot(g_slot + tile, 2u * e, all);
    }
    offsets<R>(s, add, lane);

    float p = 0.0f;
    if (tid < tile) {
        while ((unsigned)(w >> 32) != 2u * e) {
            w = load_slot(g_slot + tid);
        }
        p = __uint_as_float((unsigned)w);
    }
    __syncwarp();
    if (warp * 32 < tile) {
        p = warp_sum(p);
    }
    if (lane == 0) {
        pre[warp] = p;
    }
    __syncthreads();
    base += (pre[0] + pre[1]) + (pre[2] + pre[3]);
    store_rows<R>(output, (unsigned)n, first, v, add, base);
    if (tid == 0 && tile + 1 == (int)gridDim.x) {
        store_word(&g_epoch, e);                  // all tiles before have read it
    }
}

// Any n: tiles of 8,192 in the order in which blocks start, looking back 32 tiles at a time.
__global__ void __launch_bounds__(512)
scan_long(const float* __restrict__ input, float* __restrict__ output, int n)
{
    constexpr int R = 4;
    constexpr int W = 16;
    __shared__ __align__(16) float tot[W];
    __shared__ float s_pre;
    __shared__ unsigned s_tile, s_epoch;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;

    if (tid == 0) {
        s_epoch = (load_word(&g_epoch) + 1u) & 0x7fffffffu;
        const unsigned t = atomicAdd(&g_ticket, 1u);
        s_tile = t;
        if (t == gridDim.x - 1u) {
            store_word(&g_ticket, 0u);            // all are taken
        }
    }
    __syncthreads();
    const int tile = (int)s_tile;
    const unsigned e = s_epoch;

    const unsigned first = (unsigned)tile * (512u * 4u * R) + warp * (128u * R) + lane * 4u;
    float4 v[R];
    float s[R], add[R];
    load_rows<R>(input, (unsigned)n, first, v);
    scan_lanes<R>(v, s, lane);
    if (lane == 31) {
        tot[warp] = sum_of<R>(s);
    }
    offsets<R>(s, add, lane);
    __syncthreads();
    float all;
    float base = before_and_all<W>(tot, warp, all);

    if (warp == 0) {
        if (lane == 0) {
            store_slot(g_slot + tile, 2u * e, all);
        }
        float prefix = 0.0f;
        int last = tile - 1;
        while (true) {
            const int j = last - lane;
            float x = 0.0f;
            bool whole = true;
            if (j >= 0) {
                u64 w = load_slot(g_slot + j);
                while ((unsigned)(w >> 33) != e) {
                    w = load_slot(g_slot + j);
                }
                whole = ((unsigned)(w >> 32) & 1u) != 0u;
                x = __uint_as_float((unsigned)w);
            }
            __syncwarp();
            const unsigned m = __ballot_sync(0xffffffffu, whole);
            const int stop = m != 0u ? __ffs((int)m) - 1 : 31;
            if (lane > stop) {
                x = 0.0f;
            }
            prefix += warp_sum(x);
            if (m != 0u) {
                break;
            }
            last -= 32;
        }
        if (lane == 0) {
            store_slot(g_slot + tile, 2u * e + 1u, prefix + all);
            s_pre = prefix;
            if (tile + 1 == (int)gridDim.x) {
                store_word(&g_epoch, e);          // all tiles before have read it
            }
        }
    }
    __syncthreads();
    base += s_pre;
    store_rows<R>(output, (unsigned)n, first, v, add, base);
}

extern "C" void solve(const float* input, float* output, int n)
{
    if (n <= 1024) {
        scan_block<128, 2><<<1, 128>>>(input, output, n);
    } else if (n <= 4096) {
        scan_block<256, 4><<<1, 256>>>(input, output, n);
    } else if (n <= 16384) {
        scan_cluster<<<8, 128>>>(input, output, n);
    } else if (n <= 131072) {
        scan_chain<2><<<(n + 1023) / 1024, 128>>>(input, output, n);
    } else if (n <= 262144) {
        scan_chain<4><<<(n + 2047) / 2048, 128>>>(input, output, n);
    } else {
        const unsigned tiles = ((unsigned)n + 8191u) / 8192u;
        scan_long<<<tiles, 512>>>(input, output, n);
    }
}
