// Padded 64x64 shared tiles, float4 both ways, panelled order.

#include <cuda_runtime.h>
#include <cstddef>

namespace {

constexpr int TILE = 64;
constexpr int THREADS = 256;
constexpr int STEP = 16;            // rows of the tile covered by one pass of float4s
constexpr int PASSES = TILE / STEP; // 4
constexpr unsigned PANEL = 32;      // tiles side by side in one panel

// Blocks walk down panels of PANEL tiles, so those at work together cover a
// roughly square region: both input rows and output rows are met in long runs.
__device__ __forceinline__ void locate(unsigned tiles_x, unsigned tiles_y, int& x0, int& y0)
{
    const unsigned id = blockIdx.x;
    const unsigned per_panel = PANEL * tiles_y;
    const unsigned panel = id / per_panel;
    const unsigned rest = id - panel * per_panel;
    const unsigned left = tiles_x - panel * PANEL;
    unsigned y, x;
    if (left >= PANEL) {
        y = rest / PANEL;
        x = rest % PANEL;
    } else {
        y = rest / left;
        x = rest - y * left;
    }
    x0 = (int)((panel * PANEL + x) * TILE);
    y0 = (int)(y * TILE);
}

// rows and cols are multiples of 4 (of TILE if FULL): every row is 16-byte aligned.
template <bool FULL>
__global__ void __launch_bounds__(THREADS, 6)
transpose_vec(const float* __restrict__ input, float* __restrict__ output,
              int rows, int cols, unsigned tiles_x, unsigned tiles_y)
{
    __shared__ float tile[TILE][TILE + 1];

    int x0, y0;
    locate(tiles_x, tiles_y, x0, y0);

    // A warp covers 4 rows of 8 float4s (128 bytes): with a pitch of 65 floats
    // the banks 4 * c + r + k are all different, when storing and when loading.
    const int t = (int)threadIdx.x;
    const int a = ((t >> 5) & 1) * 32 + (t & 7) * 4; // along memory
    const int b = (t >> 6) * 4 + ((t >> 3) & 3);     // across rows

    {
        const float* src = input + (size_t)(y0 + b) * (size_t)cols + (size_t)(x0 + a);
        const size_t stride = (size_t)STEP * (size_t)cols;
        float4 v[PASSES];
#pragma unroll
        for (int k = 0; k < PASSES; ++k) {
            if (FULL || (x0 + a < cols && y0 + b + k * STEP < rows)) {
                v[k] = __ldcs(reinterpret_cast<const float4*>(src + k * stride));
            } else {
                v[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            }
        }
#pragma unroll
        for (int k = 0; k < PASSES; ++k) {
            float* row = &tile[b + k * STEP][a];
            row[0] = v[k].x;
            row[1] = v[k].y;
            row[2] = v[k].z;
            row[3] = v[k].w;
        }
    }

    __syncthreads();

    {
        float* dst = output + (size_t)(x0 + b) * (size_t)rows + (size_t)(y0 + a);
        const size_t stride = (size_t)STEP * (size_t)rows;
#pragma unroll
        for (int k = 0; k < PASSES; ++k) {
            if (FULL || (y0 + a < rows && x0 + b + k * STEP < cols)) {
                float4 w;
                w.x = tile[a + 0][b + k * STEP];
                w.y = tile[a + 1][b + k * STEP];
                w.z = tile[a + 2][b + k * STEP];
                w.w = tile[a + 3][b + k * STEP];
                *reinterpret_cast<float4*>(dst + k * stride) = w;
            }
        }
    }
}

// Any extents: single floats, still coalesced both ways.
__global__ void __launch_bounds__(THREADS)
transpose_any(const float* __restrict__ input, float* __restrict__ output,
              int rows, int cols, unsigned tiles_x, unsigned tiles_y)
{
    __shared__ float tile[TILE][TILE + 1];

    int x0, y0;
    locate(tiles_x, tiles_y, x0, y0);

    const int a = (int)threadIdx.x & (TILE - 1);
    const int b = (int)threadIdx.x / TILE; // 0..3

    if (x0 + a < cols) {
        const float* src = input + (size_t)(y0 + b) * (size_t)cols + (size_t)(x0 + a);
        const size_t stride = (size_t)(THREADS / TILE) * (size_t)cols;
#pragma unroll
        for (int k = 0; k < TILE / (THREADS / TILE); ++k) {
            const int r = b + k * (THREADS / TILE);
            if (y0 + r < rows) {
                tile[r][a] = __ldcs(src + k * stride);
            }
        }
    }

    __syncthreads();

    if (y0 + a < rows) {
        float* dst = output + (size_t)(x0 + b) * (size_t)rows + (size_t)(y0 + a);
        const size_t stride = (size_t)(THREADS / TILE) * (size_t)rows;
#pragma unroll
        for (int k = 0; k < TILE / (THREADS / TILE); ++k) {
            const int c = b + k * (THREADS / TILE);
            if (x0 + c < cols) {
                dst[k * stride] = tile[a][c];
            }
        }
    }
}

} // namespace

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    if (rows <= 0 || cols <= 0) {
        return;
    }
    const unsigned tiles_x = ((unsigned)cols + TILE - 1) / TILE;
    const unsigned tiles_y = ((unsigned)rows + TILE - 1) / TILE;
    const unsigned blocks = tiles_x * tiles_y;

    if (rows % TILE == 0 && cols % TILE == 0) {
        transpose_vec<true><<<blocks, THREADS>>>(input, output, rows, cols, tiles_x, tiles_y);
    } else if (rows % 4 == 0 && cols % 4 == 0) {
        transpose_vec<false><<<blocks, THREADS>>>(input, output, rows, cols, tiles_x, tiles_y);
    } else {
        transpose_any<<<blocks, THREADS>>>(input, output, rows, cols, tiles_x, tiles_y);
    }
}
