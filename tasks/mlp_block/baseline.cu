// Three kernels: the norm with one thread a row, then one thread an element of each product.

#include <cuda_fp16.h>
#include <cuda_runtime.h>

__global__ void normalise(const half* x, const half* weight, half* r, int tokens, int d_model, float eps)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= tokens) {
        return;
    }
    const half* from = x + (size_t)row * d_model;
    float sum = 0.0f;
    for (int i = 0; i < d_model; ++i) {
        float value = __half2float(from[i]);
        sum += value * value;
    }
    float factor = 1.0f / sqrtf(sum / d_model + eps);
    for (int i = 0; i < d_model; ++i) {
        r[(size_t)row * d_model + i] = __float2half(__half2float(from[i]) * factor * __half2float(weight[i]));
    }
}

__device__ float dot(const half* a, const half* b, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) {
        sum += __half2float(a[i]) * __half2float(b[i]);
    }
    return sum;
}

__global__ void gate_and_up(const half* r, const half* W_gate, const half* W_up, half* hidden, int tokens, int d_model,
                            int d_ff)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)tokens * d_ff) {
        return;
    }
    const half* row = r + i / d_ff * d_model;
    float gate = dot(row, W_gate + i % d_ff * d_model, d_model);
    float up = dot(row, W_up + i % d_ff * d_model, d_model);
    hidden[i] = __float2half(gate / (1.0f + expf(-gate)) * up);
}

__global__ void down(const half* x, const half* hidden, const half* W_down, half* y, int tokens, int d_model, int d_ff)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (size_t)tokens * d_model) {
        float sum = dot(hidden + i / d_model * d_ff, W_down + i % d_model * d_ff, d_ff);
        y[i] = __float2half(__half2float(x[i]) + sum);
    }
}

extern "C" void solve(const half* x, const half* norm_weight, const half* W_gate, const half* W_up, const half* W_down,
                      half* y, int tokens, int d_model, int d_ff, float eps)
{
    constexpr int kThreads = 256;
    size_t in = (size_t)tokens * d_model;
    size_t inner = (size_t)tokens * d_ff;
    half* r = nullptr;
    half* hidden = nullptr;
    cudaMalloc(&r, in * sizeof(half));
    cudaMalloc(&hidden, inner * sizeof(half));
    normalise<<<(tokens + kThreads - 1) / kThreads, kThreads>>>(x, norm_weight, r, tokens, d_model, eps);
    gate_and_up<<<(unsigned)((inner + kThreads - 1) / kThreads), kThreads>>>(r, W_gate, W_up, hidden, tokens, d_model,
                                                                             d_ff);
    down<<<(unsigned)((in + kThreads - 1) / kThreads), kThreads>>>(x, hidden, W_down, y, tokens, d_model, d_ff);
    cudaDeviceSynchronize();
    cudaFree(hidden);
    cudaFree(r);
}
