// Streaming float4 loads and stores, batched, one tile per block

#include <cuda_runtime.h>
#include <cstddef>

constexpr int kThreads = 256;

__device__ __forceinline__ float relu1(float v)
{
    return v < 0.0f ? 0.0f : v; // a NaN is not below 0
}

__device__ __forceinline__ float4 relu4(float4 v)
{
    v.x = relu1(v.x);
    v.y = relu1(v.y);
    v.z = relu1(v.z);
    v.w = relu1(v.w);
    return v;
}

template <bool kStream>
__device__ __forceinline__ void put(float4* p, float4 v)
{
    if (kStream)
        __stcs(p, v);
    else
        *p = v;
}

// V vectors of four floats a thread. kStream: the output is too large to stay in L2.
template <int V, bool kStream>
__global__ void __launch_bounds__(kThreads)
relu(const float* __restrict__ x, float* __restrict__ y, int n)
{
    constexpr int kTile = V * kThreads; // vectors a block
    const size_t first = (size_t)blockIdx.x * kTile;
    const size_t vectors = (size_t)n / 4;
    const float4* __restrict__ xv = reinterpret_cast<const float4*>(x) + first + threadIdx.x;
    float4* __restrict__ yv = reinterpret_cast<float4*>(y) + first + threadIdx.x;

    if (first + kTile <= vectors) {
        float4 v[V];
#pragma unroll
        for (int k = 0; k < V; ++k)
            v[k] = __ldcs(xv + k * kThreads);
#pragma unroll
        for (int k = 0; k < V; ++k)
            put<kStream>(yv + k * kThreads, relu4(v[k]));
    } else {
        // the last block: what is left of whole vectors, then up to three elements
#pragma unroll
        for (int k = 0; k < V; ++k) {
            if (first + k * kThreads + threadIdx.x < vectors)
                put<kStream>(yv + k * kThreads, relu4(__ldcs(xv + k * kThreads)));
        }
        const size_t i = vectors * 4 + threadIdx.x;
        if (i < (size_t)n)
            y[i] = relu1(x[i]);
    }
}

template <int V, bool kStream>
static void launch(const float* x, float* y, int n)
{
    constexpr int tile = V * kThreads * 4; // elements a block
    const int blocks = (n - 1) / tile + 1;
    relu<V, kStream><<<blocks, kThreads>>>(x, y, n);
}

extern "C" void solve(const float* x, float* y, int n)
{
    if (n <= 0)
        return;
    if (n <= 1056 * kThreads * 4)
        launch<1, false>(x, y, n); // one wave
    else if (n <= 6 * 1024 * 1024)
        launch<4, false>(x, y, n); // the output stays in L2
    else
        launch<4, true>(x, y, n);
}
