// Two or four block-strided float4s a thread, loads first.

#include <cuda_runtime.h>

template <int T, int U>
__global__ void __launch_bounds__(T)
vector_add(const float* __restrict__ A, const float* __restrict__ B,
           float* __restrict__ C, int n)
{
    const float4* __restrict__ A4 = reinterpret_cast<const float4*>(A);
    const float4* __restrict__ B4 = reinterpret_cast<const float4*>(B);
    float4* __restrict__ C4 = reinterpret_cast<float4*>(C);

    const unsigned n4 = static_cast<unsigned>(n) >> 2;
    const unsigned base = blockIdx.x * static_cast<unsigned>(T * U);
    const unsigned i = base + threadIdx.x;

    float4 a[U], b[U];

    if (base + static_cast<unsigned>(T * U) <= n4) {
        const float4* pa = A4 + i;
        const float4* pb = B4 + i;
        float4* pc = C4 + i;
#pragma unroll
        for (int u = 0; u < U; ++u) {
            a[u] = __ldcs(pa + u * T);
            b[u] = __ldcs(pb + u * T);
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
            float4 c;
            c.x = a[u].x + b[u].x;
            c.y = a[u].y + b[u].y;
            c.z = a[u].z + b[u].z;
            c.w = a[u].w + b[u].w;
            pc[u * T] = c;
        }
    } else {
#pragma unroll
        for (int u = 0; u < U; ++u) {
            a[u] = make_float4(0.f, 0.f, 0.f, 0.f);
            b[u] = make_float4(0.f, 0.f, 0.f, 0.f);
            const unsigned j = i + u * T;
            if (j < n4) {
                a[u] = __ldcs(A4 + j);
                b[u] = __ldcs(B4 + j);
            }
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const unsigned j = i + u * T;
            if (j < n4) {
                float4 c;
                c.x = a[u].x + b[u].x;
                c.y = a[u].y + b[u].y;
                c.z = a[u].z + b[u].z;
                c.w = a[u].w + b[u].w;
                C4[j] = c;
            }
        }
    }

    // The last zero to three elements belong to the last block.
    if (blockIdx.x == gridDim.x - 1) {
        const unsigned k = n4 * 4u + threadIdx.x;
        if (k < static_cast<unsigned>(n)) {
            C[k] = A[k] + B[k];
        }
    }
}

template <int T, int U>
static void launch(const float* A, const float* B, float* C, int n)
{
    const int per_block = T * U * 4;
    const int blocks = (n - 1) / per_block + 1;
    vector_add<T, U><<<blocks, T>>>(A, B, C, n);
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    if (n <= 0) return;
    if (n <= (1 << 21)) {
        launch<128, 2>(A, B, C, n);
    } else if (n <= (1 << 23)) {
        launch<256, 2>(A, B, C, n);
    } else {
        launch<256, 4>(A, B, C, n);
    }
}
