// Padded 64x64 shared tiles, conflict-free float4 both ways, panel order.

#include <cuda_runtime.h>
#include <cstddef>

namespace {

constexpr int TILE = 64;
constexpr int PITCH = TILE + 1;   // one column of padding
constexpr int THREADS = 256;
constexpr int PANEL = 32;         // tile columns walked side by side
constexpr int LIMIT = 65535;      // extents of the grid in y and z

// A warp moves 4 rows of 32 floats: 8 lanes of 16 bytes a row. The bank of an element is
// (row + column) mod 32, so the scalar accesses to the tile are free of conflicts both ways.
// EXACT: both extents are multiples of 64. Otherwise: both are multiples of 4.
template <bool EXACT>
__global__ void __launch_bounds__(THREADS, 6)
transpose_vec(const float* __restrict__ input, float* __restrict__ output,
              int rows, int cols, int tiles_x, int tile_y0, int panel0)
{
    __shared__ float tile[TILE][PITCH];

    const int tx = (int)(blockIdx.z + panel0) * PANEL + (int)blockIdx.x;
    const int ty = (int)blockIdx.y + tile_y0;
    if (tx >= tiles_x) return;    // the whole block

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int x = (warp & 1) * 32 + (lane & 7) * 4;
    const int y = (warp >> 1) * 4 + (lane >> 3);

    const int row0 = ty * TILE;
    const int col0 = tx * TILE;

    {
        const float* src = input + (size_t)(row0 + y) * (size_t)cols + (size_t)(col0 + x);
        const size_t step = (size_t)16 * (size_t)cols;
        float4 v[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (EXACT) {
                v[i] = __ldcs(reinterpret_cast<const float4*>(src + i * step));
            } else {
                v[i] = make_float4(0.f, 0.f, 0.f, 0.f);
                if (row0 + y + 16 * i < rows && col0 + x < cols)
                    v[i] = __ldcs(reinterpret_cast<const float4*>(src + i * step));
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float* t = &tile[y + 16 * i][x];
            t[0] = v[i].x;
            t[1] = v[i].y;
            t[2] = v[i].z;
            t[3] = v[i].w;
        }
    }

    __syncthreads();

    {
        float* dst = output + (size_t)(col0 + y) * (size_t)rows + (size_t)(row0 + x);
        const size_t step = (size_t)16 * (size_t)rows;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int c = y + 16 * i;
            if (EXACT || (col0 + c < cols && row0 + x < rows)) {
                float4 w;
                w.x = tile[x + 0][c];
                w.y = tile[x + 1][c];
                w.z = tile[x + 2][c];
                w.w = tile[x + 3][c];
                *reinterpret_cast<float4*>(dst + i * step) = w;
            }
        }
    }
}

// Any extents: the same tile, one float at a time.
__global__ void __launch_bounds__(THREADS)
transpose_any(const float* __restrict__ input, float* __restrict__ output,
              int rows, int cols, int tiles_x, int tile_y0, int panel0)
{
    __shared__ float tile[TILE][PITCH];

    const int tx = (int)(blockIdx.z + panel0) * PANEL + (int)blockIdx.x;
    const int ty = (int)blockIdx.y + tile_y0;
    if (tx >= tiles_x) return;    // the whole block

    const int x = threadIdx.x & 63;
    const int y = threadIdx.x >> 6;

    const int row0 = ty * TILE;
    const int col0 = tx * TILE;

    {
        const int height = rows - row0;           // rows left from here on, at least 1
        const bool inside = x < cols - col0;
        const float* src = input + (size_t)row0 * (size_t)cols + (size_t)col0 + (size_t)x;
        float v[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int r = y + 4 * i;
            v[i] = 0.f;
            if (inside && r < height)
                v[i] = __ldcs(src + (size_t)r * (size_t)cols);
        }
#pragma unroll
        for (int i = 0; i < 16; ++i)
            tile[y + 4 * i][x] = v[i];
    }

    __syncthreads();

    {
        const int width = cols - col0;            // columns left from here on, at least 1
        const bool inside = x < rows - row0;
        float* dst = output + (size_t)col0 * (size_t)rows + (size_t)row0 + (size_t)x;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int c = y + 4 * i;
            if (inside && c < width)
                dst[(size_t)c * (size_t)rows] = tile[x][c];
        }
    }
}

}  // namespace

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    if (rows <= 0 || cols <= 0) return;

    const int tiles_x = (cols - 1) / TILE + 1;
    const int tiles_y = (rows - 1) / TILE + 1;
    const int panels = (tiles_x - 1) / PANEL + 1;
    const int width = tiles_x < PANEL ? tiles_x : PANEL;

    const bool exact = rows % TILE == 0 && cols % TILE == 0;
    const bool vec = rows % 4 == 0 && cols % 4 == 0;

    // One launch, unless a matrix exceeds the extents of a grid.
    for (int p0 = 0; p0 < panels; p0 += LIMIT) {
        const int np = panels - p0 < LIMIT ? panels - p0 : LIMIT;
        for (int y0 = 0; y0 < tiles_y; y0 += LIMIT) {
            const int ny = tiles_y - y0 < LIMIT ? tiles_y - y0 : LIMIT;
            const dim3 grid((unsigned)width, (unsigned)ny, (unsigned)np);
            if (exact)
                transpose_vec<true><<<grid, THREADS>>>(input, output, rows, cols, tiles_x, y0, p0);
            else if (vec)
                transpose_vec<false><<<grid, THREADS>>>(input, output, rows, cols, tiles_x, y0, p0);
            else
                transpose_any<<<grid, THREADS>>>(input, output, rows, cols, tiles_x, y0, p0);
        }
    }
}
