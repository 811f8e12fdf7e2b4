// Transpose: from one element at a time to tiles that turn in shared memory, in vectors.

#include <cstdint>
#include <cuda_runtime.h>

#define TILE 16  // rows and columns that a block moves
#define ITEMS 2  // elements that a thread moves

constexpr int kThreads = TILE * TILE / ITEMS;

// Idea: the other way about. Scattered loads hit L1 once a row of the tile is there, stores never do.
__global__ void __launch_bounds__(kThreads) transpose(
    const float* __restrict__ input, float* __restrict__ output, int rows, int cols)
{
    int row = blockIdx.y * TILE + threadIdx.x;
    int left = blockIdx.x * TILE + threadIdx.y;
#pragma unroll
    for (int x = 0; x < TILE; x += TILE / ITEMS) {
        int column = left + x;
        if (row < rows && column < cols) {
            output[(size_t)column * rows + row] = input[(size_t)row * cols + column];
        }
    }
}

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    dim3 blocks((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    transpose<<<blocks, dim3(TILE, TILE / ITEMS)>>>(input, output, rows, cols);
    cudaDeviceSynchronize();
}
