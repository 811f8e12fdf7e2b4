// 4x4 register blocks, shuffles between lanes, full 128-byte lines

#include <cuda_runtime.h>

static constexpr int WARPS_X = 4;                 // warps of a block along columns
static constexpr int WARPS_Y = 2;                 // and along rows
static constexpr int TILE_C = 32 * WARPS_X;       // 128 columns a block
static constexpr int TILE_R = 32 * WARPS_Y;       // 64 rows a block

// rows and cols are multiples of 4. A warp moves a tile of 32 x 32.
// FULL: they are multiples of the block's tile too.
template <bool FULL>
__global__ void __launch_bounds__(256, 4)
transpose_vec(const unsigned* __restrict__ input, unsigned* __restrict__ output, int rows, int cols, int tiles_y)
{
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int col0 = blockIdx.x * TILE_C + (warp & (WARPS_X - 1)) * 32;

    // Loading: lane (a, b) reads rows 8a + 4k + f, columns 4b .. 4b + 3.
    const int a = lane >> 3;
    const int b = lane & 7;
    const bool b0 = (lane & 1) != 0;

    // Storing: lane (h, l) writes output rows 4 (2h + j) + e, output columns 4l .. 4l + 3.
    const int h = lane >> 3;
    const int l = lane & 7;
    const int kd = l & 1;
    const bool kb = kd != 0;
    const int src0 = (l >> 1) * 8 + h * 2 + kd;
    const int src1 = src0 ^ 1;

    for (int ty = blockIdx.y; ty < tiles_y; ty += gridDim.y) {
        const int row0 = ty * TILE_R + (warp / WARPS_X) * 32;

        unsigned v[2][4][4];
        const unsigned* p = input + (size_t)(row0 + 8 * a) * (size_t)cols + (col0 + 4 * b);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const bool in = FULL || (row0 + 8 * a + 4 * k < rows && col0 + 4 * b < cols);
#pragma unroll
            for (int f = 0; f < 4; f++) {
                uint4 t = make_uint4(0u, 0u, 0u, 0u);
                if (in) {
                    t = __ldcs(reinterpret_cast<const uint4*>(p + (size_t)(4 * k + f) * (size_t)cols));
                }
                v[k][f][0] = t.x;
                v[k][f][1] = t.y;
                v[k][f][2] = t.z;
                v[k][f][3] = t.w;
            }
        }

        unsigned* q = output + (size_t)(col0 + 8 * h) * (size_t)rows + (row0 + 4 * l);
        const bool out_c = FULL || row0 + 4 * l < rows;
        const bool out0 = FULL || (out_c && col0 + 8 * h < cols);
        const bool out1 = FULL || (out_c && col0 + 8 * h + 4 < cols);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            unsigned j0[4], j1[4];
#pragma unroll
            for (int f = 0; f < 4; f++) {
                const unsigned w0 = v[0][f][e];
                const unsigned w1 = v[1][f][e];
                const unsigned o0 = b0 ? w1 : w0;
                const unsigned o1 = b0 ? w0 : w1;
                const unsigned r0 = __shfl_sync(0xffffffffu, o0, src0);
                const unsigned r1 = __shfl_sync(0xffffffffu, o1, src1);
                j0[f] = kb ? r1 : r0;
                j1[f] = kb ? r0 : r1;
            }
            if (out0) {
                *reinterpret_cast<uint4*>(q + (size_t)e * (size_t)rows) =
                    make_uint4(j0[0], j0[1], j0[2], j0[3]);
            }
            if (out1) {
                *reinterpret_cast<uint4*>(q + (size_t)(4 + e) * (size_t)rows) =
                    make_uint4(j1[0], j1[1], j1[2], j1[3]);
            }
        }
    }
}

// Any extents: 32 x 32 a warp, one word a lane and row, five rounds of exchanges.
__global__ void __launch_bounds__(256)
transpose_any(const unsigned* __restrict__ input, unsigned* __restrict__ output, int rows, int cols, int tiles_y)
{
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int col0 = blockIdx.x * TILE_C + (warp & (WARPS_X - 1)) * 32;

    for (int ty = blockIdx.y; ty < tiles_y; ty += gridDim.y) {
        const int row0 = ty * TILE_R + (warp / WARPS_X) * 32;
        const int left_r = rows - row0;      // may be <= 0
        const int left_c = cols - col0;

        unsigned v[32];
        const unsigned* p = input + (size_t)row0 * (size_t)cols + (size_t)(col0 + lane);
#pragma unroll
        for (int k = 0; k < 32; k++) {
            v[k] = 0u;
            if (k < left_r && lane < left_c) {
                v[k] = p[(size_t)k * (size_t)cols];
            }
        }
#pragma unroll
        for (int m = 16; m > 0; m >>= 1) {
            const bool x = (lane & m) != 0;
#pragma unroll
            for (int k = 0; k < 32; k++) {
                if ((k & m) == 0) {
                    const unsigned lo = v[k];
                    const unsigned hi = v[k | m];
                    const unsigned send = x ? lo : hi;
                    const unsigned got = __shfl_xor_sync(0xffffffffu, send, m);
                    v[k] = x ? got : lo;
                    v[k | m] = x ? hi : got;
                }
            }
        }
        unsigned* q = output + (size_t)col0 * (size_t)rows + (size_t)(row0 + lane);
#pragma unroll
        for (int k = 0; k < 32; k++) {
            if (k < left_c && lane < left_r) {
                q[(size_t)k * (size_t)rows] = v[k];
            }
        }
    }
}

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    const unsigned* in = reinterpret_cast<const unsigned*>(input);
    unsigned* out = reinterpret_cast<unsigned*>(output);
    const int tiles_x = (int)(((long long)cols + TILE_C - 1) / TILE_C);
    const int tiles_y = (int)(((long long)rows + TILE_R - 1) / TILE_R);
    const dim3 grid((unsigned)tiles_x, (unsigned)(tiles_y < 65535 ? tiles_y : 65535));

    if (rows % TILE_R == 0 && cols % TILE_C == 0) {
        transpose_vec<true><<<grid, 256>>>(in, out, rows, cols, tiles_y);
    } else if (rows % 4 == 0 && cols % 4 == 0) {
        transpose_vec<false><<<grid, 256>>>(in, out, rows, cols, tiles_y);
    } else {
        transpose_any<<<grid, 256>>>(in, out, rows, cols, tiles_y);
    }
}
