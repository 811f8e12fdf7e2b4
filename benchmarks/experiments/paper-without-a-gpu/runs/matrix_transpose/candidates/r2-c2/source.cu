// 4x4 register pieces, tiles walked in square-ish bands for locality
#include <cuda_runtime.h>

namespace {

constexpr int T = 256;          // threads a block
constexpr unsigned TILE = 64;   // a block turns 64 x 64 elements, a thread 4 x 4
constexpr unsigned BAND = 32;   // tile rows a band: resident blocks cover about 32 x 33 tiles

// VL: cols is a multiple of 4 (rows of input are 16-byte aligned)
// VS: rows is a multiple of 4 (rows of output are 16-byte aligned)
template <bool VL, bool VS>
__global__ void __launch_bounds__(T, 8) turn(const float* __restrict__ in,
                                             float* __restrict__ out, unsigned rows,
                                             unsigned cols, unsigned tx, unsigned ty)
{
    // Blocks go down the tiles of a band, then across it. So those that run together read long
    // stretches of few input rows and write long stretches of few output rows.
    const unsigned per_band = BAND * tx;
    const unsigned band = blockIdx.x / per_band;
    const unsigned rest = blockIdx.x - band * per_band;
    const unsigned height = ty - band * BAND;   // tile rows from here on
    unsigned bx, by;
    if (height >= BAND) {
        bx = rest / BAND;
        by = rest % BAND;
    } else {
        bx = rest / height;
        by = rest - bx * height;
    }
    by += band * BAND;

    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    // A warp: 4 pieces across (64 bytes of an input row), 8 down (128 bytes of an output row).
    const unsigned px = (lane & 3u) + 4u * (warp & 3u);
    const unsigned py = (lane >> 2) + 8u * (warp >> 2);
    const unsigned c0 = bx * TILE + 4u * px;
    const unsigned r0 = by * TILE + 4u * py;
    if (r0 >= rows || c0 >= cols) return;

    float a[4][4];
    const float* p = in + (size_t)r0 * cols + c0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const bool row_in = VS || r0 + k < rows;   // VS: all four rows exist
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
        const bool col_in = VL || c0 + j < cols;   // VL: all four columns exist
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

}  // namespace

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    const unsigned r = (unsigned)rows, c = (unsigned)cols;
    const unsigned tx = (c + TILE - 1) / TILE;
    const unsigned ty = (r + TILE - 1) / TILE;
    const unsigned blocks = tx * ty;
    const bool vl = (c & 3u) == 0, vs = (r & 3u) == 0;
    if (vl && vs)
        turn<true, true><<<blocks, T>>>(input, output, r, c, tx, ty);
    else if (vl)
        turn<true, false><<<blocks, T>>>(input, output, r, c, tx, ty);
    else if (vs)
        turn<false, true><<<blocks, T>>>(input, output, r, c, tx, ty);
    else
        turn<false, false><<<blocks, T>>>(input, output, r, c, tx, ty);
}
