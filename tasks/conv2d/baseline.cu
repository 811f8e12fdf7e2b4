// One thread computes one element of the output, straight from global memory.

#include <cuda_runtime.h>

__global__ void conv2d(const float* input, const float* filter, float* output, int H, int W, int R, int S)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int out_rows = H - R + 1;
    int out_columns = W - S + 1;
    if (row < out_rows && column < out_columns) {
        float sum = 0.0f;
        for (int r = 0; r < R; ++r) {
            for (int s = 0; s < S; ++s) {
                sum += input[(size_t)(row + r) * W + column + s] * filter[r * S + s];
            }
        }
        output[(size_t)row * out_columns + column] = sum;
    }
}

extern "C" void solve(const float* input, const float* filter, float* output, int H, int W, int R, int S)
{
    dim3 threads(16, 16);
    dim3 blocks((W - S + threads.x) / threads.x, (H - R + threads.y) / threads.y);
    conv2d<<<blocks, threads>>>(input, filter, output, H, W, R, S);
    cudaDeviceSynchronize();
}
