// Grid-stride tiles, 8x8 outputs a thread, weights slide in registers.

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

// Columns lie in groups of four, the even groups first, then the odd ones: threads whose windows
// start 8 apart read neighbouring groups.
template <int PG>
__device__ __forceinline__ int place(int group)
{
    return ((group & 1) * PG + (group >> 1)) * 4;
}

// Brings rows x (4 * GPR) of the image; what lies outside is zero.
template <int T, int GPR, int PG>
__device__ __forceinline__ void fetch_image(float* tile, const float* __restrict__ in,
                                            unsigned gy0, unsigned gx0, unsigned H, unsigned W,
                                            int rows, bool vec)
{
    const int t = threadIdx.x;
    constexpr int PITCH = 2 * PG * 4;
    if (vec) {
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
}

// Brings a piece of the filter, zero outside.
template <int T>
__device__ __forceinline__ void fetch_filter(float* wsm, const float* __restrict__ filter, int r0,
                                             int s0, int rb, int S)
{
    for (int idx = threadIdx.x; idx < RB * SB; idx += T) {
        const int r = idx / SB;
        const int s = idx - r * SB;
        const bool ok = r < rb && s0 + s < S;
        copy4(wsm + idx, ok ? filter + (size_t)(r0 + r) * S + (s0 + s) : filter, ok);
    }
}

// One row of the image against one row of the filter, 8 outputs.
template <int PG>
__device__ __forceinline__ void row_product(float (&acc)[8], const float* p, const float* wrow)
{
    float x[4 * (NC + 2)];
#pragma unroll
    for (int g = 0; g < NC + 2; ++g) {
        const float4 q = *reinterpret_cast<const float4*>(p + ((g & 1) * PG + (g >> 1)) * 4);
        x[4 * g] = q.x;
        x[4 * g + 1] = q.y;
        x[4 * g + 2] = q.z;
        x[4 * g + 3] = q.w;
    }
#pragma unroll
    for (int j = 0; j < NC; ++j) {
        const float4 w = *reinterpret_cast<const float4*>(wrow + 4 * j);
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[i] = fmaf(w.x, x[4 * j + i], acc[i]);
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[i] = fmaf(w.y, x[4 * j + 1 + i], acc[i]);
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[i] = fmaf(w.z, x[4 * j + 2 + i], acc[i]);
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[i] = fmaf(w.w, x[4 * j + 3 + i], acc[i]);
    }
}

// Small images: a block makes 32 x LY outputs, its warps share the rows of the filter.
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

    float acc[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[i] = 0.f;

    for (int r0 = 0; r0 < R; r0 += RB) {
        const int rb = min(RB, R - r0);
        for (int s0 = 0; s0 < S; s0 += SB) {
            if (r0 > 0 || s0 > 0) __syncthreads();
            fetch_image<T, GPR, PG>(tile, in, y0 + r0, x0 + s0, (unsigned)H, (unsigned)W,
                                    LY + rb - 1, VEC);
            fetch_filter<T>(wsm, filter, r0, s0, rb, S);
            copies_wait();
            __syncthreads();
            for (int r = group; r < rb; r += GROUPS)
                row_product<PG>(acc, tile + (ly + r) * PITCH + lx * 4, wsm + r * SB);
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
    const bool vec = (W & 3) == 0;
    const bool one_piece = R <= RB && S <= SB;
    const unsigned oh = (unsigned)(H - R + 1), ow = (unsigned)(W - S + 1);

    bool first = true;
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
                fetch_image<T, GPR, PG>(buf, in, y0 + r0, x0 + s0, (unsigned)H, (unsigned)W, ROWS,
                                        vec);
                if (first || !one_piece) fetch_filter<T>(wsm, filter, r0, s0, rb, S);
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
        const unsigned ox = x0 + (unsigned)(t & 63);
        if (ox < ow) {
            const unsigned oy0 = y0 + (unsigned)(t >> 6);
            float* q = out + (size_t)oy0 * ow + ox;
            const size_t step = (size_t)(T / 64) * ow;
#pragma unroll 8
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

}  // namespace

extern "C" void solve(const float* input, const float* filter, float* output, int H, int W, int R,
                      int S)
{
    const unsigned long long oh = (unsigned long long)(H - R) + 1, ow = (unsigned long long)(W - S) + 1;
    const unsigned long long tx64 = (ow + 63) / 64, ty64 = (oh + 63) / 64, th32 = (oh + 31) / 32;
    const unsigned long long tx32 = (ow + 31) / 32, ty8 = (oh + 7) / 8, ty4 = (oh + 3) / 4;
    const bool vec = W % 4 == 0;
    if (tx64 * ty64 >= 200) {
        const unsigned tiles = (unsigned)(tx64 * ty64);
        const unsigned g = tiles < 528u ? tiles : 528u;
        conv_tiles<8, 2, 2, 4><<<g, 128>>>(input, filter, output, H, W, R, S, (unsigned)tx64, tiles);
    } else if (tx64 * th32 >= 96) {
        const unsigned tiles = (unsigned)(tx64 * th32);
        const unsigned g = tiles < 264u ? tiles : 264u;
        conv_tiles<4, 2, 4, 2><<<g, 256>>>(input, filter, output, H, W, R, S, (unsigned)tx64, tiles);
    } else if (tx32 * ty8 >= 132) {
        const unsigned g = (unsigned)(tx32 * ty8);
        if (vec)
            conv_split<8, true><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
        else
            conv_split<8, false><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
    } else {
        const unsigned g = (unsigned)(tx32 * ty4);
        if (vec)
            conv_split<4, true><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
        else
            conv_split<4, false><<<g, 384>>>(input, filter, output, H, W, R, S, (unsigned)tx32);
    }
}
