// Warp-sized tiles push sums to slots; scans hide the wait

#include <cuda_runtime.h>

typedef unsigned long long u64;

constexpr int MAX_TILES = 128;        // of the one-hop kernels; 132 SMs hold them all at once

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

template <typename I>
__device__ __forceinline__ float4 load4(const float* __restrict__ in, I i, I n)
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

template <typename I>
__device__ __forceinline__ void store4(float* __restrict__ out, I i, I n, float b, float4 v)
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

// inclusive over the four elements of a thread
__device__ __forceinline__ void scan4(float4& v)
{
    const float zw = v.z + v.w;
    v.y += v.x;
    v.w = v.y + zw;
    v.z += v.y;
}

__device__ __forceinline__ float warp_inclusive(float x, int lane)
{
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        const float y = __shfl_up_sync(0xffffffffu, x, d);
        if (lane >= d) x += y;
    }
    return x;
}

// Sum over groups of G lanes
template <int G>
__device__ __forceinline__ float lanes_sum(float x)
{
#pragma unroll
    for (int d = G / 2; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
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

// One tile of 1,024.
__global__ void __launch_bounds__(256)
scan_one(const float* __restrict__ in, float* __restrict__ out, int n)
{
    __shared__ __align__(16) float sums[8];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int i = t * 4;

    float4 v = load4<int>(in, i, n);
    scan4(v);
    const float inc = warp_inclusive(v.w, lane);
    if (lane == 31) sums[warp] = inc;
    float ex = __shfl_up_sync(0xffffffffu, inc, 1);
    if (lane == 0) ex = 0.f;
    __syncthreads();

    float a[8];
    read_all<8>(a, sums);
    store4<int>(out, i, n, sum_before<8>(a, warp) + ex, v);
}

// Up to MAXT tiles of 128, one warp each, no barrier; look-back takes one hop.
template <int MAXT>
__global__ void __launch_bounds__(32)
scan_warps(const float* __restrict__ in, float* __restrict__ out, int n)
{
    constexpr int G = MAXT / 4;            // lanes that share the words of a tile, four each
    const int lane = threadIdx.x;
    const int tile = blockIdx.x;
    const int tiles = gridDim.x;
    const int i = tile * 128 + lane * 4;

    float4 v = load4<int>(in, i, n);
    scan4(v);
    const u64 word = pack(lanes_sum<32>(v.w), 1u);

    // publish to every later tile
#pragma unroll
    for (int k = 0; k < MAXT / 32; k++) {
        const int r = lane + 32 * k;
        if (r > tile && r < tiles) store_word(&g_slots[r * MAX_TILES + tile], word);
    }

    // ask for the earlier sums; the scan of this tile goes on meanwhile
    const int first = lane & (G - 1);
    u64* const slot = &g_slots[tile * MAX_TILES + first];
    u64 w[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        w[k] = (u64)1u << 32;
        if (first + G * k < tile) w[k] = load_word(slot + G * k);
    }

    const float inc = warp_inclusive(v.w, lane);
    float ex = __shfl_up_sync(0xffffffffu, inc, 1);
    if (lane == 0) ex = 0.f;

#pragma unroll
    for (int k = 0; k < 4; k++) {
        while ((w[k] >> 32) == 0) w[k] = load_word(slot + G * k);
    }
    __syncwarp();
    float p = (value_of(w[0]) + value_of(w[1])) + (value_of(w[2]) + value_of(w[3]));
    p = lanes_sum<G>(p);

    store4<int>(out, i, n, p + ex, v);

    // all lanes have read: put zeros back
    __syncwarp();
    if (lane < G) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (first + G * k < tile) store_word(slot + G * k, 0ULL);
        }
    }
}

// Up to 128 tiles of 512: every warp looks back on its own.
__global__ void __launch_bounds__(128)
scan_mid4(const float* __restrict__ in, float* __restrict__ out, int n)
{
    __shared__ __align__(16) float sums[4];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int tile = blockIdx.x;
    const int tiles = gridDim.x;
    const int i = tile * 512 + t * 4;

    float4 v = load4<int>(in, i, n);
    scan4(v);
    const float mine = lanes_sum<32>(v.w);
    if (lane == 0) sums[warp] = mine;
    __syncthreads();
    const float4 q = *reinterpret_cast<const float4*>(sums);

    // publish to every later tile
    if (t > tile && t < tiles) {
        store_word(&g_slots[t * MAX_TILES + tile], pack((q.x + q.y) + (q.z + q.w), 1u));
    }

    // ask for the earlier sums; the scan of this tile goes on meanwhile
    u64* const slot = &g_slots[tile * MAX_TILES + lane];
    u64 w[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        w[k] = (u64)1u << 32;
        if (lane + 32 * k < tile) w[k] = load_word(slot + 32 * k);
    }

    const float inc = warp_inclusive(v.w, lane);
    float ex = __shfl_up_sync(0xffffffffu, inc, 1);
    if (lane == 0) ex = 0.f;
    const float b0 = warp > 0 ? q.x : 0.f;
    const float b1 = warp > 1 ? q.y : 0.f;
    const float b2 = warp > 2 ? q.z : 0.f;
    ex += (b0 + b1) + b2;

#pragma unroll
    for (int k = 0; k < 4; k++) {
        while ((w[k] >> 32) == 0) w[k] = load_word(slot + 32 * k);
    }
    __syncwarp();
    float p = (value_of(w[0]) + value_of(w[1])) + (value_of(w[2]) + value_of(w[3]));
    p = lanes_sum<32>(p);

    store4<int>(out, i, n, p + ex, v);

    // all warps have read: put zeros back
    __syncthreads();
    if (t < tile) store_word(&g_slots[tile * MAX_TILES + t], 0ULL);
}

// Up to 128 tiles of 4 * T: all blocks are resident; look-back takes one hop.
template <int T>
__global__ void __launch_bounds__(T)
scan_mid(const float* __restrict__ in, float* __restrict__ out, int n)
{
    constexpr int W = T / 32;
    __shared__ __align__(16) float sums[W];
    __shared__ __align__(16) float befores[MAX_TILES / 32];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int tile = blockIdx.x;
    const int tiles = gridDim.x;
    const int i = tile * (4 * T) + t * 4;

    float4 v = load4<int>(in, i, n);
    scan4(v);
    const float inc = warp_inclusive(v.w, lane);
    if (lane == 31) sums[warp] = inc;
    __syncthreads();

    float a[W];
    read_all<W>(a, sums);
    const float total = tree<W>(a);

    // publish to every later tile
    if (t > tile && t < tiles) store_word(&g_slots[t * MAX_TILES + tile], pack(total, 1u));

    // ask for the earlier sums
    u64* const slot = &g_slots[tile * MAX_TILES + (t & (MAX_TILES - 1))];
    u64 w = (u64)1u << 32;
    if (t < tile) w = load_word(slot);

    float ex = __shfl_up_sync(0xffffffffu, inc, 1);
    if (lane == 0) ex = 0.f;
    ex += sum_before<W>(a, warp);

    if (t < MAX_TILES) {
        while ((w >> 32) == 0) w = load_word(slot);
        __syncwarp();
        const float p = lanes_sum<32>(value_of(w));
        if (lane == 0) befores[warp] = p;
    }
    __syncthreads();

    const float4 b = *reinterpret_cast<const float4*>(befores);
    const float base = ((b.x + b.y) + (b.z + b.w)) + ex;
    store4<int>(out, i, n, base, v);
    if (t < tile) store_word(slot, 0ULL);
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
    const long long nn = n;
    const long long i = (long long)tile * LTILE + warp * (128 * ROWS) + lane * 4;

    float4 v[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) v[r] = load4<long long>(in, i + r * 128, nn);

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
                before += lanes_sum<32>(lane <= last ? value_of(w) : 0.f);
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
    for (int r = 0; r < ROWS; r++) store4<long long>(out, i + r * 128, nn, base + ex[r], v[r]);
}

extern "C" void solve(const float* input, float* output, int n)
{
    if (n <= 0) return;
    if (n <= 1024) {
        scan_one<<<1, 256>>>(input, output, n);
    } else if (n <= 32 * 128) {
        scan_warps<32><<<(n + 127) / 128, 32>>>(input, output, n);
    } else if (n <= MAX_TILES * 128) {
        scan_warps<128><<<(n + 127) / 128, 32>>>(input, output, n);
    } else if (n <= MAX_TILES * 512) {
        scan_mid4<<<(n + 511) / 512, 128>>>(input, output, n);
    } else if (n <= MAX_TILES * 2048) {
        scan_mid<512><<<(n + 2047) / 2048, 512>>>(input, output, n);
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
