// float4 tiles: one, two or four vectors a thread, all blocks.

#include <cuda_runtime.h>

// A block adds T * U neighbouring float4; each thread issues all its loads before it adds.
template <int T, int U, bool STREAM>
__global__ void __launch_bounds__(T)
vector_add(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
           unsigned n)
{
    const unsigned n4 = n >> 2;
    const unsigned first = blockIdx.x * (unsigned)(T * U) + threadIdx.x;
    const float4* a4 = reinterpret_cast<const float4*>(A) + first;
    const float4* b4 = reinterpret_cast<const float4*>(B) + first;
    float4* c4 = reinterpret_cast<float4*>(C) + first;

    if ((blockIdx.x + 1u) * (unsigned)(T * U) <= n4) {
        float4 a[U], b[U];
#pragma unroll
        for (int k = 0; k < U; ++k) {
            if (STREAM) {
                a[k] = __ldcs(a4 + k * T);
                b[k] = __ldcs(b4 + k * T);
            } else {
                a[k] = __ldg(a4 + k * T);
                b[k] = __ldg(b4 + k * T);
            }
        }
#pragma unroll
        for (int k = 0; k < U; ++k) {
            float4 c;
            c.x = a[k].x + b[k].x;
            c.y = a[k].y + b[k].y;
            c.z = a[k].z + b[k].z;
            c.w = a[k].w + b[k].w;
            if (STREAM) {
                __stcs(c4 + k * T, c);
            } else {
                c4[k * T] = c;
            }
        }
    } else {
#pragma unroll
        for (int k = 0; k < U; ++k) {
            if (first + (unsigned)(k * T) < n4) {
                float4 a = __ldg(a4 + k * T);
                float4 b = __ldg(b4 + k * T);
                float4 c;
                c.x = a.x + b.x;
                c.y = a.y + b.y;
                c.z = a.z + b.z;
                c.w = a.w + b.w;
                c4[k * T] = c;
            }
        }
    }

    // the last up to three elements
    if (blockIdx.x == gridDim.x - 1u && threadIdx.x < (n & 3u)) {
        const unsigned i = (n4 << 2) + threadIdx.x;
        C[i] = A[i] + B[i];
    }
}

template <int T, int U, bool STREAM>
static void launch(const float* A, const float* B, float* C, unsigned n)
{
    const unsigned n4 = n >> 2;
    unsigned blocks = (n4 + (unsigned)(T * U) - 1u) / (unsigned)(T * U);
    if (blocks == 0u) {
        blocks = 1u;
    }
    vector_add<T, U, STREAM><<<blocks, T>>>(A, B, C, n);
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    const unsigned u = (unsigned)n;
    const unsigned n4 = u >> 2;
    if (n4 <= 132u * 512u) {
        // little work: small blocks spread evenly over the SMs
        launch<128, 1, false>(A, B, C, u);
    } else if (n4 <= 132u * 2048u) {
        // one vector a thread still fits the chip at once
        launch<256, 1, false>(A, B, C, u);
    } else if (n4 <= 132u * 2048u * 8u) {
        launch<256, 2, false>(A, B, C, u);
    } else {
        launch<256, 4, true>(A, B, C, u);
    }
}
