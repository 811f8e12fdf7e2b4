// Resident float4 walk by pointers with fixed strides, loads ahead.

#include <cuda_runtime.h>

constexpr unsigned THREADS = 256;
constexpr unsigned BLOCKS = 132 * 8;          // fills the chip once
constexpr unsigned STRIDE = THREADS * BLOCKS; // vectors; used only where all BLOCKS run

__device__ __forceinline__ float4 add4(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Addresses are converted once; every step adds the same constant to them.
__global__ void __launch_bounds__(THREADS, 8)
vector_add(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
           unsigned quads, unsigned tail)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;

    if (i < quads) {
        const float4* __restrict__ pa = reinterpret_cast<const float4*>(A) + i;
        const float4* __restrict__ pb = reinterpret_cast<const float4*>(B) + i;
        float4* __restrict__ pc = reinterpret_cast<float4*>(C) + i;
        unsigned left = quads - i;
        float4 a = __ldcs(pa);
        float4 b = __ldcs(pb);
#pragma unroll 2
        while (left > STRIDE) {
            const float4 a_next = __ldcs(pa + STRIDE);
            const float4 b_next = __ldcs(pb + STRIDE);
            *pc = add4(a, b);
            a = a_next;
            b = b_next;
            pa += STRIDE;
            pb += STRIDE;
            pc += STRIDE;
            left -= STRIDE;
        }
        *pc = add4(a, b);
    }

    // at most three elements behind the last whole vector
    if (i < tail) {
        const size_t k = (size_t)quads * 4 + i;
        C[k] = __ldcs(A + k) + __ldcs(B + k);
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    if (n <= 0)
        return;
    const unsigned quads = (unsigned)n / 4u;
    const unsigned tail = (unsigned)n % 4u;
    unsigned blocks = (quads + THREADS - 1u) / THREADS;
    if (blocks > BLOCKS)
        blocks = BLOCKS;
    if (blocks < 1u)
        blocks = 1u;
    vector_add<<<blocks, THREADS>>>(A, B, C, quads, tail);
}
