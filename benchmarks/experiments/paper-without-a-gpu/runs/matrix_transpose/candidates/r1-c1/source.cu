// 64x64 padded tiles, float4 global accesses, conflict-free 8x4 lanes.

#include <cuda_runtime.h>

constexpr int TILE = 64;
constexpr int STRIDE = TILE + 1;

// rows and cols are multiples of 4 (of 64 when FULL).
// A warp covers 4 rows of 8 float4: bank = 4 * q + r + constant, all 32 distinct,
// both when the tile is written by rows and when it is read by columns.
template <bool FULL>
__global__ void __launch_bounds__(256, 8)
transpose_vec(const float* __restrict__ input, float* __restrict__ output, int rows, int cols)
{
    __shared__ float tile[TILE * STRIDE];

    const int tileRow = (int)(blockIdx.y + blockIdx.z * gridDim.y);
    if (tileRow > (rows - 1) / TILE) return;          // the same for the whole block

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int vx = ((lane & 7) + ((warp & 1) << 3)) * 4;   // 0, 4 .. 60
    const int ty = (lane >> 3) + ((warp >> 1) << 2);       // 0 .. 15

    const int r0 = tileRow * TILE;
    const int c0 = (int)blockIdx.x * TILE;
    const int nr = rows - r0;                          // rows left from here
    const int nc = cols - c0;                          // columns left from here

    float4 v[4];
    {
        const float* p = input + (size_t)(r0) * cols + (size_t)ty * cols + c0 + vx;
        const size_t step = (size_t)cols * 16;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = make_float4(0.f, 0.f, 0.f, 0.f);
            if (FULL || (ty + 16 * i < nr && vx < nc)) {
                v[i] = __ldcs(reinterpret_cast<const float4*>(p + step * i));
            }
        }
    }

    {
        float* s = tile + ty * STRIDE + vx;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[i * 16 * STRIDE + 0] = v[i].x;
            s[i * 16 * STRIDE + 1] = v[i].y;
            s[i * 16 * STRIDE + 2] = v[i].z;
            s[i * 16 * STRIDE + 3] = v[i].w;
        }
    }

    __syncthreads();

    {
        const float* s = tile + vx * STRIDE + ty;
        float* p = output + (size_t)(c0) * rows + (size_t)ty * rows + r0 + vx;
        const size_t step = (size_t)rows * 16;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (FULL || (ty + 16 * i < nc && vx < nr)) {
                float4 w;
                w.x = s[i * 16 + 0 * STRIDE];
                w.y = s[i * 16 + 1 * STRIDE];
                w.z = s[i * 16 + 2 * STRIDE];
                w.w = s[i * 16 + 3 * STRIDE];
                *reinterpret_cast<float4*>(p + step * i) = w;
            }
        }
    }
}

// Any extents: 32x32 tiles, one float a lane.
__global__ void __launch_bounds__(256)
transpose_any(const float* __restrict__ input, float* __restrict__ output, int rows, int cols)
{
    __shared__ float tile[32][33];

    const int tileRow = (int)(blockIdx.y + blockIdx.z * gridDim.y);
    if (tileRow > (rows - 1) / 32) return;            // the same for the whole block

    const int tx = threadIdx.x & 31;
    const int ty = threadIdx.x >> 5;
    const int r0 = tileRow * 32;
    const int c0 = (int)blockIdx.x * 32;
    const int nr = rows - r0;
    const int nc = cols - c0;

#pragma unroll
    for (int i = 0; i < 32; i += 8) {
        if (ty + i < nr && tx < nc) {
            tile[ty + i][tx] = input[((size_t)r0 + ty + i) * cols + c0 + tx];
        }
    }

    __syncthreads();

#pragma unroll
    for (int i = 0; i < 32; i += 8) {
        if (ty + i < nc && tx < nr) {
            output[((size_t)c0 + ty + i) * rows + r0 + tx] = tile[tx][ty + i];
        }
    }
}

static dim3 make_grid(int rows, int cols, int tile)
{
    unsigned tilesX = (unsigned)((cols - 1) / tile + 1);
    unsigned tilesY = (unsigned)((rows - 1) / tile + 1);
    unsigned z = (tilesY + 65534u) / 65535u;
    unsigned y = (tilesY + z - 1u) / z;
    return dim3(tilesX, y, z);
}

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    if (rows <= 0 || cols <= 0) return;

    if ((rows % TILE) == 0 && (cols % TILE) == 0) {
        transpose_vec<true><<<make_grid(rows, cols, TILE), 256>>>(input, output, rows, cols);
    } else if ((rows % 4) == 0 && (cols % 4) == 0) {
        transpose_vec<false><<<make_grid(rows, cols, TILE), 256>>>(input, output, rows, cols);
    } else {
        transpose_any<<<make_grid(rows, cols, 32), 256>>>(input, output, rows, cols);
    }
}
