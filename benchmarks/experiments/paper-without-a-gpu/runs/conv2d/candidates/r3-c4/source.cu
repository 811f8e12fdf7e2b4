// Strips when small, grid-stride 6x8 and 8x8 sweeps when large

#include <cuda_runtime.h>

namespace {

// The filter is taken in pieces of at most RB x SB weights (a step of the product's inner extent).
constexpr int RB = 24;
constexpr int SB = 24;
constexpr int NC = SB / 4;

__device__ __forceinline__ void copy16(float* dst, const float* src)
{
    const unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(d), "l"(src) : "memory");
}

__device__ __forceinline__ void copy16_if(float* dst, const float* src, bool ok)
{
    const unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    const int bytes = ok ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(d), "l"(src), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void copy4_if(float* dst, const float* src, bool ok)
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

// Columns lie in groups of four; group g lies at (g mod 2^SH) * PG + g / 2^SH: threads whose
// windows start 4 * 2^SH apart read neighbouring groups.
template <int SH, int PG>
__device__ __forceinline__ int place(int g)
{
    return ((g & ((1 << SH) - 1)) * PG + (g >> SH)) * 4;
}

// Brings rows x (4 * GPR) of the image; what lies outside is zero.
template <int T, int GPR, int SH, int PG, int PITCH, bool VEC>
__device__ __forceinline__ void fetch_image(float* tile, const float* __restrict__ in,
                                            unsigned gy0, unsigned gx0, unsigned H, unsigned W,
                                            int rows)
{
    const int t = threadIdx.x;
    if (VEC && gy0 + (unsigned)rows <= H && gx0 + 4u * GPR <= W) {
        const float* base = in + (size_t)gy0 * W + gx0;
        for (int idx = t; idx < rows * GPR; idx += T) {
            const int row = idx / GPR;
            const int g = idx - row * GPR;
            copy16(tile + row * PITCH + place<SH, PG>(g), base + (size_t)row * W + 4 * g);
        }
    } else if (VEC) {
        for (int idx = t; idx < rows * GPR; idx += T) {
            const int row = idx / GPR;
            const int g = idx - row * GPR;
            const unsigned gy = gy0 + row, gx = gx0 + 4 * g;
            const bool ok = gy < H && gx < W;
            copy16_if(tile + row * PITCH + place<SH, PG>(g), ok ? in + (size_t)gy * W + gx : in, ok);
        }
    } else {
        for (int idx = t; idx < rows * (GPR * 4); idx += T) {
            const int row = idx / (GPR * 4);
            const int c = idx - row * (GPR * 4);
            const unsigned gy = gy0 + row, gx = gx0 + c;
            const bool ok = gy < H && gx < W;
            copy4_if(tile + row * PITCH + place<SH, PG>(c >> 2) + (c & 3),
                     ok ? in + (size_t)gy * W + gx : in, ok);
        }
    }
}

// Brings a piece of the filter, zero outside.
template <int T>
__device__ __forceinline__ void fetch_filter(float* wsm, const float* __restrict__ filter, int r0,
                                             int s0, int rb, int S)
{
    const int t = threadIdx.x;
    if (S == SB && rb == RB) {
        const float* f = filter + (size_t)r0 * SB;
        for (int idx = t; idx < RB * NC; idx += T) copy16(wsm + 4 * idx, f + 4 * idx);
    } else {
        for (int idx = t; idx < RB * SB; idx += T) {
            const int r = idx / SB;
            const int s = idx - r * SB;
            const bool ok = r < rb && s0 + s < S;
            copy4_if(wsm + idx, ok ? filter + (size_t)(r0 + r) * S + (s0 + s) : filter, ok);
        }
    }
}

template <int T, int GPR, int SH, int PG, int PITCH, bool VEC>
__device__ __forceinline__ void fetch(float* tile, float* wsm, const float* __restrict__ in,
                                      const float* __restrict__ filter, unsigned gy0, unsigned gx0,
                                      unsigned H, unsigned W, int rows, int r0, int s0, int rb,
                                      int S)
{
    fetch_image<T, GPR, SH, PG, PITCH, VEC>(tile, in, gy0, gx0, H, W, rows);
    fetch_filter<T>(wsm, filter, r0, s0, rb, S);
}

// One row of the image, for the output rows LO .. HI - 1 of a thread, each of TX outputs.
// w: weights for output row 0; output row ty takes those one row of the filter earlier each.
template <int TX, int TY, int LO, int HI, int PG>
__device__ __forceinline__ void row_product(float (&acc)[TY][TX], const float* p, const float* w)
{
    constexpr int SH = TX == 16 ? 2 : 1;
    constexpr int NG = TX / 4 + NC;
    float x[4 * NG];
#pragma unroll
    for (int g = 0; g < NG; ++g) {
        const float4 q = *reinterpret_cast<const float4*>(p + place<SH, PG>(g));
        x[4 * g] = q.x;
        x[4 * g + 1] = q.y;
        x[4 * g + 2] = q.z;
        x[4 * g + 3] = q.w;
    }
#pragma unroll
    for (int j = 0; j < NC; ++j) {
#pragma unroll
        for (int ty = LO; ty < HI; ++ty) {
            const float4 q = *reinterpret_cast<const float4*>(w - ty * SB + 4 * j);
#pragma unroll
            for (int i = 0; i < TX; ++i) acc[ty][i] = fmaf(q.x, x[4 * j + i], acc[ty][i]);
#pragma unroll
            for (int i = 0; i < TX; ++i) acc[ty][i] = fmaf(q.y, x[4 * j + 1 + i], acc[ty][i]);
#pragma unroll
            for (int i = 0; i < TX; ++i) acc[ty][i] = fmaf(q.z, x[4 * j + 2 + i], acc[ty][i]);
#pragma unroll
            for (int i = 0; i < TX; ++i) acc[ty][i] = fmaf(q.w, x[4 * j + 3 + i], acc[ty][i]);
        }
    }
}

// Smallest images: a block makes 32 x 4 outputs, its half warps share the rows of the filter.
template <bool VEC>
__global__ void __launch_bounds__(384, 3)
    conv_small(const float* __restrict__ in, const float* __restrict__ filter,
               float* __restrict__ out, int H, int W, int R, int S, unsigned tiles_x)
{
    constexpr int LY = 4;
    constexpr int T = 384, WARPS = T / 32;
    constexpr int GROUPS = WARPS * 2;
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
    const int group = warp * 2 + (lane >> 4);
    const unsigned by = blockIdx.x / tiles_x;
    const unsigned bx = blockIdx.x - by * tiles_x;
    const unsigned x0 = bx * 32u, y0 = by * (unsigned)LY;

    float acc[1][8];
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[0][i] = 0.f;

    for (int r0 = 0; r0 < R; r0 += RB) {
        const int rb = min(RB, R - r0);
        for (int s0 = 0; s0 < S; s0 += SB) {
            if (r0 > 0 || s0 > 0) __syncthreads();
            fetch<T, GPR, 1, PG, PITCH, VEC>(tile, wsm, in, filter, y0 + r0, x0 + s0, (unsigned)H,
                                             (unsigned)W, LY + rb - 1, r0, s0, rb, S);
            copies_wait();
            __syncthreads();
            for (int r = group; r < rb; r += GROUPS)
                row_product<8, 1, 0, 1, PG>(acc, tile + (ly + r) * PITCH + lx * 4, wsm + r * SB);
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[0][i] += __shfl_xor_sync(0xffffffffu, acc[0][i], 16);
    if (lane < 4 * LY) {
        float4* d = reinterpret_cast<float4*>(red + (warp * LY + ly) * 32 + lx * 8);
        d[0] = make_float4(acc[0][0], acc[0][1], acc[0][2], acc[0][3]);
        d[1] = make_float4(acc[0][4], acc[0][5], acc[0][6], acc[0][7]);
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

// A warp covers 16 * LX columns and 32 / LX * TY rows, a thread TY rows of 16 outputs.
// SPLIT: all warps make the same outputs, each with some rows of the filter.
// Otherwise the warps lie below each other.
template <int LX, int TY, int WARPS, bool SPLIT, int MINB, bool VEC>
__global__ void __launch_bounds__(WARPS * 32, MINB)
    conv_strip(const float* __restrict__ in, const float* __restrict__ filter,
               float* __restrict__ out, int H, int W, int R, int S, unsigned tiles_x)
{
    constexpr int T = WARPS * 32;
    constexpr int TW = 16 * LX;
    constexpr int WTH = 32 / LX * TY;
    constexpr int TH = SPLIT ? WTH : WARPS * WTH;
    constexpr int GPR = 4 * LX + NC;
    constexpr int PG = (GPR + 3) / 4;
    constexpr int PITCH = (4 * PG + 2) * 4;      // eight lanes meet no bank twice
    constexpr int TILE = (TH + RB - 1) * PITCH;
    constexpr int NSUM = SPLIT ? WARPS : 1;
    constexpr int RED = NSUM * TH * TW;
    __shared__ __align__(16) float buf[TILE > RED ? TILE : RED];
    __shared__ __align__(16) float wsm[RB * SB];

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int lx = lane & (LX - 1);
    const int ly = lane / LX;
    const int yb = (SPLIT ? 0 : warp * WTH) + ly * TY;
    const unsigned by = blockIdx.x / tiles_x;
    const unsigned bx = blockIdx.x - by * tiles_x;
    const unsigned x0 = bx * (unsigned)TW, y0 = by * (unsigned)TH;

    float acc[TY][16];
#pragma unroll
    for (int ty = 0; ty < TY; ++ty)
#pragma unroll
        for (int i = 0; i < 16; ++i) acc[ty][i] = 0.f;

    for (int r0 = 0; r0 < R; r0 += RB) {
        const int rb = min(RB, R - r0);
        const int per = SPLIT ? (rb + WARPS - 1) / WARPS : rb;
        const int rbeg = SPLIT ? warp * per : 0;
        const int rend = min(rb, rbeg + per);
        for (int s0 = 0; s0 < S; s0 += SB) {
            if (r0 > 0 || s0 > 0) __syncthreads();
            fetch<T, GPR, 2, PG, PITCH, VEC>(buf, wsm, in, filter, y0 + r0, x0 + s0, (unsigned)H,
                                             (unsigned)W, TH + rb - 1, r0, s0, rb, S);
            copies_wait();
            __syncthreads();
            if (rbeg < rend) {
                const float* p = buf + (yb + rbeg) * PITCH + lx * 4;
                const float* w = wsm + rbeg * SB;
                if (TY == 1) {
#pragma unroll 1
                    for (int u = rbeg; u < rend; ++u, p += PITCH, w += SB)
                        row_product<16, TY, 0, 1, PG>(acc, p, w);
                } else {
                    row_product<16, TY, 0, 1, PG>(acc, p, w);
                    p += PITCH;
                    w += SB;
#pragma unroll 1
                    for (int u = rbeg + 1; u < rend; ++u, p += PITCH, w += SB)
                        row_product<16, TY, 0, TY, PG>(acc, p, w);
                    row_product<16, TY, TY - 1, TY, PG>(acc, p, w);
                }
            }
        }
    }

    // Through shared memory, so that neighbouring lanes store neighbouring outputs.
    __syncthreads();
    {
        const int f = LX == 4 ? (((lx >> 1) & 1) | ((ly & 1) << 1)) : (ly & 3);
#pragma unroll
        for (int ty = 0; ty < TY; ++ty) {
            float* d = buf + ((SPLIT ? warp * TH : 0) + yb + ty) * TW;
#pragma unroll
            for (int k = 0; k < 4; ++k)
                *reinterpret_cast<float4*>(d + 4 * ((lx * 4 + k) ^ f)) = make_float4(
                    acc[ty][4 * k], acc[ty][4 * k + 1], acc[ty][4 * k + 2], acc[ty][4 * k + 3]);
        }
    }
    __syncthreads();

    const unsigned oh = (unsigned)(H - R + 1), ow = (unsigned)(W - S + 1);
    const bool full = y0 + (unsigned)TH <= oh && x0 + (unsigned)TW <= ow;
    float* q = out + (size_t)y0 * ow + x0;
#pragma unroll 4
    for (int i = t; i < TH * TW; i += T) {
        const int row = i / TW;
        const int c = i - row * TW;
        const int u = c >> 2;
        const int lrow = row / TY;
        const int f = LX == 4 ? (((u >> 3) & 1) | ((lrow & 1) << 1)) : (lrow & 3);
        const float* s = buf + row * TW + 4 * (u ^ f) + (c & 3);
        float v = s[0];
        if (NSUM > 1) {
            float v1 = s[(NSUM > 1 ? 1 : 0) * TH * TW];
#pragma unroll
            for (int k = 2; k + 1 < NSUM; k += 2) {
                v += s[k * TH * TW];
                v1 += s[(k + 1) * TH * TW];
            }
            v += v1;
        }
        if (full || (y0 + (unsigned)row < oh && x0 + (unsigned)c < ow)) q[(size_t)row * ow + c] = v;
    }
}

// RN rows of the filter against RN + TY - 1 rows of the image, TY x 8 outputs. Columns of the
// filter in fours; a row of four weights is loaded once and serves TY rows of the image while it
// slides through registers, twelve pixels of a row serve all TY rows of outputs.
template <int TY, int RN, int PG>
__device__ __forceinline__ void sweep(float (&acc)[TY][8], const float* p, const float* w, int jn)
{
    constexpr int PITCH = 2 * PG * 4;
#pragma unroll 1
    for (int j = 0; j < jn; ++j) {
        const float* pa = p + ((j & 1) * PG + (j >> 1)) * 4;
        const float* pb = p + (((j + 1) & 1) * PG + ((j + 1) >> 1)) * 4;
        const float* wj = w + 4 * j;
        float wr[RN][4];
#pragma unroll
        for (int u = 0; u < RN + TY - 1; ++u) {
            if (u < RN) {
                const float4 q = *reinterpret_cast<const float4*>(wj + u * SB);
                wr[u][0] = q.x;
                wr[u][1] = q.y;
                wr[u][2] = q.z;
                wr[u][3] = q.w;
            }
            const float4 a = *reinterpret_cast<const float4*>(pa + u * PITCH);
            const float4 b = *reinterpret_cast<const float4*>(pb + u * PITCH);
            const float4 c = *reinterpret_cast<const float4*>(pa + 4 + u * PITCH);
            const float x[12] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
#pragma unroll
            for (int k = 0; k < 4; ++k) {
#pragma unroll
                for (int ty = 0; ty < TY; ++ty) {
                    const int r = u - ty;
                    if (r >= 0 && r < RN) {
#pragma unroll
                        for (int i = 0; i < 8; ++i)
                            acc[ty][i] = fmaf(wr[r][k], x[k + i], acc[ty][i]);
                    }
                }
            }
        }
    }
}

// Larger images: tiles of 64 x (4 * TY * WYN) outputs, taken in turn by a grid that fills the
// chip once. SPLIT groups of warps share the rows of the filter; their sums meet in shared memory.
template <int TY, int WYN, int SPLIT, int MINB>
__global__ void __launch_bounds__(32 * WYN * SPLIT, MINB)
    conv_tiles(const float* __restrict__ in, const float* __restrict__ filter,
               float* __restrict__ out, int H, int W, int R, int S, unsigned tiles_x,
               unsigned tiles)
{
    constexpr int T = 32 * WYN * SPLIT;
    constexpr int TH = 4 * TY * WYN;
    constexpr int RN = RB / SPLIT;
    constexpr int GPR = 16 + NC;
    constexpr int PG = 11;
    constexpr int PITCH = 2 * PG * 4;
    constexpr int ROWS = TH + RB - 1;
    constexpr int PART = TH * 64;
    constexpr int BUF = (ROWS * PITCH > SPLIT * PART) ? ROWS * PITCH : SPLIT * PART;
    __shared__ __align__(16) float buf[BUF];        // pixels, then the groups' sums
    __shared__ __align__(16) float wsm[RB * SB];

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int lx = lane & 7;
    const int yb = (warp % WYN) * (4 * TY) + (lane >> 3) * TY;
    const int group = warp / WYN;

    bool first = true;
#pragma unroll 1
    for (unsigned tl = blockIdx.x; tl < tiles; tl += gridDim.x) {
        const unsigned by = tl / tiles_x;
        const unsigned bx = tl - by * tiles_x;
        const unsigned x0 = bx * 64u, y0 = by * (unsigned)TH;

        float acc[TY][8];
#pragma unroll
        for (int ty = 0; ty < TY; ++ty)
#pragma unroll
            for (int i = 0; i < 8; ++i) acc[ty][i] = 0.f;

#pragma unroll 1
        for (int r0 = 0; r0 < R; r0 += RB) {
            const int rb = min(RB, R - r0);
#pragma unroll 1
            for (int s0 = 0; s0 < S; s0 += SB) {
                if (!first) __syncthreads();         // all are done with buf and wsm
                if ((W & 3) == 0)
                    fetch_image<T, GPR, 1, PG, PITCH, true>(buf, in, y0 + r0, x0 + s0, (unsigned)H,
                                                            (unsigned)W, ROWS);
                else
                    fetch_image<T, GPR, 1, PG, PITCH, false>(buf, in, y0 + r0, x0 + s0, (unsigned)H,
                                                             (unsigned)W, ROWS);
                if (first || R > RB || S > SB) fetch_filter<T>(wsm, filter, r0, s0, rb, S);
                first = false;
                copies_wait();
                __syncthreads();
                const int jn = (min(SB, S - s0) + 3) >> 2;
                if (group * RN < rb)
                    sweep<TY, RN, PG>(acc, buf + (yb + group * RN) * PITCH + lx * 4,
                                      wsm + group * RN * SB, jn);
            }
        }

        __syncthreads();                             // the pixels are no longer needed
#pragma unroll
        for (int ty = 0; ty < TY; ++ty) {
            float4* d = reinterpret_cast<float4*>(buf + group * PART + (yb + ty) * 64 + lx * 8);
            d[0] = make_float4(acc[ty][0], acc[ty][1], acc[ty][2], acc[ty][3]);
            d[1] = make_float4(acc[ty][4], acc[ty][5], acc[ty][6], acc[ty][7]);
        }
        __syncthreads();

        // Thread t: column t % 64 of every (T / 64)th row.
        const unsigned oh = (unsigned)(H - R + 1), ow = (unsigned)(W - S + 1);
        const unsigned ox = x0 + (unsigned)(t & 63);
        if (ox < ow) {
            const unsigned oy0 = y0 + (unsigned)(t >> 6);
            float* q = out + (size_t)oy0 * ow + ox;
            const size_t step = (size_t)(T / 64) * ow;
            if (y0 + (unsigned)TH <= oh) {
#pragma unroll 4
                for (int k = 0; k < PART / T; ++k) {
                    float s = buf[k * T + t];
#pragma unroll
                    for (int g = 1; g < SPLIT; ++g) s += buf[g * PART + k * T + t];
                    *q = s;
                    q += step;
                }
            } else {
#pragma unroll 1
                for (int k = 0; k < PART / T; ++k) {
                    float s = buf[k * T + t];
#pragma unroll
                    for (int g = 1; g < SPLIT; ++g) s += buf[g * PART + k * T + t];
                    if (oy0 + (unsigned)(k * (T / 64)) < oh) *q = s;
                    q += step;
                }
            }
        }
    }
}

}  // namespace

extern "C" void solve(const float* input, const float* filter, float* output, int H, int W, int R,
                      int S)
{
    const unsigned long long oh = (unsigned long long)(H - R) + 1, ow = (unsigned long long)(W - S) + 1;
    const unsigned long long tx64 = (ow + 63) / 64, ty64 = (oh + 63) / 64;
    const unsigned long long tx32 = (ow + 31) / 32, ty16 = (oh + 15) / 16, ty4 = (oh + 3) / 4;
    const bool vec = W % 4 == 0;
    if (tx64 * ty64 >= 512) {
        const unsigned tiles = (unsigned)(tx64 * ty64);
        const unsigned g = tiles < 528u ? tiles : 528u;
        conv_tiles<8, 2, 2, 4><<<g, 128>>>(input, filter, output, H, W, R, S, (unsigned)tx64, tiles);
    } else if (tx64 * ty64 >= 132) {
        const unsigned tiles = (unsigned)(tx64 * ((oh + 23) / 24));
        const unsigned g = tiles < 660u ? tiles : 660u;
        conv_tiles<6, 1, 4, 5><<<g, 128>>>(input, filter, output, H, W, R, S, (unsigned)tx64, tiles);
    } else if (tx64 * ty16 >= 132) {
        const unsigned g = (unsigned)(tx64 * ty16);
        if (vec)
            conv_strip<4, 2, 8, true, 2, true>
                <<<g, 256>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
        else
            conv_strip<4, 2, 8, true, 2, false>
                <<<g, 256>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
    } else if (tx32 * ty16 >= 100) {
        const unsigned g = (unsigned)(tx32 * ty16);
        if (vec)
            conv_strip<2, 1, 12, true, 1, true>
                <<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
        else
            conv_strip<2, 1, 12, true, 1, false>
                <<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
    } else {
        const unsigned g = (unsigned)(tx32 * ty4);
        if (vec)
            conv_small<true><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
        else
            conv_small<false><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
    }
}
