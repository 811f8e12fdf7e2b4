// Convolution: from one output a thread, straight from memory, to input and filter in shared memory, a
// window in registers that slides down the columns, and a filter shared out among threads.

#include <cuda_runtime.h>

#define ACROSS 16  // columns of a block's part of the output
#define DOWN 4  // threads of a block that share a column
#define ITEMS 8  // outputs of a thread, one below the other

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

extern "C" void solve(const float* input, const float* filter, float* output, int H, int W, int R, int S)
{
    dim3 blocks((W - S) / ACROSS + 1, (H - R) / kRows + 1);
    convolve_direct<<<blocks, kCells>>>(input, filter, output, H, W, R, S);
    cudaDeviceSynchronize();
}
