// Warp per one or two rows; swizzled vector from L1.

#include <cuda_runtime.h>

// 16 weights, read once: past L1, so that the vector stays there.
__device__ __forceinline__ uint4 loadWeights(const uint4* p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

// Byte k of v (a weight with its top bit flipped, so weight + 128) as the exact float of the weight.
template <int K>
__device__ __forceinline__ float toFloat(unsigned v)
{
    return __uint_as_float(__byte_perm(v, 0x4B000000u, 0x7440 + K)) - 8388736.0f;
}

// The sum of 16 products. Lanes take the four words in an order of their own (c ^ r), the same
// in which they have loaded the vector, so that 8 lanes meet no bank twice.
__device__ __forceinline__ float dot16(uint4 w, const float4 (&x)[4], bool odd, bool high)
{
    const unsigned t0 = odd ? w.y : w.x;
    const unsigned t1 = odd ? w.x : w.y;
    const unsigned t2 = odd ? w.w : w.z;
    const unsigned t3 = odd ? w.z : w.w;
    const unsigned v0 = (high ? t2 : t0) ^ 0x80808080u;
    const unsigned v1 = (high ? t3 : t1) ^ 0x80808080u;
    const unsigned v2 = (high ? t0 : t2) ^ 0x80808080u;
    const unsigned v3 = (high ? t1 : t3) ^ 0x80808080u;

    float a = toFloat<0>(v0) * x[0].x;
    float b = toFloat<0>(v1) * x[1].x;
    a = fmaf(toFloat<1>(v0), x[0].y, a);
    b = fmaf(toFloat<1>(v1), x[1].y, b);
    a = fmaf(toFloat<2>(v0), x[0].z, a);
    b = fmaf(toFloat<2>(v1), x[1].z, b);
    a = fmaf(toFloat<3>(v0), x[0].w, a);
    b = fmaf(toFloat<3>(v1), x[1].w, b);
    a = fmaf(toFloat<0>(v2), x[2].x, a);
    b = fmaf(toFloat<0>(v3), x[3].x, b);
    a = fmaf(toFloat<1>(v2), x[2].y, a);
    b = fmaf(toFloat<1>(v3), x[3].y, b);
    a = fmaf(toFloat<2>(v2), x[2].z, a);
    b = fmaf(toFloat<2>(v3), x[3].z, b);
    a = fmaf(toFloat<3>(v2), x[2].w, a);
    b = fmaf(toFloat<3>(v3), x[3].w, b);
    return a + b;
}

// A piece is 16 weights, a tile 32 pieces (one for each lane), a step two tiles.
template <int R>
__global__ void __launch_bounds__(64, R == 1 ? 8 : 10)
multiply(const uint4* __restrict__ W, const float* __restrict__ scales,
         const float4* __restrict__ x, float* __restrict__ y, int rows, int blocks)
{
    const int lane = threadIdx.x & 31;
    const long long first = ((long long)blockIdx.x * 2 + (threadIdx.x >> 5)) * R;
    if (first >= rows) {
        return;
    }
    const int pieces = 2 * blocks;
    const int steps = pieces >> 6;
    const int r = (lane >> 1) & 3;
    const bool odd = (r & 1) != 0;
    const bool high = (r & 2) != 0;

    const uint4* wp[R];
    const float* sp[R];
    const float4* xp[4];
    float total[R];
    uint4 w[R][2];
    float s[R][2];

#pragma unroll
    for (int q = 0; q < R; ++q) {
        long long row = first + q;
        if (row >= rows) {
            row = rows - 1;
        }
        wp[q] = W + (size_t)row * (size_t)pieces + lane;
        sp[q] = scales + (size_t)row * (size_t)blocks + (lane >> 1);
        total[q] = 0.0f;
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            w[q][u] = make_uint4(0u, 0u, 0u, 0u);
            s[q][u] = 0.0f;
        }
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        xp[c] = x + lane * 4 + (c ^ r);
    }

    if (steps > 0) {
#pragma unroll
        for (int q = 0; q < R; ++q) {
#pragma unroll
            for (int u = 0; u < 2; ++u) {
                w[q][u] = loadWeights(wp[q] + u * 32);
                s[q][u] = __ldg(sp[q] + u * 16);
            }
            wp[q] += 64;
            sp[q] += 32;
        }
    }

#pragma unroll 2
    for (int t = 0; t < steps; ++t) {
        uint4 nw[R][2];
        float ns[R][2];
#pragma unroll
        for (int q = 0; q < R; ++q) {
#pragma unroll
            for (int u = 0; u < 2; ++u) {
                nw[q][u] = w[q][u];
                ns[q][u] = s[q][u];
            }
        }
        if (t + 1 < steps) {
#pragma unroll
            for (int q = 0; q < R; ++q) {
#pragma unroll
                for (int u = 0; u < 2; ++u) {
                    nw[q][u] = loadWeights(wp[q] + u * 32);
                    ns[q][u] = __ldg(sp[q] + u * 16);
                }
                wp[q] += 64;
                sp[q] += 32;
            }
        }

        float4 xv[2][4];
#pragma unroll
        for (int u = 0; u < 2; ++u) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                xv[u][c] = __ldg(xp[c] + u * 128);
            }
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            xp[c] += 256;
        }

#pragma unroll
        for (int u = 0; u < 2; ++u) {
#pragma unroll
            for (int q = 0; q < R; ++q) {
                total[q] = fmaf(s[q][u], dot16(w[q][u], xv[u], odd, high), total[q]);
            }
        }

#pragma unroll
        for (int q = 0; q < R; ++q) {
#pragma unroll
            for (int u = 0; u < 2; ++u) {
                w[q][u] = nw[q][u];
                s[q][u] = ns[q][u];
            }
        }
    }

    // What is left: fewer than 64 pieces. The pointers stand at its start.
    const int left = pieces - steps * 64;
    if (left > 0) {
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            if (u * 32 + lane < left) {
                float4 xv[4];
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    xv[c] = __ldg(xp[c] + u * 128);
                }
#pragma unroll
                for (int q = 0; q < R; ++q) {
                    const uint4 v = loadWeights(wp[q] + u * 32);
                    const float f = __ldg(sp[q] + u * 16);
                    total[q] = fmaf(f, dot16(v, xv, odd, high), total[q]);
                }
            }
        }
        __syncwarp();
    }

#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
#pragma unroll
        for (int q = 0; q < R; ++q) {
            total[q] += __shfl_xor_sync(0xffffffffu, total[q], d);
        }
    }
    if (lane == 0) {
#pragma unroll
        for (int q = 0; q < R; ++q) {
            if (first + q < rows) {
                y[first + q] = total[q];
            }
        }
    }
}

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    const uint4* w = reinterpret_cast<const uint4*>(W);
    const float4* v = reinterpret_cast<const float4*>(x);
    if (rows <= 132 * 16) {
        const unsigned grid = (unsigned)(((long long)rows + 1) / 2);
        multiply<1><<<grid, 64>>>(w, scales, v, y, rows, blocks);
    } else {
        const unsigned grid = (unsigned)(((long long)rows + 3) / 4);
        multiply<2><<<grid, 64>>>(w, scales, v, y, rows, blocks);
    }
}
