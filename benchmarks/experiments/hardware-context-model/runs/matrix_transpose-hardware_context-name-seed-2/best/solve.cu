// Padded 64x64 shared tiles, float4 both ways, banded block order.

#include <cuda_runtime.h>
#include <cstddef>

namespace {

constexpr int TILE = 64;
constexpr int PITCH = TILE + 1;   // one column of padding
constexpr int BAND = 16;          // tile rows walked together
constexpr int THREADS = 256;

// A warp moves 4 rows x 32 columns per vector instruction. With a pitch of 65 words,
// bank = row + column (mod 32), so the scalar shared accesses
//   write: (lane / 8) + 4 * (lane % 8) + c   and   read: 4 * (lane % 8) + c + (lane / 8)
// are free of conflicts, and global memory sees whole 128-byte lines on both sides.
template <bool EXACT>
__global__ void __launch_bounds__(THREADS, 6)
transpose_vec(const float* __restrict__ input, float* __restrict__ output,
              unsigned rows, unsigned cols, unsigned tiles_x, unsigned tiles_y)
{
    __shared__ float tile[TILE * PITCH];

    unsigned tile_x, tile_y;
    if (EXACT) {
        tile_x = blockIdx.y;
        tile_y = blockIdx.z * BAND + blockIdx.x;
        if (tile_y >= tiles_y) return;      // the whole block leaves
    } else {
        tile_y = blockIdx.x / tiles_x;
        tile_x = blockIdx.x - tile_y * tiles_x;
    }
    const unsigned row0 = tile_y * TILE;
    const unsigned col0 = tile_x * TILE;

    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned a = (warp >> 1) * 4u + (lane >> 3);           // 0..15, plus 16 k
    const unsigned b = (warp & 1u) * 32u + (lane & 7u) * 4u;     // 0, 4 .. 60

    {
        const float* src = input + (size_t)(row0 + a) * cols + (col0 + b);
        const size_t step = (size_t)16 * cols;
        float4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (EXACT) {
                v[k] = __ldcs(reinterpret_cast<const float4*>(src + k * step));
            } else {
                v[k] = make_float4(0.f, 0.f, 0.f, 0.f);
                if (row0 + a + 16u * k < rows && col0 + b < cols)
                    v[k] = __ldcs(reinterpret_cast<const float4*>(src + k * step));
            }
        }
        float* t = tile + a * PITCH + b;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            t[k * 16 * PITCH + 0] = v[k].x;
            t[k * 16 * PITCH + 1] = v[k].y;
            t[k * 16 * PITCH + 2] = v[k].z;
            t[k * 16 * PITCH + 3] = v[k].w;
        }
    }

    __syncthreads();

    {
        float* dst = output + (size_t)(col0 + a) * rows + (row0 + b);
        const size_t step = (size_t)16 * rows;
        const float* t = tile + b * PITCH + a;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float4 w;
            w.x = t[0 * PITCH + 16 * k];
            w.y = t[1 * PITCH + 16 * k];
            w.z = t[2 * PITCH + 16 * k];
            w.w = t[3 * PITCH + 16 * k];
            if (EXACT || (col0 + a + 16u * k < cols && row0 + b < rows))
                *reinterpret_cast<float4*>(dst + k * step) = w;
        }
    }
}

// Any extents: scalar accesses, 32 neighbouring elements per warp.
__global__ void __launch_bounds__(THREADS)
transpose_any(const float* __restrict__ input, float* __restrict__ output,
              unsigned rows, unsigned cols, unsigned tiles_x)
{
    __shared__ float tile[TILE * PITCH];

    const unsigned tile_y = blockIdx.x / tiles_x;
    const unsigned tile_x = blockIdx.x - tile_y * tiles_x;
    const unsigned row0 = tile_y * TILE;
    const unsigned col0 = tile_x * TILE;
    const unsigned x = threadIdx.x & 31u;
    const unsigned y = threadIdx.x >> 5;

    float v[16];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const unsigned r = row0 + y + 8u * k;
            const unsigned c = col0 + x + 32u * h;
            v[2 * k + h] = 0.f;
            if (r < rows && c < cols)
                v[2 * k + h] = __ldcs(input + (size_t)r * cols + c);
        }
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
#pragma unroll
        for (int h = 0; h < 2; ++h)
            tile[(y + 8u * k) * PITCH + x + 32u * h] = v[2 * k + h];
    }

    __syncthreads();

#pragma unroll
    for (int k = 0; k < 8; ++k) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const unsigned c = col0 + y + 8u * k;      // output row
            const unsigned r = row0 + x + 32u * h;     // output column
            if (c < cols && r < rows)
                output[(size_t)c * rows + r] = tile[(x + 32u * h) * PITCH + y + 8u * k];
        }
    }
}

}  // namespace

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    if (rows <= 0 || cols <= 0) return;
    const unsigned r = (unsigned)rows;
    const unsigned c = (unsigned)cols;
    const unsigned tiles_x = (c + TILE - 1) / TILE;
    const unsigned tiles_y = (r + TILE - 1) / TILE;
    const unsigned bands = (tiles_y + BAND - 1) / BAND;

    if (r % TILE == 0 && c % TILE == 0 && tiles_x <= 65535u && bands <= 65535u) {
        const dim3 grid(tiles_y < BAND ? tiles_y : BAND, tiles_x, bands);
        transpose_vec<true><<<grid, THREADS>>>(input, output, r, c, tiles_x, tiles_y);
    } else if (r % 4 == 0 && c % 4 == 0) {
        transpose_vec<false><<<tiles_x * tiles_y, THREADS>>>(input, output, r, c, tiles_x, tiles_y);
    } else {
        transpose_any<<<tiles_x * tiles_y, THREADS>>>(input, output, r, c, tiles_x);
    }
}
