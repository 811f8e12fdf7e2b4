// Resident grid, 16-byte stride, next pair prefetched before storing.

#include <cstddef>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 512;
constexpr int kMaxBlocks = 132 * 4;          // fills the chip exactly once

// The matrix is one row of `count` words; nv = count / 4 vectors of 16 bytes, then up to three words.
__global__ void __launch_bounds__(kThreads, 4)
copy_kernel(const unsigned* __restrict__ from, unsigned* __restrict__ to, size_t nv, unsigned rest)
{
    const uint4* __restrict__ x = reinterpret_cast<const uint4*>(from);
    uint4* __restrict__ y = reinterpret_cast<uint4*>(to);
    const size_t S = (size_t)gridDim.x * kThreads;
    size_t i = (size_t)blockIdx.x * kThreads + threadIdx.x;

    if (i + S < nv) {
        uint4 a = __ldcs(x + i);
        uint4 b = __ldcs(x + i + S);
#pragma unroll 1
        while (i + 3 * S < nv) {
            uint4 c = __ldcs(x + i + 2 * S);
            uint4 d = __ldcs(x + i + 3 * S);
            y[i] = a;
            y[i + S] = b;
            a = c;
            b = d;
            i += 2 * S;
        }
        // a and b wait at i and i + S; at most one more vector follows
        if (i + 2 * S < nv) {
            uint4 c = __ldcs(x + i + 2 * S);
            y[i] = a;
            y[i + S] = b;
            y[i + 2 * S] = c;
        } else {
            y[i] = a;
            y[i + S] = b;
        }
    } else if (i < nv) {
        y[i] = __ldcs(x + i);
    }

    if (blockIdx.x == 0 && threadIdx.x < rest) {
        const size_t k = nv * 4 + threadIdx.x;
        to[k] = from[k];
    }
}

} // namespace

extern "C" void solve(const float* A, float* B, int n)
{
    if (n <= 0) return;
    const size_t count = (size_t)n * (size_t)n;
    const size_t nv = count / 4;
    size_t blocks = (nv + kThreads - 1) / kThreads;
    if (blocks < 1) blocks = 1;
    if (blocks > (size_t)kMaxBlocks) blocks = (size_t)kMaxBlocks;
    copy_kernel<<<(unsigned)blocks, kThreads>>>(reinterpret_cast<const unsigned*>(A),
                                                reinterpret_cast<unsigned*>(B), nv, (unsigned)(count % 4));
}
