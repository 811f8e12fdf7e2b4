// Unchecked resident loop over full tiles, one checked edge tile.

#include <cstddef>
#include <cuda_runtime.h>

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kVectors = 4;                    // of 16 bytes, a thread and tile
constexpr unsigned kTile = kThreads * kVectors;     // vectors
constexpr unsigned kMaxBlocks = 132 * 8;            // fills the chip exactly once

// The matrix is one row of words: `full` tiles, then `edge` vectors (less than a tile), then up to three words.
__global__ void __launch_bounds__(kThreads, 8)
copy_kernel(const unsigned* __restrict__ from, unsigned* __restrict__ to, unsigned full, unsigned edge,
            unsigned rest)
{
    const size_t first = (size_t)blockIdx.x * kTile + threadIdx.x;
    const uint4* __restrict__ x = reinterpret_cast<const uint4*>(from) + first;
    uint4* __restrict__ y = reinterpret_cast<uint4*>(to) + first;
    const size_t step = (size_t)gridDim.x * kTile;

#pragma unroll 1
    for (unsigned tile = blockIdx.x; tile < full; tile += gridDim.x) {
        const uint4 a = __ldcs(x);
        const uint4 b = __ldcs(x + kThreads);
        const uint4 c = __ldcs(x + 2 * kThreads);
        const uint4 d = __ldcs(x + 3 * kThreads);
        x += step;
        y[0] = a;
        y[kThreads] = b;
        y[2 * kThreads] = c;
        y[3 * kThreads] = d;
        y += step;
    }

    // The edge falls to the block whose turn it would be.
    if (blockIdx.x == full % gridDim.x && (edge | rest) != 0u) {
        const size_t begin = (size_t)full * kTile;
        const uint4* __restrict__ p = reinterpret_cast<const uint4*>(from) + begin;
        uint4* __restrict__ q = reinterpret_cast<uint4*>(to) + begin;
        for (unsigned i = threadIdx.x; i < edge; i += kThreads) {
            q[i] = __ldcs(p + i);
        }
        if (threadIdx.x < rest) {
            const size_t k = (begin + edge) * 4 + threadIdx.x;
            to[k] = from[k];
        }
    }
}

} // namespace

extern "C" void solve(const float* A, float* B, int n)
{
    if (n <= 0) return;
    const size_t count = (size_t)n * (size_t)n;
    const size_t nv = count / 4;
    const size_t full = nv / kTile;                 // below 2^31 for any n below 2^21.5, beyond all memory
    const unsigned edge = (unsigned)(nv % kTile);
    const unsigned rest = (unsigned)(count % 4);
    size_t blocks = full + (edge != 0u || rest != 0u ? 1u : 0u);
    if (blocks < 1) blocks = 1;
    if (blocks > (size_t)kMaxBlocks) blocks = (size_t)kMaxBlocks;
    copy_kernel<<<(unsigned)blocks, kThreads>>>(reinterpret_cast<const unsigned*>(A),
                                                reinterpret_cast<unsigned*>(B), (unsigned)full, edge, rest);
}
