// Warp-private XOR-swizzled 32x32 tiles, 16-byte cp.async in, float4 out.

#include <cuda_runtime.h>

namespace {

constexpr int T = 128;            // threads a block: 4 warps, 2 x 2 warp tiles
constexpr unsigned W = 32;        // a warp turns 32 x 32 elements by itself
constexpr unsigned TILE = 64;     // a block covers 64 x 64 elements

__device__ __forceinline__ void copy16(unsigned s, const float* g)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s), "l"(g) : "memory");
}

__device__ __forceinline__ void copy4(unsigned s, const float* g)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(s), "l"(g) : "memory");
}

// VL: cols is a multiple of 4 (rows of input are 16-byte aligned)
// VS: rows is a multiple of 4 (rows of output are 16-byte aligned)
// Element (r, c) of a warp's tile lies at word r * 32 + (((c >> 2) ^ (r >> 2)) << 2) + (c & 3).
template <bool VL, bool VS>
__global__ void __launch_bounds__(T) turn(const float* __restrict__ in, float* __restrict__ out,
                                          unsigned rows, unsigned cols)
{
    __shared__ alignas(128) float tiles[T / 32][W * W];

    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned by = blockIdx.z * gridDim.y + blockIdx.y;
    const unsigned c0 = blockIdx.x * TILE + W * (warp & 1u);
    const unsigned r0 = by * TILE + W * (warp >> 1);
    if (r0 >= rows || c0 >= cols) return;      // whole warps; there is no block barrier

    float* tile = tiles[warp];
    const unsigned base = (unsigned)__cvta_generic_to_shared(tile);
    const bool full = (rows - r0 >= W) && (cols - c0 >= W);

    // In: 8 lanes a row of 128 bytes, 4 rows an instruction.
    if (VL) {
        const unsigned q = lane & 7u;
        const unsigned rr = lane >> 3;
        const float* p = in + (size_t)(r0 + rr) * cols + c0 + 4u * q;
        const size_t step = (size_t)cols * 4u;
        if (full) {
#pragma unroll
            for (unsigned k = 0; k < 8; ++k)
                copy16(base + (rr + 4u * k) * 128u + ((q ^ k) << 4), p + k * step);
        } else if (c0 + 4u * q < cols) {
#pragma unroll
            for (unsigned k = 0; k < 8; ++k)
                if (r0 + rr + 4u * k < rows)
                    copy16(base + (rr + 4u * k) * 128u + ((q ^ k) << 4), p + k * step);
        }
    } else {
        const float* p = in + (size_t)r0 * cols + c0 + lane;
        if (c0 + lane < cols) {
#pragma unroll 8
            for (unsigned k = 0; k < W; ++k)
                if (r0 + k < rows)
                    copy4(base + k * 128u + (((lane >> 2) ^ (k >> 2)) << 4) + ((lane & 3u) << 2),
                          p + (size_t)k * cols);
        }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();

    if (VS) {
        // Out: 8 lanes a row of 128 bytes, a lane turns two pieces of 4 x 4.
        const unsigned rq = lane & 7u;
        if (full || r0 + 4u * rq < rows) {
#pragma unroll
            for (unsigned i = 0; i < 2; ++i) {
                const unsigned cq = (lane >> 3) + 4u * i;
                const float4* s = reinterpret_cast<const float4*>(tile) + rq * 32u + (cq ^ rq);
                const unsigned c = c0 + 4u * cq;
                float* o = out + (size_t)c * rows + r0 + 4u * rq;
                if (full || c < cols) {
                    const float4 a0 = s[0];
                    const float4 a1 = s[8];
                    const float4 a2 = s[16];
                    const float4 a3 = s[24];
                    *reinterpret_cast<float4*>(o) = make_float4(a0.x, a1.x, a2.x, a3.x);
                    if (VL || c + 1u < cols)
                        *reinterpret_cast<float4*>(o + (size_t)rows) =
                            make_float4(a0.y, a1.y, a2.y, a3.y);
                    if (VL || c + 2u < cols)
                        *reinterpret_cast<float4*>(o + (size_t)rows * 2u) =
                            make_float4(a0.z, a1.z, a2.z, a3.z);
                    if (VL || c + 3u < cols)
                        *reinterpret_cast<float4*>(o + (size_t)rows * 3u) =
                            make_float4(a0.w, a1.w, a2.w, a3.w);
                }
            }
        }
    } else {
        if (r0 + lane < rows) {
            float* o = out + (size_t)c0 * rows + r0 + lane;
#pragma unroll 8
            for (unsigned k = 0; k < W; ++k)
                if (c0 + k < cols)
                    o[(size_t)k * rows] =
                        tile[lane * W + (((k >> 2) ^ (lane >> 2)) << 2) + (k & 3u)];
        }
    }
}

}  // namespace

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    const unsigned r = (unsigned)rows, c = (unsigned)cols;
    const unsigned tx = (c + TILE - 1) / TILE;
    const unsigned ty = (r + TILE - 1) / TILE;
    const unsigned gz = (ty + 65534u) / 65535u;
    const unsigned gy = (ty + gz - 1) / gz;
    const dim3 grid(tx, gy, gz);
    const bool vl = (c & 3u) == 0, vs = (r & 3u) == 0;
    if (vl && vs)
        turn<true, true><<<grid, T>>>(input, output, r, c);
    else if (vl)
        turn<true, false><<<grid, T>>>(input, output, r, c);
    else if (vs)
        turn<false, true><<<grid, T>>>(input, output, r, c);
    else
        turn<false, false><<<grid, T>>>(input, output, r, c);
}
