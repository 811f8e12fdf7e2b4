// Matrix product: from one element a thread, straight from memory, to register tiles, warp tiles that
// are copied asynchronously, and a split of K for matrices too small to fill the chip.

#include <cstdint>
#include <cuda_runtime.h>

#define TILED 1    // tunable: 0 1 2; operands from global memory, from tiles in shared memory, from warp tiles
#define SIDE 16    // tunable: 8 16; a block has SIDE x SIDE threads
#define ITEMS 1    // tunable: 1 2 4 8 16; a thread computes ITEMS x ITEMS elements, of warp tiles ITEMS x 8
#define DEPTH 16   // tunable: 8 16 32; of the tiles along K
#define BUFFERS 1  // tunable: 1 2 3; with more than one, the next tiles are loaded while these are multiplied
#define WIDTH 1    // tunable: 1 4; elements of one load from global memory
#define SPLITS 1   // tunable: 1 8; parts of K, at most, where blocks are too few for the chip
#define TILE_M 128 // tunable: 64 128; rows of a block's warp tiles
#define TILE_N 128 // tunable: 128 256; their columns

// tunable-if: TILED >= 1 or ITEMS == 1 and BUFFERS == 1 and WIDTH == 1 and SPLITS == 1
// tunable-if: TILED != 0 or DEPTH == 16
// tunable-if: TILED != 1 or ITEMS <= 8 and DEPTH >= 16 and BUFFERS <= 2
// tunable-if: TILED != 1 or ITEMS * DEPTH >= SIDE * WIDTH
// tunable-if: TILED != 1 or BUFFERS * DEPTH * (2 * SIDE * ITEMS + 4) <= 12288
// tunable-if: TILED == 2 or TILE_M == 128 and TILE_N == 128
// tunable-if: TILED != 2 or SIDE == 16 and ITEMS >= 8 and DEPTH <= 16 and BUFFERS >= 2 and WIDTH == 4
// tunable-if: TILED != 2 or BUFFERS * DEPTH * (TILE_M + 4 + TILE_N) <= 16384

// tunable-hint: uncoalesced_global TILED=1
// tunable-hint: l1_bandwidth TILED=1
// tunable-hint: l2_bandwidth ITEMS=4
// tunable-hint: shared_bandwidth ITEMS=4
// tunable-hint: shared_bandwidth ITEMS=8
// tunable-hint: shared_bandwidth TILED=2 ITEMS=16 BUFFERS=2 WIDTH=4 DEPTH=16 SIDE=16
// tunable-hint: issue WIDTH=4 ITEMS=4
// tunable-hint: issue TILED=2 ITEMS=16 BUFFERS=2 WIDTH=4 DEPTH=16 SIDE=16 TILE_N=256
// tunable-hint: int WIDTH=4
// tunable-hint: latency SPLITS=8
// tunable-hint: latency DEPTH=32
// tunable-hint: latency BUFFERS=2
// tunable-hint: tail SPLITS=8
// tunable-hint: tail SIDE=8
// tunable-hint: low_occupancy ITEMS=2
// tunable-hint: launch_overhead SPLITS=1

#if TILED == 0
constexpr int kThreads = SIDE * SIDE;

// Idea: every thread reads its row and its column; L1 holds what neighbours share.
__global__ void __launch_bounds__(kThreads) multiply(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    int row = blockIdx.y * SIDE + threadIdx.x / SIDE;
    int column = blockIdx.x * SIDE + threadIdx.x % SIDE;
    if (row >= M || column >= N) {
        return;
    }
    float sum = 0.0f;
#pragma unroll 4
    for (int k = 0; k < K; ++k) {
        sum = fmaf(A[(size_t)row * K + k], B[(size_t)k * N + column], sum);
    }
    C[(size_t)row * N + column] = sum;
}
#elif TILED == 1
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

#if BUFFERS == 1
    for (int k = first; k < last; k += DEPTH) {
        load(k);
        store(tiles[0]);
        __syncthreads();
        multiply_add(tiles[0]);
        __syncthreads();
    }
#else
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
#endif

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
#else
constexpr int kColumns = 8;                              // of a thread
constexpr int kWarpM = 4 * ITEMS;                        // a warp's part of C: its lanes lie 4 x 8
constexpr int kWarpN = 8 * kColumns;
constexpr int kThreads = TILE_M / kWarpM * (TILE_N / kWarpN) * 32;
constexpr int kBlocks = 4096 / ITEMS / kThreads;         // that one processor's registers hold
constexpr int kCopiesA = TILE_M * DEPTH / kThreads;      // of a thread, for a tile of A: one element each
constexpr int kCopiesB = TILE_N * DEPTH / 4 / kThreads;  // for a tile of B: four neighbours each
constexpr int kBand = 2048 / TILE_N;                     // tiles of C that neighbouring blocks take side by side

// A tile of A lies turned, so that a thread's rows are neighbours. Its spare columns keep the eight
// elements of a row and the four rows that a warp copies in different banks.
struct alignas(16) Tiles {
    float a[DEPTH][TILE_M + 4];
    float b[DEPTH][TILE_N];
};

// Copies elements to shared memory, or zeros where they lie outside of the matrix.
template <int kElements>
__device__ void copy_async(float* to, const float* from, bool inside)
{
#if __CUDA_ARCH__ >= 800
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    int bytes = inside ? 4 * kElements : 0;
    if constexpr (kElements == 4) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
    }
#else
    if constexpr (kElements == 4) {
        *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
    } else {
        *to = inside ? *from : 0.0f;
    }
#endif
}

__device__ void close_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all but the last BUFFERS - 2 groups of copies of this thread have arrived.
__device__ void await_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(BUFFERS - 2) : "memory");
#endif
}

// Idea: a warp's part of C is nearly square, so that it reads little of shared memory; copies to it need
// no registers. kWhole: M, N and K are whole numbers of tiles, so nothing is checked.
template <bool kWhole>
__global__ void __launch_bounds__(kThreads, kBlocks) multiply(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    extern __shared__ Tiles tiles[];
    // Bands of columns keep what of B a wave of blocks needs in L2.
    int across = (N - 1) / TILE_N + 1;
    int down = (M - 1) / TILE_M + 1;
    int band = blockIdx.x / (kBand * down);
    int in_band = blockIdx.x % (kBand * down);
    int width = min(kBand, across - band * kBand);
    int top = in_band / width * TILE_M;
    int left = (band * kBand + in_band % width) * TILE_N;
    int share = ((K - 1) / (int)gridDim.z / DEPTH + 1) * DEPTH;
    int first = min((int)blockIdx.z * share, K);
    int last = min(first + share, K);

    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int a_depth = warp % (DEPTH / 8) * 8 + lane % 8;
    int a_row = warp / (DEPTH / 8) * 4 + lane / 8;
    int b_depth = threadIdx.x * 4 / TILE_N;
    int b_column = threadIdx.x * 4 % TILE_N;
    const float* a_corner = A + (size_t)(top + a_row) * K + a_depth;
    const float* b_corner = B + (size_t)b_depth * N + left + b_column;

    // The part of the copies of the tiles at k that belongs to one of DEPTH / 2 steps.
    auto copy = [&](Tiles& tile, int k, int step) {
        // Beyond the last tiles these are copied again, where nobody reads them.
        int from = kWhole ? min(k, last - DEPTH) : k;
#pragma unroll
        for (int i = 0; i < kCopiesA; ++i) {
            if (i * (DEPTH / 2) / kCopiesA == step) {
                int skip = i * (kThreads / DEPTH);
                bool inside = kWhole || (top + a_row + skip < M && from + a_depth < last);
                const float* at = a_corner + (size_t)skip * K + from;
                copy_async<1>(&tile.a[a_depth][a_row + skip], inside ? at : A, inside);
            }
        }
#pragma unroll
        for (int i = 0; i < kCopiesB; ++i) {
            if (i * (DEPTH / 2) / kCopiesB == step) {
                int skip = i * (kThreads * 4 / TILE_N);
                const float* at = b_corner + (size_t)(from + skip) * N;
                float* to = &tile.b[b_depth + skip][b_column];
                if constexpr (kWhole) {
                    copy_async<4>(to, at, true);
                } else {
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        bool inside = from + b_depth + skip < last && left + b_column + j < N;
                        copy_async<1>(to + j, inside ? at + j : B, inside);
                    }
                }
            }
        }
    };

    // Lanes that read shared memory together hold few different rows and columns.
    int row = warp / (TILE_N / kWarpN) * kWarpM + (lane / 16 * 2 + lane % 2) * 4;
    int column = warp % (TILE_N / kWarpN) * kWarpN + lane / 2 % 8 * 4;
    float sums[ITEMS][kColumns] = {};
    float4 rows[2][ITEMS / 4];
    float4 columns[2][kColumns / 4];
    auto read = [&](const Tiles& tile, int k) {
#pragma unroll
        for (int i = 0; i < ITEMS / 4; ++i) {
            rows[k % 2][i] = *reinterpret_cast<const float4*>(&tile.a[k][row + i * 16]);
        }
#pragma unroll
        for (int j = 0; j < kColumns / 4; ++j) {
            columns[k % 2][j] = *reinterpret_cast<const float4*>(&tile.b[k][column + j * 32]);
        }
    };

#pragma unroll
    for (int ahead = 0; ahead < BUFFERS - 1; ++ahead) {
#pragma unroll
        for (int step = 0; step < DEPTH / 2; ++step) {
            copy(tiles[ahead], first + ahead * DEPTH, step);
        }
        close_group();
    }
    await_group();
    __syncthreads();
    read(tiles[0], 0);
    int current = 0;
    int free = BUFFERS - 1;
    for (int k = first; k < last; k += DEPTH) {
        int next = current == BUFFERS - 1 ? 0 : current + 1;
#pragma unroll
        for (int step = 0; step < DEPTH; ++step) {
            if (step < DEPTH - 1) {
                read(tiles[current], step + 1);
            } else {
                await_group();
                __syncthreads();
                read(tiles[next], 0);
            }
            if (step < DEPTH / 2) {
                copy(tiles[free], k + (BUFFERS - 1) * DEPTH, step);
            } else if (step == DEPTH / 2) {
                close_group();
            }
            const float* left_factors = &rows[step % 2][0].x;
            const float* right_factors = &columns[step % 2][0].x;
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
                for (int j = 0; j < kColumns; ++j) {
                    sums[i][j] = fmaf(left_factors[i], right_factors[j], sums[i][j]);
                }
            }
        }
        free = current;
        current = next;
    }

    C += (size_t)blockIdx.z * M * N;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        int y = top + row + i / 4 * 16 + i % 4;
#pragma unroll
        for (int j = 0; j < kColumns; j += 4) {
            int x = left + column + j * 8;
            float* to = C + (size_t)y * N + x;
            if constexpr (kWhole) {
                *reinterpret_cast<float4*>(to) = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if (y < M && x + e < N) {
                        to[e] = sums[i][j + e];
                    }
                }
            }
        }
    }
}
#endif

#if TILED == 2
void launch(dim3 blocks, const float* A, const float* B, float* C, int M, int N, int K)
{
    bool whole = M % TILE_M == 0 && N % TILE_N == 0 && K % DEPTH == 0;
    auto kernel = whole ? multiply<true> : multiply<false>;
    constexpr int kBytes = sizeof(Tiles) * BUFFERS;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    kernel<<<blocks, kThreads, kBytes>>>(A, B, C, M, N, K);
}
#else
constexpr int kBlocks = 1; // at least, of a processor

void launch(dim3 blocks, const float* A, const float* B, float* C, int M, int N, int K)
{
    multiply<<<blocks, kThreads>>>(A, B, C, M, N, K);
}
#endif

#if SPLITS > 1
constexpr int kAdding = 256; // threads of a block

// Idea: blocks that share an element of C leave their parts side by side; no atomics, the same sum in
// every run.
__global__ void __launch_bounds__(kAdding)
    add_parts(const float* __restrict__ parts, float* C, size_t count, int splits)
{
    size_t i = (size_t)blockIdx.x * kAdding + threadIdx.x;
    if (i < count) {
        float sum = 0.0f;
#pragma unroll 4
        for (int part = 0; part < splits; ++part) {
            sum += parts[part * count + i];
        }
        C[i] = sum;
    }
}

// Parts of K so that `blocks` become about as many as the device's processors hold.
int count_splits(unsigned blocks)
{
    int device = 0;
    int processors = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    unsigned wanted = processors * kBlocks / blocks;
    return wanted < 1 ? 1 : wanted < SPLITS ? wanted : SPLITS;
}
#endif

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K)
{
#if TILED == 2
    dim3 blocks(((N - 1) / TILE_N + 1) * ((M - 1) / TILE_M + 1));
#else
    constexpr int kCovered = SIDE * ITEMS;
    dim3 blocks((N - 1) / kCovered + 1, (M - 1) / kCovered + 1);
#endif
#if SPLITS > 1
    blocks.z = count_splits(blocks.x * blocks.y);
    if (blocks.z > 1) {
        size_t count = (size_t)M * N;
        float* parts = nullptr;
        cudaMalloc(&parts, sizeof(float) * blocks.z * count);
        launch(blocks, A, B, parts, M, N, K);
        add_parts<<<(unsigned)((count - 1) / kAdding + 1), kAdding>>>(parts, C, count, blocks.z);
        cudaDeviceSynchronize();
        cudaFree(parts);
        return;
    }
#endif
    launch(blocks, A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
