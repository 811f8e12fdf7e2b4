// Persistent warps, swizzled shared x, row pairs, register double buffering
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

#define CAP_CHUNKS 96                 // chunks of 512 columns whose x fits in shared memory
#define CAP_Q (CAP_CHUNKS * 32)       // the same, in 16-byte pieces of a row

__device__ __forceinline__ uint4 load_weights(const signed char* p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

__device__ __forceinline__ float load_scale(const float* p)
{
    float v;
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}

// exact conversion of one signed byte (already xor 0x80) to float
template <int I>
__device__ __forceinline__ float unpack(unsigned v)
{
    return __uint_as_float(__byte_perm(v, 0x4B000000u, 0x7650 + I)) - 8388736.0f;
}

__device__ __forceinline__ float dot4(unsigned word, const float4& x, float t)
{
    const unsigned v = word ^ 0x80808080u;
    t = fmaf(unpack<0>(v), x.x, t);
    t = fmaf(unpack<1>(v), x.y, t);
    t = fmaf(unpack<2>(v), x.z, t);
    t = fmaf(unpack<3>(v), x.w, t);
    return t;
}

template <int R, int C, bool FULL>
__device__ __forceinline__ void fetch(uint4 (&w)[R][C], float (&s)[R][C],
                                      const signed char* W, const float* scales,
                                      unsigned g, int q, int left, int rows, size_t blocks)
{
    const size_t row = (size_t)g * R;
    const signed char* wp = W + row * blocks * 32 + (size_t)q * 16;
    const float* sp = scales + row * blocks + (q >> 1);
    // a missing second row repeats the first; its result is dropped
    const size_t d = (R == 2 && row + 1 < (size_t)rows) ? blocks : 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
        for (int c = 0; c < C; c++) {
            if (FULL || c * 32 < left) {
                w[r][c] = load_weights(wp + r * d * 32 + c * 512);
                s[r][c] = load_scale(sp + r * d + c * 16);
            } else {
                w[r][c] = make_uint4(0u, 0u, 0u, 0u);
                s[r][c] = 0.0f;
            }
        }
    }
}

template <int R, int C>
__device__ __forceinline__ void compute(float (&acc)[R], const uint4 (&w)[R][C],
                                        const float (&s)[R][C], const float4* xl, int sw)
{
#pragma unroll
    for (int c = 0; c < C; c++) {
        const float4* p = xl + c * 128;
        const float4 x0 = p[sw];
        const float4 x1 = p[sw ^ 1];
        const float4 x2 = p[sw ^ 2];
        const float4 x3 = p[sw ^ 3];
#pragma unroll
        for (int r = 0; r < R; r++) {
            float ta = dot4(w[r][c].x, x0, 0.0f);
            float tb = dot4(w[r][c].z, x2, 0.0f);
            ta = dot4(w[r][c].y, x1, ta);
            tb = dot4(w[r][c].w, x3, tb);
            acc[r] = fmaf(s[r][c], ta + tb, acc[r]);
        }
    }
}

template <int R>
__device__ __forceinline__ void finish(float (&acc)[R], float* y, unsigned g, int rows,
                                       int lane, bool add)
{
    float a;
    size_t row;
    bool writer;
    if (R == 2) {
        const bool upper = (lane & 16) != 0;
        const float mine = upper ? acc[R - 1] : acc[0];
        const float other = upper ? acc[0] : acc[R - 1];
        a = mine + __shfl_xor_sync(0xffffffffu, other, 16);
        row = (size_t)g * 2 + (size_t)(lane >> 4);
        writer = (lane & 15) == 0;
    } else {
        a = acc[0];
        a += __shfl_xor_sync(0xffffffffu, a, 16);
        row = (size_t)g;
        writer = lane == 0;
    }
    a += __shfl_xor_sync(0xffffffffu, a, 8);
    a += __shfl_xor_sync(0xffffffffu, a, 4);
    a += __shfl_xor_sync(0xffffffffu, a, 2);
    a += __shfl_xor_sync(0xffffffffu, a, 1);
    if (writer && row < (size_t)rows) {
        if (add) {
            a += y[row];          // written by this very thread for the tile before
        }
        y[row] = a;
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        acc[r] = 0.0f;
    }
}

template <int R, int C, bool FULL, int T, int M>
__global__ void __launch_bounds__(T, M)
multiply(const signed char* W, const float* scales, const float* x, float* y,
         int rows, int blocks)
{
    extern __shared__ float4 xs[];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int sw = (lane >> 1) & 3;
    const int nq = 2 * blocks;                                   // 16-byte pieces of a row
    const unsigned groups = (unsigned)(rows / R) + (unsigned)(rows % R != 0);
    const unsigned step = gridDim.x * (unsigned)(T / 32);
    const unsigned first = (unsigned)warp * gridDim.x + blockIdx.x;
    const float4* x4 = (const float4*)x;

    for (int t0 = 0; t0 < nq; t0 += CAP_Q) {
        const int tq = (nq - t0 < CAP_Q) ? (nq - t0) : CAP_Q;
        const int nb = (tq + 32 * C - 1) / (32 * C);

        if (t0 != 0) {
            __syncthreads();
        }
        // x into shared memory, swizzled so that 16-byte accesses meet no bank conflicts
        const int total = nb * C * 128;
        const int valid = tq * 4;
        for (int i = threadIdx.x; i < total; i += T) {
            float4* dst = xs + (i ^ ((i >> 3) & 3));
            if (FULL || i < valid) {
                const unsigned sa = (unsigned)__cvta_generic_to_shared(dst);
                const float4* src = x4 + (size_t)t0 * 4 + i;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                             :: "r"(sa), "l"(src) : "memory");
            } else {
                *dst = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
        }

        uint4 wa[R][C], wb[R][C];
        float sa[R][C], sb[R][C];
        float acc[R];
#pragma unroll
        for (int r = 0; r < R; r++) {
            acc[r] = 0.0f;
        }

        unsigned g = first;
        int b = 0;
        if (g < groups) {
            fetch<R, C, FULL>(wa, sa, W, scales, g, t0 + lane, tq - lane, rows, (size_t)blocks);
        }

        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();

        const float4* xl = xs + lane * 4;
        const bool add = t0 != 0;

        while (g < groups) {
            unsigned g1 = g;
            int b1 = b + 1;
            if (b1 == nb) {
                b1 = 0;
                g1 += step;
            }
            if (g1 < groups) {
                const int o = b1 * (C * 32) + lane;
                fetch<R, C, FULL>(wb, sb, W, scales, g1, t0 + o, tq - o, rows, (size_t)blocks);
            }
            compute<R, C>(acc, wa, sa, xl + b * (C * 128), sw);
            if (b1 == 0) {
                finish<R>(acc, y, g, rows, lane, add);
            }
            if (g1 >= groups) {
                break;
            }

            g = g1;
            b = b1 + 1;
            if (b == nb) {
                b = 0;
                g += step;
            }
            if (g < groups) {
                const int o = b * (C * 32) + lane;
                fetch<R, C, FULL>(wa, sa, W, scales, g, t0 + o, tq - o, rows, (size_t)blocks);
            }
            compute<R, C>(acc, wb, sb, xl + b1 * (C * 128), sw);
            if (b == 0) {
                finish<R>(acc, y, g1, rows, lane, add);
            }
        }
    }
}

template <int R, int C, bool FULL, int T, int M>
static void launch(const signed char* W, const float* scales, const float* x, float* y,
                   int rows, int blocks, int grid)
{
    const int nq = 2 * blocks;
    const int tq = nq < CAP_Q ? nq : CAP_Q;
    const int nb = (tq + 32 * C - 1) / (32 * C);
    const int bytes = nb * C * 2048;
    if (bytes > 48 * 1024) {
        cudaFuncSetAttribute(multiply<R, C, FULL, T, M>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    }
    multiply<R, C, FULL, T, M><<<grid, T, bytes>>>(W, scales, x, y, rows, blocks);
}

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    if (rows <= 0 || blocks <= 0) {
        return;
    }
    if (blocks <= 32 || rows <= 1056) {
        const int grid = rows <= 1056 ? 132 : 528;
        if (blocks % 32 == 0) {
            launch<1, 2, true, 256, 2>(W, scales, x, y, rows, blocks, grid);
        } else {
            launch<1, 2, false, 256, 2>(W, scales, x, y, rows, blocks, grid);
        }
    } else {
        if (blocks % 64 == 0) {
            launch<2, 4, true, 512, 1>(W, scales, x, y, rows, blocks, 132);
        } else {
            launch<2, 4, false, 512, 1>(W, scales, x, y, rows, blocks, 132);
        }
    }
}
