// Vector in shared memory, resident blocks, warps walk row pairs.

#include <cuda_runtime.h>
#include <cstdint>
#include <cstddef>

constexpr int threads = 512;
constexpr int warps = threads / 32;

// Streams 16 weights where ok, leaves v as it is elsewhere.
__device__ __forceinline__ void load_weights(uint4& v, const signed char* p, int ok)
{
    asm volatile("{\n\t"
                 ".reg .pred p;\n\t"
                 "setp.ne.s32 p, %5, 0;\n\t"
                 "@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n\t"
                 "}"
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
                 : "l"(p), "r"(ok));
}

__device__ __forceinline__ void load_scale(float& v, const float* p, int ok)
{
    asm volatile("{\n\t"
                 ".reg .pred p;\n\t"
                 "setp.ne.s32 p, %2, 0;\n\t"
                 "@p ld.global.nc.f32 %0, [%1];\n\t"
                 "}"
                 : "+f"(v)
                 : "l"(p), "r"(ok));
}

// Adds the products of four weights and four values. A weight w becomes 2^23 + 128 + w, exactly, and w by subtraction.
__device__ __forceinline__ float dot4(unsigned word, float4 x, float sum)
{
    const unsigned u = word ^ 0x80808080u;
    const float off = 8388736.0f;
    float a = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7440)) - off;
    float b = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7441)) - off;
    float c = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7442)) - off;
    float d = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7443)) - off;
    sum = fmaf(a, x.x, sum);
    sum = fmaf(b, x.y, sum);
    sum = fmaf(c, x.z, sum);
    return fmaf(d, x.w, sum);
}

__device__ __forceinline__ float warp_sum(float a)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        a += __shfl_xor_sync(0xffffffffu, a, o);
    }
    return a;
}

// A unit is R rows, a step 512 columns of them: 16 a lane. Each warp has D steps on their way, across units.
template <int R, int D>
__global__ void __launch_bounds__(threads, 1)
multiply(const signed char* __restrict__ W, const float* __restrict__ scales, const float* __restrict__ x,
         float* __restrict__ y, unsigned rows, unsigned units, int blocks, int groups)
{
    extern __shared__ float4 sx[];           // [group][quarter of a lane's 16 values][lane]

    const int lane = threadIdx.x & 31;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned stride = gridDim.x * warps;
    const int columns = blocks * 32;

    unsigned load_unit = warp * gridDim.x + blockIdx.x;
    unsigned unit = load_unit;
    int load_group = 0;
    const signed char* pw = W + (size_t)load_unit * R * (size_t)columns + lane * 16;
    const float* ps = scales + (size_t)load_unit * R * (size_t)blocks + (lane >> 1);

    uint4 w[D][R];
    float s[D][R];

    auto load = [&](uint4(&a)[R], float(&c)[R]) {
        if (load_unit < units) {
            const int in = load_group * 512 + lane * 16 < columns;
#pragma unroll
            for (int r = 0; r < R; ++r) {
                const int ok = in && (r == 0 || load_unit * R + r < rows);
                a[r] = make_uint4(0u, 0u, 0u, 0u);
                c[r] = 0.0f;
                load_weights(a[r], pw + (size_t)r * (size_t)columns, ok);
                load_scale(c[r], ps + (size_t)r * (size_t)blocks, ok);
            }
            pw += 512;
            ps += 16;
            if (++load_group == groups) {
                load_group = 0;
                load_unit += stride;
                pw = W + (size_t)load_unit * R * (size_t)columns + lane * 16;
                ps = scales + (size_t)load_unit * R * (size_t)blocks + (lane >> 1);
            }
        }
    };

#pragma unroll
    for (int d = 0; d < D; ++d) {
        load(w[d], s[d]);
    }

    // The vector, so ordered that lanes read neighbouring 16 bytes; zeros up to a whole group.
    const float4* x4 = reinterpret_cast<const float4*>(x);
    const int have = columns / 4;
    for (int q = threadIdx.x; q < groups * 128; q += threads) {
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (q < have) {
            v = __ldg(x4 + q);
        }
        sx[(q & ~127) + (q & 3) * 32 + ((q & 127) >> 2)] = v;
    }
    __syncthreads();

    float sum[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        sum[r] = 0.0f;
    }
    int group = 0;

    while (unit < units) {
#pragma unroll
        for (int d = 0; d < D; ++d) {
            if (unit < units) {
                const float4* px = sx + group * 128 + lane;
                const float4 x0 = px[0];
                const float4 x1 = px[32];
                const float4 x2 = px[64];
                const float4 x3 = px[96];
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    float p = dot4(w[d][r].x, x0, 0.0f);
                    float q = dot4(w[d][r].y, x1, 0.0f);
                    p = dot4(w[d][r].z, x2, p);
                    q = dot4(w[d][r].w, x3, q);
                    sum[r] = fmaf(s[d][r], p + q, sum[r]);
                }
                load(w[d], s[d]);
                if (++group == groups) {
#pragma unroll
                    for (int r = 0; r < R; ++r) {
                        const float total = warp_sum(sum[r]);
                        const unsigned row = unit * R + r;
                        if (lane == 0 && row < rows) {
                            y[row] = total;
                        }
                        sum[r] = 0.0f;
                    }
                    group = 0;
                    unit += stride;
                }
            }
        }
    }
}

// Vectors too long for shared memory: a block for each row in turn.
__global__ void __launch_bounds__(threads)
multiply_any(const signed char* __restrict__ W, const float* __restrict__ scales, const float* __restrict__ x,
             float* __restrict__ y, int rows, int blocks)
{
    __shared__ float sums[warps];
    const long long pieces = (long long)blocks * 2;          // of 16 weights
    const float4* x4 = reinterpret_cast<const float4*>(x);
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const uint4* from = reinterpret_cast<const uint4*>(W + (size_t)row * (size_t)blocks * 32);
        const float* scale = scales + (size_t)row * (size_t)blocks;
        float total = 0.0f;
        float part = 0.0f;
        int n = 0;
        for (long long i = threadIdx.x; i < pieces; i += threads) {
            const uint4 a = __ldg(from + i);
            float p = dot4(a.x, __ldg(x4 + i * 4), 0.0f);
            float q = dot4(a.y, __ldg(x4 + i * 4 + 1), 0.0f);
            p = dot4(a.z, __ldg(x4 + i * 4 + 2), p);
            q = dot4(a.w, __ldg(x4 + i * 4 + 3), q);
            part = fmaf(__ldg(scale + (i >> 1)), p + q, part);
            if (++n == 64) {
                total += part;
                part = 0.0f;
                n = 0;
            }
        }
        total = warp_sum(total + part);
        if ((threadIdx.x & 31) == 0) {
            sums[threadIdx.x >> 5] = total;
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            float v = threadIdx.x < warps ? sums[threadIdx.x] : 0.0f;
            v = warp_sum(v);
            if (threadIdx.x == 0) {
                y[row] = v;
            }
        }
        __syncthreads();
    }
}

template <int R, int D>
static void launch(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks,
                   int groups)
{
    const unsigned units = ((unsigned)rows + R - 1) / R;
    const unsigned grid = units < 132u ? units : 132u;
    const size_t bytes = (size_t)groups * 2048;
    if (bytes > 48 * 1024) {
        cudaFuncSetAttribute(multiply<R, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    }
    multiply<R, D><<<grid, threads, bytes>>>(W, scales, x, y, (unsigned)rows, units, blocks, groups);
}

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    if (rows <= 0 || blocks <= 0) {
        return;
    }
    const int groups = (blocks - 1) / 16 + 1;                // of 512 columns
    if (groups > 113) {                                      // 227 KiB
        const int grid = rows < 528 ? rows : 528;
        multiply_any<<<grid, threads>>>(W, scales, x, y, rows, blocks);
    } else if (rows <= 132 * warps) {
        launch<1, 4>(W, scales, x, y, rows, blocks, groups);
    } else {
        launch<2, 4>(W, scales, x, y, rows, blocks, groups);
    }
}
