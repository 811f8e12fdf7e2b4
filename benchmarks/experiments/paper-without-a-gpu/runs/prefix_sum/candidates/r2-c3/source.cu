// Radix-4 shuffles, all loads first, every warp polls its inbox.

#include <cuda_runtime.h>

typedef unsigned long long u64;

constexpr int MAX_TILES = 128;        // of the one-hop kernel; 132 SMs hold them all at once

// Word [reader][writer]: sum of the writer's tile with its flag, for one reader alone.
// The reader puts zero back, so each call leaves all of them zero.
__device__ u64 g_slots[MAX_TILES * MAX_TILES];

__device__ __forceinline__ u64 load_word(const u64* p)
{
    u64 w;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(w) : "l"(p) : "memory");
    return w;
}

__device__ __forceinline__ void store_word(u64* p, u64 w)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(w) : "memory");
}

__device__ __forceinline__ u64 pack(float value, unsigned flag)
{
    return ((u64)flag << 32) | (u64)__float_as_uint(value);
}

__device__ __forceinline__ float value_of(u64 w) { return __uint_as_float((unsigned)w); }

__device__ __forceinline__ float4 load4(const float* __restrict__ in, long long i, long long n)
{
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (i + 3 < n) {
        v = *reinterpret_cast<const float4*>(in + i);
    } else {
        if (i < n) v.x = in[i];
        if (i + 1 < n) v.y = in[i + 1];
        if (i + 2 < n) v.z = in[i + 2];
    }
    return v;
}

__device__ __forceinline__ void store4(float* __restrict__ out, long long i, long long n, float b, float4 v)
{
    v.x += b; v.y += b; v.z += b; v.w += b;
    if (i + 3 < n) {
        *reinterpret_cast<float4*>(out + i) = v;
    } else {
        if (i < n) out[i] = v.x;
        if (i + 1 < n) out[i + 1] = v.y;
        if (i + 2 < n) out[i + 2] = v.z;
    }
}

__device__ __forceinline__ void store_full(float* __restrict__ out, int i, float b, float4 v)
{
    v.x += b; v.y += b; v.z += b; v.w += b;
    *reinterpret_cast<float4*>(out + i) = v;
}

// inclusive over the four elements of a thread
__device__ __forceinline__ void scan4(float4& v)
{
    const float zw = v.z + v.w;
    v.y += v.x;
    v.w = v.y + zw;
    v.z += v.y;
}

// Three rounds instead of five: the shuffles of a round do not wait for each other.
__device__ __forceinline__ float scan_round(float x, int lane, int d)
{
    float a = __shfl_up_sync(0xffffffffu, x, d);
    float b = __shfl_up_sync(0xffffffffu, x, 2 * d);
    float c = __shfl_up_sync(0xffffffffu, x, 3 * d);
    a = lane >= d ? a : 0.f;
    b = lane >= 2 * d ? b : 0.f;
    c = lane >= 3 * d ? c : 0.f;
    return (x + a) + (b + c);
}

__device__ __forceinline__ float sum_round(float x, int d)
{
    const float a = __shfl_xor_sync(0xffffffffu, x, d);
    const float b = __shfl_xor_sync(0xffffffffu, x, 2 * d);
    const float c = __shfl_xor_sync(0xffffffffu, x, 3 * d);
    return (x + a) + (b + c);
}

__device__ __forceinline__ float warp_inclusive(float x, int lane)
{
    x = scan_round(x, lane, 1);
    x = scan_round(x, lane, 4);
    const float y = __shfl_up_sync(0xffffffffu, x, 16);
    return x + (lane >= 16 ? y : 0.f);
}

__device__ __forceinline__ float warp_sum(float x)
{
    x = sum_round(x, 1);
    x = sum_round(x, 4);
    return x + __shfl_xor_sync(0xffffffffu, x, 16);
}

template <int W>
__device__ __forceinline__ float tree(const float (&a)[W])
{
    float s[W];
#pragma unroll
    for (int k = 0; k < W; k++) s[k] = a[k];
#pragma unroll
    for (int d = W / 2; d > 0; d >>= 1) {
#pragma unroll
        for (int k = 0; k < d; k++) s[k] += s[k + d];
    }
    return s[0];
}

template <int W>
__device__ __forceinline__ void read_all(float (&a)[W], const float* s)
{
    const float4* s4 = reinterpret_cast<const float4*>(s);
#pragma unroll
    for (int k = 0; k < W / 4; k++) {
        const float4 q = s4[k];
        a[4 * k] = q.x; a[4 * k + 1] = q.y; a[4 * k + 2] = q.z; a[4 * k + 3] = q.w;
    }
}

template <int W>
__device__ __forceinline__ float sum_before(const float (&a)[W], int warp)
{
    float m[W];
#pragma unroll
    for (int k = 0; k < W; k++) m[k] = (k < warp) ? a[k] : 0.f;
    return tree<W>(m);
}

// One tile of 1,024 with K whole tiles before it, which the block adds up itself.
template <int K>
__device__ __forceinline__ void small_tile(const float* __restrict__ in, float* __restrict__ out, int n,
                                           float* sums, float* befores)
{
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int i = K * 1024 + t * 4;
    const bool full = (K + 1) * 1024 <= n;

    float4 v;
    float4 q[K + 1];
    if (full) {
        // no branch between these loads
        const float4* __restrict__ p = reinterpret_cast<const float4*>(in) + t;
        v = __ldg(p + K * 256);
#pragma unroll
        for (int k = 0; k < K; k++) q[k] = __ldg(p + k * 256);
    } else {
        const float4* __restrict__ p = reinterpret_cast<const float4*>(in) + t;
#pragma unroll
        for (int k = 0; k < K; k++) q[k] = __ldg(p + k * 256);
        v = load4(in, i, n);
    }

    scan4(v);
    float inc = v.w;
    if (K == 0) {
        inc = warp_inclusive(inc, lane);
        if (lane == 31) sums[warp] = inc;
    } else {
        float before = 0.f;
#pragma unroll
        for (int k = 0; k < K; k++) before += (q[k].x + q[k].y) + (q[k].z + q[k].w);
        // both at once
        inc = scan_round(inc, lane, 1);
        before = sum_round(before, 1);
        inc = scan_round(inc, lane, 4);
        before = sum_round(before, 4);
        const float y = __shfl_up_sync(0xffffffffu, inc, 16);
        before += __shfl_xor_sync(0xffffffffu, before, 16);
        inc += lane >= 16 ? y : 0.f;
        if (lane == 31) {
            sums[warp] = inc;
            befores[warp] = before;
        }
    }
    float ex = __shfl_up_sync(0xffffffffu, inc, 1);
    if (lane == 0) ex = 0.f;
    __syncthreads();

    float a[8];
    read_all<8>(a, sums);
    float base = sum_before<8>(a, warp) + ex;
    if (K > 0) {
        float b[8];
        read_all<8>(b, befores);
        base += tree<8>(b);
    }
    if (full) {
        store_full(out, i, base, v);
    } else {
        store4(out, i, n, base, v);
    }
}

// Up to 4 tiles of 1,024: each block adds up what lies before its tile.
__global__ void __launch_bounds__(256)
scan_small(const float* __restrict__ in, float* __restrict__ out, int n)
{
    __shared__ __align__(16) float sums[8];
    __shared__ __align__(16) float befores[8];
    switch (blockIdx.x) {
    case 0: small_tile<0>(in, out, n, sums, befores); break;
    case 1: small_tile<1>(in, out, n, sums, befores); break;
    case 2: small_tile<2>(in, out, n, sums, befores); break;
    default: small_tile<3>(in, out, n, sums, befores); break;
    }
}

// Up to 32 * NW tiles of 4 * T: all blocks are resident; look-back takes one hop.
template <int T, int NW>
__global__ void __launch_bounds__(T)
scan_mid(const float* __restrict__ in, float* __restrict__ out, int n)
{
    constexpr int W = T / 32;
    __shared__ __align__(16) float sums[W];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int tile = blockIdx.x;
    const int tiles = gridDim.x;
    const int i = tile * (4 * T) + t * 4;
    const bool full = (tile + 1) * (4 * T) <= n;

    float4 v;
    if (full) {
        v = __ldg(reinterpret_cast<const float4*>(in + i));
    } else {
        v = load4(in, i, n);
    }

    // A first look at the inbox, while the data are on their way, brings it into L2.
    u64* const row = &g_slots[tile * MAX_TILES];
    u64 w[NW];
#pragma unroll
    for (int j = 0; j < NW; j++) {
        w[j] = (u64)1u << 32;              // nothing to wait for: zero, there
        if (lane + 32 * j < tile) w[j] = load_word(row + lane + 32 * j);
    }

    scan4(v);
    const float inc = warp_inclusive(v.w, lane);
    if (lane == 31) sums[warp] = inc;
    __syncthreads();

    float a[W];
    read_all<W>(a, sums);
    const float total = tree<W>(a);

    // publish to every later tile
    if (t > tile && t < tiles) store_word(&g_slots[t * MAX_TILES + tile], pack(total, 1u));

    float ex = __shfl_up_sync(0xffffffffu, inc, 1);
    if (lane == 0) ex = 0.f;
    ex += sum_before<W>(a, warp);

    // Every warp looks at all earlier tiles, so that no barrier follows.
    float base = ex;
    if (tile > 0) {
        while (true) {
            bool ready = true;
#pragma unroll
            for (int j = 0; j < NW; j++) {
                if ((unsigned)(w[j] >> 32) == 0u) {
                    w[j] = load_word(row + lane + 32 * j);
                    ready = false;
                }
            }
            if (ready) break;
        }
        __syncwarp();
        float p = value_of(w[0]);
#pragma unroll
        for (int j = 1; j < NW; j++) p += value_of(w[j]);
        base += warp_sum(p);
    }

    if (full) {
        store_full(out, i, base, v);
    } else {
        store4(out, i, n, base, v);
    }

    // All warps have read their words: put zero back.
    __syncthreads();
    if (t < tile) store_word(row + t, 0ULL);
}

// Any size: tiles of 4,096 handed out by a counter, flags 1 = sum, 2 = inclusive prefix.
constexpr int LT = 256;
constexpr int ROWS = 4;
constexpr int LTILE = LT * 4 * ROWS;

// words[0] is the counter, words[1 + k] the state of tile k
__global__ void __launch_bounds__(256) clear_words(u64* words, int count)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < count) words[i] = 0ULL;
}

__global__ void __launch_bounds__(LT)
scan_large(const float* __restrict__ in, float* __restrict__ out, int n, u64* words)
{
    __shared__ __align__(16) float sums[LT / 32];
    __shared__ int s_tile;
    __shared__ float s_before;
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;

    if (t == 0) s_tile = (int)atomicAdd(words, 1ULL);
    __syncthreads();
    const int tile = s_tile;
    u64* state = words + 1;
    const long long i = (long long)tile * LTILE + warp * (128 * ROWS) + lane * 4;

    float4 v[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) v[r] = load4(in, i + r * 128, n);

    float inc[ROWS], ex[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        scan4(v[r]);
        inc[r] = warp_inclusive(v[r].w, lane);
    }
    float rows = 0.f;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float e = __shfl_up_sync(0xffffffffu, inc[r], 1);
        if (lane == 0) e = 0.f;
        ex[r] = rows + e;
        rows += __shfl_sync(0xffffffffu, inc[r], 31);
    }
    if (lane == 0) sums[warp] = rows;
    __syncthreads();

    float a[LT / 32];
    read_all<LT / 32>(a, sums);

    if (warp == 0) {
        const float total = tree<LT / 32>(a);
        float before = 0.f;
        if (tile == 0) {
            if (lane == 0) store_word(&state[0], pack(total, 2u));
        } else {
            if (lane == 0) store_word(&state[tile], pack(total, 1u));
            int k = tile - 1 - lane;
            while (true) {
                u64 w = (u64)2u << 32;                 // before the first tile: prefix 0
                if (k >= 0) {
                    w = load_word(&state[k]);
                    while ((w >> 32) == 0) w = load_word(&state[k]);
                }
                __syncwarp();
                const unsigned done = __ballot_sync(0xffffffffu, (unsigned)(w >> 32) == 2u);
                const int last = done ? __ffs(done) - 1 : 31;
                before += warp_sum(lane <= last ? value_of(w) : 0.f);
                if (done) break;
                k -= 32;
            }
            if (lane == 0) store_word(&state[tile], pack(before + total, 2u));
        }
        if (lane == 0) s_before = before;
    }
    const float mine = sum_before<LT / 32>(a, warp);
    __syncthreads();

    const float base = s_before + mine;
#pragma unroll
    for (int r = 0; r < ROWS; r++) store4(out, i + r * 128, n, base + ex[r], v[r]);
}

extern "C" void solve(const float* input, float* output, int n)
{
    if (n <= 0) return;
    if (n <= 4096) {
        scan_small<<<(n + 1023) / 1024, 256>>>(input, output, n);
    } else if (n <= 32 * 1024) {
        scan_mid<256, 1><<<(n + 1023) / 1024, 256>>>(input, output, n);
    } else if (n <= 64 * 1024) {
        scan_mid<256, 2><<<(n + 1023) / 1024, 256>>>(input, output, n);
    } else if (n <= MAX_TILES * 1024) {
        scan_mid<256, 4><<<(n + 1023) / 1024, 256>>>(input, output, n);
    } else if (n <= MAX_TILES * 2048) {
        scan_mid<512, 4><<<(n + 2047) / 2048, 512>>>(input, output, n);
    } else {
        const int tiles = (n - 1) / LTILE + 1;
        const int count = tiles + 1;
        u64* words = nullptr;
        cudaMallocAsync((void**)&words, (size_t)count * sizeof(u64), 0);
        clear_words<<<(count + 255) / 256, 256>>>(words, count);
        scan_large<<<tiles, LT>>>(input, output, n, words);
        cudaFreeAsync(words, 0);
    }
}
