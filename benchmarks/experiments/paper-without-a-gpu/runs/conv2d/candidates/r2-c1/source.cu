// Two sliding window rows a weight; split rows; staged stores.

#include <cuda_runtime.h>

namespace {

// The filter is taken in pieces of at most RB x SB weights (a step of the product's inner extent).
constexpr int RB = 24;
constexpr int SB = 24;
constexpr int NC = SB / 4;
constexpr int NX = 4 * (NC + 2);       // values of a window row, for 8 outputs

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

// Columns lie in groups of four, the even groups first, then the odd ones: threads whose windows
// start 8 apart read neighbouring groups.
template <int PG>
__device__ __forceinline__ int place(int group)
{
    return ((group & 1) * PG + (group >> 1)) * 4;
}

// Brings rows x (4 * GPR) of the image and the piece of the filter; what lies outside is zero.
template <int T, int GPR, int PG, bool VEC>
__device__ __forceinline__ void fetch(float* tile, float* wsm, const float* __restrict__ in,
                                      const float* __restrict__ filter, unsigned gy0, unsigned gx0,
                                      unsigned H, unsigned W, int rows, int r0, int s0, int rb,
                                      int S)
{
    const int t = threadIdx.x;
    constexpr int PITCH = 2 * PG * 4;
    if (VEC) {
        for (int idx = t; idx < rows * GPR; idx += T) {
            const int row = idx / GPR;
            const int g = idx - row * GPR;
            const unsigned gy = gy0 + row, gx = gx0 + 4 * g;
            const bool ok = gy < H && gx < W;
            copy16(tile + row * PITCH + place<PG>(g), ok ? in + (size_t)gy * W + gx : in, ok);
        }
    } else {
        for (int idx = t; idx < rows * (GPR * 4); idx += T) {
            const int row = idx / (GPR * 4);
            const int c = idx - row * (GPR * 4);
            const unsigned gy = gy0 + row, gx = gx0 + c;
            const bool ok = gy < H && gx < W;
            copy4(tile + row * PITCH + place<PG>(c >> 2) + (c & 3),
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

// The window row of a lane.
template <int PG>
__device__ __forceinline__ void load_window(float (&x)[NX], const float* p)
{
#pragma unroll
    for (int g = 0; g < NC + 2; ++g) {
        const float4 q =
            *reinterpret_cast<const float4*>(p + ((g & 1) * PG + (g >> 1)) * 4);
        x[4 * g] = q.x;
        x[4 * g + 1] = q.y;
        x[4 * g + 2] = q.z;
        x[4 * g + 3] = q.w;
    }
}

// One row of weights for two output rows, whose window rows are xa and xb.
__device__ __forceinline__ void product2(float (&acc)[2][8], const float (&xa)[NX],
                                         const float (&xb)[NX], const float* w)
{
#pragma unroll
    for (int j = 0; j < NC; ++j) {
        const float4 q = *reinterpret_cast<const float4*>(w + 4 * j);
        const float v[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
#pragma unroll
            for (int i = 0; i < 8; ++i) acc[0][i] = fmaf(v[k], xa[4 * j + k + i], acc[0][i]);
#pragma unroll
            for (int i = 0; i < 8; ++i) acc[1][i] = fmaf(v[k], xb[4 * j + k + i], acc[1][i]);
        }
    }
}

// One row of the image, for TY rows of 8 outputs.
template <int TY, bool CHECK, int PG>
__device__ __forceinline__ void row_product(float (&acc)[TY][8], const float* p, const float* wsm,
                                            int u, int rb)
{
    float x[NX];
    load_window<PG>(x, p);
#pragma unroll
    for (int j = 0; j < NC; ++j) {
#pragma unroll
        for (int ty = 0; ty < TY; ++ty) {
            const int r = u - ty;
            if (!CHECK || (r >= 0 && r < rb)) {
                const float4 w = *reinterpret_cast<const float4*>(wsm + r * SB + 4 * j);
#pragma unroll
                for (int i = 0; i < 8; ++i) acc[ty][i] = fmaf(w.x, x[4 * j + i], acc[ty][i]);
#pragma unroll
                for (int i = 0; i < 8; ++i) acc[ty][i] = fmaf(w.y, x[4 * j + 1 + i], acc[ty][i]);
#pragma unroll
                for (int i = 0; i < 8; ++i) acc[ty][i] = fmaf(w.z, x[4 * j + 2 + i], acc[ty][i]);
#pragma unroll
                for (int i = 0; i < 8; ++i) acc[ty][i] = fmaf(w.w, x[4 * j + 3 + i], acc[ty][i]);
            }
        }
    }
}

// Smallest images: a block makes 32 x LY outputs, its warps share the rows of the filter.
template <int LY, bool VEC>
__global__ void __launch_bounds__(384, 3)
    conv_split(const float* __restrict__ in, const float* __restrict__ filter,
               float* __restrict__ out, int H, int W, int R, int S, unsigned tiles_x)
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

    float acc[1][8];
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[0][i] = 0.f;

    for (int r0 = 0; r0 < R; r0 += RB) {
        const int rb = min(RB, R - r0);
        for (int s0 = 0; s0 < S; s0 += SB) {
            if (r0 > 0 || s0 > 0) __syncthreads();
            fetch<T, GPR, PG, VEC>(tile, wsm, in, filter, y0 + r0, x0 + s0, (unsigned)H,
                                   (unsigned)W, LY + rb - 1, r0, s0, rb, S);
            copies_wait();
            __syncthreads();
            for (int r = group; r < rb; r += GROUPS)
                row_product<1, false, PG>(acc, tile + (ly + r) * PITCH + lx * 4, wsm, r, rb);
        }
    }
    __syncwarp();
    if (GW == 2) {
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[0][i] += __shfl_xor_sync(0xffffffffu, acc[0][i], 16);
    }
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

// Middle images: a block makes 32 x 16 outputs, a lane two rows of 8; each warp takes
// consecutive rows of the filter and slides down the image with two window rows in registers.
template <int WARPS, int MINB, bool VEC>
__global__ void __launch_bounds__(WARPS * 32, MINB)
    conv_pair(const float* __restrict__ in, const float* __restrict__ filter,
              float* __restrict__ out, int H, int W, int R, int S, unsigned tiles_x)
{
    constexpr int T = WARPS * 32;
    constexpr int LY = 16;
    constexpr int GPR = 8 + NC;
    constexpr int PG = 7;                  // pitch 56: rows two apart lie 16 banks apart
    constexpr int PITCH = 2 * PG * 4;
    __shared__ __align__(16) float tile[(LY + RB - 1) * PITCH];
    __shared__ __align__(16) float wsm[RB * SB];
    __shared__ __align__(16) float red[WARPS * LY * 32];

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int lx = lane & 3;
    const int ly = lane >> 2;
    const unsigned by = blockIdx.x / tiles_x;
    const unsigned bx = blockIdx.x - by * tiles_x;
    const unsigned x0 = bx * 32u, y0 = by * (unsigned)LY;

    float acc[2][8];
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[0][i] = acc[1][i] = 0.f;

    for (int r0 = 0; r0 < R; r0 += RB) {
        const int rb = min(RB, R - r0);
        const int per = (rb + WARPS - 1) / WARPS;
        const int rbeg = warp * per;
        const int rend = min(rbeg + per, rb);
        for (int s0 = 0; s0 < S; s0 += SB) {
            if (r0 > 0 || s0 > 0) __syncthreads();
            fetch<T, GPR, PG, VEC>(tile, wsm, in, filter, y0 + r0, x0 + s0, (unsigned)H,
                                   (unsigned)W, LY + rb - 1, r0, s0, rb, S);
            copies_wait();
            __syncthreads();
            if (rbeg < rend) {
                const float* p = tile + (2 * ly + rbeg) * PITCH + lx * 4;
                const float* w = wsm + rbeg * SB;
                float xa[NX], xb[NX];
                load_window<PG>(xa, p);
#pragma unroll 1
                for (int r = rbeg; r < rend; r += 2) {
                    load_window<PG>(xb, p + PITCH);
                    product2(acc, xa, xb, w);
                    if (r + 1 < rend) {
                        load_window<PG>(xa, p + 2 * PITCH);
                        product2(acc, xb, xa, w + SB);
                    }
                    p += 2 * PITCH;
                    w += 2 * SB;
                }
            }
        }
    }

    // Groups of four columns lie swapped in every other pair of rows: no bank conflicts.
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        float4* d = reinterpret_cast<float4*>(red + (warp * LY + 2 * ly + k) * 32);
        d[(2 * lx) ^ (ly & 1)] = make_float4(acc[k][0], acc[k][1], acc[k][2], acc[k][3]);
        d[(2 * lx + 1) ^ (ly & 1)] = make_float4(acc[k][4], acc[k][5], acc[k][6], acc[k][7]);
    }
    __syncthreads();
    const unsigned oh = (unsigned)(H - R + 1), ow = (unsigned)(W - S + 1);
    for (int o = t; o < LY * 32; o += T) {
        const int row = o >> 5, col = o & 31;
        const int at = row * 32 + (col ^ (((row >> 1) & 1) << 2));
        float s0 = 0.f, s1 = 0.f;
#pragma unroll
        for (int k = 0; k < WARPS; k += 2) {
            s0 += red[k * LY * 32 + at];
            s1 += red[(k + 1) * LY * 32 + at];
        }
        const unsigned oy = y0 + (unsigned)row, ox = x0 + (unsigned)col;
        if (oy < oh && ox < ow) out[(size_t)oy * ow + ox] = s0 + s1;
    }
}

// Large images: a block makes 64 x 64 outputs, a thread 4 rows of 8.
template <bool VEC>
__global__ void __launch_bounds__(128, 4)
    conv_big(const float* __restrict__ in, const float* __restrict__ filter,
             float* __restrict__ out, int H, int W, int R, int S, unsigned tiles_x)
{
    constexpr int T = 128;
    constexpr int GPR = 16 + NC;
    constexpr int PG = 11;
    constexpr int PITCH = 2 * PG * 4;
    __shared__ __align__(16) float tile[(64 + RB - 1) * PITCH];
    __shared__ __align__(16) float wsm[RB * SB];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int lx = lane & 7;
    const int yl = (lane >> 3) * 4;        // first row of the thread, in its warp
    const int yb = warp * 16 + yl;
    const unsigned by = blockIdx.x / tiles_x;
    const unsigned bx = blockIdx.x - by * tiles_x;
    const unsigned x0 = bx * 64u, y0 = by * 64u;

    float acc[4][8];
#pragma unroll
    for (int ty = 0; ty < 4; ++ty)
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[ty][i] = 0.f;

    for (int r0 = 0; r0 < R; r0 += RB) {
        const int rb = min(RB, R - r0);
        for (int s0 = 0; s0 < S; s0 += SB) {
            if (r0 > 0 || s0 > 0) __syncthreads();
            fetch<T, GPR, PG, VEC>(tile, wsm, in, filter, y0 + r0, x0 + s0, (unsigned)H,
                                   (unsigned)W, 64 + rb - 1, r0, s0, rb, S);
            copies_wait();
            __syncthreads();
            const float* p = tile + yb * PITCH + lx * 4;
#pragma unroll 1
            for (int u = 0; u < rb + 3; ++u, p += PITCH) {
                if (u >= 3 && u < rb)
                    row_product<4, false, PG>(acc, p, wsm, u, rb);
                else
                    row_product<4, true, PG>(acc, p, wsm, u, rb);
            }
        }
    }

    // Through shared memory, so that a warp stores neighbours: 16 rows of 64 a warp. Groups of
    // four columns lie swapped in the right half: no bank conflicts.
    __syncthreads();
    float* stage = tile + warp * 1024;
#pragma unroll
    for (int ty = 0; ty < 4; ++ty) {
        float4* d = reinterpret_cast<float4*>(stage + (yl + ty) * 64);
        d[(2 * lx) ^ (lx >> 2)] = make_float4(acc[ty][0], acc[ty][1], acc[ty][2], acc[ty][3]);
        d[(2 * lx + 1) ^ (lx >> 2)] = make_float4(acc[ty][4], acc[ty][5], acc[ty][6], acc[ty][7]);
    }
    __syncwarp();
    const unsigned oh = (unsigned)(H - R + 1), ow = (unsigned)(W - S + 1);
    const unsigned oy0 = y0 + (unsigned)(warp * 16);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const unsigned ox = x0 + (unsigned)(half * 32 + lane);
        const float* s = stage + half * 32 + (lane ^ (half << 2));
        if (ox < ow) {
            float* q = out + (size_t)oy0 * ow + ox;
#pragma unroll
            for (int k = 0; k < 16; ++k) {
                if (oy0 + (unsigned)k < oh) q[(size_t)k * ow] = s[k * 64];
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
    if (tx64 * ty64 >= 132) {
        const unsigned g = (unsigned)(tx64 * ty64);
        if (vec)
            conv_big<true><<<g, 128>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
        else
            conv_big<false><<<g, 128>>>(input, filter, output, H, W, R, S, (unsigned)tx64);
    } else if (tx32 * ty16 > 132) {
        const unsigned g = (unsigned)(tx32 * ty16);
        if (vec)
            conv_pair<8, 2, true><<<g, 256>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
        else
            conv_pair<8, 2, false><<<g, 256>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
    } else if (tx32 * ty16 >= 72) {
        const unsigned g = (unsigned)(tx32 * ty16);
        if (vec)
            conv_pair<12, 1, true><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
        else
            conv_pair<12, 1, false><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
    } else {
        const unsigned g = (unsigned)(tx32 * ty4);
        if (vec)
            conv_split<4, true><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
        else
            conv_split<4, false><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
    }
}
