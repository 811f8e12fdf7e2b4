// A block for each row, which it reads three times: for the largest number, the sum, and the quotients.

#include <cfloat>
#include <cuda_runtime.h>

__global__ void softmax(const float* x, float* y, int cols)
{
    __shared__ float shared[256];
    const float* from = x + (size_t)blockIdx.x * cols;
    float* to = y + (size_t)blockIdx.x * cols;
    int thread = threadIdx.x;
    int threads = blockDim.x;

    float largest = -FLT_MAX;
    for (int i = thread; i < cols; i += threads) {
        largest = fmaxf(largest, from[i]);
    }
    shared[thread] = largest;
    for (int half = threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) {
            shared[thread] = fmaxf(shared[thread], shared[thread + half]);
        }
    }
    __syncthreads();
    largest = shared[0];
    __syncthreads();

    float sum = 0.0f;
    for (int i = thread; i < cols; i += threads) {
        sum += expf(from[i] - largest);
    }
    shared[thread] = sum;
    for (int half = threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) {
            shared[thread] += shared[thread + half];
        }
    }
    __syncthreads();
    sum = shared[0];

    for (int i = thread; i < cols; i += threads) {
        to[i] = expf(from[i] - largest) / sum;
    }
}

extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    softmax<<<rows, cols < 256 ? 32 : 256>>>(x, y, cols);
    cudaDeviceSynchronize();
}
