// Mirror float4 pairs turned in registers, loads first, streaming stores

#include <cuda_runtime.h>
#include <cstddef>

constexpr int kThreads = 256;

template <bool kStream, typename Vector>
__device__ __forceinline__ Vector get(const float* p)
{
    if constexpr (kStream)
        return __ldcs(reinterpret_cast<const Vector*>(p));
    else
        return __ldcg(reinterpret_cast<const Vector*>(p));
}

template <bool kStream, typename Vector>
__device__ __forceinline__ void put(float* p, Vector v)
{
    if constexpr (kStream)
        __stcs(reinterpret_cast<Vector*>(p), v);
    else
        *reinterpret_cast<Vector*>(p) = v;
}

// Four elements at an address that is aligned to kAlign of them.
template <int kAlign, bool kStream>
__device__ __forceinline__ float4 get4(const float* p)
{
    if constexpr (kAlign == 4) {
        return get<kStream, float4>(p);
    } else if constexpr (kAlign == 2) {
        const float2 a = get<kStream, float2>(p);
        const float2 b = get<kStream, float2>(p + 2);
        return make_float4(a.x, a.y, b.x, b.y);
    } else {
        const float a = get<kStream, float>(p);
        const float b = get<kStream, float>(p + 1);
        const float c = get<kStream, float>(p + 2);
        const float d = get<kStream, float>(p + 3);
        return make_float4(a, b, c, d);
    }
}

template <int kAlign, bool kStream>
__device__ __forceinline__ void put4(float* p, float4 v)
{
    if constexpr (kAlign == 4) {
        put<kStream, float4>(p, v);
    } else if constexpr (kAlign == 2) {
        put<kStream, float2>(p, make_float2(v.x, v.y));
        put<kStream, float2>(p + 2, make_float2(v.z, v.w));
    } else {
        put<kStream, float>(p, v.x);
        put<kStream, float>(p + 1, v.y);
        put<kStream, float>(p + 2, v.z);
        put<kStream, float>(p + 3, v.w);
    }
}

__device__ __forceinline__ float4 turned(float4 v)
{
    return make_float4(v.w, v.z, v.y, v.x);
}

// V vectors of the front half a thread, and their mirrors, aligned to kAlign elements.
template <int kAlign, int V, bool kStream>
__global__ void __launch_bounds__(kThreads)
reverse_array(float* data, int n)
{
    constexpr int kTile = V * kThreads;
    const size_t vectors = (size_t)n / 8; // whole ones in the front half
    const size_t first = (size_t)blockIdx.x * kTile;
    const size_t own = first + threadIdx.x;
    float* front = data + own * 4;
    float* back = data + ((size_t)n - 4) - own * 4; // used where the vector is there

    if (first + kTile <= vectors) {
        float4 f[V];
        float4 b[V];
#pragma unroll
        for (int k = 0; k < V; ++k) {
            f[k] = get<kStream, float4>(front + k * kThreads * 4);
            b[k] = get4<kAlign, kStream>(back - k * kThreads * 4);
        }
#pragma unroll
        for (int k = 0; k < V; ++k) {
            put<kStream, float4>(front + k * kThreads * 4, turned(b[k]));
            put4<kAlign, kStream>(back - k * kThreads * 4, turned(f[k]));
        }
    } else {
        // the last block: what is left of whole vectors, then up to three pairs in the middle
#pragma unroll 1
        for (int k = 0; k < V; ++k) {
            if (own + k * kThreads < vectors) {
                const float4 f = get<kStream, float4>(front + k * kThreads * 4);
                const float4 b = get4<kAlign, kStream>(back - k * kThreads * 4);
                put<kStream, float4>(front + k * kThreads * 4, turned(b));
                put4<kAlign, kStream>(back - k * kThreads * 4, turned(f));
            }
        }
        const size_t i = vectors * 4 + threadIdx.x;
        if (i < (size_t)n / 2) {
            const float low = data[i];
            const float high = data[(size_t)n - 1 - i];
            data[i] = high;
            data[(size_t)n - 1 - i] = low;
        }
    }
}

template <int kAlign, int V, bool kStream>
static void launch(float* data, int n)
{
    const unsigned blocks = (unsigned)(n / 8) / (V * kThreads) + 1u; // the last one is never full
    reverse_array<kAlign, V, kStream><<<blocks, kThreads>>>(data, n);
}

template <int kAlign>
static void choose(float* data, int n)
{
    if (n <= 1056 * kThreads * 8)
        launch<kAlign, 1, false>(data, n); // one wave
    else if (n <= 8 * 1024 * 1024)
        launch<kAlign, 2, false>(data, n); // all of it stays in L2
    else
        launch<kAlign, 2, true>(data, n);
}

extern "C" void solve(float* data, int n)
{
    if (n <= 1)
        return;
    if (n % 4 == 0)
        choose<4>(data, n);
    else if (n % 2 == 0)
        choose<2>(data, n);
    else
        choose<1>(data, n);
}
