// Two 4x4 register pieces a thread, eight loads first, whole lines.

#include <cuda_runtime.h>

namespace {

constexpr int T = 128;          // threads a block
constexpr unsigned TILE = 64;   // a block turns 64 x 64 elements, a warp 32 x 32, a thread two 4 x 4

// Everything inside the matrix and aligned: no predicates.
__device__ __forceinline__ void turn_full(const float* __restrict__ p, float* __restrict__ q,
                                          size_t rows, size_t cols)
{
    float4 v[2][4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float4* __restrict__ row = reinterpret_cast<const float4*>(p + (size_t)k * cols);
        // The two halves of the same 128-byte line, one after the other.
        v[0][k] = __ldcs(row);
        v[1][k] = __ldcs(row + 4);
    }
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        float* o = q + (size_t)(16 * s) * rows;
        *reinterpret_cast<float4*>(o) = make_float4(v[s][0].x, v[s][1].x, v[s][2].x, v[s][3].x);
        o += rows;
        *reinterpret_cast<float4*>(o) = make_float4(v[s][0].y, v[s][1].y, v[s][2].y, v[s][3].y);
        o += rows;
        *reinterpret_cast<float4*>(o) = make_float4(v[s][0].z, v[s][1].z, v[s][2].z, v[s][3].z);
        o += rows;
        *reinterpret_cast<float4*>(o) = make_float4(v[s][0].w, v[s][1].w, v[s][2].w, v[s][3].w);
    }
}

// One 4 x 4 piece anywhere, at the edge or unaligned.
template <bool VL, bool VS>
__device__ __forceinline__ void turn_piece(const float* __restrict__ in, float* __restrict__ out,
                                           unsigned r0, unsigned c0, unsigned rows, unsigned cols)
{
    float a[4][4];
    const float* p = in + (size_t)r0 * cols + c0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const bool row_in = VS || r0 + k < rows;      // VS: all four rows exist
        if (VL) {
            float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
            if (row_in) v = __ldcs(reinterpret_cast<const float4*>(p + (size_t)k * cols));
            a[k][0] = v.x;
            a[k][1] = v.y;
            a[k][2] = v.z;
            a[k][3] = v.w;
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                a[k][j] = 0.f;
                if (row_in && c0 + j < cols) a[k][j] = __ldg(p + (size_t)k * cols + j);
            }
        }
    }

    float* q = out + (size_t)c0 * rows + r0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const bool col_in = VL || c0 + j < cols;      // VL: all four columns exist
        if (col_in) {
            if (VS) {
                *reinterpret_cast<float4*>(q + (size_t)j * rows) =
                    make_float4(a[0][j], a[1][j], a[2][j], a[3][j]);
            } else {
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    if (r0 + k < rows) q[(size_t)j * rows + k] = a[k][j];
            }
        }
    }
}

// VL: cols is a multiple of 4 (rows of input are 16-byte aligned)
// VS: rows is a multiple of 4 (rows of output are 16-byte aligned)
template <bool VL, bool VS>
__global__ void __launch_bounds__(T) turn(const float* __restrict__ in, float* __restrict__ out,
                                          unsigned rows, unsigned cols)
{
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    // A warp: 4 pieces across, twice (128 bytes of an input row), 8 down (128 bytes of an output row).
    const unsigned x = 32u * (warp & 1u) + 4u * (lane & 3u);
    const unsigned y = 32u * (warp >> 1) + 4u * (lane >> 2);
    const unsigned long long tileRow =
        ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * TILE;
    const unsigned long long tileCol = (unsigned long long)blockIdx.x * TILE;
    if (tileRow >= rows) return;

    if (VL && VS && tileRow + TILE <= rows && tileCol + TILE <= cols) {
        const size_t r0 = (size_t)tileRow + y;
        const size_t c0 = (size_t)tileCol + x;
        turn_full(in + r0 * cols + c0, out + c0 * rows + r0, rows, cols);
        return;
    }

    const unsigned r0 = (unsigned)tileRow + y;
    if (r0 >= rows) return;
#pragma unroll
    for (unsigned s = 0; s < 2u; ++s) {
        const unsigned c0 = (unsigned)tileCol + x + 16u * s;
        if (c0 < cols) turn_piece<VL, VS>(in, out, r0, c0, rows, cols);
    }
}

}  // namespace

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    if (rows <= 0 || cols <= 0) return;
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
