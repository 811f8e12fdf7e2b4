// One thread moves one element. Neighbouring threads read neighbours but store a row apart.

#include <cuda_runtime.h>

__global__ void matrix_transpose(const float* input, float* output, int rows, int cols)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < cols) {
        output[(size_t)column * rows + row] = input[(size_t)row * cols + column];
    }
}

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    dim3 threads(32, 8);
    dim3 blocks((cols + threads.x - 1) / threads.x, (rows + threads.y - 1) / threads.y);
    matrix_transpose<<<blocks, threads>>>(input, output, rows, cols);
    cudaDeviceSynchronize();
}
