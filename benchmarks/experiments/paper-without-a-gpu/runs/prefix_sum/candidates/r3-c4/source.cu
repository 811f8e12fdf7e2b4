// Warps publish sums before any barrier, scan while they travel

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

// What a block tells later blocks: four partial sums a warp, each a word of its own that is
// never zero (the value's bits with HOP_KEY, the bits of a NaN that no addition returns).
// [reader][writer tile * 4 + warp][part]; the reader puts zero back, so each call leaves zeros.
constexpr int HOP_TILES = 32;
constexpr int HOP_WARPS = 4;
constexpr unsigned HOP_KEY = 0xffabcdefu;
__device__ __align__(16) unsigned g_hop[HOP_TILES * HOP_TILES * HOP_WARPS * 4];

__device__ __forceinline__ uint4 load_hop(const unsigned* p)
{
    uint4 w;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p) : "memory");
    return w;
}

__device__ __forceinline__ void clear_hop(unsigned* p)
{
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %1, %1, %1};" :: "l"(p), "r"(0u) : "memory");
}

__device__ __forceinline__ void store_hop(unsigned* p, float value)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;"
                 :: "l"(p), "r"(__float_as_uint(value) ^ HOP_KEY) : "memory");
}

__device__ __forceinline__ float hop_value(unsigned w) { return __uint_as_float(w ^ HOP_KEY); }

// warp_scan of R rows at once, their rounds interleaved.
template <int R>
__device__ __forceinline__ void warp_scan_rows(const float4 (&v)[R], int lane, float (&ex)[R], float (&inc)[R])
{
    float a[R], b[R], c[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        a[r] = __shfl_up_sync(0xffffffffu, v[r].w, 1);
        b[r] = __shfl_up_sync(0xffffffffu, v[r].w, 2);
        c[r] = __shfl_up_sync(0xffffffffu, v[r].w, 3);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        const float x = lane >= 1 ? a[r] : 0.f;
        const float y = lane >= 2 ? b[r] : 0.f;
        const float z = lane >= 3 ? c[r] : 0.f;
        ex[r] = x + (y + z);
        inc[r] = v[r].w + ex[r];
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        a[r] = __shfl_up_sync(0xffffffffu, inc[r], 4);
        b[r] = __shfl_up_sync(0xffffffffu, inc[r], 8);
        c[r] = __shfl_up_sync(0xffffffffu, inc[r], 12);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        const float x = lane >= 4 ? a[r] : 0.f;
        const float y = lane >= 8 ? b[r] : 0.f;
        const float z = lane >= 12 ? c[r] : 0.f;
        const float f = x + (y + z);
        ex[r] += f;
        inc[r] += f;
    }
#pragma unroll
    for (int r = 0; r < R; r++) a[r] = __shfl_up_sync(0xffffffffu, inc[r], 16);
#pragma unroll
    for (int r = 0; r < R; r++) {
        const float x = lane >= 16 ? a[r] : 0.f;
        ex[r] += x;
        inc[r] += x;
    }
}

// Up to 8 * R tiles of 512 * R: all blocks are resident. Each warp publishes its own sums as
// soon as its data are here, with no barrier before, and scans while they travel;
// one barrier serves both the block's own sums and those of earlier tiles.
template <int R, bool FULL>
__global__ void __launch_bounds__(128)
scan_hop(const float* __restrict__ in, float* __restrict__ out, int n)
{
    __shared__ __align__(16) float own[128];
    __shared__ __align__(16) float box[128];
    __shared__ __align__(16) float parts[16];
    __shared__ __align__(16) float befores[R * 4];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int tile = blockIdx.x;
    const int tiles = gridDim.x;
    const int i = tile * (512 * R) + warp * (128 * R) + lane * 4;

    float4 v[R];
#pragma unroll
    for (int r = 0; r < R; r++) v[r] = load4<FULL>(in, i + r * 128, n);
#pragma unroll
    for (int r = 0; r < R; r++) scan4(v[r]);
    float total;
    if (R == 4) total = (v[0].w + v[1].w) + (v[2 % R].w + v[3 % R].w);
    else        total = v[0].w + v[1].w;

    // 32 values become 4: every lane gets part lane & 3
    own[t] = total;
    __syncwarp();
    {
        const float4* b4 = reinterpret_cast<const float4*>(own + warp * 32);
        const float4 x = b4[lane & 3];
        const float4 y = b4[(lane & 3) + 4];
        const float part = sum4(x) + sum4(y);
#pragma unroll
        for (int k = 0; k < R; k++) {
            const int reader = tile + 1 + k * 8 + (lane >> 2);
            if (reader < tiles)
                store_hop(&g_hop[((reader * HOP_TILES + tile) * HOP_WARPS + warp) * 4 + (lane & 3)], part);
        }
        if (lane < 4) parts[warp * 4 + lane] = part;
    }

    // the first look is on its way while the rows are scanned
    unsigned* slot = &g_hop[(tile * HOP_TILES * HOP_WARPS + t) * 4];
    const bool looks = t < tile * HOP_WARPS;
    uint4 w = make_uint4(HOP_KEY, HOP_KEY, HOP_KEY, HOP_KEY);
    if (looks) w = load_hop(slot);
    __syncwarp();

    float ex[R], inc[R];
    warp_scan_rows<R>(v, lane, ex, inc);
    float rows = 0.f;
#pragma unroll
    for (int r = 1; r < R; r++) {
        rows += __shfl_sync(0xffffffffu, inc[r - 1], 31);
        ex[r] += rows;
    }

    if (t < R * 32) {
        float p = 0.f;
        if (looks) {
            while (w.x == 0u || w.y == 0u || w.z == 0u || w.w == 0u) w = load_hop(slot);
            p = (hop_value(w.x) + hop_value(w.y)) + (hop_value(w.z) + hop_value(w.w));
        }
        __syncwarp();
        box[t] = p;
        __syncwarp();
        const float4* b4 = reinterpret_cast<const float4*>(box + warp * 32);
        const float4 x = b4[lane & 3];
        const float4 y = b4[(lane & 3) + 4];
        const float q = sum4(x) + sum4(y);
        if (lane < 4) befores[warp * 4 + lane] = q;
    }
    __syncthreads();

    const float4* p4 = reinterpret_cast<const float4*>(parts);
    float base = 0.f;
#pragma unroll
    for (int k = 0; k < 3; k++) {
        const float g = sum4(p4[k]);
        base += (k < warp) ? g : 0.f;
    }
    base += sum_all<R * 4>(befores);
#pragma unroll
    for (int r = 0; r < R; r++) store4<FULL>(out, i + r * 128, n, base + ex[r], v[r]);

    if (looks) clear_hop(slot);
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

template <int R>
static void launch_hop(const float* input, float* output, int n)
{
    const int tiles = (n + 512 * R - 1) / (512 * R);
    if (n % (512 * R) == 0)
        scan_hop<R, true><<<tiles, 128>>>(input, output, n);
    else
        scan_hop<R, false><<<tiles, 128>>>(input, output, n);
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
        launch_hop<2>(input, output, n);
    } else if (n <= 64 * 1024) {
        launch_hop<4>(input, output, n);
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
