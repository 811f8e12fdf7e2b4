// One thread an element behind a bounds check, nothing else

#include <cuda_runtime.h>

namespace {

constexpr unsigned THREADS = 512;

__global__ void __launch_bounds__(THREADS, 4)
relu_kernel(const float* __restrict__ x, float* __restrict__ y, unsigned n)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;   // below 2^31 + THREADS
    if (i < n) {
        const float v = __ldcs(x + i);
        __stcs(y + i, v < 0.0f ? 0.0f : v);                  // a NaN is not below 0
    }
}

} // namespace

extern "C" void solve(const float* x, float* y, int n)
{
    if (n <= 0) return;
    const unsigned count = (unsigned)n;
    const unsigned blocks = (count + THREADS - 1) / THREADS;
    relu_kernel<<<blocks, THREADS>>>(x, y, count);
}
