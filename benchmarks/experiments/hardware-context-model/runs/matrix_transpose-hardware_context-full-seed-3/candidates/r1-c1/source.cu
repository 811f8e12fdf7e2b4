// Padded 64x64 tiles, float4 both sides, grouped block order.

#include <cuda_runtime.h>

constexpr int TILE = 64;
constexpr int PITCH = TILE + 1;
constexpr int THREADS = 256;

// Whole tiles only: rows and cols are multiples of 64, so every float4 is aligned and inside.
// A warp covers 4 rows of 8 float4 (four full 128-byte lines); with a pitch of 65 words the banks
// are 4 * x + y + constant, without conflict in both directions.
// blockIdx.x runs over a small group of tile rows, blockIdx.y over tile columns, blockIdx.z over groups.
__global__ void __launch_bounds__(THREADS, 6)
transpose_whole(const float* __restrict__ input, float* __restrict__ output, int rows, int cols)
{
    __shared__ float tile[TILE * PITCH];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int seg = ((warp & 1) << 5) + ((lane & 7) << 2);   // first of four neighbours along a row
    const int line = ((warp >> 1) << 2) + (lane >> 3);       // 0 .. 15

    const int row0 = (int)(blockIdx.z * gridDim.x + blockIdx.x) * TILE;
    const int col0 = (int)blockIdx.y * TILE;

    const float* src = input + (size_t)(row0 + line) * (size_t)cols + (size_t)(col0 + seg);
    const size_t src_step = (size_t)cols * 16;

    float4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        v[k] = __ldcs(reinterpret_cast<const float4*>(src + k * src_step));
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float* t = tile + (line + 16 * k) * PITCH + seg;
        t[0] = v[k].x;
        t[1] = v[k].y;
        t[2] = v[k].z;
        t[3] = v[k].w;
    }

    __syncthreads();

    float* dst = output + (size_t)(col0 + line) * (size_t)rows + (size_t)(row0 + seg);
    const size_t dst_step = (size_t)rows * 16;
    const float* t = tile + seg * PITCH + line;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float4 w;
        w.x = t[16 * k];
        w.y = t[16 * k + PITCH];
        w.z = t[16 * k + 2 * PITCH];
        w.w = t[16 * k + 3 * PITCH];
        *reinterpret_cast<float4*>(dst + k * dst_step) = w;
    }
}

// Any extents: scalar accesses, ragged tiles.
__global__ void __launch_bounds__(THREADS)
transpose_any(const float* __restrict__ input, float* __restrict__ output, int rows, int cols,
              unsigned tile_cols)
{
    __shared__ float tile[TILE * PITCH];

    const int x = threadIdx.x & 63;
    const int y = threadIdx.x >> 6;   // 0 .. 3

    const unsigned tile_row = blockIdx.x / tile_cols;
    const unsigned tile_col = blockIdx.x - tile_row * tile_cols;
    const long long row0 = (long long)tile_row * TILE;
    const long long col0 = (long long)tile_col * TILE;

    const int height = (int)((long long)rows - row0 < TILE ? (long long)rows - row0 : TILE);
    const int width = (int)((long long)cols - col0 < TILE ? (long long)cols - col0 : TILE);

    if (x < width) {
        const float* src = input + row0 * (long long)cols + col0 + x;
#pragma unroll 8
        for (int k = 0; k < 16; ++k) {
            const int r = y + 4 * k;
            if (r < height) {
                tile[r * PITCH + x] = src[(long long)r * cols];
            }
        }
    }

    __syncthreads();

    if (x < height) {
        float* dst = output + col0 * (long long)rows + row0 + x;
#pragma unroll 8
        for (int k = 0; k < 16; ++k) {
            const int c = y + 4 * k;
            if (c < width) {
                dst[(long long)c * rows] = tile[x * PITCH + c];
            }
        }
    }
}

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    const unsigned tile_rows = (unsigned)(((long long)rows + TILE - 1) / TILE);
    const unsigned tile_cols = (unsigned)(((long long)cols + TILE - 1) / TILE);

    if (rows % TILE == 0 && cols % TILE == 0) {
        unsigned group = 1;
        while (group < 16 && tile_rows % (2 * group) == 0) {
            group *= 2;
        }
        const unsigned groups = tile_rows / group;
        if (tile_cols <= 65535u && groups <= 65535u) {
            transpose_whole<<<dim3(group, tile_cols, groups), THREADS>>>(input, output, rows, cols);
            return;
        }
    }

    transpose_any<<<tile_rows * tile_cols, THREADS>>>(input, output, rows, cols, tile_cols);
}
