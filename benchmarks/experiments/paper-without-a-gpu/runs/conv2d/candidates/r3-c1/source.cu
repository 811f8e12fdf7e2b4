// Division-free unchecked full-tile copies and stores; balanced residency, split rows.

#include <cuda_runtime.h>

namespace {

// The filter is taken in pieces of at most RB x SB weights (a step of the product's inner extent).
constexpr int RB = 24;
constexpr int SB = 24;
constexpr int NC = SB / 4;

__device__ __forceinline__ unsigned smem_address(const float* p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void copy16(unsigned d, const float* src)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(d), "l"(src) : "memory");
}

__device__ __forceinline__ void copy16_if(unsigned d, const float* src, bool ok)
{
    const int bytes = ok ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(d), "l"(src), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void copy4_if(unsigned d, const float* src, bool ok)
{
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

// Brings TH + rb - 1 rows x (4 * GPR) of the image and the piece of the filter; what lies outside
// is zero. A lane keeps its column group, so a step down is two additions.
template <int T, int GPR, int SH, int PG, int PITCH, int TH, bool VEC>
__device__ __forceinline__ void fetch(float* tile, float* wsm, const float* __restrict__ in,
                                      const float* __restrict__ filter, unsigned gy0, unsigned gx0,
                                      unsigned H, unsigned W, int r0, int s0, int rb, int S)
{
    constexpr int LPR = GPR <= 16 ? 16 : 32;     // lanes a row
    constexpr int STEP = T / LPR;                // rows at once
    constexpr int ROWS = TH + RB - 1;
    static_assert(GPR <= 32, "a warp takes at least one row");
    const int t = threadIdx.x;
    if (VEC) {
        const int g = t & (LPR - 1);
        const int row0 = t / LPR;
        if (g < GPR) {
            const unsigned d = smem_address(tile + row0 * PITCH + place<SH, PG>(g));
            if (rb == RB && gy0 + (unsigned)ROWS <= H && gx0 + 4u * GPR <= W) {
                const float* src = in + (size_t)(gy0 + (unsigned)row0) * W + (gx0 + 4u * (unsigned)g);
                const size_t step = (size_t)STEP * W;
#pragma unroll
                for (int k = 0; k < ROWS / STEP; ++k) {
                    copy16(d + (unsigned)(k * STEP * PITCH * 4), src);
                    src += step;
                }
                if (ROWS % STEP != 0) {
                    if (row0 < ROWS % STEP)
                        copy16(d + (unsigned)((ROWS / STEP) * STEP * PITCH * 4), src);
                }
            } else {
                const int rows = TH + rb - 1;
                const unsigned gx = gx0 + 4u * (unsigned)g;
                const bool column = gx < W;
#pragma unroll 4
                for (int row = row0; row < rows; row += STEP) {
                    const unsigned gy = gy0 + (unsigned)row;
                    const bool ok = column && gy < H;
                    copy16_if(d + (unsigned)((row - row0) * PITCH * 4),
                              ok ? in + (size_t)gy * W + gx : in, ok);
                }
            }
        }
    } else {
        const int rows = TH + rb - 1;
        for (int idx = t; idx < rows * (GPR * 4); idx += T) {
            const int row = idx / (GPR * 4);
            const int c = idx - row * (GPR * 4);
            const unsigned gy = gy0 + (unsigned)row, gx = gx0 + (unsigned)c;
            const bool ok = gy < H && gx < W;
            copy4_if(smem_address(tile + row * PITCH + place<SH, PG>(c >> 2) + (c & 3)),
                     ok ? in + (size_t)gy * W + gx : in, ok);
        }
    }
    if (S == SB) {
        const float* f = filter + (size_t)r0 * SB;
        for (int idx = t; idx < rb * NC; idx += T) copy16(smem_address(wsm + 4 * idx), f + 4 * idx);
    } else {
        for (int idx = t; idx < RB * SB; idx += T) {
            const int r = idx / SB;
            const int s = idx - r * SB;
            const bool ok = r < rb && s0 + s < S;
            copy4_if(smem_address(wsm + idx),
                     ok ? filter + (size_t)(r0 + r) * S + (s0 + s) : filter, ok);
        }
    }
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
            fetch<T, GPR, 1, PG, PITCH, LY, VEC>(tile, wsm, in, filter, y0 + (unsigned)r0,
                                                 x0 + (unsigned)s0, (unsigned)H, (unsigned)W, r0,
                                                 s0, rb, S);
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
// NS warps make the same outputs, each with some rows of the filter; WARPS / NS such groups lie
// below each other.
template <int LX, int TY, int WARPS, int NS, int MINB, bool VEC>
__global__ void __launch_bounds__(WARPS * 32, MINB)
    conv_strip(const float* __restrict__ in, const float* __restrict__ filter,
               float* __restrict__ out, int H, int W, int R, int S, unsigned tiles_x)
{
    constexpr int T = WARPS * 32;
    constexpr int TW = 16 * LX;
    constexpr int WTH = 32 / LX * TY;
    constexpr int TH = (WARPS / NS) * WTH;
    constexpr int GPR = 4 * LX + NC;
    constexpr int PG = (GPR + 3) / 4;
    constexpr int PITCH = (4 * PG + 2) * 4;      // eight lanes meet no bank twice
    constexpr int TILE = (TH + RB - 1) * PITCH;
    constexpr int RED = NS * TH * TW;
    static_assert(WARPS % NS == 0 && (TY == 1 || TY == 2), "shape");
    static_assert(NS == 1 || NS % 2 == 0, "sums are taken in pairs");
    __shared__ __align__(16) float buf[TILE > RED ? TILE : RED];
    __shared__ __align__(16) float wsm[RB * SB];

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int part = NS == 1 ? 0 : warp % NS;
    const int vert = NS == 1 ? warp : warp / NS;
    const int lx = lane & (LX - 1);
    const int ly = lane / LX;
    const int yb = vert * WTH + ly * TY;
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
        const int per = (rb + NS - 1) / NS;
        const int rbeg = part * per;
        const int rend = min(rb, rbeg + per);
        for (int s0 = 0; s0 < S; s0 += SB) {
            if (r0 > 0 || s0 > 0) __syncthreads();
            fetch<T, GPR, 2, PG, PITCH, TH, VEC>(buf, wsm, in, filter, y0 + (unsigned)r0,
                                                 x0 + (unsigned)s0, (unsigned)H, (unsigned)W, r0,
                                                 s0, rb, S);
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
            float* d = buf + (part * TH + yb + ty) * TW;
#pragma unroll
            for (int k = 0; k < 4; ++k)
                *reinterpret_cast<float4*>(d + 4 * ((lx * 4 + k) ^ f)) = make_float4(
                    acc[ty][4 * k], acc[ty][4 * k + 1], acc[ty][4 * k + 2], acc[ty][4 * k + 3]);
        }
    }
    __syncthreads();

    // A thread keeps its column; every address but the output's is a constant apart.
    constexpr int RSTEP = T / TW;
    constexpr int FR = (LX == 4 ? 2 : 4) * TY;           // the swizzle repeats after so many rows
    constexpr int PERIOD = FR > RSTEP ? FR / RSTEP : 1;
    constexpr int ITER = (TH + RSTEP - 1) / RSTEP;
    static_assert(T % TW == 0 && (FR % RSTEP == 0 || RSTEP % FR == 0), "store shape");
    const int c = t & (TW - 1);
    const int row0 = t / TW;
    const int g = c >> 2;
    const float* s[PERIOD];
#pragma unroll
    for (int k = 0; k < PERIOD; ++k) {
        const int row = row0 + k * RSTEP;
        const int lrow = row / TY;
        const int f = LX == 4 ? (((g >> 3) & 1) | ((lrow & 1) << 1)) : (lrow & 3);
        s[k] = buf + row * TW + 4 * (g ^ f) + (c & 3);
    }

    const unsigned oh = (unsigned)(H - R + 1), ow = (unsigned)(W - S + 1);
    const bool full = y0 + (unsigned)TH <= oh && x0 + (unsigned)TW <= ow;
    const bool column = x0 + (unsigned)c < ow;
    const int limit = full ? TH : (column ? (int)min((unsigned)TH, oh - y0) : 0);
    float* q = out + (size_t)(y0 + (unsigned)row0) * ow + (x0 + (unsigned)c);
    const size_t down = (size_t)RSTEP * ow;

    if (full) {
#pragma unroll
        for (int k = 0; k < ITER; ++k) {
            if ((k + 1) * RSTEP <= TH || row0 + k * RSTEP < TH) {
                const float* sp = s[k % PERIOD] + (k / PERIOD) * (PERIOD * RSTEP * TW);
                float v = sp[0];
                if (NS > 1) {
                    float v1 = sp[(NS > 1 ? 1 : 0) * TH * TW];
#pragma unroll
                    for (int m = 2; m + 1 < NS; m += 2) {
                        v += sp[m * TH * TW];
                        v1 += sp[(m + 1) * TH * TW];
                    }
                    v += v1;
                }
                *q = v;
            }
            q += down;
        }
    } else {
#pragma unroll
        for (int k = 0; k < ITER; ++k) {
            if (row0 + k * RSTEP < limit) {
                const float* sp = s[k % PERIOD] + (k / PERIOD) * (PERIOD * RSTEP * TW);
                float v = sp[0];
                if (NS > 1) {
                    float v1 = sp[(NS > 1 ? 1 : 0) * TH * TW];
#pragma unroll
                    for (int m = 2; m + 1 < NS; m += 2) {
                        v += sp[m * TH * TW];
                        v1 += sp[(m + 1) * TH * TW];
                    }
                    v += v1;
                }
                *q = v;
            }
            q += down;
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
    if (tx64 * ty64 > 264) {
        // Four blocks an SM (the unused 8 KiB keep a fifth out), so that the waves come out even.
        const unsigned g = (unsigned)(tx64 * ty64);
        if (vec)
            conv_strip<4, 2, 4, 1, 4, true>
                <<<g, 128, 8192>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
        else
            conv_strip<4, 2, 4, 1, 4, false>
                <<<g, 128, 8192>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
    } else if (tx64 * ty64 >= 132) {
        // At most two blocks an SM: two warps share the rows of the filter.
        const unsigned g = (unsigned)(tx64 * ty64);
        if (vec)
            conv_strip<4, 2, 8, 2, 2, true>
                <<<g, 256>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
        else
            conv_strip<4, 2, 8, 2, 2, false>
                <<<g, 256>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
    } else if (tx64 * ty16 >= 132) {
        const unsigned g = (unsigned)(tx64 * ty16);
        if (vec)
            conv_strip<4, 2, 8, 8, 2, true>
                <<<g, 256>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
        else
            conv_strip<4, 2, 8, 8, 2, false>
                <<<g, 256>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
    } else if (tx32 * ty16 >= 100) {
        const unsigned g = (unsigned)(tx32 * ty16);
        if (vec)
            conv_strip<2, 1, 12, 12, 1, true>
                <<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
        else
            conv_strip<2, 1, 12, 12, 1, false>
                <<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
    } else {
        const unsigned g = (unsigned)(tx32 * ty4);
        if (vec)
            conv_small<true><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
        else
            conv_small<false><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
    }
}
