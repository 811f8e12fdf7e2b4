// Staying blocks, x in shared memory, four rows a warp, prefetched.

#include <cuda_runtime.h>
#include <cstdint>

// A unit is R rows by 512 columns (16 scale blocks): a lane has 16 neighbouring columns of each row, half a scale
// block. The NW warps of a block take the units of its row groups in turn, loading the next while they compute.

template <int R>
__device__ __forceinline__ void load_unit(uint4 (&w)[R], float (&sc)[R], const signed char* __restrict__ W,
                                          const float* __restrict__ scales, long long group, int s, int rows,
                                          int blocks, int lane, bool live)
{
    const int b = s * 16 + (lane >> 1);
    const long long row = group * R;
    const size_t pitch = (size_t)blocks * 32;
    const signed char* pw = W + (size_t)row * pitch + (size_t)s * 512 + (size_t)(lane * 16);
    const float* ps = scales + (size_t)row * (size_t)blocks + (size_t)b;
    const bool inside = live && b < blocks;
#pragma unroll
    for (int r = 0; r < R; ++r) {
        int ok = inside && row + r < rows ? 1 : 0;
        w[r] = make_uint4(0u, 0u, 0u, 0u);
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "setp.ne.s32 p, %4, 0;\n"
            "@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%5];\n"
            "}\n"
            : "+r"(w[r].x), "+r"(w[r].y), "+r"(w[r].z), "+r"(w[r].w)
            : "r"(ok), "l"(__cvta_generic_to_global(pw)));
        pw += pitch;
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
        int ok = inside && row + r < rows ? 1 : 0;
        sc[r] = 0.0f;
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "setp.ne.s32 p, %1, 0;\n"
            "@p ld.global.nc.L1::no_allocate.f32 %0, [%2];\n"
            "}\n"
            : "+f"(sc[r])
            : "r"(ok), "l"(__cvta_generic_to_global(ps)));
        ps += blocks;
    }
}

// Byte I of v, which has 128 added to each weight, as the weight in fp32, exactly.
template <int I>
__device__ __forceinline__ float weight(unsigned v)
{
    return __uint_as_float(__byte_perm(v, 0x4B000000u, 0x7440 | I)) - 8388736.0f;
}

template <int R, int NW, bool STAGED>
__global__ void __launch_bounds__(NW * 32, 1)
    multiply(const signed char* __restrict__ W, const float* __restrict__ scales, const float* __restrict__ x,
             float* __restrict__ y, int rows, int blocks, int steps, int groups)
{
    constexpr int T = NW * 32;
    constexpr int G = 64;               // groups whose partial sums are kept
    constexpr int STRIDE = NW * R + R;  // of a group's partial sums
    extern __shared__ float4 xs[];      // steps * 128
    __shared__ float part[G * STRIDE];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int grid = (int)gridDim.x;
    const int ng = (groups - 1 - (int)blockIdx.x) / grid + 1;
    const int dk = NW / steps;
    const int ds = NW - dk * steps;
    const int k_first = warp / steps;
    const int s_first = warp - k_first * steps;

    for (int k0 = 0; k0 < ng; k0 += G) {
        const int nb = ng - k0 < G ? ng - k0 : G;
        const long long g0 = (long long)blockIdx.x + (long long)k0 * grid;
        int k = k_first;
        int s = s_first;
        uint4 w[R];
        float sc[R];
        load_unit<R>(w, sc, W, scales, g0 + (long long)k * grid, s, rows, blocks, lane, k < nb);

        if (STAGED && k0 == 0) {
            // Vector i of x belongs to lane l of its step as vector q; it is put where neither side has conflicts.
            const int total = steps * 128;
            const int have = blocks * 8;
            for (int i = tid; i < total; i += T) {
                int j = i & 127;
                int l = j >> 2;
                int q = j & 3;
                unsigned dst =
                    (unsigned)__cvta_generic_to_shared(&xs[(i - j) + q * 32 + (l ^ (q * 2))]);
                int bytes = i < have ? 16 : 0;
                const float* src = i < have ? x + (size_t)i * 4 : x;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst),
                             "l"(__cvta_generic_to_global(src)), "r"(bytes)
                             : "memory");
            }
        }
        for (int i = tid; i < nb * STRIDE; i += T) {
            part[i] = 0.0f;
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();

        float acc[R];
#pragma unroll
        for (int r = 0; r < R; ++r) {
            acc[r] = 0.0f;
        }
        while (k < nb) {
            int k_next = k + dk;
            int s_next = s + ds;
            if (s_next >= steps) {
                s_next -= steps;
                ++k_next;
            }
            uint4 w_next[R];
            float sc_next[R];
            load_unit<R>(w_next, sc_next, W, scales, g0 + (long long)k_next * grid, s_next, rows, blocks, lane,
                         k_next < nb);

            float dot[R];
#pragma unroll
            for (int r = 0; r < R; ++r) {
                dot[r] = 0.0f;
            }
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                float4 xv;
                if (STAGED) {
                    xv = xs[s * 128 + q * 32 + (lane ^ (q * 2))];
                } else {
                    xv = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (s * 16 + (lane >> 1) < blocks) {
                        xv = __ldg(reinterpret_cast<const float4*>(x) + (size_t)s * 128 + (size_t)(lane * 4 + q));
                    }
                }
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    unsigned v = q == 0 ? w[r].x : q == 1 ? w[r].y : q == 2 ? w[r].z : w[r].w;
                    v ^= 0x80808080u;
                    dot[r] = fmaf(weight<0>(v), xv.x, dot[r]);
                    dot[r] = fmaf(weight<1>(v), xv.y, dot[r]);
                    dot[r] = fmaf(weight<2>(v), xv.z, dot[r]);
                    dot[r] = fmaf(weight<3>(v), xv.w, dot[r]);
                }
            }
#pragma unroll
            for (int r = 0; r < R; ++r) {
                acc[r] = fmaf(sc[r], dot[r], acc[r]);
            }

            if (k_next != k) {  // this warp is done with group k
                float* to = part + k * STRIDE + warp * R;
                if constexpr (R == 4) {
                    const bool h = (lane & 16) != 0;
                    float a = h ? acc[2] : acc[0];
                    float b = h ? acc[3] : acc[1];
                    a += __shfl_xor_sync(0xffffffffu, h ? acc[0] : acc[2], 16);
                    b += __shfl_xor_sync(0xffffffffu, h ? acc[1] : acc[3], 16);
                    const bool g = (lane & 8) != 0;
                    float c = g ? b : a;
                    c += __shfl_xor_sync(0xffffffffu, g ? a : b, 8);
                    c += __shfl_xor_sync(0xffffffffu, c, 4);
                    c += __shfl_xor_sync(0xffffffffu, c, 2);
                    c += __shfl_xor_sync(0xffffffffu, c, 1);
                    if ((lane & 7) == 0) {
                        to[lane >> 3] = c;
                    }
                } else {
#pragma unroll
                    for (int r = 0; r < R; ++r) {
                        float c = acc[r];
#pragma unroll
                        for (int m = 16; m > 0; m >>= 1) {
                            c += __shfl_xor_sync(0xffffffffu, c, m);
                        }
                        if (lane == 0) {
                            to[r] = c;
                        }
                    }
                }
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    acc[r] = 0.0f;
                }
            }
            k = k_next;
            s = s_next;
#pragma unroll
            for (int r = 0; r < R; ++r) {
                w[r] = w_next[r];
                sc[r] = sc_next[r];
            }
        }
        __syncthreads();
        for (int i = tid; i < nb * R; i += T) {
            int kk = i / R;
            int r = i - kk * R;
            long long row = (g0 + (long long)kk * grid) * R + r;
            if (row < rows) {
                float sum = 0.0f;
#pragma unroll
                for (int v = 0; v < NW; ++v) {
                    sum += part[kk * STRIDE + v * R + r];
                }
                y[row] = sum;
            }
        }
        __syncthreads();
    }
}

template <int R, int NW>
static void start(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks,
                  int steps)
{
    const int groups = (rows - 1) / R + 1;
    const int grid = groups < 132 ? groups : 132;
    if (steps <= 96) {
        const int bytes = steps * 2048;
        if (bytes > 20480) {
            cudaFuncSetAttribute(multiply<R, NW, true>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        }
        multiply<R, NW, true><<<grid, NW * 32, bytes>>>(W, scales, x, y, rows, blocks, steps, groups);
    } else {
        multiply<R, NW, false><<<grid, NW * 32>>>(W, scales, x, y, rows, blocks, steps, groups);
    }
}

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    if (rows <= 0 || blocks <= 0) {
        return;
    }
    const int steps = (blocks - 1) / 16 + 1;
    const long long units = ((long long)(rows - 1) / 4 + 1) * steps;
    if (units < 132 * 12) {
        start<1, 16>(W, scales, x, y, rows, blocks, steps);
    } else {
        start<4, 24>(W, scales, x, y, rows, blocks, steps);
    }
}
