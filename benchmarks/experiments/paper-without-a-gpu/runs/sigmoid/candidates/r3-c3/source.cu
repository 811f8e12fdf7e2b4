// Up to four vectors a thread loaded first; nine-instruction sigmoid

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
    // exp(-x) = 2^t * exp(r); t is -x * log2(e) rounded, r what that leaves of -x (tiny).
    // Far to the right 2^t is 0 (the minimum keeps t finite); far to the left it is infinite,
    // the quotient 0 or no number, and the maximum makes it 0.
    const float c = fminf(x, 104.0f);
    const float t = c * -1.44269502162933349609375f;
    float r = fmaf(t, -0.693147182464599609375f, -c);
    r = fmaf(t, 1.904654323148236017e-9f, r);
    const float e = ex2_approx(t);
    const float d = fmaf(e, r, e) + 1.0f;
    return fmaxf(rcp_approx(d), 0.0f);
}

__device__ __forceinline__ float4 sigmoid_four(const float4& v)
{
    return make_float4(sigmoid_one(v.x), sigmoid_one(v.y), sigmoid_one(v.z), sigmoid_one(v.w));
}

// Short vectors: one element a thread, spread over all SMs.
__global__ void __launch_bounds__(128)
sigmoid_short(const float* __restrict__ x, float* __restrict__ y, unsigned n)
{
    const unsigned i = blockIdx.x * 128u + threadIdx.x;
    if (i < n) y[i] = sigmoid_one(__ldg(x + i));
}

// V vectors a thread, T apart; all loads are issued before the first value is used.
// FULL: n is a multiple of 4 * T * V.
template <int T, int V, int MINB, bool FULL>
__global__ void __launch_bounds__(T, MINB)
sigmoid_vectors(const float* __restrict__ x, float* __restrict__ y, unsigned n)
{
    const unsigned nv = n >> 2;
    const unsigned base = blockIdx.x * (unsigned)(T * V);
    const unsigned first = base + threadIdx.x;
    const float4* from = reinterpret_cast<const float4*>(x) + first;
    float4* to = reinterpret_cast<float4*>(y) + first;

    if (FULL || base + (unsigned)(T * V) <= nv) {
        float4 v[V];
#pragma unroll
        for (int k = 0; k < V; ++k) v[k] = __ldg(from + k * T);
#pragma unroll
        for (int k = 0; k < V; ++k) to[k * T] = sigmoid_four(v[k]);
    } else {
#pragma unroll
        for (int k = 0; k < V; ++k) {
            if (first + (unsigned)(k * T) < nv) to[k * T] = sigmoid_four(__ldg(from + k * T));
        }
    }
    if (!FULL) {
        if (blockIdx.x == 0u && threadIdx.x < (n & 3u)) {
            const size_t e = (size_t)nv * 4u + threadIdx.x;
            y[e] = sigmoid_one(__ldg(x + e));
        }
    }
}

template <int T, int V, int MINB>
static void launch_vectors(const float* x, float* y, unsigned n)
{
    const unsigned per = (unsigned)(T * V);
    const unsigned nv = n >> 2;
    const unsigned blocks = (nv + per - 1u) / per;
    if ((n & 3u) == 0u && nv == blocks * per)
        sigmoid_vectors<T, V, MINB, true><<<blocks, T>>>(x, y, n);
    else
        sigmoid_vectors<T, V, MINB, false><<<blocks, T>>>(x, y, n);
}

extern "C" void solve(const float* x, float* y, int n)
{
    if (n <= 0) return;
    const unsigned un = (unsigned)n;
    const unsigned nv = un >> 2;
    if (un <= 132u * 128u) {
        sigmoid_short<<<(un + 127u) / 128u, 128>>>(x, y, un);
    } else if (nv <= 132u * 1024u) {
        launch_vectors<128, 1, 8>(x, y, un);
    } else if (nv <= 132u * 4096u) {
        launch_vectors<256, 2, 8>(x, y, un);
    } else {
        launch_vectors<256, 4, 8>(x, y, un);
    }
}
