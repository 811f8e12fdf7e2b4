// The normal equations by one block: each of its 10 x 10 threads adds up whole elements. One thread solves them.

#include <cuda_runtime.h>

constexpr int kSide = 10;

// Column n_features of the matrix is X^T y.
__global__ void normal_equations(const float* X, const float* y, float* matrix, int n_samples, int n_features)
{
    for (int row = threadIdx.y; row < n_features; row += kSide) {
        for (int column = threadIdx.x; column <= n_features; column += kSide) {
            float sum = 0.0f;
            for (int k = 0; k < n_samples; ++k) {
                const float* sample = X + (size_t)k * n_features;
                sum += sample[row] * (column < n_features ? sample[column] : y[k]);
            }
            matrix[row * (n_features + 1) + column] = sum;
        }
    }
}

__global__ void eliminate(float* matrix, float* beta, int n_features)
{
    int stride = n_features + 1;
    for (int k = 0; k < n_features; ++k) {
        for (int row = k + 1; row < n_features; ++row) {
            float factor = matrix[row * stride + k] / matrix[k * stride + k];
            for (int column = k; column < stride; ++column) {
                matrix[row * stride + column] -= factor * matrix[k * stride + column];
            }
        }
    }
    for (int k = n_features - 1; k >= 0; --k) {
        float rest = matrix[k * stride + n_features];
        for (int column = k + 1; column < n_features; ++column) {
            rest -= matrix[k * stride + column] * beta[column];
        }
        beta[k] = rest / matrix[k * stride + k];
    }
}

extern "C" void solve(const float* X, const float* y, float* beta, int n_samples, int n_features)
{
    float* matrix = nullptr;
    cudaMalloc(&matrix, sizeof(float) * n_features * (n_features + 1));
    normal_equations<<<1, dim3(kSide, kSide)>>>(X, y, matrix, n_samples, n_features);
    eliminate<<<1, 1>>>(matrix, beta, n_features);
    cudaDeviceSynchronize();
    cudaFree(matrix);
}
