// Transpose: from one element at a time to tiles that turn in shared memory, in vectors.

#include <cstdint>
#include <cuda_runtime.h>

#define TILE 32  // rows and columns that a block moves
#define ITEMS 16  // elements that a thread moves

constexpr int kThreads = TILE * TILE / ITEMS;

// Idea: neighbouring threads load neighbours; each stores a row apart and leaves the rest to L2.
__global__ void __launch_bounds__(kThreads) transpose(
    const float* __restrict__ input, float* __restrict__ output, int rows, int cols)
{
    int column = blockIdx.x * TILE + threadIdx.x;
    int top = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
    for (int y = 0; y < TILE; y += TILE / ITEMS) {
        int row = top + y;
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
