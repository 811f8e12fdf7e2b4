// 2x16 register windows, filter rows split among warps, staged stores.

#include <cuda_runtime.h>

namespace {

// The filter is taken in pieces of at most RB x SB weights (a step of the product's inner extent).
constexpr int RB = 24;
constexpr int SB = 24;
constexpr int NC = SB / 4;

__device__ __forceinline__ void copy16(float* dst, const float* src, bool ok)
{
    const unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    const int bytes = ok ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(d), "l"(src), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void copy4(float* dst, const float* src, bool ok)
{
    const unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    const int bytes = ok ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(d), "l"(src), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Columns lie in groups of four; groups that are equal modulo M follow each other, so that threads
// whose windows start 4 * M apart read neighbouring groups.
template <int M, int PG>
__device__ __forceinline__ int place(int group)
{
    return ((group & (M - 1)) * PG + group / M) * 4;
}

// Brings rows x (4 * GPR) of the image and the piece of the filter; what lies outside is zero.
template <int T, int GPR, int M, int PG, int PITCH>
__device__ __forceinline__ void fetch(float* tile, float* wsm, const float* __restrict__ in,
                                      const float* __restrict__ filter, unsigned gy0, unsigned gx0,
                                      unsigned H, unsigned W, int rows, int r0, int s0, int rb,
                                      int S, int vec)
{
    const int t = threadIdx.x;
    if (vec) {
        for (int idx = t; idx < rows * GPR; idx += T) {
            const int row = idx / GPR;
            const int g = idx - row * GPR;
            const unsigned gy = gy0 + row, gx = gx0 + 4 * g;
            const bool ok = gy < H && gx < W;
            copy16(tile + row * PITCH + place<M, PG>(g), ok ? in + (size_t)gy * W + gx : in, ok);
        }
    } else {
        for (int idx = t; idx < rows * (GPR * 4); idx += T) {
            const int row = idx / (GPR * 4);
            const int c = idx - row * (GPR * 4);
            const unsigned gy = gy0 + row, gx = gx0 + c;
            const bool ok = gy < H && gx < W;
            copy4(tile + row * PITCH + place<M, PG>(c >> 2) + (c & 3),
                  ok ? in + (size_t)gy * W + gx : in, ok);
        }
    }
    for (int idx = t; idx < RB * SB; idx += T) {
        const int r = idx / SB;
        const int s = idx - r * SB;
        const bool ok = r < rb && s0 + s < S;
        copy4(wsm + idx, ok ? filter + (size_t)(r0 + r) * S + (s0 + s) : filter, ok);
    }
}

// The window of a row: outputs + SB columns.
template <int N, int M, int PG>
__device__ __forceinline__ void load_window(float (&x)[N], const float* p)
{
#pragma unroll
    for (int g = 0; g < N / 4; ++g) {
        const float4 q = *reinterpret_cast<const float4*>(p + ((g & (M - 1)) * PG + g / M) * 4);
        x[4 * g] = q.x;
        x[4 * g + 1] = q.y;
        x[4 * g + 2] = q.z;
        x[4 * g + 3] = q.w;
    }
}

// One row of weights times a window, for one row of TX outputs.
template <int TX>
__device__ __forceinline__ void product(float (&a)[TX], const float (&x)[TX + SB], const float* w)
{
#pragma unroll
    for (int j = 0; j < NC; ++j) {
        const float4 q = *reinterpret_cast<const float4*>(w + 4 * j);
#pragma unroll
        for (int i = 0; i < TX; ++i) a[i] = fmaf(q.x, x[4 * j + i], a[i]);
#pragma unroll
        for (int i = 0; i < TX; ++i) a[i] = fmaf(q.y, x[4 * j + 1 + i], a[i]);
#pragma unroll
        for (int i = 0; i < TX; ++i) a[i] = fmaf(q.z, x[4 * j + 2 + i], a[i]);
#pragma unroll
        for (int i = 0; i < TX; ++i) a[i] = fmaf(q.w, x[4 * j + 3 + i], a[i]);
    }
}

// Two rows of weights times a window: w0 for the upper row of outputs, w1 for the lower one.
template <int TX>
__device__ __forceinline__ void product2(float (&a)[TX], float (&b)[TX], const float (&x)[TX + SB],
                                         const float* w0, const float* w1)
{
#pragma unroll
    for (int j = 0; j < NC; ++j) {
        const float4 q = *reinterpret_cast<const float4*>(w0 + 4 * j);
        const float4 s = *reinterpret_cast<const float4*>(w1 + 4 * j);
#pragma unroll
        for (int i = 0; i < TX; ++i) a[i] = fmaf(q.x, x[4 * j + i], a[i]);
#pragma unroll
        for (int i = 0; i < TX; ++i) b[i] = fmaf(s.x, x[4 * j + i], b[i]);
#pragma unroll
        for (int i = 0; i < TX; ++i) a[i] = fmaf(q.y, x[4 * j + 1 + i], a[i]);
#pragma unroll
        for (int i = 0; i < TX; ++i) b[i] = fmaf(s.y, x[4 * j + 1 + i], b[i]);
#pragma unroll
        for (int i = 0; i < TX; ++i) a[i] = fmaf(q.z, x[4 * j + 2 + i], a[i]);
#pragma unroll
        for (int i = 0; i < TX; ++i) b[i] = fmaf(s.z, x[4 * j + 2 + i], b[i]);
#pragma unroll
        for (int i = 0; i < TX; ++i) a[i] = fmaf(q.w, x[4 * j + 3 + i], a[i]);
#pragma unroll
        for (int i = 0; i < TX; ++i) b[i] = fmaf(s.w, x[4 * j + 3 + i], b[i]);
    }
}

// Small images: a block makes 32 x LY outputs, its warps share the rows of the filter.
template <int LY>
__global__ void __launch_bounds__(384, 3)
    conv_split(const float* __restrict__ in, const float* __restrict__ filter,
               float* __restrict__ out, int H, int W, int R, int S, unsigned tiles_x, int vec)
{
    constexpr int T = 384, WARPS = T / 32;
    constexpr int GW = 8 / LY;             // groups of lanes in a warp, each with its own rows
    constexpr int GROUPS = WARPS * GW;
    constexpr int GPR = 8 + NC;
    constexpr int PG = 10;                 // two rows of a warp lie 16 banks apart
    constexpr int PITCH = 2 * PG * 4;
    __shared__ __align__(16) float tile[(LY + RB - 1) * PITCH];
    __shared__ __align__(16) float wsm[RB * SB];
    __shared__ __align__(16) float red[WARPS * LY * 32];

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int lx = lane & 3;
    const int ly = (lane >> 2) & (LY - 1);
    const int group = warp * GW + lane / (4 * LY);
    const unsigned by = blockIdx.x / tiles_x;
    const unsigned bx = blockIdx.x - by * tiles_x;
    const unsigned x0 = bx * 32u, y0 = by * (unsigned)LY;

    float acc[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[i] = 0.f;

    for (int r0 = 0; r0 < R; r0 += RB) {
        const int rb = min(RB, R - r0);
        for (int s0 = 0; s0 < S; s0 += SB) {
            if (r0 > 0 || s0 > 0) __syncthreads();
            fetch<T, GPR, 2, PG, PITCH>(tile, wsm, in, filter, y0 + r0, x0 + s0, (unsigned)H,
                                        (unsigned)W, LY + rb - 1, r0, s0, rb, S, vec);
            copies_wait();
            __syncthreads();
            for (int r = group; r < rb; r += GROUPS) {
                float x[8 + SB];
                load_window<8 + SB, 2, PG>(x, tile + (ly + r) * PITCH + lx * 4);
                product<8>(acc, x, wsm + r * SB);
            }
        }
    }
    __syncwarp();
    if (GW == 2) {
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[i] += __shfl_xor_sync(0xffffffffu, acc[i], 16);
    }
    if (lane < 4 * LY) {
        float4* d = reinterpret_cast<float4*>(red + (warp * LY + ly) * 32 + lx * 8);
        d[0] = make_float4(acc[0], acc[1], acc[2], acc[3]);
        d[1] = make_float4(acc[4], acc[5], acc[6], acc[7]);
    }
    __syncthreads();
    if (t < LY * 32) {
        float s0 = 0.f, s1 = 0.f;
#pragma unroll
        for (int k = 0; k < WARPS; k += 2) {
            s0 += red[k * LY * 32 + t];
            s1 += red[(k + 1) * LY * 32 + t];
        }
        const unsigned oh = (unsigned)(H - R + 1), ow = (unsigned)(W - S + 1);
        const unsigned oy = y0 + (unsigned)(t >> 5), ox = x0 + (unsigned)(t & 31);
        if (oy < oh && ox < ow) out[(size_t)oy * ow + ox] = s0 + s1;
    }
}

// Tiles of 64 x TH outputs, a thread 2 rows of 16; KS groups of warps share the rows of the filter.
constexpr int BIG_PG = 6;        // 22 groups of columns, four classes
constexpr int BIG_PITCH = 104;   // rows two apart lie 16 banks apart

template <int TH, int KS>
struct Shape {
    static constexpr int THREADS = 2 * TH * KS;
    static constexpr int TILE_WORDS = (TH + RB - 1) * BIG_PITCH;
    static constexpr int LOAD_WORDS = TILE_WORDS + RB * SB;
    static constexpr int SUM_WORDS = KS * TH * 64;
    static constexpr int BYTES = 4 * (LOAD_WORDS > SUM_WORDS ? LOAD_WORDS : SUM_WORDS);
};

template <int TH, int KS>
__global__ void __launch_bounds__(2 * TH * KS, KS == 1 ? 5 : (KS == 2 ? 2 : 1))
    conv_tile(const float* __restrict__ in, const float* __restrict__ filter,
              float* __restrict__ out, int H, int W, int R, int S, unsigned tiles_x, int vec)
{
    constexpr int T = Shape<TH, KS>::THREADS;
    constexpr int GPR = 16 + NC;
    constexpr int PG = BIG_PG;
    constexpr int PITCH = BIG_PITCH;
    constexpr int POS_WARPS = TH / 16;     // warps that cover the tile once
    extern __shared__ __align__(16) float smem[];
    float* const tile = smem;
    float* const wsm = smem + Shape<TH, KS>::TILE_WORDS;

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int ks = warp / POS_WARPS;
    const int lx = lane & 3;
    const int yb = (warp - ks * POS_WARPS) * 16 + (lane >> 2) * 2;
    const unsigned by = blockIdx.x / tiles_x;
    const unsigned bx = blockIdx.x - by * tiles_x;
    const unsigned x0 = bx * 64u, y0 = by * (unsigned)TH;

    float a[16], b[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        a[i] = 0.f;
        b[i] = 0.f;
    }

    for (int r0 = 0; r0 < R; r0 += RB) {
        const int rb = min(RB, R - r0);
        for (int s0 = 0; s0 < S; s0 += SB) {
            if (r0 > 0 || s0 > 0) __syncthreads();
            fetch<T, GPR, 4, PG, PITCH>(tile, wsm, in, filter, y0 + r0, x0 + s0, (unsigned)H,
                                        (unsigned)W, TH + rb - 1, r0, s0, rb, S, vec);
            copies_wait();
            __syncthreads();

            // Filter rows rs .. re - 1 belong to this warp.
            const int rs = KS == 1 ? 0 : rb * ks / KS;
            const int re = KS == 1 ? rb : rb * (ks + 1) / KS;
            if (re > rs) {
                const float* p = tile + (yb + rs) * PITCH + lx * 4;
                const float* w = wsm + rs * SB;
                {
                    float x[16 + SB];
                    load_window<16 + SB, 4, PG>(x, p);
                    product<16>(a, x, w);
                }
#pragma unroll 1
                for (int u = rs + 1; u < re; ++u) {
                    p += PITCH;
                    w += SB;
                    float x[16 + SB];
                    load_window<16 + SB, 4, PG>(x, p);
                    product2<16>(a, b, x, w, w - SB);
                }
                p += PITCH;
                {
                    float x[16 + SB];
                    load_window<16 + SB, 4, PG>(x, p);
                    product<16>(b, x, w);
                }
            }
        }
    }
    __syncthreads();

    // Partial sums through shared memory, so that whole lines are stored.
    {
        const int flip = ((yb >> 1) & 1) * 4;
        float* d0 = smem + (ks * TH + yb) * 64;
        float* d1 = d0 + 64;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int slot = (k * 4 + (lx ^ (k & 2))) ^ flip;
            *reinterpret_cast<float4*>(d0 + slot * 4) =
                make_float4(a[4 * k], a[4 * k + 1], a[4 * k + 2], a[4 * k + 3]);
            *reinterpret_cast<float4*>(d1 + slot * 4) =
                make_float4(b[4 * k], b[4 * k + 1], b[4 * k + 2], b[4 * k + 3]);
        }
    }
    __syncthreads();

    const unsigned oh = (unsigned)(H - R + 1), ow = (unsigned)(W - S + 1);
#pragma unroll 4
    for (int idx = t; idx < TH * 64; idx += T) {
        const int row = idx >> 6;
        const int c = idx & 63;
        const int q = c >> 2;
        const int k = q & 3;
        const int slot = (k * 4 + ((q >> 2) ^ (k & 2))) ^ (((row >> 1) & 1) * 4);
        const float* s = smem + row * 64 + slot * 4 + (c & 3);
        float sum = s[0];
#pragma unroll
        for (int g = 1; g < KS; ++g) sum += s[g * TH * 64];
        const unsigned oy = y0 + (unsigned)row, ox = x0 + (unsigned)c;
        if (oy < oh && ox < ow) out[(size_t)oy * ow + ox] = sum;
    }
}

}  // namespace

extern "C" void solve(const float* input, const float* filter, float* output, int H, int W, int R,
                      int S)
{
    const unsigned long long oh = (unsigned long long)(H - R) + 1, ow = (unsigned long long)(W - S) + 1;
    const unsigned long long tx64 = (ow + 63) / 64, ty64 = (oh + 63) / 64, ty32 = (oh + 31) / 32;
    const unsigned long long tx32 = (ow + 31) / 32, ty8 = (oh + 7) / 8, ty4 = (oh + 3) / 4;
    const int vec = W % 4 == 0 ? 1 : 0;
    if (tx64 * ty64 >= 528) {
        conv_tile<64, 1><<<(unsigned)(tx64 * ty64), 128, Shape<64, 1>::BYTES>>>(
            input, filter, output, H, W, R, S, (unsigned)tx64, vec);
    } else if (tx64 * ty64 >= 132) {
        conv_tile<64, 2><<<(unsigned)(tx64 * ty64), 256, Shape<64, 2>::BYTES>>>(
            input, filter, output, H, W, R, S, (unsigned)tx64, vec);
    } else if (tx64 * ty32 >= 100) {
        conv_tile<32, 6><<<(unsigned)(tx64 * ty32), 384, Shape<32, 6>::BYTES>>>(
            input, filter, output, H, W, R, S, (unsigned)tx64, vec);
    } else if (tx32 * ty8 >= 132) {
        conv_split<8><<<(unsigned)(tx32 * ty8), 384>>>(input, filter, output, H, W, R, S,
                                                       (unsigned)tx32, vec);
    } else {
        conv_split<4><<<(unsigned)(tx32 * ty4), 384>>>(input, filter, output, H, W, R, S,
                                                       (unsigned)tx32, vec);
    }
}
