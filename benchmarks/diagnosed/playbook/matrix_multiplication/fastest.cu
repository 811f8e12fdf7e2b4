// Matrix product: from one element a thread, straight from memory, to register tiles, two buffers and
// a split of K for matrices too small to fill the chip.

#include <cstdint>
#include <cuda_runtime.h>

#define SIDE 16  // a block has SIDE x SIDE threads
#define ITEMS 2  // a thread computes ITEMS x ITEMS elements
#define DEPTH 32  // of the tiles along K
#define BUFFERS 2  // with two, the next tiles are loaded while these are multiplied
#define WIDTH 4  // elements of one load from global memory

constexpr int kThreads = SIDE * SIDE;

constexpr int kTile = SIDE * ITEMS;                     // rows and columns of a block's part of C
constexpr int kLane = ITEMS < 4 ? ITEMS : 4;            // neighbours that one shared load fetches
constexpr int kFetches = ITEMS * DEPTH / SIDE / WIDTH;  // loads of a thread for a tile of A or B
constexpr int kUnroll = ITEMS < 8 ? 8 : 4;              // steps along K, so that code stays small

struct alignas(sizeof(float) * WIDTH) Vector {
    float at[WIDTH];
};

struct alignas(sizeof(float) * kLane) Lane {
    float at[kLane];
};

// A tile of A lies turned, so that a thread's rows are neighbours. Its spare columns, a whole number of
// lanes, keep the elements of a row out of one bank when it is stored.
struct alignas(sizeof(Lane)) Tiles {
    float a[DEPTH][kTile + kLane];
    float b[DEPTH][kTile];
};

// A row-major matrix, cut off at `rows` and `columns`.
struct Matrix {
    const float* elements;
    int rows, columns, stride;
    bool wide; // each row begins at a multiple of a vector
};

__device__ Matrix view(const float* elements, int rows, int columns, int stride)
{
    bool wide = reinterpret_cast<uintptr_t>(elements) % sizeof(Vector) == 0 && stride % WIDTH == 0 &&
                columns % WIDTH == 0;
    return {elements, rows, columns, stride, wide};
}

// WIDTH neighbours of a row, zeros beyond the matrix.
__device__ Vector fetch(const Matrix& matrix, int row, int column)
{
    Vector values = {};
    const float* from = matrix.elements + (size_t)row * matrix.stride + column;
    if (row < matrix.rows && column < matrix.columns && matrix.wide) {
        values = *reinterpret_cast<const Vector*>(from);
    } else if (row < matrix.rows) {
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            values.at[j] = column + j < matrix.columns ? from[j] : 0.0f;
        }
    }
    return values;
}

// The i-th of a thread's rows or columns in the tile: lanes of neighbouring threads are neighbours.
__device__ int place(int thread, int i)
{
    return i / kLane * SIDE * kLane + thread * kLane + i % kLane;
}

// Idea: a value read from shared memory serves ITEMS products; what a thread needs next is under way
// while it computes.
__global__ void __launch_bounds__(kThreads) multiply(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ Tiles tiles[BUFFERS];
    int top = blockIdx.y * kTile;
    int left = blockIdx.x * kTile;
    int thread_y = threadIdx.x / SIDE;
    int thread_x = threadIdx.x % SIDE;
    int share = ((K - 1) / (int)gridDim.z / DEPTH + 1) * DEPTH;
    int first = min((int)blockIdx.z * share, K);
    int last = min(first + share, K);
    Matrix a = view(A, M, last, K);
    Matrix b = view(B, last, N, N);

    Vector next_a[kFetches];
    Vector next_b[kFetches];
    auto load = [&](int k) {
#pragma unroll
        for (int i = 0; i < kFetches; ++i) {
            int at = (threadIdx.x + i * kThreads) * WIDTH;
            next_a[i] = fetch(a, top + at / DEPTH, k + at % DEPTH);
            next_b[i] = fetch(b, k + at / kTile, left + at % kTile);
        }
    };
    auto store = [&](Tiles& tile) {
#pragma unroll
        for (int i = 0; i < kFetches; ++i) {
            int at = (threadIdx.x + i * kThreads) * WIDTH;
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                tile.a[at % DEPTH + j][at / DEPTH] = next_a[i].at[j];
                tile.b[at / kTile][at % kTile + j] = next_b[i].at[j];
            }
        }
    };

    float sums[ITEMS][ITEMS] = {};
    auto multiply_add = [&](const Tiles& tile) {
#pragma unroll kUnroll
        for (int k = 0; k < DEPTH; ++k) {
            Lane rows[ITEMS / kLane];
            Lane columns[ITEMS / kLane];
#pragma unroll
            for (int i = 0; i < ITEMS / kLane; ++i) {
                rows[i] = *reinterpret_cast<const Lane*>(&tile.a[k][place(thread_y, i * kLane)]);
                columns[i] = *reinterpret_cast<const Lane*>(&tile.b[k][place(thread_x, i * kLane)]);
            }
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
                for (int j = 0; j < ITEMS; ++j) {
                    sums[i][j] = fmaf(rows[i / kLane].at[i % kLane], columns[j / kLane].at[j % kLane], sums[i][j]);
                }
            }
        }
    };

    load(first);
    store(tiles[0]);
    __syncthreads();
    int current = 0;
    for (int k = first; k < last; k += DEPTH) {
        load(k + DEPTH); // zeros beyond the last
        multiply_add(tiles[current]);
        current ^= 1;
        store(tiles[current]);
        __syncthreads();
    }

    C += (size_t)blockIdx.z * M * N;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
        for (int j = 0; j < ITEMS; ++j) {
            int row = top + place(thread_y, i);
            int column = left + place(thread_x, j);
            if (row < M && column < N) {
                C[(size_t)row * N + column] = sums[i][j];
            }
        }
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K)
{
    constexpr int kCovered = SIDE * ITEMS;
    dim3 blocks((N - 1) / kCovered + 1, (M - 1) / kCovered + 1);
    multiply<<<blocks, kThreads>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
