// Convolution: from one output a thread, straight from memory, to input and filter in shared memory, a
// window in registers that slides down the columns, and a filter shared out among threads.

#include <cuda_runtime.h>

#define ACROSS 32  // columns of a block's part of the output
#define DOWN 8  // threads of a block that share a column
#define ITEMS 1  // outputs of a thread, one below the other
#define SHARES 4  // groups of threads that each apply some columns of the filter

constexpr int kAhead = 8;             // rows of the filter between two branches
constexpr int kCells = ACROSS * DOWN; // threads of a share
constexpr int kRows = DOWN * ITEMS;   // of a block's part of the output

// Idea of every variant: the ITEMS outputs of a thread lie one below the other, so that a value of the
// input serves all of them while it slides through a window in registers, and lanes read neighbours.
// `input_at(row)` is the input `row` rows below the first output, `weight_at(row)` the filter's.
template <typename Input, typename Weight>
__device__ void slide_down(int filter_rows, float (&sums)[ITEMS], Input input_at, Weight weight_at)
{
    float window[ITEMS - 1 + kAhead];
#pragma unroll
    for (int i = 0; i + 1 < ITEMS; ++i) {
        window[i] = input_at(i);
    }
    int r = 0;
    for (; r + kAhead <= filter_rows; r += kAhead) {
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
            window[ITEMS - 1 + j] = input_at(r + ITEMS - 1 + j);
        }
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
            float weight = weight_at(r + j);
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                sums[i] = fmaf(window[i + j], weight, sums[i]);
            }
        }
#pragma unroll
        for (int i = 0; i + 1 < ITEMS; ++i) {
            window[i] = window[i + kAhead];
        }
    }
    for (; r < filter_rows; ++r) {
        window[ITEMS - 1] = input_at(r + ITEMS - 1);
        float weight = weight_at(r);
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            sums[i] = fmaf(window[i], weight, sums[i]);
        }
#pragma unroll
        for (int i = 0; i + 1 < ITEMS; ++i) {
            window[i] = window[i + 1];
        }
    }
}

__device__ void store_column(
    float* __restrict__ output, const float (&sums)[ITEMS], int row, int column, int out_rows, int out_columns)
{
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        if (row + i < out_rows && column < out_columns) {
            output[(size_t)(row + i) * out_columns + column] = sums[i];
        }
    }
}

// Idea: no staging, no barrier, any size of filter; L1 holds what neighbours share.
__global__ void __launch_bounds__(kCells) convolve_direct(
    const float* __restrict__ input, const float* __restrict__ filter, float* __restrict__ output, int H, int W,
    int R, int S)
{
    int column = blockIdx.x * ACROSS + threadIdx.x % ACROSS;
    int row = blockIdx.y * kRows + threadIdx.x / ACROSS * ITEMS;
    if (row > H - R || column > W - S) {
        return;
    }
    float sums[ITEMS] = {};
    for (int s = 0; s < S; ++s) {
        const float* first = input + (size_t)row * W + column + s;
        slide_down(
            R, sums, [&](int r) { return first[(ITEMS == 1 ? r : min(r, H - 1 - row)) * W]; },
            [&](int r) { return filter[r * S + s]; });
    }
    store_column(output, sums, row, column, H - R + 1, W - S + 1);
}

constexpr int kThreads = kCells * SHARES;

// Floats between two columns of the filter, which lies turned so that a column's weights are neighbours.
__host__ __device__ int filter_pitch(int R)
{
    return (R + 3) / 4 * 4;
}

// Idea: the input that a block needs is read once, by all its threads. With FILTER the weights of a
// column are read four at a time; with SHARES there are warps enough even for a small image.
__global__ void __launch_bounds__(kThreads) convolve_staged(
    const float* __restrict__ input, const float* __restrict__ filter, float* __restrict__ output, int H, int W,
    int R, int S)
{
    extern __shared__ __align__(16) float shared[];
    int top = blockIdx.y * kRows;
    int left = blockIdx.x * ACROSS;
    int tile_rows = kRows + R - 1;
    int tile_columns = ACROSS + S - 1;
    float* weights = shared;
    float* tile = shared + S * filter_pitch(R);
    for (int s = threadIdx.x % ACROSS; s < S; s += ACROSS) {
        for (int r = threadIdx.x / ACROSS; r < filter_pitch(R); r += kThreads / ACROSS) {
            weights[s * filter_pitch(R) + r] = r < R ? filter[r * S + s] : 0.0f;
        }
    }
    for (int y = threadIdx.x / ACROSS; y < tile_rows; y += kThreads / ACROSS) {
        for (int x = threadIdx.x % ACROSS; x < tile_columns; x += ACROSS) {
            bool inside = top + y < H && left + x < W;
            tile[y * tile_columns + x] = inside ? input[(size_t)(top + y) * W + left + x] : 0.0f;
        }
    }
    __syncthreads();

    int x = threadIdx.x % ACROSS;
    int y = threadIdx.x % kCells / ACROSS * ITEMS;
    float sums[ITEMS] = {};
    for (int s = threadIdx.x / kCells; s < S; s += SHARES) {
        const float* column = tile + y * tile_columns + x + s;
        auto input_at = [&](int r) { return column[r * tile_columns]; };
        const float* weight = weights + s * filter_pitch(R);
        float4 four = {};
        slide_down(R, sums, input_at, [&](int r) {
            if (r % 4 == 0) {
                four = *reinterpret_cast<const float4*>(weight + r);
            }
            return r % 4 == 0 ? four.x : r % 4 == 1 ? four.y : r % 4 == 2 ? four.z : four.w;
        });
    }
    __syncthreads();
    float* parts = shared; // the input is not needed any more
    int cell = threadIdx.x % kCells;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        parts[i * kThreads + threadIdx.x] = sums[i];
    }
    __syncthreads();
    if (threadIdx.x >= kCells) {
        return;
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
        for (int share = 1; share < SHARES; ++share) {
            sums[i] += parts[i * kThreads + share * kCells + cell];
        }
    }
    store_column(output, sums, top + y, left + x, H - R + 1, W - S + 1);
}

// Bytes of shared memory that `convolve_staged` needs.
size_t staged_bytes(int R, int S)
{
    size_t floats = (size_t)(kRows + R - 1) * (ACROSS + S - 1);
    floats += (size_t)S * filter_pitch(R);
    size_t parts = (size_t)kThreads * ITEMS;
    floats = floats > parts ? floats : parts;
    return sizeof(float) * floats;
}

extern "C" void solve(const float* input, const float* filter, float* output, int H, int W, int R, int S)
{
    dim3 blocks((W - S) / ACROSS + 1, (H - R) / kRows + 1);
    constexpr size_t kMostShared = 48 * 1024; // bytes of a block that every GPU has
    size_t bytes = staged_bytes(R, S);
    if (bytes <= kMostShared) {
        convolve_staged<<<blocks, kThreads, bytes>>>(input, filter, output, H, W, R, S);
        cudaDeviceSynchronize();
        return;
    }
    convolve_direct<<<blocks, kCells>>>(input, filter, output, H, W, R, S);
    cudaDeviceSynchronize();
}
