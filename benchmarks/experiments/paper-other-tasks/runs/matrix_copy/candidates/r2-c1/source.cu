// Contiguous tiles in long read bursts, then long write bursts.

#include <cstddef>
#include <cuda_runtime.h>

namespace {

constexpr int THREADS = 256;

// The matrix is one row of words: nv vectors of 16 bytes, then up to three words. A block copies one
// contiguous tile of V * THREADS vectors; all of it is read before the first vector is written.
template <int V>
__global__ void __launch_bounds__(THREADS)
copy_tiles(const unsigned* __restrict__ from, unsigned* __restrict__ to, size_t nv, unsigned rest)
{
    constexpr size_t TILE = (size_t)V * THREADS;
    const size_t first = (size_t)blockIdx.x * TILE;
    const uint4* __restrict__ x = reinterpret_cast<const uint4*>(from) + first + threadIdx.x;
    uint4* __restrict__ y = reinterpret_cast<uint4*>(to) + first + threadIdx.x;

    if (first + TILE <= nv) {
        uint4 v[V];
#pragma unroll
        for (int k = 0; k < V; ++k)
            v[k] = __ldcs(x + k * THREADS);
#pragma unroll
        for (int k = 0; k < V; ++k)
            y[k * THREADS] = v[k];
    } else {
#pragma unroll
        for (int k = 0; k < V; ++k) {
            if (first + threadIdx.x + (size_t)k * THREADS < nv)
                y[k * THREADS] = __ldcs(x + k * THREADS);
        }
    }

    if (blockIdx.x == 0 && threadIdx.x < rest) {
        const size_t k = nv * 4 + threadIdx.x;
        to[k] = from[k];
    }
}

template <int V>
void launch(const float* A, float* B, size_t count)
{
    constexpr size_t TILE = (size_t)V * THREADS;
    const size_t nv = count / 4;
    size_t blocks = (nv + TILE - 1) / TILE;
    if (blocks < 1)
        blocks = 1; // only a rest
    copy_tiles<V><<<(unsigned)blocks, THREADS>>>(reinterpret_cast<const unsigned*>(A),
                                                 reinterpret_cast<unsigned*>(B), nv, (unsigned)(count % 4));
}

} // namespace

extern "C" void solve(const float* A, float* B, int n)
{
    if (n <= 0)
        return;
    const size_t count = (size_t)n * (size_t)n;
    const size_t nv = count / 4;
    const size_t resident = (size_t)1056 * THREADS; // threads that fill the chip once
    if (nv <= resident)
        launch<1>(A, B, count);
    else if (nv <= 4 * resident)
        launch<4>(A, B, count);
    else
        launch<8>(A, B, count);
}
