// Padded 64x64 shared tiles, conflict-free float4 both ways, grouped blocks

#include <cuda_runtime.h>

namespace {

constexpr unsigned TILE = 64;
constexpr unsigned THREADS = 256;
constexpr unsigned GROUP = 16;   // tile rows that neighbouring blocks walk together

// Both extents are multiples of 4, so each float4 lies inside or outside as a whole.
// A warp moves 4 rows of 128 bytes: with a pitch of 65 words its 32 lanes hit 32 banks
// (bank = 4 * (lane & 7) + (lane >> 3) + constant) when writing and when reading.
__global__ void __launch_bounds__(THREADS, 8)
transpose_vec(const float* __restrict__ input, float* __restrict__ output,
              unsigned rows, unsigned cols)
{
    __shared__ float tile[TILE][TILE + 1];

    const unsigned row0 = (blockIdx.z * GROUP + blockIdx.x) * TILE;
    const unsigned col0 = blockIdx.y * TILE;
    if (row0 >= rows) return;            // the whole block leaves

    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned a = (warp & 1u) * 32u + (lane & 7u) * 4u;    // along the contiguous side
    const unsigned b = (warp >> 1) * 4u + (lane >> 3);          // across it, plus 16 * k

    const bool full = (row0 + TILE <= rows) && (col0 + TILE <= cols);

    const float* src = input + (size_t)(row0 + b) * cols + (col0 + a);
    const size_t src_step = (size_t)16 * cols;

    if (full) {
        float4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = __ldcs(reinterpret_cast<const float4*>(src));
            src += src_step;
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float* t = &tile[b + 16 * k][a];
            t[0] = v[k].x;
            t[1] = v[k].y;
            t[2] = v[k].z;
            t[3] = v[k].w;
        }
    } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (row0 + b + 16 * k < rows && col0 + a < cols) {
                const float4 v = __ldcs(reinterpret_cast<const float4*>(src + k * src_step));
                float* t = &tile[b + 16 * k][a];
                t[0] = v.x;
                t[1] = v.y;
                t[2] = v.z;
                t[3] = v.w;
            }
        }
    }

    __syncthreads();

    float* dst = output + (size_t)(col0 + b) * rows + (row0 + a);
    const size_t dst_step = (size_t)16 * rows;

    if (full) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float4 v;
            v.x = tile[a + 0][b + 16 * k];
            v.y = tile[a + 1][b + 16 * k];
            v.z = tile[a + 2][b + 16 * k];
            v.w = tile[a + 3][b + 16 * k];
            *reinterpret_cast<float4*>(dst) = v;
            dst += dst_step;
        }
    } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (col0 + b + 16 * k < cols && row0 + a < rows) {
                float4 v;
                v.x = tile[a + 0][b + 16 * k];
                v.y = tile[a + 1][b + 16 * k];
                v.z = tile[a + 2][b + 16 * k];
                v.w = tile[a + 3][b + 16 * k];
                *reinterpret_cast<float4*>(dst + k * dst_step) = v;
            }
        }
    }
}

// Any extents: the same tile, one word at a time.
__global__ void __launch_bounds__(THREADS)
transpose_any(const float* __restrict__ input, float* __restrict__ output,
              unsigned rows, unsigned cols, unsigned tiles_x)
{
    __shared__ float tile[TILE][TILE + 1];

    const unsigned ty = blockIdx.x / tiles_x;
    const unsigned tx = blockIdx.x - ty * tiles_x;
    const unsigned row0 = ty * TILE;
    const unsigned col0 = tx * TILE;
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;

#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
        const unsigned x = lane + 32u * h;
#pragma unroll
        for (unsigned k = 0; k < 8; ++k) {
            const unsigned y = warp + 8u * k;
            if (row0 + y < rows && col0 + x < cols)
                tile[y][x] = __ldcs(input + (size_t)(row0 + y) * cols + (col0 + x));
        }
    }

    __syncthreads();

#pragma unroll
    for (unsigned k = 0; k < 8; ++k) {
        const unsigned y = warp + 8u * k;      // row of the output tile
#pragma unroll
        for (unsigned h = 0; h < 2; ++h) {
            const unsigned x = lane + 32u * h;
            if (col0 + y < cols && row0 + x < rows)
                output[(size_t)(col0 + y) * rows + (row0 + x)] = tile[x][y];
        }
    }
}

}  // namespace

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    if (rows <= 0 || cols <= 0) return;
    const unsigned r = (unsigned)rows;
    const unsigned c = (unsigned)cols;
    const unsigned tiles_y = (r - 1) / TILE + 1;
    const unsigned tiles_x = (c - 1) / TILE + 1;
    const unsigned groups = (tiles_y - 1) / GROUP + 1;

    if (r % 4 == 0 && c % 4 == 0 && tiles_x <= 65535u && groups <= 65535u) {
        dim3 grid(tiles_y < GROUP ? tiles_y : GROUP, tiles_x, groups);
        transpose_vec<<<grid, THREADS>>>(input, output, r, c);
    } else {
        transpose_any<<<tiles_x * tiles_y, THREADS>>>(input, output, r, c, tiles_x);
    }
}
