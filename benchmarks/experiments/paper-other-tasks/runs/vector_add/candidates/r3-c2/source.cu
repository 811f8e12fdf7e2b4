// One float4 a thread behind one bounds check, streaming loads.

#include <cuda_runtime.h>

constexpr unsigned THREADS = 256;

__global__ void __launch_bounds__(THREADS)
vector_add(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
           unsigned quads, unsigned items)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;   // below 2^29 + 2^9

    if (i < quads) {
        const float4 a = __ldcs(reinterpret_cast<const float4*>(A) + i);
        const float4 b = __ldcs(reinterpret_cast<const float4*>(B) + i);
        reinterpret_cast<float4*>(C)[i] =
            make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    } else if (i < items) {
        // the next threads take the at most three elements behind the last whole vector
        const size_t k = (size_t)quads * 4u + (i - quads);
        C[k] = __ldcs(A + k) + __ldcs(B + k);
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    if (n <= 0) {
        return;
    }
    const unsigned quads = (unsigned)n / 4u;
    const unsigned items = quads + (unsigned)n % 4u;
    const unsigned blocks = (items + THREADS - 1u) / THREADS;
    vector_add<<<blocks, THREADS>>>(A, B, C, quads, items);
}
