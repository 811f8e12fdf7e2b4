// Whole tiles unchecked, loads first; nine-instruction corrected sigmoid
#include <cuda_runtime.h>

__device__ __forceinline__ float ex2_approx(float t)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(t));
    return r;
}

__device__ __forceinline__ float rcp_approx(float t)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(t));
    return r;
}

__device__ __forceinline__ float sigmoid_one(float x)
{
    // exp(-x) = 2^t * exp(d), where t is -x * log2(e) rounded and d = -x - t * ln(2) is tiny.
    // At -88 the reciprocal is below 2^-126 and flushed to 0; at 88 the result is 1.
    const float z = fminf(fmaxf(x, -88.0f), 88.0f);
    const float t = z * -1.44269502162933349609375f;
    float d = fmaf(t, -0.693147182464599609375f, -z);
    d = fmaf(t, 1.904654323148236e-9f, d);
    float e = ex2_approx(t);
    e = fmaf(e, d, e);
    return rcp_approx(1.0f + e);
}

__device__ __forceinline__ float4 sigmoid_four(const float4& v)
{
    return make_float4(sigmoid_one(v.x), sigmoid_one(v.y), sigmoid_one(v.z), sigmoid_one(v.w));
}

// A block takes T * V vectors. FULL: n is a multiple of 4 * T * V, nothing is checked.
// Otherwise all blocks but the last take the unchecked path as well.
template <int T, int V, bool FULL>
__global__ void __launch_bounds__(T, 2048 / T > 32 ? 32 : 2048 / T)
sigmoid_kernel(const float* __restrict__ x, float* __restrict__ y, unsigned n)
{
    const unsigned base = blockIdx.x * (unsigned)(T * V);
    const unsigned i = base + threadIdx.x;
    const unsigned nv = n >> 2;
    if (FULL || base + (unsigned)(T * V) <= nv) {
        const float4* from = reinterpret_cast<const float4*>(x) + i;
        float4* to = reinterpret_cast<float4*>(y) + i;
        float4 v[V];
#pragma unroll
        for (int k = 0; k < V; ++k) v[k] = __ldg(from + k * T);
#pragma unroll
        for (int k = 0; k < V; ++k) to[k * T] = sigmoid_four(v[k]);
    } else {
        const float4* from = reinterpret_cast<const float4*>(x);
        float4* to = reinterpret_cast<float4*>(y);
#pragma unroll 1
        for (int k = 0; k < V; ++k) {
            const unsigned j = i + (unsigned)(k * T);
            if (j < nv) to[j] = sigmoid_four(__ldg(from + j));
        }
    }
    if (!FULL && blockIdx.x == gridDim.x - 1u && threadIdx.x < (n & 3u)) {
        const size_t e = ((size_t)nv << 2) + threadIdx.x;
        y[e] = sigmoid_one(__ldg(x + e));
    }
}

template <int T, int V>
static void launch(const float* x, float* y, unsigned n)
{
    const unsigned per = (unsigned)(T * V);
    const unsigned nv = n >> 2;
    const unsigned blocks = nv == 0u ? 1u : (nv + per - 1u) / per;
    if ((n & 3u) == 0u && nv == blocks * per)
        sigmoid_kernel<T, V, true><<<blocks, T>>>(x, y, n);
    else
        sigmoid_kernel<T, V, false><<<blocks, T>>>(x, y, n);
}

extern "C" void solve(const float* x, float* y, int n)
{
    if (n <= 0) return;
    const unsigned un = (unsigned)n;
    const unsigned nv = un >> 2;
    if (nv <= 132u * 32u)
        launch<32, 1>(x, y, un);
    else if (nv <= 132u * 128u)
        launch<128, 1>(x, y, un);
    else if (nv <= 132u * 1024u)
        launch<256, 1>(x, y, un);
    else if (nv <= 132u * 4096u)
        launch<256, 2>(x, y, un);
    else
        launch<256, 4>(x, y, un);
}
