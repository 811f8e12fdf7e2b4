// float4 a thread, block size chosen to spread over all SMs.

#include <cuda_runtime.h>

// expf is good to about one unit in the last place for every argument; it gives
// infinity above 88.7, whose reciprocal is 0, and 0 for large positive x.
__device__ __forceinline__ float sigmoid1(float x)
{
    const float d = 1.0f + expf(-x);
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
    return r;
}

__device__ __forceinline__ float4 sigmoid4(float4 v)
{
    v.x = sigmoid1(v.x);
    v.y = sigmoid1(v.y);
    v.z = sigmoid1(v.z);
    v.w = sigmoid1(v.w);
    return v;
}

// T threads a block, U vectors a thread, T apart.
template <int T, int U>
__global__ void __launch_bounds__(T)
sigmoid_kernel(const float* __restrict__ x, float* __restrict__ y, int n)
{
    const int n4 = n >> 2;
    const int t = threadIdx.x;
    const int i = (int)blockIdx.x * (T * U) + t;
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* y4 = reinterpret_cast<float4*>(y);

    float4 v[U];
#pragma unroll
    for (int k = 0; k < U; k++) {
        v[k] = make_float4(0.f, 0.f, 0.f, 0.f);
        if (i + k * T < n4) v[k] = __ldcs(x4 + i + k * T);
    }

    // the last few elements
    if (blockIdx.x == 0 && t < (n & 3)) {
        const int j = (n4 << 2) + t;
        y[j] = sigmoid1(x[j]);
    }

#pragma unroll
    for (int k = 0; k < U; k++) {
        if (i + k * T < n4) y4[i + k * T] = sigmoid4(v[k]);
    }
}

template <int T, int U>
static void launch(const float* x, float* y, int n)
{
    const int n4 = n / 4;
    int blocks = (n4 + T * U - 1) / (T * U);
    if (blocks < 1) blocks = 1;
    sigmoid_kernel<T, U><<<blocks, T>>>(x, y, n);
}

extern "C" void solve(const float* x, float* y, int n)
{
    if (n <= 0) return;
    const int n4 = n / 4;
    const int SMS = 132;
    if (n4 <= SMS * 32) {
        launch<32, 1>(x, y, n);
    } else if (n4 <= SMS * 64) {
        launch<64, 1>(x, y, n);
    } else if (n4 <= SMS * 128 * 4) {
        launch<128, 1>(x, y, n);
    } else if (n4 <= SMS * 256 * 8) {
        launch<256, 1>(x, y, n);
    } else {
        launch<256, 2>(x, y, n);
    }
}
