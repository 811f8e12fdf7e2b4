// One barrier: every warp gathers the pushed tile sums itself

#include <cuda_runtime.h>

typedef unsigned long long u64;

constexpr int MAX_TILES = 128;        // of the one-hop kernel; 132 SMs hold them all at once

// Word [reader][writer]: sum of the writer's tile with its flag, for one reader alone.
// The reader puts zero back, so each call leaves all of them zero.
__device__ u64 g_slots[MAX_TILES * MAX_TILES];

// The same for the kernel whose warps gather by themselves. Up to 16 tiles each warp has words
// of its own, [reader][warp][writer]; up to 64 tiles the warps of a block share them.
__device__ u64 g_own[16 * 8 * 16];
__device__ u64 g_few[64 * 64];

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

__device__ __forceinline__ float sum4(float4 q) { return (q.x + q.y) + (q.z + q.w); }

template <bool FULL>
__device__ __forceinline__ float4 load4(const float* __restrict__ in, long long i, long long n)
{
    if (FULL) return __ldg(reinterpret_cast<const float4*>(in + i));
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (i + 3 < n) {
        v = __ldg(reinterpret_cast<const float4*>(in + i));
    } else {
        if (i < n) v.x = __ldg(in + i);
        if (i + 1 < n) v.y = __ldg(in + i + 1);
        if (i + 2 < n) v.z = __ldg(in + i + 2);
    }
    return v;
}

template <bool FULL>
__device__ __forceinline__ void store4(float* __restrict__ out, long long i, long long n, float b, float4 v)
{
    v.x += b; v.y += b; v.z += b; v.w += b;
    if (FULL) {
        *reinterpret_cast<float4*>(out + i) = v;
    } else if (i + 3 < n) {
        *reinterpret_cast<float4*>(out + i) = v;
    } else {
        if (i < n) out[i] = v.x;
        if (i + 1 < n) out[i + 1] = v.y;
        if (i + 2 < n) out[i + 2] = v.z;
    }
}

// inclusive over the four elements of a thread
__device__ __forceinline__ void scan4(float4& v)
{
    const float zw = v.z + v.w;
    v.y += v.x;
    v.w = v.y + zw;
    v.z += v.y;
}

// Three rounds in place of five: each sends the values of three other lanes at once.
// ex: what lies before the lane; returns the sum up to and with it.
__device__ __forceinline__ float warp_scan(float x, int lane, float& ex)
{
    float a = __shfl_up_sync(0xffffffffu, x, 1);
    float b = __shfl_up_sync(0xffffffffu, x, 2);
    float c = __shfl_up_sync(0xffffffffu, x, 3);
    a = lane >= 1 ? a : 0.f;
    b = lane >= 2 ? b : 0.f;
    c = lane >= 3 ? c : 0.f;
    float e = a + (b + c);
    float s = x + e;
    a = __shfl_up_sync(0xffffffffu, s, 4);
    b = __shfl_up_sync(0xffffffffu, s, 8);
    c = __shfl_up_sync(0xffffffffu, s, 12);
    a = lane >= 4 ? a : 0.f;
    b = lane >= 8 ? b : 0.f;
    c = lane >= 12 ? c : 0.f;
    const float f = a + (b + c);
    s += f;
    e += f;
    a = __shfl_up_sync(0xffffffffu, s, 16);
    a = lane >= 16 ? a : 0.f;
    ex = e + a;
    return s + a;
}

// The same for ex and, interleaved, the warp's sum of y.
__device__ __forceinline__ float warp_scan_and_sum(float x, int lane, float& ex, float& y)
{
    float a = __shfl_up_sync(0xffffffffu, x, 1);
    float b = __shfl_up_sync(0xffffffffu, x, 2);
    float c = __shfl_up_sync(0xffffffffu, x, 3);
    float p = __shfl_xor_sync(0xffffffffu, y, 1);
    float q = __shfl_xor_sync(0xffffffffu, y, 2);
    float r = __shfl_xor_sync(0xffffffffu, y, 3);
    a = lane >= 1 ? a : 0.f;
    b = lane >= 2 ? b : 0.f;
    c = lane >= 3 ? c : 0.f;
    float e = a + (b + c);
    float s = x + e;
    y = (y + p) + (q + r);
    a = __shfl_up_sync(0xffffffffu, s, 4);
    b = __shfl_up_sync(0xffffffffu, s, 8);
    c = __shfl_up_sync(0xffffffffu, s, 12);
    p = __shfl_xor_sync(0xffffffffu, y, 4);
    q = __shfl_xor_sync(0xffffffffu, y, 8);
    r = __shfl_xor_sync(0xffffffffu, y, 12);
    a = lane >= 4 ? a : 0.f;
    b = lane >= 8 ? b : 0.f;
    c = lane >= 12 ? c : 0.f;
    const float f = a + (b + c);
    s += f;
    e += f;
    y = (y + p) + (q + r);
    a = __shfl_up_sync(0xffffffffu, s, 16);
    p = __shfl_xor_sync(0xffffffffu, y, 16);
    a = lane >= 16 ? a : 0.f;
    ex = e + a;
    y += p;
    return s + a;
}

__device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

// Sum of the W floats at s (a multiple of 4).
template <int W>
__device__ __forceinline__ float sum_all(const float* s)
{
    const float4* s4 = reinterpret_cast<const float4*>(s);
    float g[W / 4];
#pragma unroll
    for (int k = 0; k < W / 4; k++) g[k] = sum4(s4[k]);
#pragma unroll
    for (int d = W / 8; d > 0; d >>= 1) {
#pragma unroll
        for (int k = 0; k < d; k++) g[k] += g[k + d];
    }
    return g[0];
}

// Sum of the first `warp` of the W floats at s.
template <int W>
__device__ __forceinline__ float sum_before(const float* s, int warp)
{
    const float4* s4 = reinterpret_cast<const float4*>(s);
    const int group = warp >> 2, j = warp & 3;
    const float4 own = s4[group];
    float ex = (j > 0 ? own.x : 0.f) + ((j > 1 ? own.y : 0.f) + (j > 2 ? own.z : 0.f));
#pragma unroll
    for (int k = 0; k < W / 4 - 1; k++) {
        const float g = sum4(s4[k]);
        ex += (k < group) ? g : 0.f;
    }
    return ex;
}

// Up to 1,024 elements: one block.
template <bool FULL>
__global__ void __launch_bounds__(256)
scan_one(const float* __restrict__ in, float* __restrict__ out, int n)
{
    __shared__ __align__(16) float sums[8];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    float4 v = load4<FULL>(in, t * 4, n);
    scan4(v);
    float ex;
    const float inc = warp_scan(v.w, lane, ex);
    if (lane == 31) sums[warp] = inc;
    __syncthreads();
    store4<FULL>(out, t * 4, n, sum_before<8>(sums, warp) + ex, v);
}

// 2 to 4 tiles of 1,024: each block adds up what lies before its tile.
template <bool FULL>
__global__ void __launch_bounds__(256)
scan_small(const float* __restrict__ in, float* __restrict__ out, int n)
{
    __shared__ __align__(16) float sums[8];
    __shared__ __align__(16) float befores[8];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int tile = blockIdx.x;
    const int i = tile * 1024 + t * 4;

    // The first tile is whole (there are at least two), so the loads need no condition
    // and all are on their way at once; what does not count is dropped afterwards.
    const float4* in4 = reinterpret_cast<const float4*>(in);
    float4 q[3];
#pragma unroll
    for (int k = 0; k < 3; k++) q[k] = __ldg(in4 + (k < tile ? k * 256 : 0) + t);
    float4 v = load4<FULL>(in, i, n);

    scan4(v);
    float before = 0.f;
#pragma unroll
    for (int k = 0; k < 3; k++) {
        const float s = sum4(q[k]);
        before += (k < tile) ? s : 0.f;
    }

    float ex;
    const float inc = warp_scan_and_sum(v.w, lane, ex, before);
    if (lane == 31) {
        sums[warp] = inc;
        befores[warp] = before;
    }
    __syncthreads();

    const float base = sum_all<8>(befores) + (sum_before<8>(sums, warp) + ex);
    store4<FULL>(out, i, n, base, v);
}

// Up to 4 * G tiles of 1,024: all blocks are resident; look-back takes one hop, and each warp
// does it for itself: 4 words a lane at once, then log4(G) rounds of three shuffles at once.
// G = 4: words of its own for each warp. G = 16: words of the block, cleared after a last barrier.
template <int G, bool FULL>
__global__ void __launch_bounds__(256)
scan_hop(const float* __restrict__ in, float* __restrict__ out, int n)
{
    __shared__ __align__(16) float sums[8];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int tile = blockIdx.x;
    const int tiles = gridDim.x;
    const int i = tile * 1024 + t * 4;

    float4 v = load4<FULL>(in, i, n);
    scan4(v);
    float ex;
    const float inc = warp_scan(v.w, lane, ex);
    if (lane == 31) sums[warp] = inc;
    __syncthreads();

    // publish to every later tile
    if (G == 4) {
        const int reader = t >> 3;
        if (reader > tile && reader < tiles)
            store_word(&g_own[(reader * 8 + (t & 7)) * 16 + tile], pack(sum_all<8>(sums), 1u));
    } else {
        if (t > tile && t < tiles)
            store_word(&g_few[t * 64 + tile], pack(sum_all<8>(sums), 1u));
    }

    // look back over all earlier tiles: first all loads, then what has not come yet
    u64* const slot = (G == 4) ? &g_own[(tile * 8 + warp) * 16] : &g_few[tile * 64];
    const int k0 = lane & (G - 1);
    u64 w[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        w[j] = pack(0.f, 1u);
        if (k0 + j * G < tile) w[j] = load_word(slot + k0 + j * G);
    }
    ex += sum_before<8>(sums, warp);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        while ((w[j] >> 32) == 0) w[j] = load_word(slot + k0 + j * G);
    }
    float y = (value_of(w[0]) + value_of(w[1])) + (value_of(w[2]) + value_of(w[3]));
    __syncwarp();
#pragma unroll
    for (int d = 1; d < G; d *= 4) {
        const float p = __shfl_xor_sync(0xffffffffu, y, d);
        const float q = __shfl_xor_sync(0xffffffffu, y, 2 * d);
        const float r = __shfl_xor_sync(0xffffffffu, y, 3 * d);
        y = (y + p) + (q + r);
    }

    store4<FULL>(out, i, n, y + ex, v);

    // all that read these words have done so: put zero back
    if (G == 4) {
        __syncwarp();
        if (lane < tile) store_word(slot + lane, 0ULL);     // tile < 16
    } else {
        __syncthreads();
        if (t < tile) store_word(slot + t, 0ULL);           // tile < 64
    }
}

// Up to 32 * PW (at most 128) tiles of 4 * T: all blocks are resident; look-back takes one hop.
template <int T, int PW, bool FULL>
__global__ void __launch_bounds__(T)
scan_mid(const float* __restrict__ in, float* __restrict__ out, int n)
{
    constexpr int W = T / 32;
    __shared__ __align__(16) float sums[W];
    __shared__ __align__(16) float box[PW * 32];
    __shared__ __align__(16) float befores[PW * 4];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int tile = blockIdx.x;
    const int tiles = gridDim.x;
    const int i = tile * (4 * T) + t * 4;

    float4 v = load4<FULL>(in, i, n);
    scan4(v);
    float ex;
    const float inc = warp_scan(v.w, lane, ex);
    if (lane == 31) sums[warp] = inc;
    __syncthreads();

    // publish to every later tile
    if (t > tile && t < tiles) {
        const float total = sum_all<W>(sums);
        store_word(&g_slots[t * MAX_TILES + tile], pack(total, 1u));
    }

    ex += sum_before<W>(sums, warp);

    // look back over all earlier tiles
    if (t < PW * 32) {
        float p = 0.f;
        if (t < tile) {
            u64* slot = &g_slots[tile * MAX_TILES + t];
            u64 w = load_word(slot);
            while ((w >> 32) == 0) w = load_word(slot);
            p = value_of(w);
            store_word(slot, 0ULL);
        }
        __syncwarp();
        box[t] = p;
        __syncwarp();
        // 32 values become 4
        const float4* b4 = reinterpret_cast<const float4*>(box + warp * 32);
        const float4 x = b4[lane & 3];
        const float4 y = b4[(lane & 3) + 4];
        const float r = sum4(x) + sum4(y);
        if (lane < 4) befores[warp * 4 + lane] = r;
    }
    __syncthreads();

    store4<FULL>(out, i, n, sum_all<PW * 4>(befores) + ex, v);
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
    for (int r = 0; r < ROWS; r++) v[r] = load4<false>(in, i + r * 128, n);

    float inc[ROWS], ex[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        scan4(v[r]);
        inc[r] = warp_scan(v[r].w, lane, ex[r]);
    }
    float rows = 0.f;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        ex[r] += rows;
        rows += __shfl_sync(0xffffffffu, inc[r], 31);
    }
    if (lane == 0) sums[warp] = rows;
    __syncthreads();

    if (warp == 0) {
        const float total = sum_all<LT / 32>(sums);
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
    const float mine = sum_before<LT / 32>(sums, warp);
    __syncthreads();

    const float base = s_before + mine;
#pragma unroll
    for (int r = 0; r < ROWS; r++) store4<false>(out, i + r * 128, n, base + ex[r], v[r]);
}

template <int T, int PW>
static void launch_mid(const float* input, float* output, int n)
{
    const int tiles = (n + 4 * T - 1) / (4 * T);
    if (n % (4 * T) == 0)
        scan_mid<T, PW, true><<<tiles, T>>>(input, output, n);
    else
        scan_mid<T, PW, false><<<tiles, T>>>(input, output, n);
}

template <int G>
static void launch_hop(const float* input, float* output, int n)
{
    const int tiles = (n + 1023) / 1024;
    if (n % 1024 == 0)
        scan_hop<G, true><<<tiles, 256>>>(input, output, n);
    else
        scan_hop<G, false><<<tiles, 256>>>(input, output, n);
}

extern "C" void solve(const float* input, float* output, int n)
{
    if (n <= 0) return;
    if (n <= 1024) {
        if (n == 1024)
            scan_one<true><<<1, 256>>>(input, output, n);
        else
            scan_one<false><<<1, 256>>>(input, output, n);
    } else if (n <= 4096) {
        if (n % 1024 == 0)
            scan_small<true><<<n / 1024, 256>>>(input, output, n);
        else
            scan_small<false><<<(n + 1023) / 1024, 256>>>(input, output, n);
    } else if (n <= 16 * 1024) {
        launch_hop<4>(input, output, n);
    } else if (n <= 64 * 1024) {
        launch_hop<16>(input, output, n);
    } else if (n <= MAX_TILES * 1024) {
        launch_mid<256, 4>(input, output, n);
    } else if (n <= MAX_TILES * 2048) {
        launch_mid<512, 4>(input, output, n);
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
