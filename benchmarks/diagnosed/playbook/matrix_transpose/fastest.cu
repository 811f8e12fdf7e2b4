// Transpose: from one element at a time to tiles that turn in shared memory, in vectors.

#include <cstdint>
#include <cuda_runtime.h>

#define TILE 32  // rows and columns that a block moves
#define ITEMS 8  // elements that a thread moves
#define WIDTH 4  // elements of one access to global memory

constexpr int kThreads = TILE * TILE / ITEMS;

struct alignas(sizeof(float) * WIDTH) Vector {
    float at[WIDTH];
};

// Where an element lies in the tile.
__device__ int place(int y, int x)
{
    return y * (TILE + 1) + x;
}

// Rows of a matrix can be accessed in vectors when each begins at a multiple of a vector.
__device__ bool is_wide(const float* matrix, int columns)
{
    return reinterpret_cast<uintptr_t>(matrix) % sizeof(Vector) == 0 && columns % WIDTH == 0;
}

// Idea: rows are read and rows are written; the tile turns in shared memory, where a column costs
// no more than a row as long as its elements lie in different banks.
__global__ void __launch_bounds__(kThreads) transpose(
    const float* __restrict__ input, float* __restrict__ output, int rows, int cols)
{
    constexpr int kAcross = TILE / WIDTH;
    constexpr int kDown = kThreads / kAcross;
    __shared__ float tile[TILE * (TILE + 1)];

    int x = threadIdx.x % kAcross * WIDTH;
    int y = threadIdx.x / kAcross;
    int left = blockIdx.x * TILE;
    int top = blockIdx.y * TILE;

    bool wide = is_wide(input, cols);
    Vector loaded[TILE / kDown] = {};
#pragma unroll
    for (int i = 0; i < TILE / kDown; ++i) {
        int row = top + y + i * kDown;
        const float* from = input + (size_t)row * cols + left + x;
        if (wide && row < rows && left + x < cols) {
            loaded[i] = *reinterpret_cast<const Vector*>(from);
        } else if (row < rows) {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                loaded[i].at[j] = left + x + j < cols ? from[j] : 0.0f;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < TILE / kDown; ++i) {
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            tile[place(y + i * kDown, x + j)] = loaded[i].at[j];
        }
    }
    __syncthreads();

    wide = is_wide(output, rows);
#pragma unroll
    for (int i = 0; i < TILE / kDown; ++i) {
        int column = left + y + i * kDown;
        float* to = output + (size_t)column * rows + top + x;
        Vector turned;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            turned.at[j] = tile[place(x + j, y + i * kDown)];
        }
        if (wide && column < cols && top + x < rows) {
            *reinterpret_cast<Vector*>(to) = turned;
        } else if (column < cols) {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                if (top + x + j < rows) {
                    to[j] = turned.at[j];
                }
            }
        }
    }
}

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    dim3 blocks((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    transpose<<<blocks, kThreads>>>(input, output, rows, cols);
    cudaDeviceSynchronize();
}
