// Eight-by-eight outputs a thread, constant weights sliding past image rows.

#include <cuda_runtime.h>

namespace {

// The filter is taken in pieces of at most RB x SB weights (a step of the product's inner extent).
constexpr int RB = 24;
constexpr int SB = 24;
constexpr int NC = SB / 4;

// Weights of conv_square: RB rows of NC groups of four.
__constant__ float4 c_weights[RB * NC];
__device__ float g_padded[RB * SB];

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
__device__ __forceinline__ void fetch_image(float* tile, const float* __restrict__ in, unsigned gy0,
                                            unsigned gx0, unsigned H, unsigned W, int rows)
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

// Brings a piece of the filter; what lies outside is zero.
template <int T>
__device__ __forceinline__ void fetch_filter(float* wsm, const float* __restrict__ filter, int r0,
                                             int s0, int rb, int S)
{
    const int t = threadIdx.x;
    if (S == SB) {
        const float* f = filter + (size_t)r0 * SB;
        for (int idx = t; idx < rb * NC; idx += T) copy16(wsm + 4 * idx, f + 4 * idx);
    } else {
        for (int idx = t; idx < RB * SB; idx += T) {
            const int r = idx / SB;
            const int s = idx - r * SB;
            const bool ok = r < rb && s0 + s < S;
            copy4_if(wsm + idx, ok ? filter + (size_t)(r0 + r) * S + (s0 + s) : filter, ok);
        }
    }
}

// ---------------------------------------------------------------- large images

constexpr int QT = 128;                    // threads: 4 warps below each other, 32 rows each
constexpr int QW = 64;
constexpr int QH = 128;
constexpr int QGPR = QW / 4 + NC;          // 22 groups of four columns
constexpr int QPG = QGPR / 2;
constexpr int QPITCH = QGPR * 4;
constexpr int QROWS = QH + RB - 1;
constexpr int QBYTES = QROWS * QPITCH * 4;
constexpr int OPITCH = 80;                 // of the staged outputs

__device__ __forceinline__ void load_row(float (&x)[12], const float* pa, const float* pb)
{
    const float4 a = *reinterpret_cast<const float4*>(pa);
    const float4 b = *reinterpret_cast<const float4*>(pb);
    const float4 c = *reinterpret_cast<const float4*>(pa + 4);
    x[0] = a.x; x[1] = a.y; x[2] = a.z; x[3] = a.w;
    x[4] = b.x; x[5] = b.y; x[6] = b.z; x[7] = b.w;
    x[8] = c.x; x[9] = c.y; x[10] = c.z; x[11] = c.w;
}

__device__ __forceinline__ void fma_row(float (&a)[8], const float (&x)[12], float4 w)
{
#pragma unroll
    for (int i = 0; i < 8; ++i) a[i] = fmaf(w.x, x[i], a[i]);
#pragma unroll
    for (int i = 0; i < 8; ++i) a[i] = fmaf(w.y, x[i + 1], a[i]);
#pragma unroll
    for (int i = 0; i < 8; ++i) a[i] = fmaf(w.z, x[i + 2], a[i]);
#pragma unroll
    for (int i = 0; i < 8; ++i) a[i] = fmaf(w.w, x[i + 3], a[i]);
}

// Filters of up to 24 x 24, padded with zeros in constant memory. A block makes 64 x 128 outputs,
// a thread 8 x 8. Four columns of the filter at a time: an image row is read once for all eight
// output rows, eight rows of weights slide along in registers.
__global__ void __launch_bounds__(QT, 4)
    conv_square(const float* __restrict__ in, float* __restrict__ out, int H, int W, int R, int S,
                unsigned tiles_x)
{
    extern __shared__ float4 q_shared[];
    float* const buf = reinterpret_cast<float*>(q_shared);

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int lx = lane & 7;
    const int ly = lane >> 3;
    const int yb = warp * 32 + ly * 8;
    const unsigned by = blockIdx.x / tiles_x;
    const unsigned bx = blockIdx.x - by * tiles_x;
    const unsigned x0 = bx * (unsigned)QW, y0 = by * (unsigned)QH;

    fetch_image<QT, QGPR, 1, QPG, QPITCH, true>(buf, in, y0, x0, (unsigned)H, (unsigned)W, QROWS);

    float acc[8][8];
#pragma unroll
    for (int ty = 0; ty < 8; ++ty)
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[ty][i] = 0.f;

    copies_wait();
    __syncthreads();

    const float* const mine = buf + yb * QPITCH + lx * 4;
#pragma unroll 1
    for (int c = 0; c < NC; ++c) {
        const float* pa = mine + place<1, QPG>(c);
        const float* pb = mine + place<1, QPG>(c + 1);
        float4 w[8];                       // row r of the filter is in w[r & 7]
        float x[12];
#pragma unroll
        for (int j = 0; j < 7; ++j) {
            w[j] = c_weights[j * NC + c];
            load_row(x, pa + j * QPITCH, pb + j * QPITCH);
#pragma unroll
            for (int ty = 0; ty <= j; ++ty) fma_row(acc[ty], x, w[j - ty]);
        }
        pa += 7 * QPITCH;
        pb += 7 * QPITCH;
#pragma unroll 1
        for (int j0 = 7; j0 < 23; j0 += 8) {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                w[(7 + k) & 7] = c_weights[(j0 + k) * NC + c];
                load_row(x, pa + k * QPITCH, pb + k * QPITCH);
#pragma unroll
                for (int ty = 0; ty < 8; ++ty) fma_row(acc[ty], x, w[(15 + k - ty) & 7]);
            }
            pa += 8 * QPITCH;
            pb += 8 * QPITCH;
        }
        w[7] = c_weights[23 * NC + c];
#pragma unroll
        for (int j = 23; j < 31; ++j) {
            load_row(x, pa + (j - 23) * QPITCH, pb + (j - 23) * QPITCH);
#pragma unroll
            for (int ty = j - 23; ty < 8; ++ty) fma_row(acc[ty], x, w[(j - ty) & 7]);
        }
    }

    // Through shared memory, so that neighbouring lanes store neighbouring outputs.
    // Group g of a row lies at (g & 1) * 12 + g / 2; a warp stages and stores its own 32 rows.
    __syncthreads();
#pragma unroll
    for (int ty = 0; ty < 8; ++ty) {
        float* d = buf + (yb + ty) * OPITCH + lx * 4;
        *reinterpret_cast<float4*>(d) =
            make_float4(acc[ty][0], acc[ty][1], acc[ty][2], acc[ty][3]);
        *reinterpret_cast<float4*>(d + 48) =
            make_float4(acc[ty][4], acc[ty][5], acc[ty][6], acc[ty][7]);
    }
    __syncwarp();

    const unsigned oh = (unsigned)(H - R + 1), ow = (unsigned)(W - S + 1);
    const unsigned yw = y0 + (unsigned)warp * 32u;
    if (yw >= oh) return;
    const int rows = (int)min(32u, oh - yw);
    const bool ok0 = x0 + (unsigned)lane < ow;
    const bool ok1 = x0 + (unsigned)lane + 32u < ow;
    const int g = lane >> 2;
    const float* s = buf + warp * 32 * OPITCH + ((g & 1) * 12 + (g >> 1)) * 4 + (lane & 3);
    float* q = out + (size_t)yw * ow + x0 + (unsigned)lane;
#pragma unroll 4
    for (int row = 0; row < rows; ++row) {
        if (ok0) q[0] = s[0];
        if (ok1) q[32] = s[16];
        s += OPITCH;
        q += ow;
    }
}

__global__ void __launch_bounds__(RB * SB) pad_filter(const float* __restrict__ filter, int R, int S)
{
    const int r = threadIdx.x / SB;
    const int s = threadIdx.x - r * SB;
    g_padded[threadIdx.x] = r < R && s < S ? filter[r * S + s] : 0.f;
}

// ---------------------------------------------------------------- smaller images, any filter

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
            fetch_image<T, GPR, 1, PG, PITCH, VEC>(tile, in, y0 + r0, x0 + s0, (unsigned)H,
                                                   (unsigned)W, LY + rb - 1);
            fetch_filter<T>(wsm, filter, r0, s0, rb, S);
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
            fetch_image<T, GPR, 2, PG, PITCH, VEC>(buf, in, y0 + r0, x0 + s0, (unsigned)H,
                                                   (unsigned)W, TH + rb - 1);
            fetch_filter<T>(wsm, filter, r0, s0, rb, S);
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

}  // namespace

extern "C" void solve(const float* input, const float* filter, float* output, int H, int W, int R,
                      int S)
{
    const unsigned long long oh = (unsigned long long)(H - R) + 1, ow = (unsigned long long)(W - S) + 1;
    const unsigned long long tx64 = (ow + 63) / 64, ty64 = (oh + 63) / 64, ty128 = (oh + 127) / 128;
    const unsigned long long tx32 = (ow + 31) / 32, ty16 = (oh + 15) / 16, ty4 = (oh + 3) / 4;
    const bool vec = W % 4 == 0;
    const bool piece = R <= RB && S <= SB && R > RB - 4 && S > SB - 4;   // nearly a whole piece
    if (vec && piece && tx64 * ty128 >= 110) {
        if (R == RB && S == SB) {
            cudaMemcpyToSymbolAsync(c_weights, filter, sizeof(float) * RB * SB, 0,
                                    cudaMemcpyDeviceToDevice, 0);
        } else {
            void* padded = nullptr;
            pad_filter<<<1, RB * SB>>>(filter, R, S);
            cudaGetSymbolAddress(&padded, g_padded);
            cudaMemcpyToSymbolAsync(c_weights, padded, sizeof(float) * RB * SB, 0,
                                    cudaMemcpyDeviceToDevice, 0);
        }
        cudaFuncSetAttribute(conv_square, cudaFuncAttributeMaxDynamicSharedMemorySize, QBYTES);
        conv_square<<<(unsigned)(tx64 * ty128), QT, QBYTES>>>(input, output, H, W, R, S,
                                                              (unsigned)tx64);
    } else if (tx64 * ty64 >= 132) {
        const unsigned g = (unsigned)(tx64 * ty64);
        if (vec)
            conv_strip<4, 2, 4, false, 5, true>
                <<<g, 128>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
        else
            conv_strip<4, 2, 4, false, 5, false>
                <<<g, 128>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
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
