// One thread an element; behind one chip-full, one vector.

#include <cuda_runtime.h>

constexpr unsigned THREADS = 256;
constexpr unsigned CHIP = 132u * 2048u;   // threads that are resident at once

__global__ void __launch_bounds__(THREADS)
add_one(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, unsigned n)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) {
        C[i] = __ldcs(A + i) + __ldcs(B + i);
    }
}

__global__ void __launch_bounds__(THREADS)
add_vector(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
           unsigned quads, unsigned tail)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < quads) {
        const float4 a = __ldcs(reinterpret_cast<const float4*>(A) + i);
        const float4 b = __ldcs(reinterpret_cast<const float4*>(B) + i);
        reinterpret_cast<float4*>(C)[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    // at most three elements behind the last whole vector
    if (i < tail) {
        const size_t k = (size_t)quads * 4 + i;
        C[k] = __ldcs(A + k) + __ldcs(B + k);
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    if (n <= 0) {
        return;
    }
    const unsigned count = (unsigned)n;
    if (count <= CHIP) {
        add_one<<<(count + THREADS - 1u) / THREADS, THREADS>>>(A, B, C, count);
        return;
    }
    const unsigned quads = count / 4u;
    add_vector<<<(quads + THREADS - 1u) / THREADS, THREADS>>>(A, B, C, quads, count % 4u);
}
