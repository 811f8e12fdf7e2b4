// Nine-instruction corrected sigmoid; one element or vector a thread
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

// exp(-c) = 2^h * exp(r), where h is -c * log2(e) rounded and r = -c - h * ln(2) what that leaves.
// Beyond -87.34 the reciprocal falls below 2^-126 and is flushed to 0, so that clamping
// to [-88, 88] is all that large values need.
__device__ __forceinline__ float sigmoid_one(float x)
{
    const float c = fminf(fmaxf(x, -88.0f), 88.0f);
    const float h = c * -1.44269502162933349609375f;
    float r = fmaf(h, -0.693147182464599609375f, -c);
    r = fmaf(h, 1.90465429995776804525e-9f, r);
    const float e = ex2_approx(h);
    return rcp_approx(1.0f + fmaf(e, r, e));
}

__device__ __forceinline__ float4 sigmoid_four(const float4& v)
{
    return make_float4(sigmoid_one(v.x), sigmoid_one(v.y), sigmoid_one(v.z), sigmoid_one(v.w));
}

// One element a thread: the work of few elements spreads over all parts of an SM.
template <bool FULL>
__global__ void __launch_bounds__(128)
sigmoid_single(const float* __restrict__ x, float* __restrict__ y, unsigned n)
{
    const unsigned i = blockIdx.x * 128u + threadIdx.x;
    if (FULL || i < n) y[i] = sigmoid_one(__ldg(x + i));
}

// One vector a thread.
template <int T, bool FULL>
__global__ void __launch_bounds__(T)
sigmoid_vector(const float* __restrict__ x, float* __restrict__ y, unsigned n)
{
    const unsigned i = blockIdx.x * (unsigned)T + threadIdx.x;
    const float4* from = reinterpret_cast<const float4*>(x);
    float4* to = reinterpret_cast<float4*>(y);
    if (FULL) {
        to[i] = sigmoid_four(__ldg(from + i));
    } else {
        const unsigned nv = n >> 2;
        if (i < nv) to[i] = sigmoid_four(__ldg(from + i));
        if (i < (n & 3u)) {
            const unsigned e = 4u * nv + i;
            y[e] = sigmoid_one(__ldg(x + e));
        }
    }
}

// Any n: the next vector is on its way while one is computed and stored.
__global__ void __launch_bounds__(256, 8)
sigmoid_stride(const float* __restrict__ x, float* __restrict__ y, int n)
{
    const int nv = n >> 2;
    const int stride = gridDim.x * blockDim.x;
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    const float4* from = reinterpret_cast<const float4*>(x);
    float4* to = reinterpret_cast<float4*>(y);

    int i = first;
    if (i < nv) {
        float4 now = __ldg(from + i);
        while (true) {
            const int after = i + stride;
            const bool more = after < nv;
            float4 next = now;
            if (more) next = __ldg(from + after);
            to[i] = sigmoid_four(now);
            if (!more) break;
            now = next;
            i = after;
        }
    }
    if (first < (n & 3)) {
        const size_t e = ((size_t)nv << 2) + first;
        y[e] = sigmoid_one(__ldg(x + e));
    }
}

template <int T>
static void launch_vector(const float* x, float* y, int n)
{
    const int nv = n >> 2;
    const int blocks = (nv + T - 1) / T;
    if ((n & 3) == 0 && nv == blocks * T)
        sigmoid_vector<T, true><<<blocks, T>>>(x, y, (unsigned)n);
    else
        sigmoid_vector<T, false><<<blocks, T>>>(x, y, (unsigned)n);
}

extern "C" void solve(const float* x, float* y, int n)
{
    if (n <= 0) return;
    const int nv = n >> 2;
    if (n <= 132 * 128) {
        const int blocks = (n + 127) / 128;
        if (n == blocks * 128)
            sigmoid_single<true><<<blocks, 128>>>(x, y, (unsigned)n);
        else
            sigmoid_single<false><<<blocks, 128>>>(x, y, (unsigned)n);
    } else if (nv <= 132 * 128) {
        launch_vector<128>(x, y, n);
    } else if (nv <= 1056 * 256) {
        launch_vector<256>(x, y, n);
    } else {
        sigmoid_stride<<<1056, 256>>>(x, y, n);
    }
}
