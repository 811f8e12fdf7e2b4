// One thread swaps one mirrored pair of 16-byte vectors.

#include <cuda_runtime.h>

namespace {

constexpr unsigned THREADS = 256u;

// A vector with its elements in reverse order.
__device__ __forceinline__ float4 flipped(float4 v) { return make_float4(v.w, v.z, v.y, v.x); }
__device__ __forceinline__ float2 flipped(float2 v) { return make_float2(v.y, v.x); }
__device__ __forceinline__ float flipped(float v) { return v; }

// data[0 .. m - 1]: the whole array as vectors; vector i changes places with vector m - 1 - i.
// For odd m the last pair is the middle vector with itself: it turns round where it is.
template <typename V>
__global__ void __launch_bounds__(THREADS)
swap_pairs(V* data, unsigned m)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x; // below 2^30 + 2^8
    if (i >= m - m / 2u)
        return;
    V* front = data + i;
    V* back = data + (m - 1u - i);
    const V a = __ldcs(front);
    const V b = __ldcs(back);
    __stcs(front, flipped(b));
    if (front != back)
        __stcs(back, flipped(a));
}

template <typename V>
void launch(float* data, unsigned m)
{
    const unsigned pairs = m - m / 2u;
    swap_pairs<V><<<(pairs + THREADS - 1u) / THREADS, THREADS>>>(reinterpret_cast<V*>(data), m);
}

} // namespace

extern "C" void solve(float* data, int n)
{
    if (n <= 1)
        return;
    const unsigned count = (unsigned)n;
    if (count % 4u == 0u)
        launch<float4>(data, count / 4u);
    else if (count % 2u == 0u)
        launch<float2>(data, count / 2u);
    else
        launch<float>(data, count);
}
