// Weights times tokens transposed: wgmma, TMA ring, clusters share tokens

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

// ---------------------------------------------------------------- barriers, copies, wgmma

__device__ __forceinline__ void bar_init(uint32_t bar, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ void bar_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void bar_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
}

__device__ __forceinline__ void bar_arrive_at(uint32_t bar, uint32_t cta)
{
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
        "}\n" :: "r"(bar), "r"(cta) : "memory");
}

__device__ __forceinline__ void bar_wait(uint32_t bar, uint32_t parity)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "AGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@p bra DONE;\n"
        "bra AGAIN;\n"
        "DONE:\n"
        "}\n" :: "r"(bar), "r"(parity) : "memory");
}

__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ void load_tile(uint32_t dst, const CUtensorMap* map, uint32_t bar, int k, int row)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
        :: "r"(dst), "l"(map), "r"(bar), "r"(k), "r"(row) : "memory");
}

__device__ __forceinline__ void load_tile_both(uint32_t dst, const CUtensorMap* map, uint32_t bar, int k, int row)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%4, %5}], [%2], %3;"
        :: "r"(dst), "l"(map), "r"(bar), "h"((unsigned short)3), "r"(k), "r"(row) : "memory");
}

// K-major, 128-byte swizzle, groups of eight rows 1,024 bytes apart.
__device__ __forceinline__ uint64_t descriptor(uint32_t address)
{
    return (uint64_t)((address & 0x3FFFF) >> 4) | ((uint64_t)1 << 16) | ((uint64_t)64 << 32) | ((uint64_t)1 << 62);
}

#define F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define F16(i) F4(i), F4(i + 4), F4(i + 8), F4(i + 12)

__device__ __forceinline__ void mma(float (&d)[4], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %6, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n"
        "}\n" : F4(0) : "l"(a), "l"(b), "r"(1));
}

__device__ __forceinline__ void mma(float (&d)[8], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;\n"
        "}\n" : F4(0), F4(4) : "l"(a), "l"(b), "r"(1));
}

__device__ __forceinline__ void mma(float (&d)[32], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 0;\n"
        "}\n" : F16(0), F16(16) : "l"(a), "l"(b), "r"(1));
}

__device__ __forceinline__ void mma(float (&d)[64], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 0;\n"
        "}\n" : F16(0), F16(16), F16(32), F16(48) : "l"(a), "l"(b), "r"(1));
}

template <int R>
__device__ __forceinline__ void pin(float (&d)[R])
{
#pragma unroll
    for (int i = 0; i < R; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}

// ---------------------------------------------------------------- both products

constexpr int THREADS = 288;           // two warpgroups that multiply, one warp that copies
constexpr int A_BYTES = 128 * 64 * 2;  // 128 rows of weights, 64 of their columns

template <int NT>
struct Shape {
    static constexpr int STAGE = 2 * A_BYTES + NT * 128;
    static constexpr int STAGES = 220 * 1024 / STAGE;
    static constexpr int BYTES = STAGES * STAGE + 1024;
};

// The sums of two tokens, c and c + 1, for one row of weights become those of one token and two rows.
__device__ __forceinline__ void pair_rows(float v0, float v1, bool odd, float& lo, float& hi)
{
    float got = __shfl_xor_sync(0xffffffffu, odd ? v0 : v1, 4);
    lo = odd ? got : v0;
    hi = odd ? v1 : got;
}

// DOWN = false: a block has 128 rows of W_gate and the same of W_up, stores hidden.
// DOWN = true: 256 rows of W_down; stores y, or sums of a part of d_ff when there are splits.
template <int NT, int CL, bool DOWN>
__global__ void __launch_bounds__(THREADS, 1)
product(const __grid_constant__ CUtensorMap map1, const __grid_constant__ CUtensorMap map2,
        const __grid_constant__ CUtensorMap mapB, half* out, const half* x, float* parts,
        int tokens, int rows, int K, int token_tiles, int splits, int units)
{
    constexpr int STAGE = Shape<NT>::STAGE, STAGES = Shape<NT>::STAGES;
    extern __shared__ unsigned char raw[];
    __shared__ __align__(8) uint64_t barriers[2 * STAGES];

    uint32_t base = ((uint32_t)__cvta_generic_to_shared(raw) + 1023u) & ~1023u;
    uint32_t full = (uint32_t)__cvta_generic_to_shared(barriers);
    uint32_t empty = full + 8 * STAGES;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    int rank = CL == 1 ? 0 : (int)(blockIdx.x % CL);
    int cluster = (int)(blockIdx.x / CL), clusters = (int)(gridDim.x / CL);

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            bar_init(full + 8 * s, 1);
            bar_init(empty + 8 * s, 8 * CL);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    if constexpr (CL > 1) cluster_sync();

    int blocks_k = (K + 63) / 64;

    if (warp == 8) {
        if (lane == 0) {
            int s = 0;
            uint32_t phase = 0;
            for (int u = cluster; u < units; u += clusters) {
                int token0 = u % token_tiles * NT;
                int rest = u / token_tiles;
                int split = rest % splits;
                int m = rest / splits * CL + rank;
                int row1 = DOWN ? m * 256 : m * 128;
                int row2 = DOWN ? m * 256 + 128 : m * 128;
                int k0 = (int)((long long)blocks_k * split / splits);
                int k1 = (int)((long long)blocks_k * (split + 1) / splits);
                for (int k = k0; k < k1; ++k) {
                    bar_wait(empty + 8 * s, phase ^ 1);
                    uint32_t bar = full + 8 * s;
                    uint32_t to = base + s * STAGE;
                    bar_expect(bar, STAGE);
                    load_tile(to, &map1, bar, k * 64, row1);
                    load_tile(to + A_BYTES, &map2, bar, k * 64, row2);
                    if constexpr (CL == 1) {
                        load_tile(to + 2 * A_BYTES, &mapB, bar, k * 64, token0);
                    } else {
                        load_tile_both(to + 2 * A_BYTES + rank * (NT / CL * 128), &mapB, bar, k * 64,
                                       token0 + rank * (NT / CL));
                    }
                    if (++s == STAGES) {
                        s = 0;
                        phase ^= 1;
                    }
                }
            }
        }
        __syncwarp();
    } else {
        int group = warp >> 2;
        int row_in_tile = group * 64 + (warp & 3) * 16 + (lane >> 2);
        bool odd = (lane >> 2) & 1;
        int s = 0;
        uint32_t phase = 0;
        for (int u = cluster; u < units; u += clusters) {
            int token0 = u % token_tiles * NT;
            int rest = u / token_tiles;
            int split = rest % splits;
            int m = rest / splits * CL + rank;
            int k0 = (int)((long long)blocks_k * split / splits);
            int k1 = (int)((long long)blocks_k * (split + 1) / splits);

            float acc1[NT / 2], acc2[NT / 2];
#pragma unroll
            for (int i = 0; i < NT / 2; ++i) {
                acc1[i] = 0.0f;
                acc2[i] = 0.0f;
            }
            int before = -1;
            for (int k = k0; k < k1; ++k) {
                bar_wait(full + 8 * s, phase);
                uint32_t at = base + s * STAGE;
                uint64_t a1 = descriptor(at + group * 8192);
                uint64_t a2 = descriptor(at + A_BYTES + group * 8192);
                uint64_t b = descriptor(at + 2 * A_BYTES);
                pin(acc1);
                pin(acc2);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    mma(acc1, a1 + 2 * i, b + 2 * i);
                    mma(acc2, a2 + 2 * i, b + 2 * i);
                }
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (before >= 0 && lane == 0) {
                    if constexpr (CL == 1) {
                        bar_arrive(empty + 8 * before);
                    } else {
#pragma unroll
                        for (int c = 0; c < CL; ++c) bar_arrive_at(empty + 8 * before, c);
                    }
                }
                __syncwarp();
                before = s;
                if (++s == STAGES) {
                    s = 0;
                    phase ^= 1;
                }
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            pin(acc1);
            pin(acc2);
            if (before >= 0 && lane == 0) {
                if constexpr (CL == 1) {
                    bar_arrive(empty + 8 * before);
                } else {
#pragma unroll
                    for (int c = 0; c < CL; ++c) bar_arrive_at(empty + 8 * before, c);
                }
            }
            __syncwarp();

#pragma unroll
            for (int j = 0; j < NT / 8; ++j) {
                int token = token0 + 8 * j + (lane & 3) * 2 + (odd ? 1 : 0);
#pragma unroll
                for (int hh = 0; hh < 2; ++hh) {
                    int i = j * 4 + hh * 2;
                    int row = row_in_tile + hh * 8 - (odd ? 1 : 0);
                    float lo, hi;
                    if constexpr (!DOWN) {
                        float v0 = acc1[i] / (1.0f + __expf(-acc1[i])) * acc2[i];
                        float v1 = acc1[i + 1] / (1.0f + __expf(-acc1[i + 1])) * acc2[i + 1];
                        pair_rows(v0, v1, odd, lo, hi);
                        row += m * 128;
                        if (token < tokens && row < rows) {
                            *reinterpret_cast<half2*>(out + (size_t)token * rows + row) = __floats2half2_rn(lo, hi);
                        }
                    } else {
                        row += m * 256;
#pragma unroll
                        for (int part = 0; part < 2; ++part) {
                            float v0 = part == 0 ? acc1[i] : acc2[i];
                            float v1 = part == 0 ? acc1[i + 1] : acc2[i + 1];
                            pair_rows(v0, v1, odd, lo, hi);
                            int r = row + part * 128;
                            if (token < tokens && r < rows) {
                                size_t where = (size_t)token * rows + r;
                                if (splits == 1) {
                                    float2 own = __half22float2(*reinterpret_cast<const half2*>(x + where));
                                    *reinterpret_cast<half2*>(out + where) =
                                        __floats2half2_rn(own.x + lo, own.y + hi);
                                } else {
                                    *reinterpret_cast<float2*>(parts + (size_t)split * tokens * rows + where) =
                                        make_float2(lo, hi);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    if constexpr (CL > 1) cluster_sync();
}

// y = x + the sums of all parts of d_ff; count is a multiple of four.
__global__ void __launch_bounds__(256)
add_parts(const half* x, const float* parts, half* y, size_t count, int splits)
{
    size_t step = (size_t)gridDim.x * blockDim.x * 4;
    for (size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 4; i < count; i += step) {
        float4 sum = *reinterpret_cast<const float4*>(parts + i);
#pragma unroll 4
        for (int s = 1; s < splits; ++s) {
            float4 p = *reinterpret_cast<const float4*>(parts + (size_t)s * count + i);
            sum.x += p.x;
            sum.y += p.y;
            sum.z += p.z;
            sum.w += p.w;
        }
        float2 a = __half22float2(*reinterpret_cast<const half2*>(x + i));
        float2 b = __half22float2(*reinterpret_cast<const half2*>(x + i + 2));
        *reinterpret_cast<half2*>(y + i) = __floats2half2_rn(a.x + sum.x, a.y + sum.y);
        *reinterpret_cast<half2*>(y + i + 2) = __floats2half2_rn(b.x + sum.z, b.y + sum.w);
    }
}

// ---------------------------------------------------------------- the norm, a block a row

template <bool EIGHTS>
__global__ void __launch_bounds__(256)
normalise(const half* __restrict__ x, const half* __restrict__ weight, half* __restrict__ r, int d_model, float eps)
{
    __shared__ float sums[8];
    const half* from = x + (size_t)blockIdx.x * d_model;
    half* to = r + (size_t)blockIdx.x * d_model;
    float sum = 0.0f;
    if constexpr (EIGHTS) {
        const uint4* v = reinterpret_cast<const uint4*>(from);
        for (int i = threadIdx.x; i < d_model / 8; i += 256) {
            uint4 p = __ldg(v + i);
            const half2* h = reinterpret_cast<const half2*>(&p);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                float2 f = __half22float2(h[j]);
                sum = fmaf(f.x, f.x, sum);
                sum = fmaf(f.y, f.y, sum);
            }
        }
    } else {
        for (long long i = threadIdx.x; i < d_model; i += 256) {
            float f = __half2float(from[i]);
            sum = fmaf(f, f, sum);
        }
    }
    __syncwarp();
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int w = 0; w < 8; ++w) sum += sums[w];
    float factor = 1.0f / sqrtf(sum / (float)d_model + eps);
    if constexpr (EIGHTS) {
        const uint4* v = reinterpret_cast<const uint4*>(from);
        const uint4* n = reinterpret_cast<const uint4*>(weight);
        for (int i = threadIdx.x; i < d_model / 8; i += 256) {
            uint4 p = __ldg(v + i), q = __ldg(n + i), o;
            const half2* h = reinterpret_cast<const half2*>(&p);
            const half2* w = reinterpret_cast<const half2*>(&q);
            half2* t = reinterpret_cast<half2*>(&o);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                float2 f = __half22float2(h[j]), g = __half22float2(w[j]);
                t[j] = __floats2half2_rn(f.x * factor * g.x, f.y * factor * g.y);
            }
            reinterpret_cast<uint4*>(to)[i] = o;
        }
    } else {
        for (long long i = threadIdx.x; i < d_model; i += 256) {
            to[i] = __float2half_rn(__half2float(from[i]) * factor * __half2float(weight[i]));
        }
    }
}

// ---------------------------------------------------------------- any extents

template <bool DOWN>
__global__ void __launch_bounds__(256)
product_any(const half* b, const half* w1, const half* w2, const half* x, half* out,
            int tokens, int rows, int K, unsigned row_tiles)
{
    __shared__ float tb[16][17], t1[16][17], t2[16][17];
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    long long row0 = (long long)(blockIdx.x % row_tiles) * 16;
    long long token0 = (long long)(blockIdx.x / row_tiles) * 16;
    float sum1 = 0.0f, sum2 = 0.0f;
    for (long long k0 = 0; k0 < K; k0 += 16) {
        long long k = k0 + tx;
        bool in_k = k < K;
        bool in_b = in_k && token0 + ty < tokens;
        bool in_w = in_k && row0 + ty < rows;
        tb[ty][tx] = in_b ? __half2float(b[(size_t)(token0 + ty) * K + k]) : 0.0f;
        t1[ty][tx] = in_w ? __half2float(w1[(size_t)(row0 + ty) * K + k]) : 0.0f;
        if (!DOWN) t2[ty][tx] = in_w ? __half2float(w2[(size_t)(row0 + ty) * K + k]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            sum1 = fmaf(tb[ty][i], t1[tx][i], sum1);
            if (!DOWN) sum2 = fmaf(tb[ty][i], t2[tx][i], sum2);
        }
        __syncthreads();
    }
    if (token0 + ty < tokens && row0 + tx < rows) {
        size_t where = (size_t)(token0 + ty) * rows + (size_t)(row0 + tx);
        float value = DOWN ? __half2float(x[where]) + sum1 : sum1 / (1.0f + expf(-sum1)) * sum2;
        out[where] = __float2half_rn(value);
    }
}

// ---------------------------------------------------------------- host

typedef CUresult (*Encode)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                           const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                           CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static Encode find_encode()
{
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                         cudaEnableDefault, &found);
#else
    cudaError_t error = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return nullptr;
    return (Encode)function;
}

static bool make_map(Encode encode, CUtensorMap* map, const half* data, int rows, int columns, int box_rows)
{
    cuuint64_t extents[2] = {(cuuint64_t)columns, (cuuint64_t)rows};
    cuuint64_t strides[1] = {(cuuint64_t)columns * 2};
    cuuint32_t box[2] = {64u, (cuuint32_t)box_rows};
    cuuint32_t steps[2] = {1u, 1u};
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<half*>(data), extents, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int NT, int CL, bool DOWN>
static void launch(const CUtensorMap& map1, const CUtensorMap& map2, const CUtensorMap& mapB, half* out,
                   const half* x, float* parts, int tokens, int rows, int K, int token_tiles, int splits, int units)
{
    auto kernel = product<NT, CL, DOWN>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape<NT>::BYTES);
    int slots = 132 / CL;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)((units < slots ? units : slots) * CL));
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = Shape<NT>::BYTES;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = CL;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = CL > 1 ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, map1, map2, mapB, out, x, parts, tokens, rows, K, token_tiles, splits, units);
}

template <int NT, int CL>
static bool run(Encode encode, const half* x, const half* W_gate, const half* W_up, const half* W_down, half* y,
                half* r, half* hidden, float* parts, int tokens, int d_model, int d_ff, long long most_splits)
{
    CUtensorMap gate, up, down, map_r, map_hidden;
    if (!make_map(encode, &gate, W_gate, d_ff, d_model, 128)) return false;
    if (!make_map(encode, &up, W_up, d_ff, d_model, 128)) return false;
    if (!make_map(encode, &down, W_down, d_model, d_ff, 128)) return false;
    if (!make_map(encode, &map_r, r, tokens, d_model, NT / CL)) return false;
    if (!make_map(encode, &map_hidden, hidden, tokens, d_ff, NT / CL)) return false;

    int token_tiles = (int)(((long long)tokens + NT - 1) / NT);
    int m1 = (int)(((long long)d_ff + 128 * CL - 1) / (128 * CL));
    launch<NT, CL, false>(gate, up, map_r, hidden, nullptr, nullptr, tokens, d_ff, d_model, token_tiles, 1,
                          m1 * token_tiles);

    int m2 = (int)(((long long)d_model + 256 * CL - 1) / (256 * CL));
    long long units = (long long)m2 * token_tiles;
    long long splits = (132 / CL) / units;
    long long blocks_k = ((long long)d_ff + 63) / 64;
    if (splits > blocks_k / 4) splits = blocks_k / 4;
    if (splits > most_splits) splits = most_splits;
    if (splits < 1) splits = 1;
    launch<NT, CL, true>(down, down, map_hidden, y, x, parts, tokens, d_model, d_ff, token_tiles, (int)splits,
                         (int)(units * splits));
    if (splits > 1) {
        size_t count = (size_t)tokens * d_model;
        size_t want = (count / 4 + 255) / 256;
        unsigned blocks = want < 1056 ? (unsigned)want : 1056u;
        add_parts<<<blocks, 256>>>(x, parts, y, count, (int)splits);
    }
    return true;
}

extern "C" void solve(const half* x, const half* norm_weight, const half* W_gate, const half* W_up,
                      const half* W_down, half* y, int tokens, int d_model, int d_ff, float eps)
{
    size_t bytes_r = ((size_t)tokens * d_model * 2 + 255) / 256 * 256;
    size_t bytes_hidden = ((size_t)tokens * d_ff * 2 + 255) / 256 * 256;
    size_t bytes_part = (size_t)tokens * d_model * 4;

    // All within 16 bytes a token for each of d_model + d_ff.
    long long most_splits = 13ll * ((long long)d_model + d_ff) / (4ll * d_model);
    if (most_splits > 16) most_splits = 16;
    bool eights = d_model % 8 == 0 && d_ff % 8 == 0;
    bool large = tokens > 64;
    long long units = large ? ((long long)tokens + 127) / 128 * (((long long)d_model + 511) / 512)
                            : ((long long)d_model + 255) / 256;
    long long useful = (large ? 66 : 132) / units;
    if (most_splits > useful) most_splits = useful;
    if (most_splits < 1) most_splits = 1;
    size_t bytes_parts = eights && most_splits > 1 ? bytes_part * (size_t)most_splits : 0;

    unsigned char* own = nullptr;
    cudaMallocAsync((void**)&own, bytes_r + bytes_hidden + bytes_parts, 0);
    half* r = (half*)own;
    half* hidden = (half*)(own + bytes_r);
    float* parts = (float*)(own + bytes_r + bytes_hidden);

    bool done = false;
    if (eights) {
        normalise<true><<<(unsigned)tokens, 256>>>(x, norm_weight, r, d_model, eps);
        Encode encode = find_encode();
        if (encode != nullptr) {
            if (tokens <= 8) {
                done = run<8, 1>(encode, x, W_gate, W_up, W_down, y, r, hidden, parts, tokens, d_model, d_ff,
                                 most_splits);
            } else if (tokens <= 16) {
                done = run<16, 1>(encode, x, W_gate, W_up, W_down, y, r, hidden, parts, tokens, d_model, d_ff,
                                  most_splits);
            } else if (tokens <= 64) {
                done = run<64, 1>(encode, x, W_gate, W_up, W_down, y, r, hidden, parts, tokens, d_model, d_ff,
                                  most_splits);
            } else {
                done = run<128, 2>(encode, x, W_gate, W_up, W_down, y, r, hidden, parts, tokens, d_model, d_ff,
                                   most_splits);
            }
        }
    } else {
        normalise<false><<<(unsigned)tokens, 256>>>(x, norm_weight, r, d_model, eps);
    }
    if (!done) {
        unsigned token_tiles = (unsigned)(((long long)tokens + 15) / 16);
        unsigned tiles_ff = (unsigned)(((long long)d_ff + 15) / 16);
        unsigned tiles_model = (unsigned)(((long long)d_model + 15) / 16);
        product_any<false><<<tiles_ff * token_tiles, 256>>>(r, W_gate, W_up, nullptr, hidden, tokens, d_ff, d_model,
                                                            tiles_ff);
        product_any<true><<<tiles_model * token_tiles, 256>>>(hidden, W_down, nullptr, x, y, tokens, d_model, d_ff,
                                                              tiles_model);
    }
    cudaFreeAsync(own, 0);
}
