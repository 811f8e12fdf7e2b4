// Barrier-free warp tiles; totals exchanged in packed private slots.
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

// inclusive over the four elements of a vector
__device__ __forceinline__ void scan4(float4& v)
{
    const float zw = v.z + v.w;
    v.y += v.x;
    v.w = v.y + zw;
    v.z += v.y;
}

// 4 * C neighbouring elements a thread; full: no thread of the tile is beyond n.
template <int C>
__device__ __forceinline__ void load_run(float4 (&v)[C], const float* __restrict__ in,
                                         int i, int n, bool full)
{
    if (full) {
#pragma unroll
        for (int c = 0; c < C; c++) v[c] = __ldg(reinterpret_cast<const float4*>(in + i) + c);
    } else {
#pragma unroll
        for (int c = 0; c < C; c++) v[c] = load4(in, (long long)i + 4 * c, n);
    }
}

template <int C>
__device__ __forceinline__ float scan_run(float4 (&v)[C], float (&off)[C])
{
#pragma unroll
    for (int c = 0; c < C; c++) scan4(v[c]);
    off[0] = 0.f;
    float run = v[0].w;
#pragma unroll
    for (int c = 1; c < C; c++) {
        off[c] = run;
        run += v[c].w;
    }
    return run;
}

template <int C>
__device__ __forceinline__ void store_run(float* __restrict__ out, int i, int n, bool full,
                                          float base, const float (&off)[C], const float4 (&v)[C])
{
#pragma unroll
    for (int c = 0; c < C; c++) {
        const float b = base + off[c];
        if (full) {
            reinterpret_cast<float4*>(out + i)[c] =
                make_float4(v[c].x + b, v[c].y + b, v[c].z + b, v[c].w + b);
        } else {
            store4(out, (long long)i + 4 * c, n, b, v[c]);
        }
    }
}

// Sums of the groups of four of a row of 4 * Q floats.
template <int Q>
__device__ __forceinline__ void read_groups(float (&g)[Q], const float* row)
{
    const float4* r4 = reinterpret_cast<const float4*>(row);
#pragma unroll
    for (int k = 0; k < Q; k++) {
        const float4 q = r4[k];
        g[k] = (q.x + q.y) + (q.z + q.w);
    }
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

// What lies before this lane in its row of 32, from the group sums and its own group.
__device__ __forceinline__ float before_lane(const float (&g)[8], const float* row, int lane)
{
    const float4 o = reinterpret_cast<const float4*>(row)[lane >> 2];
    const int grp = lane >> 2, sub = lane & 3;
    float m[8];
#pragma unroll
    for (int k = 0; k < 7; k++) m[k] = (k < grp) ? g[k] : 0.f;
    m[7] = 0.f;
    const float a = (sub > 0) ? o.x : 0.f;
    const float b = (sub > 1) ? o.y : 0.f;
    const float c = (sub > 2) ? o.z : 0.f;
    return tree<8>(m) + ((a + b) + c);
}

// One block for up to 1,024 elements.
__global__ void __launch_bounds__(128)
scan_block(const float* __restrict__ in, float* __restrict__ out, int n)
{
    __shared__ __align__(16) float rows[128];
    __shared__ __align__(16) float sums[4];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int i = t * 8;
    const bool full = n == 1024;

    float4 v[2];
    float off[2];
    load_run<2>(v, in, i, n, full);
    const float run = scan_run<2>(v, off);

    float* row = rows + warp * 32;
    row[lane] = run;
    __syncwarp();
    float g[8];
    read_groups<8>(g, row);
    const float total = tree<8>(g);
    if (lane == 0) sums[warp] = total;
    const float ex = before_lane(g, row, lane);
    __syncthreads();

    const float4 s = *reinterpret_cast<const float4*>(sums);
    const float a = (warp > 0) ? s.x : 0.f;
    const float b = (warp > 1) ? s.y : 0.f;
    const float c = (warp > 2) ? s.z : 0.f;
    store_run<2>(out, i, n, full, ((a + b) + c) + ex, off, v);
}

// A warp is a block and a tile of 32 * E elements: no barrier of a block anywhere.
// At most 32 * J tiles; Q * 4 >= min(tiles, 32).
template <int E, int J, int Q>
__global__ void __launch_bounds__(32)
scan_warps(const float* __restrict__ in, float* __restrict__ out, int n)
{
    constexpr int C = E / 4;
    __shared__ __align__(16) float row[32];
    __shared__ __align__(16) float back[32];
    const int lane = threadIdx.x;
    const int tile = blockIdx.x;
    const int tiles = gridDim.x;
    const int i = (tile * 32 + lane) * E;
    const bool full = (tile + 1) * (32 * E) <= n;

    float4 v[C];
    float off[C];
    load_run<C>(v, in, i, n, full);
    const float run = scan_run<C>(v, off);

    row[lane] = run;
    __syncwarp();
    float g[8];
    read_groups<8>(g, row);
    const u64 word = pack(tree<8>(g), 1u);

    // to every later tile
#pragma unroll
    for (int j = 0; j < J; j++) {
        const int r = lane + 32 * j;
        if (r > tile && r < tiles) store_word(&g_slots[r * MAX_TILES + tile], word);
    }

    // from every earlier tile
    u64* mine = &g_slots[tile * MAX_TILES];
    u64 w[J];
#pragma unroll
    for (int j = 0; j < J; j++) {
        const int r = lane + 32 * j;
        w[j] = (u64)1u << 32;
        if (r < tile) w[j] = load_word(mine + r);
    }
    const float ex = before_lane(g, row, lane);

    float p = 0.f;
#pragma unroll
    for (int j = 0; j < J; j++) {
        const int r = lane + 32 * j;
        while ((w[j] >> 32) == 0) w[j] = load_word(mine + r);
        p += value_of(w[j]);
    }
    __syncwarp();
    back[lane] = p;
    __syncwarp();
    float h[Q];
    read_groups<Q>(h, back);
    const float base = tree<Q>(h) + ex;

    store_run<C>(out, i, n, full, base, off, v);

#pragma unroll
    for (int j = 0; j < J; j++) {
        const int r = lane + 32 * j;
        if (r < tile) store_word(mine + r, 0ULL);
    }
}

// Up to 128 tiles of 2,048: all blocks are resident; look-back takes one hop.
__global__ void __launch_bounds__(256)
scan_mid(const float* __restrict__ in, float* __restrict__ out, int n)
{
    __shared__ __align__(16) float rows[256];
    __shared__ __align__(16) float backs[128];
    __shared__ __align__(16) float sums[8];
    __shared__ __align__(16) float befores[4];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int tile = blockIdx.x;
    const int tiles = gridDim.x;
    const int i = tile * 2048 + t * 8;
    const bool full = (tile + 1) * 2048 <= n;

    float4 v[2];
    float off[2];
    load_run<2>(v, in, i, n, full);
    const float run = scan_run<2>(v, off);

    float* row = rows + warp * 32;
    row[lane] = run;
    __syncwarp();
    float g[8];
    read_groups<8>(g, row);
    const float wsum = tree<8>(g);
    if (lane == 0) sums[warp] = wsum;
    __syncthreads();

    const float4 s0 = reinterpret_cast<const float4*>(sums)[0];
    const float4 s1 = reinterpret_cast<const float4*>(sums)[1];
    const float total = ((s0.x + s0.y) + (s0.z + s0.w)) + ((s1.x + s1.y) + (s1.z + s1.w));

    // publish to every later tile
    if (t > tile && t < tiles) store_word(&g_slots[t * MAX_TILES + tile], pack(total, 1u));

    u64* slot = &g_slots[tile * MAX_TILES + t];
    const bool reads = t < tile;               // tile < 128
    u64 w = (u64)1u << 32;
    if (reads) w = load_word(slot);

    float ex = before_lane(g, row, lane);
    {
        const float a[8] = {s0.x, s0.y, s0.z, s0.w, s1.x, s1.y, s1.z, 0.f};
        float m[8];
#pragma unroll
        for (int k = 0; k < 8; k++) m[k] = (k < warp) ? a[k] : 0.f;
        ex += tree<8>(m);
    }

    if (t < MAX_TILES) {
        while ((w >> 32) == 0) w = load_word(slot);
        __syncwarp();
        float* back = backs + warp * 32;
        back[lane] = value_of(w);
        __syncwarp();
        float h[8];
        read_groups<8>(h, back);
        const float p = tree<8>(h);
        if (lane == 0) befores[warp] = p;
    }
    __syncthreads();

    const float4 b = *reinterpret_cast<const float4*>(befores);
    const float base = ((b.x + b.y) + (b.z + b.w)) + ex;
    store_run<2>(out, i, n, full, base, off, v);
    if (reads) store_word(slot, 0ULL);
}

// Any size: tiles of 4,096 handed out by a counter, flags 1 = sum, 2 = inclusive prefix.
constexpr int LT = 256;
constexpr int ROWS = 4;
constexpr int LTILE = LT * 4 * ROWS;

__device__ __forceinline__ float warp_inclusive(float x, int lane)
{
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        const float y = __shfl_up_sync(0xffffffffu, x, d);
        if (lane >= d) x += y;
    }
    return x;
}

__device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

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
    float before_row = 0.f;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float e = __shfl_up_sync(0xffffffffu, inc[r], 1);
        if (lane == 0) e = 0.f;
        ex[r] = before_row + e;
        before_row += __shfl_sync(0xffffffffu, inc[r], 31);
    }
    if (lane == 0) sums[warp] = before_row;
    __syncthreads();

    float a[LT / 32];
#pragma unroll
    for (int k = 0; k < LT / 32; k++) a[k] = sums[k];

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
    float mine = 0.f;
#pragma unroll
    for (int k = 0; k < LT / 32 - 1; k++) mine += (k < warp) ? a[k] : 0.f;
    __syncthreads();

    const float base = s_before + mine;
#pragma unroll
    for (int r = 0; r < ROWS; r++) store4(out, i + r * 128, n, base + ex[r], v[r]);
}

extern "C" void solve(const float* input, float* output, int n)
{
    if (n <= 0) return;
    if (n <= 1024) {
        scan_block<<<1, 128>>>(input, output, n);
    } else if (n <= 16 * 256) {
        scan_warps<8, 1, 4><<<(n + 255) / 256, 32>>>(input, output, n);
    } else if (n <= 64 * 256) {
        scan_warps<8, 2, 8><<<(n + 255) / 256, 32>>>(input, output, n);
    } else if (n <= MAX_TILES * 512) {
        scan_warps<16, 4, 8><<<(n + 511) / 512, 32>>>(input, output, n);
    } else if (n <= MAX_TILES * 2048) {
        scan_mid<<<(n + 2047) / 2048, 256>>>(input, output, n);
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
