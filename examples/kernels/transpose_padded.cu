// A tiled transpose with one spare column, so that the columns of the tile spread over the banks.
#include <cuda_runtime.h>

constexpr int TILE = 32;
constexpr int ROWS = 8;

__global__ void transpose(const float* __restrict__ input, float* __restrict__ output, int rows,
                          int cols) {
    __shared__ float tile[TILE][TILE + 1];

    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS) {
        if (x < cols && y + i < rows) {
            tile[threadIdx.y + i][threadIdx.x] = input[(size_t)(y + i) * cols + x];
        }
    }
    __syncthreads();

    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS) {
        if (x < rows && y + i < cols) {
            output[(size_t)(y + i) * rows + x] = tile[threadIdx.x][threadIdx.y + i];
        }
    }
}

extern "C" void solve(const float* input, float* output, int rows, int cols) {
    dim3 block(TILE, ROWS);
    dim3 grid((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    transpose<<<grid, block>>>(input, output, rows, cols);
}
