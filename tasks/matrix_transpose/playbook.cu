// Transpose: from one element at a time to tiles that turn in shared memory, in vectors.

#include <cstdint>
#include <cuda_runtime.h>

#define VARIANT 2 // tunable: 0 1 2; neighbours load, neighbours store, both through shared memory
#define TILE 32   // tunable: 16 32 64; rows and columns that a block moves
#define ITEMS 1   // tunable: 1 2 4 8 16; elements that a thread moves
#define WIDTH 1   // tunable: 1 2 4; elements of one access to global memory
#define SKEW 0    // tunable: 0 1 2; columns of the tile: in one bank, padded apart, swizzled apart

// tunable-if: TILE * TILE <= 1024 * ITEMS
// tunable-if: TILE * TILE >= 32 * ITEMS
// tunable-if: WIDTH <= ITEMS
// tunable-if: VARIANT == 2 or WIDTH == 1 and SKEW == 0

// tunable-hint: uncoalesced_global VARIANT=2
// tunable-hint: bank_conflicts SKEW=1
// tunable-hint: bank_conflicts SKEW=2
// tunable-hint: l1_bandwidth WIDTH=4
// tunable-hint: issue WIDTH=4
// tunable-hint: latency ITEMS=4
// tunable-hint: low_occupancy TILE=32

constexpr int kThreads = TILE * TILE / ITEMS;

#if VARIANT == 0
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
#elif VARIANT == 1
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
#else
struct alignas(sizeof(float) * WIDTH) Vector {
    float at[WIDTH];
};

// Where an element lies in the tile.
__device__ int place(int y, int x)
{
#if SKEW == 0
    return y * TILE + x;
#elif SKEW == 1
    return y * (TILE + 1) + x;
#else
    return y * TILE + (x ^ y);
#endif
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
#endif

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    dim3 blocks((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
#if VARIANT == 2
    transpose<<<blocks, kThreads>>>(input, output, rows, cols);
#else
    transpose<<<blocks, dim3(TILE, TILE / ITEMS)>>>(input, output, rows, cols);
#endif
    cudaDeviceSynchronize();
}
