// Halo tile in shared, 4x8 register outputs, filter rows split
#include <cuda_runtime.h>

#define CONST_WEIGHTS 8192
__constant__ __align__(16) float c_weights[CONST_WEIGHTS];

__device__ __forceinline__ void copy16(float* to, const float* from, bool real)
{
    const unsigned int dst = (unsigned int)__cvta_generic_to_shared(to);
    const int bytes = real ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 : : "r"(dst), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy4(float* to, const float* from, bool real)
{
    const unsigned int dst = (unsigned int)__cvta_generic_to_shared(to);
    const int bytes = real ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 : : "r"(dst), "l"(from), "r"(bytes) : "memory");
}

// A tile of XL * 8 columns and OY * YB rows of outputs a block. A thread has OY rows of 8 columns
// and every KS-th part of the filter rows. Odd bands of OY rows begin 4 columns further left: so 8
// neighbouring lanes read 8 different quadruples of banks.
// SP: columns of the filter, padded with zeros to a multiple of 24.
template <int OY, int YB, int KS, int XL, bool CONST>
__global__ void __launch_bounds__(XL * YB * KS, (XL * YB * KS <= 128) ? 4 : 1)
conv_tile(const float* __restrict__ input, const float* __restrict__ filter,
          float* __restrict__ output, int H, int W, int R, int S, int SP, int tiles_x)
{
    constexpr int THREADS = XL * YB * KS;
    constexpr int WARPS = THREADS / 32;
    constexpr int TW = XL * 8;
    constexpr int TH = OY * YB;
    constexpr int RP = TW + 8;

    extern __shared__ __align__(16) float smem[];
    const int pitch = TW + 8 + SP;
    const int rows = TH + R - 1;
    float* tile = smem;
    float* weights = smem + (size_t)rows * pitch;

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int out_h = H - R + 1;
    const int out_w = W - S + 1;
    const int tile_y = blockIdx.x / tiles_x;
    const int tile_x = blockIdx.x - tile_y * tiles_x;
    const int y0 = tile_y * TH;
    const int x0 = tile_x * TW;

    // Weights and inputs on their way to shared memory, zeros where there are none.
    if (!CONST) {
        for (int r = warp; r < R; r += WARPS) {
            for (int s = lane; s < SP; s += 32) {
                const bool real = s < S;
                copy4(weights + r * SP + s, real ? filter + (size_t)r * S + s : filter, real);
            }
        }
    }
    if ((W & 3) == 0) {
        const int quads = pitch >> 2;
        for (int row = warp; row < rows; row += WARPS) {
            const long long gy = (long long)y0 + row;
            for (int q = lane; q < quads; q += 32) {
                const long long gx = (long long)x0 - 4 + 4 * q;
                const bool real = gy < H && gx >= 0 && gx < W;
                copy16(tile + row * pitch + 4 * q, real ? input + gy * W + gx : input, real);
            }
        }
    } else {
        for (int row = warp; row < rows; row += WARPS) {
            const long long gy = (long long)y0 + row;
            for (int q = lane; q < pitch; q += 32) {
                const long long gx = (long long)x0 - 4 + q;
                const bool real = gy < H && gx >= 0 && gx < W;
                copy4(tile + row * pitch + q, real ? input + gy * W + gx : input, real);
            }
        }
    }
    asm volatile("cp.async.wait_all;" : : : "memory");
    __syncthreads();

    const int ks = tid / (XL * YB);
    const int t = tid % (XL * YB);
    const int odd = (t >> 2) & 1;
    const int u = t >> 3;
    const int column = (u % (XL / 4)) * 32 + (t & 3) * 8 + (odd ? 0 : 4);
    const int band = (u / (XL / 4)) * 2 + odd;

    const int r0 = KS == 1 ? 0 : (int)((long long)R * ks / KS);
    const int r1 = KS == 1 ? R : (int)((long long)R * (ks + 1) / KS);

    float acc[OY][8];
#pragma unroll
    for (int oy = 0; oy < OY; ++oy) {
#pragma unroll
        for (int ox = 0; ox < 8; ++ox) acc[oy][ox] = 0.0f;
    }

    if (r1 > r0) {
        const float* from = tile + (band * OY + r0) * pitch + column;
#pragma unroll 1
        for (int ri = r0; ri < r1 + OY - 1; ++ri) {
#pragma unroll 1
            for (int s0 = 0; s0 < SP; s0 += 24) {
                float win[32];
#pragma unroll
                for (int q = 0; q < 8; ++q) {
                    const float4 v = *reinterpret_cast<const float4*>(from + s0 + 4 * q);
                    win[4 * q + 0] = v.x;
                    win[4 * q + 1] = v.y;
                    win[4 * q + 2] = v.z;
                    win[4 * q + 3] = v.w;
                }
#pragma unroll
                for (int oy = 0; oy < OY; ++oy) {
                    const int r = ri - oy;
                    if (OY == 1 || (r >= r0 && r < r1)) {
                        const int at = r * SP + s0;
#pragma unroll
                        for (int q = 0; q < 6; ++q) {
                            float4 w;
                            if (CONST) {
                                w = *reinterpret_cast<const float4*>(&c_weights[at + 4 * q]);
                            } else {
                                w = *reinterpret_cast<const float4*>(weights + at + 4 * q);
                            }
#pragma unroll
                            for (int ox = 0; ox < 8; ++ox)
                                acc[oy][ox] = fmaf(win[4 * q + 0 + ox], w.x, acc[oy][ox]);
#pragma unroll
                            for (int ox = 0; ox < 8; ++ox)
                                acc[oy][ox] = fmaf(win[4 * q + 1 + ox], w.y, acc[oy][ox]);
#pragma unroll
                            for (int ox = 0; ox < 8; ++ox)
                                acc[oy][ox] = fmaf(win[4 * q + 2 + ox], w.z, acc[oy][ox]);
#pragma unroll
                            for (int ox = 0; ox < 8; ++ox)
                                acc[oy][ox] = fmaf(win[4 * q + 3 + ox], w.w, acc[oy][ox]);
                        }
                    }
                }
            }
            from += pitch;
        }
    }
    __syncthreads();

    // Partial sums through shared memory, so that whole lines are stored.
#pragma unroll
    for (int oy = 0; oy < OY; ++oy) {
        float* to = smem + (size_t)(ks * TH + band * OY + oy) * RP + column;
        *reinterpret_cast<float4*>(to) =
            make_float4(acc[oy][0], acc[oy][1], acc[oy][2], acc[oy][3]);
        *reinterpret_cast<float4*>(to + 4) =
            make_float4(acc[oy][4], acc[oy][5], acc[oy][6], acc[oy][7]);
    }
    __syncthreads();

#pragma unroll 4
    for (int i = tid; i < TH * TW; i += THREADS) {
        const int row = i / TW;
        const int j = i % TW;
        const int shift = ((row / OY) & 1) ? 4 : 0;
        const int gx = x0 + j - shift;
        const int gy = y0 + row;
        if (gx >= 0 && gx < out_w && gy < out_h) {
            const float* from = smem + row * RP + j + 4 - shift;
            float sum = from[0];
#pragma unroll
            for (int k = 1; k < KS; ++k) sum += from[k * TH * RP];
            output[(size_t)gy * out_w + gx] = sum;
        }
    }
}

// Filters too large for shared memory.
__global__ void __launch_bounds__(256)
conv_plain(const float* __restrict__ input, const float* __restrict__ filter,
           float* __restrict__ output, int H, int W, int R, int S)
{
    const int out_w = W - S + 1;
    const size_t count = (size_t)(H - R + 1) * (size_t)out_w;
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const size_t y = i / out_w;
        const size_t x = i - y * out_w;
        float sum = 0.0f;
        for (int r = 0; r < R; ++r) {
            const float* p = input + (y + r) * W + x;
            const float* f = filter + (size_t)r * S;
            float line = 0.0f;
#pragma unroll 8
            for (int s = 0; s < S; ++s) line = fmaf(__ldg(p + s), __ldg(f + s), line);
            sum += line;
        }
        output[i] = sum;
    }
}

template <int OY, int YB, int KS, int XL, bool CONST>
static bool launch(const float* input, const float* filter, float* output, int H, int W, int R,
                   int S)
{
    const long long SP = ((long long)S + 23) / 24 * 24;
    const long long TW = XL * 8;
    const long long TH = OY * YB;
    long long words = (TH + R - 1) * (TW + 8 + SP);
    if (!CONST) words += (long long)R * SP;
    const long long sums = KS * TH * (TW + 8);
    if (sums > words) words = sums;
    const long long bytes = words * 4;
    if (bytes > 227 * 1024) return false;

    const long long out_h = (long long)H - R + 1;
    const long long out_w = (long long)W - S + 1;
    const long long tiles_x = (out_w + 4 + TW - 1) / TW;
    const long long tiles_y = (out_h + TH - 1) / TH;
    if (tiles_x * tiles_y > 2147483647LL) return false;

    if (bytes > 48 * 1024) {
        cudaFuncSetAttribute(conv_tile<OY, YB, KS, XL, CONST>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    }
    if (CONST) {
        cudaMemcpyToSymbolAsync(c_weights, filter, (size_t)R * S * sizeof(float), 0,
                                cudaMemcpyDeviceToDevice, 0);
    }
    conv_tile<OY, YB, KS, XL, CONST><<<(unsigned int)(tiles_x * tiles_y), XL * YB * KS,
                                      (size_t)bytes>>>(input, filter, output, H, W, R, S,
                                                       (int)SP, (int)tiles_x);
    return true;
}

extern "C" void solve(const float* input, const float* filter, float* output, int H, int W, int R,
                      int S)
{
    const long long outputs = ((long long)H - R + 1) * ((long long)W - S + 1);

    if (outputs >= 3000000 && S % 24 == 0 && (long long)R * S <= CONST_WEIGHTS) {
        if (launch<4, 8, 1, 16, true>(input, filter, output, H, W, R, S)) return;
    }
    if (outputs >= 700000) {
        if (launch<4, 8, 2, 16, false>(input, filter, output, H, W, R, S)) return;
    }
    if (outputs >= 150000) {
        if (launch<4, 4, 4, 16, false>(input, filter, output, H, W, R, S)) return;
    }
    if (outputs >= 30000) {
        if (launch<2, 2, 8, 16, false>(input, filter, output, H, W, R, S)) return;
    }
    if (launch<1, 2, 24, 8, false>(input, filter, output, H, W, R, S)) return;

    long long blocks = (outputs + 255) / 256;
    if (blocks > 1000000) blocks = 1000000;
    conv_plain<<<(unsigned int)blocks, 256>>>(input, filter, output, H, W, R, S);
}
