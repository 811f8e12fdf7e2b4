// 64x64 tiles, register 4x4 transpose, XOR-swizzled float4 shared memory

#include <cuda_runtime.h>

// Both extents are multiples of 4. 256 threads, one 4x4 block of values each.
// Shared memory holds the transposed tile: 64 rows (input columns) of 16 chunks of
// 16 bytes; chunk q of row r lies at place q ^ (r >> 2).
template <bool FULL>
__global__ void __launch_bounds__(256, 6)
transpose_vec(const float* __restrict__ input, float* __restrict__ output,
              int rows, int cols, int tiles_y)
{
    __shared__ float4 s[64 * 16];

    const int tile_y = (int)(blockIdx.z * gridDim.y + blockIdx.y);
    if (tile_y >= tiles_y) return;               // uniform over the block

    const int tx = threadIdx.x & 15;
    const int ty = threadIdx.x >> 4;
    const int r0 = tile_y * 64;
    const int c0 = (int)blockIdx.x * 64;

    {
        const int row = r0 + 4 * ty;
        const int col = c0 + 4 * tx;
        if (FULL || (row < rows && col < cols)) {
            const float* p = input + (size_t)row * (size_t)cols + (size_t)col;
            const size_t step = (size_t)cols;
            const float4 a0 = __ldcs(reinterpret_cast<const float4*>(p));
            const float4 a1 = __ldcs(reinterpret_cast<const float4*>(p + step));
            const float4 a2 = __ldcs(reinterpret_cast<const float4*>(p + 2 * step));
            const float4 a3 = __ldcs(reinterpret_cast<const float4*>(p + 3 * step));
            float4* w = s + (4 * tx) * 16 + (ty ^ tx);
            w[0]  = make_float4(a0.x, a1.x, a2.x, a3.x);
            w[16] = make_float4(a0.y, a1.y, a2.y, a3.y);
            w[32] = make_float4(a0.z, a1.z, a2.z, a3.z);
            w[48] = make_float4(a0.w, a1.w, a2.w, a3.w);
        }
    }

    __syncthreads();

    {
        const int col = r0 + 4 * tx;             // column of the output
        float* o = output + (size_t)(c0 + ty) * (size_t)rows + (size_t)col;
        const size_t step = (size_t)rows * 16;
        if (FULL || col < rows) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int r = ty + 16 * k;
                if (FULL || c0 + r < cols) {
                    const float4 v = s[r * 16 + (tx ^ (r >> 2))];
                    *reinterpret_cast<float4*>(o + (size_t)k * step) = v;
                }
            }
        }
    }
}

// Any extents: 32x32 tiles of single words, same XOR idea.
__global__ void __launch_bounds__(256)
transpose_any(const float* __restrict__ input, float* __restrict__ output,
              int rows, int cols, int tiles_y)
{
    __shared__ float s[32 * 32];

    const int tile_y = (int)(blockIdx.z * gridDim.y + blockIdx.y);
    if (tile_y >= tiles_y) return;               // uniform over the block

    const int tx = threadIdx.x & 31;
    const int ty = threadIdx.x >> 5;
    const int r0 = tile_y * 32;
    const int c0 = (int)blockIdx.x * 32;

    float v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int r = ty + 8 * k;
        v[k] = 0.0f;
        if (r0 + r < rows && c0 + tx < cols) {
            v[k] = __ldcs(input + (size_t)(r0 + r) * (size_t)cols + (size_t)(c0 + tx));
        }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int r = ty + 8 * k;
        s[r * 32 + (tx ^ r)] = v[k];
    }

    __syncthreads();

#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int c = ty + 8 * k;
        if (c0 + c < cols && r0 + tx < rows) {
            output[(size_t)(c0 + c) * (size_t)rows + (size_t)(r0 + tx)] = s[tx * 32 + (c ^ tx)];
        }
    }
}

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    const bool vec = (rows % 4 == 0) && (cols % 4 == 0);
    const int tile = vec ? 64 : 32;
    const int tiles_x = cols / tile + (cols % tile != 0 ? 1 : 0);
    const int tiles_y = rows / tile + (rows % tile != 0 ? 1 : 0);
    const int limit = 32768;
    const int gy = tiles_y < limit ? tiles_y : limit;
    const int gz = (tiles_y + gy - 1) / gy;
    dim3 grid((unsigned)tiles_x, (unsigned)gy, (unsigned)gz);

    if (!vec) {
        transpose_any<<<grid, 256>>>(input, output, rows, cols, tiles_y);
    } else if (rows % 64 == 0 && cols % 64 == 0) {
        transpose_vec<true><<<grid, 256>>>(input, output, rows, cols, tiles_y);
    } else {
        transpose_vec<false><<<grid, 256>>>(input, output, rows, cols, tiles_y);
    }
}
