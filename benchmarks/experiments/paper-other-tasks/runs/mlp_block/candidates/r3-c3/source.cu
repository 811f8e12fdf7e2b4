// Few tokens: normalise fused into streaming mma; else wgmma tiles.

#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// ---- r = x / sqrt(mean(x^2) + eps) * weight, a block a row ----

__global__ void __launch_bounds__(512)
normalise(const half* __restrict__ x, const half* __restrict__ weight, half* __restrict__ r, int d_model, float eps)
{
    __shared__ float parts[16];
    const int tid = threadIdx.x;
    const half* from = x + (size_t)blockIdx.x * d_model;
    half* to = r + (size_t)blockIdx.x * d_model;
    const bool wide = d_model % 8 == 0;
    float sum = 0.0f;
    if (wide) {
        for (int i = tid; i < d_model / 8; i += 512) {
            uint4 raw = reinterpret_cast<const uint4*>(from)[i];
            const half2* h = reinterpret_cast<const half2*>(&raw);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                float2 v = __half22float2(h[k]);
                sum = fmaf(v.x, v.x, sum);
                sum = fmaf(v.y, v.y, sum);
            }
        }
    } else {
        for (int i = tid; i < d_model; i += 512) {
            float v = __half2float(from[i]);
            sum = fmaf(v, v, sum);
        }
    }
#pragma unroll
    for (int d = 16; d >= 1; d /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (tid % 32 == 0)
        parts[tid / 32] = sum;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int k = 0; k < 16; ++k)
        total += parts[k];
    const float factor = 1.0f / sqrtf(total / d_model + eps);
    if (wide) {
        for (int i = tid; i < d_model / 8; i += 512) {
            uint4 raw = reinterpret_cast<const uint4*>(from)[i];
            uint4 rawWeight = reinterpret_cast<const uint4*>(weight)[i];
            const half2* h = reinterpret_cast<const half2*>(&raw);
            const half2* w = reinterpret_cast<const half2*>(&rawWeight);
            uint4 result;
            half2* out = reinterpret_cast<half2*>(&result);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                float2 v = __half22float2(h[k]);
                float2 s = __half22float2(w[k]);
                out[k] = __floats2half2_rn(v.x * factor * s.x, v.y * factor * s.y);
            }
            reinterpret_cast<uint4*>(to)[i] = result;
        }
    } else {
        for (int i = tid; i < d_model; i += 512)
            to[i] = __float2half(__half2float(from[i]) * factor * __half2float(weight[i]));
    }
}

// ---- products on tensor cores: blocks of 64 G rows and 256 rows of weights, 64 columns a stage ----

constexpr int kStages = 4;

template <int G>
struct Tile {
    static constexpr int rows = 64 * G;
    static constexpr int threads = 128 * G;
    static constexpr int aBytes = rows * 128;
    static constexpr int bBytes = 256 * 128;
    static constexpr int stageBytes = aBytes + bBytes;
    static constexpr int shared = kStages * stageBytes + 1024; // 230,400 for G = 3
};

__device__ __forceinline__ void copy16(uint32_t target, uint64_t source, bool valid)
{
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes)
                 : "memory");
}

// Rows of 128 bytes, swizzled over 128 bytes, eight of them in 1,024 bytes.
__device__ __forceinline__ uint64_t descriptor(uint32_t address)
{
    return (uint64_t)((address & 0x3FFFFu) >> 4) | ((uint64_t)1 << 16) | ((uint64_t)64 << 32) | ((uint64_t)1 << 62);
}

#define ACC4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ACC16(i) ACC4(i), ACC4(i + 4), ACC4(i + 8), ACC4(i + 12)

__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, "
        "%72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, "
        "%88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, "
        "%104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, "
        "%120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, p, 1, 1, 0, 0;\n"
        "}\n"
        : ACC16(0), ACC16(16), ACC16(32), ACC16(48), ACC16(64), ACC16(80), ACC16(96), ACC16(112)
        : "l"(a), "l"(b), "r"(1));
}

// A [rows][K]. kGated: B1 and B2 [columns][K], 128 rows of each a block; out = silu(A B1^T) * (A B2^T).
// Otherwise B1 [columns][K], 256 rows a block; out = x + A B1^T, or a part of the sums where there are splits.
// Each of the G warpgroups multiplies 64 rows of A by all 256 of the weights.
template <bool kGated, int G>
__global__ void __launch_bounds__(128 * G, 1)
product(const half* __restrict__ A, const half* __restrict__ B1, const half* __restrict__ B2,
        const half* __restrict__ x, half* __restrict__ out, float* __restrict__ parts, int rows, int columns, int K,
        int rowTiles, int tilesPerSplit)
{
    using T = Tile<G>;
    constexpr int kStep = T::threads / 8;              // rows that all threads fetch at a time: 32 or 48
    constexpr int kRoundsB = (256 + kStep - 1) / kStep; // 8 or 6
    extern __shared__ unsigned char raw[];
    const uint32_t base = ((uint32_t)__cvta_generic_to_shared(raw) + 1023u) & ~1023u;

    const int tid = threadIdx.x;
    const int group = tid / 128;
    const int m0 = (int)(blockIdx.x % rowTiles) * T::rows;
    const int n0 = (int)(blockIdx.x / rowTiles) * (kGated ? 128 : 256);
    const int firstTile = (int)blockIdx.y * tilesPerSplit;
    const int tiles = min(tilesPerSplit, (K + 63) / 64 - firstTile);
    const bool busy = m0 + group * 64 < rows;

    // a thread fetches the same 16 bytes of every kStep-th row; kStep is a multiple of 8, as the swizzle needs
    const int piece = tid % 8;
    const int row = tid / 8;
    const uint32_t spot = (uint32_t)(row * 128 + ((piece ^ (row % 8)) * 16));
    const uint64_t step = (uint64_t)kStep * (uint64_t)K * 2;
    const uint64_t rowBytes = (uint64_t)K * 2;
    const uint64_t safe = (uint64_t)A;
    const uint64_t fromA = safe + (uint64_t)(m0 + row) * rowBytes;
    const uint64_t fromB1 = (uint64_t)B1 + (uint64_t)(n0 + row) * rowBytes;
    // such that row 128 of the tile is row n0 of B2
    const uint64_t fromB2 = kGated ? (uint64_t)B2 + (uint64_t)(n0 + row) * rowBytes - 128 * rowBytes : fromB1;
    const int leftA = rows - m0;
    const int leftB = columns - n0;

    auto fetch = [&](int tile) {
        const uint32_t stage = base + (uint32_t)(tile % kStages) * T::stageBytes + spot;
        const int k = (firstTile + tile) * 64 + piece * 8;
        const bool inside = k < K;
        const uint64_t at = (uint64_t)k * 2;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            // whole groups of 64 rows that have none are left out
            if (i * kStep < ((leftA + 63) & ~63)) {
                const bool valid = inside && row + i * kStep < leftA;
                copy16(stage + i * (kStep * 128), valid ? fromA + i * step + at : safe, valid);
            }
        }
#pragma unroll
        for (int i = 0; i < kRoundsB; ++i) {
            const int r = row + i * kStep;
            if (256 % kStep == 0 || i + 1 < kRoundsB || r < 256) {
                const bool second = kGated && r >= 128;
                const int c = second ? r - 128 : r;
                const bool valid = inside && c < leftB;
                copy16(stage + T::aBytes + i * (kStep * 128), valid ? (second ? fromB2 : fromB1) + i * step + at : safe,
                       valid);
            }
        }
    };

    float acc[128];
#pragma unroll
    for (int i = 0; i < 128; ++i)
        acc[i] = 0.0f;

#pragma unroll
    for (int s = 0; s < 2; ++s) {
        if (s < tiles)
            fetch(s);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }

#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (busy) {
            const uint32_t stage = base + (uint32_t)(tile % kStages) * T::stageBytes;
            const uint64_t a = descriptor(stage + group * 8192);
            const uint64_t b = descriptor(stage + T::aBytes);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < 4; ++k)
                multiply(acc, a + 2 * k, b + 2 * k);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        }
        // into the stage that the tile before the last one had, which all have finished before the barrier
        if (tile + 2 < tiles)
            fetch(tile + 2);
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (busy)
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    if (!busy)
        return;
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 128; ++i)
        asm volatile("" : "+f"(acc[i])::"memory");

    const int lane = tid % 32;
    const int r0 = m0 + group * 64 + (tid % 128) / 32 * 16 + lane / 4;
    const int c0 = n0 + lane % 4 * 2;
#pragma unroll
    for (int half_ = 0; half_ < 2; ++half_) {
        const int r = r0 + 8 * half_;
        if (r >= rows)
            continue;
        if constexpr (kGated) {
#pragma unroll
            for (int j = 0; j < 16; ++j) {
                const int c = c0 + 8 * j;
                if (c < columns) {
                    const float g0 = acc[4 * j + 2 * half_];
                    const float g1 = acc[4 * j + 2 * half_ + 1];
                    const float u0 = acc[64 + 4 * j + 2 * half_];
                    const float u1 = acc[64 + 4 * j + 2 * half_ + 1];
                    const float h0 = __fdividef(g0, 1.0f + __expf(-g0)) * u0;
                    const float h1 = __fdividef(g1, 1.0f + __expf(-g1)) * u1;
                    *reinterpret_cast<half2*>(out + (size_t)r * columns + c) = __floats2half2_rn(h0, h1);
                }
            }
        } else if (gridDim.y == 1) {
#pragma unroll
            for (int j = 0; j < 32; ++j) {
                const int c = c0 + 8 * j;
                if (c < columns) {
                    const size_t at = (size_t)r * columns + c;
                    const float2 own = __half22float2(*reinterpret_cast<const half2*>(x + at));
                    *reinterpret_cast<half2*>(out + at) = __floats2half2_rn(
                        own.x + acc[4 * j + 2 * half_], own.y + acc[4 * j + 2 * half_ + 1]);
                }
            }
        } else {
            float* part = parts + (size_t)blockIdx.y * rows * columns;
#pragma unroll
            for (int j = 0; j < 32; ++j) {
                const int c = c0 + 8 * j;
                if (c < columns)
                    *reinterpret_cast<float2*>(part + (size_t)r * columns + c) =
                        make_float2(acc[4 * j + 2 * half_], acc[4 * j + 2 * half_ + 1]);
            }
        }
    }
}

// y = x + the sums of all splits, four elements a thread
__global__ void __launch_bounds__(256)
add_parts(const half* __restrict__ x, const float* __restrict__ parts, half* __restrict__ y, size_t count, int splits)
{
    const size_t i = ((size_t)blockIdx.x * 256 + threadIdx.x) * 4;
    if (i >= count)
        return;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 8
    for (int s = 0; s < splits; ++s) {
        const float4 v = *reinterpret_cast<const float4*>(parts + s * count + i);
        sum.x += v.x;
        sum.y += v.y;
        sum.z += v.z;
        sum.w += v.w;
    }
    const float2 low = __half22float2(*reinterpret_cast<const half2*>(x + i));
    const float2 high = __half22float2(*reinterpret_cast<const half2*>(x + i + 2));
    *reinterpret_cast<half2*>(y + i) = __floats2half2_rn(low.x + sum.x, low.y + sum.y);
    *reinterpret_cast<half2*>(y + i + 2) = __floats2half2_rn(high.x + sum.z, high.y + sum.w);
}

// ---- extents that are no multiples of 8: 16 x 16 elements a block, without tensor cores ----

template <bool kGated>
__global__ void __launch_bounds__(256)
product_any(const half* __restrict__ A, const half* __restrict__ B1, const half* __restrict__ B2,
            const half* __restrict__ x, half* __restrict__ out, int rows, int columns, int K)
{
    __shared__ float a[16][17];
    __shared__ float b1[16][17];
    __shared__ float b2[16][17];
    const int tx = threadIdx.x % 16;
    const int ty = threadIdx.x / 16;
    const long long rowTiles = ((long long)rows + 15) / 16;
    const long long blocks = rowTiles * (((long long)columns + 15) / 16);
    for (long long block = blockIdx.x; block < blocks; block += gridDim.x) {
        const long long m0 = block % rowTiles * 16;
        const long long n0 = block / rowTiles * 16;
        float first = 0.0f;
        float second = 0.0f;
        for (long long k0 = 0; k0 < K; k0 += 16) {
            const long long k = k0 + tx;
            a[ty][tx] = m0 + ty < rows && k < K ? __half2float(A[(m0 + ty) * K + k]) : 0.0f;
            b1[ty][tx] = n0 + ty < columns && k < K ? __half2float(B1[(n0 + ty) * K + k]) : 0.0f;
            if (kGated)
                b2[ty][tx] = n0 + ty < columns && k < K ? __half2float(B2[(n0 + ty) * K + k]) : 0.0f;
            __syncthreads();
#pragma unroll
            for (int q = 0; q < 16; ++q) {
                first = fmaf(a[ty][q], b1[tx][q], first);
                if (kGated)
                    second = fmaf(a[ty][q], b2[tx][q], second);
            }
            __syncthreads();
        }
        if (m0 + ty < rows && n0 + tx < columns) {
            const long long at = (m0 + ty) * columns + n0 + tx;
            if (kGated)
                out[at] = __float2half(first / (1.0f + expf(-first)) * second);
            else
                out[at] = __float2half(__half2float(x[at]) + first);
        }
    }
}

static unsigned any_blocks(int rows, int columns)
{
    const long long blocks = (((long long)rows + 15) / 16) * (((long long)columns + 15) / 16);
    return (unsigned)(blocks < 1048576 ? blocks : 1048576);
}

// ---- at most 16 tokens: warps stream weights from memory into the tensor cores ----

// The order of k within a product is free: lane 4 g + t holds 8 consecutive k of weight row g and of token g, which
// serve as the k of two products of 16.
__device__ __forceinline__ void mma16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                      uint32_t b1)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// 8 rows of W_gate and the same of W_up a warp, for tokens up to 8 NT; the block keeps r in shared memory.
// stride: halves between rows of r, groups * 128 + 32
template <int NT>
__global__ void __launch_bounds__(512, 1)
few_gate(const half* __restrict__ x, const half* __restrict__ weight, const half* __restrict__ W_gate,
         const half* __restrict__ W_up, half* __restrict__ hidden, int tokens, int d_ff, int K, float eps)
{
    extern __shared__ uint4 rows4[];
    __shared__ float parts[16];
    half* r = reinterpret_cast<half*>(rows4);
    const int tid = threadIdx.x;
    const int lane = tid % 32;
    const int warp = tid / 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const int groups = (K + 127) / 128;
    const int stride = groups * 128 + 32;
    const int units = d_ff / 8;
    const int step = (int)gridDim.x * 16;
    const uint4 zero = make_uint4(0u, 0u, 0u, 0u);

    auto load = [&](uint4 (&first)[4], uint4 (&second)[4], int unit, int group) {
        const size_t at = ((size_t)unit * 8 + g) * K + 8 * t;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int k = group * 128 + i * 32;
            first[i] = zero;
            second[i] = zero;
            if (unit < units && k + 8 * t < K) {
                first[i] = __ldcs(reinterpret_cast<const uint4*>(W_gate + at + k));
                second[i] = __ldcs(reinterpret_cast<const uint4*>(W_up + at + k));
            }
        }
    };

    // the first weights are under way while the tokens are normalised
    int unit = (int)blockIdx.x + (int)gridDim.x * warp;
    uint4 gate[4], up[4];
    load(gate, up, unit, 0);

    int power = 1;
    while (power < tokens)
        power *= 2;
    const int team = 16 / power;            // warps of a token
    const int token = warp / team;
    const int member = warp % team;
    const bool present = token < tokens;
    const uint4* from = reinterpret_cast<const uint4*>(x + (size_t)(present ? token : 0) * K);
    float sum = 0.0f;
    if (present) {
#pragma unroll 4
        for (int i = member * 32 + lane; i < K / 8; i += team * 32) {
            uint4 raw = from[i];
            const half2* h = reinterpret_cast<const half2*>(&raw);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                float2 v = __half22float2(h[k]);
                sum = fmaf(v.x, v.x, sum);
                sum = fmaf(v.y, v.y, sum);
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (int d = 16; d >= 1; d /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (lane == 0)
        parts[warp] = sum;
    __syncthreads();
    if (present) {
        float total = 0.0f;
        for (int k = 0; k < team; ++k)
            total += parts[token * team + k];
        const float factor = 1.0f / sqrtf(total / K + eps);
        uint4* to = reinterpret_cast<uint4*>(r + (size_t)token * stride);
#pragma unroll 4
        for (int i = member * 32 + lane; i < groups * 16; i += team * 32) {
            uint4 result = zero;
            if (i < K / 8) {
                uint4 raw = from[i];
                uint4 rawWeight = reinterpret_cast<const uint4*>(weight)[i];
                const half2* h = reinterpret_cast<const half2*>(&raw);
                const half2* w = reinterpret_cast<const half2*>(&rawWeight);
                half2* out = reinterpret_cast<half2*>(&result);
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    float2 v = __half22float2(h[k]);
                    float2 s = __half22float2(w[k]);
                    out[k] = __floats2half2_rn(v.x * factor * s.x, v.y * factor * s.y);
                }
            }
            to[i] = result;
        }
    }
    for (int i = tid; i < (8 * NT - tokens) * groups * 16; i += 512) {
        const int row = tokens + i / (groups * 16);
        reinterpret_cast<uint4*>(r + (size_t)row * stride)[i % (groups * 16)] = zero;
    }
    __syncthreads();

    while (unit < units) {
        float acc[NT][4];
#pragma unroll
        for (int n = 0; n < NT; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                acc[n][i] = 0.0f;
        }
#pragma unroll 1
        for (int group = 0; group < groups; ++group) {
            uint4 nextGate[4], nextUp[4];
            const bool more = group + 1 < groups;
            load(nextGate, nextUp, more ? unit : unit + step, more ? group + 1 : 0);
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int n = 0; n < NT; ++n) {
                    const uint4 b = *reinterpret_cast<const uint4*>(r + (size_t)(n * 8 + g) * stride + group * 128 +
                                                                    i * 32 + 8 * t);
                    mma16(acc[n], gate[i].x, up[i].x, gate[i].y, up[i].y, b.x, b.y);
                    mma16(acc[n], gate[i].z, up[i].z, gate[i].w, up[i].w, b.z, b.w);
                }
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                gate[i] = nextGate[i];
                up[i] = nextUp[i];
            }
        }
        // gate of tokens 2 t and 2 t + 1 in the first two sums, up in the others
        const size_t column = (size_t)unit * 8 + g;
#pragma unroll
        for (int n = 0; n < NT; ++n) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = n * 8 + 2 * t + i;
                if (row < tokens) {
                    const float v = acc[n][i];
                    hidden[(size_t)row * d_ff + column] =
                        __float2half(__fdividef(v, 1.0f + __expf(-v)) * acc[n][2 + i]);
                }
            }
        }
        unit += step;
    }
}

// y = x + hidden W_down^T for at most 8 tokens: 16 rows of W_down a block, its warps share out k.
__global__ void __launch_bounds__(512, 2)
few_down(const half* __restrict__ hidden, const half* __restrict__ W_down, const half* __restrict__ x,
         half* __restrict__ y, int tokens, int d_model, int K)
{
    __shared__ float sums[16][16 * 8];
    const int tid = threadIdx.x;
    const int lane = tid % 32;
    const int warp = tid / 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const int groups = (K + 127) / 128;
    const uint4 zero = make_uint4(0u, 0u, 0u, 0u);
    const int row0 = (int)blockIdx.x * 16 + g;
    const int row1 = row0 + 8;
    const bool has0 = row0 < d_model;
    const bool has1 = row1 < d_model;
    const bool hasToken = g < tokens;
    const half* from0 = W_down + (size_t)(has0 ? row0 : 0) * K + 8 * t;
    const half* from1 = W_down + (size_t)(has1 ? row1 : 0) * K + 8 * t;
    const half* fromB = hidden + (size_t)(hasToken ? g : 0) * K + 8 * t;

    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
    for (int group = warp; group < groups; group += 16) {
        uint4 a0[4], a1[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int k = group * 128 + i * 32;
            const bool inside = k + 8 * t < K;
            a0[i] = zero;
            a1[i] = zero;
            b[i] = zero;
            if (inside && has0)
                a0[i] = __ldcs(reinterpret_cast<const uint4*>(from0 + k));
            if (inside && has1)
                a1[i] = __ldcs(reinterpret_cast<const uint4*>(from1 + k));
            if (inside && hasToken)
                b[i] = __ldg(reinterpret_cast<const uint4*>(fromB + k));
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            mma16(acc, a0[i].x, a1[i].x, a0[i].y, a1[i].y, b[i].x, b[i].y);
            mma16(acc, a0[i].z, a1[i].z, a0[i].w, a1[i].w, b[i].z, b[i].w);
        }
    }
    sums[warp][g * 8 + 2 * t] = acc[0];
    sums[warp][g * 8 + 2 * t + 1] = acc[1];
    sums[warp][(g + 8) * 8 + 2 * t] = acc[2];
    sums[warp][(g + 8) * 8 + 2 * t + 1] = acc[3];
    __syncthreads();
    if (tid < 128) {
        const int row = (int)blockIdx.x * 16 + tid / 8;
        const int token = tid % 8;
        if (row < d_model && token < tokens) {
            float sum = 0.0f;
#pragma unroll
            for (int w = 0; w < 16; ++w)
                sum += sums[w][tid];
            const size_t at = (size_t)token * d_model + row;
            y[at] = __float2half(__half2float(x[at]) + sum);
        }
    }
}

constexpr size_t kFewShared = 225000;

static size_t few_shared(int tokens, int d_model)
{
    const size_t stride = ((size_t)d_model + 127) / 128 * 128 + 32;
    return (tokens <= 8 ? 8 : 16) * stride * sizeof(half);
}

template <int NT>
static void launch_few_gate(const half* x, const half* norm_weight, const half* W_gate, const half* W_up, half* hidden,
                            int tokens, int d_model, int d_ff, float eps)
{
    const int shared = (int)few_shared(tokens, d_model);
    cudaFuncSetAttribute(few_gate<NT>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    few_gate<NT><<<132, 512, shared>>>(x, norm_weight, W_gate, W_up, hidden, tokens, d_ff, d_model, eps);
}

template <int G>
static void launch_gate(const half* r, const half* W_gate, const half* W_up, half* hidden, int tokens, int d_model,
                        int d_ff, int rowTiles)
{
    constexpr int shared = Tile<G>::shared;
    constexpr int threads = Tile<G>::threads;
    cudaFuncSetAttribute(product<true, G>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    const int gateTiles = (d_ff - 1) / 128 + 1;
    product<true, G><<<dim3((unsigned)rowTiles * gateTiles, 1), threads, shared>>>(
        r, W_gate, W_up, nullptr, hidden, nullptr, tokens, d_ff, d_model, rowTiles, (d_model - 1) / 64 + 1);
}

template <int G>
static void launch_down(const half* W_down, const half* x, const half* hidden, half* y, float* parts, int tokens,
                        int d_model, int d_ff, int rowTiles, int downTiles, int splits, int perSplit)
{
    constexpr int shared = Tile<G>::shared;
    constexpr int threads = Tile<G>::threads;
    cudaFuncSetAttribute(product<false, G>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    product<false, G><<<dim3((unsigned)rowTiles * downTiles, splits), threads, shared>>>(
        hidden, W_down, nullptr, x, y, parts, tokens, d_model, d_ff, rowTiles, perSplit);
}

extern "C" void solve(const half* x, const half* norm_weight, const half* W_gate, const half* W_up, const half* W_down,
                      half* y, int tokens, int d_model, int d_ff, float eps)
{
    const size_t rBytes = ((size_t)tokens * d_model * sizeof(half) + 255) / 256 * 256;
    const size_t hiddenBytes = ((size_t)tokens * d_ff * sizeof(half) + 255) / 256 * 256;
    const bool fast = d_model % 8 == 0 && d_ff % 8 == 0;
    const bool fewGate = fast && tokens <= 16 && few_shared(tokens, d_model) <= kFewShared;
    const bool fewDown = fast && tokens <= 4;

    // Tiles of 192 rows where there are fewer of them than of 128.
    const int rowTiles2 = (tokens - 1) / 128 + 1;
    const int rowTiles3 = (tokens - 1) / 192 + 1;
    const bool tall = rowTiles3 < rowTiles2;
    const int rowTiles = tall ? rowTiles3 : rowTiles2;
    const int downTiles = (d_model - 1) / 256 + 1;
    const int kTiles = (d_ff - 1) / 64 + 1;
    int splits = 1;
    int perSplit = kTiles;
    if (fast && !fewDown) {
        const long long blocks = (long long)rowTiles * downTiles;
        long long want = 132 / blocks;
        const size_t allowed = (size_t)16 * tokens * ((size_t)d_model + d_ff) + 65536 - rBytes - hiddenBytes;
        const long long room = (long long)(allowed / ((size_t)tokens * d_model * sizeof(float)));
        if (want > room)
            want = room;
        if (want > kTiles / 4)
            want = kTiles / 4;
        if (want > 1) {
            perSplit = (int)((kTiles + want - 1) / want);
            splits = (kTiles + perSplit - 1) / perSplit;
        }
    }
    const size_t count = (size_t)tokens * d_model;
    const size_t partBytes = splits > 1 ? splits * count * sizeof(float) : 0;

    unsigned char* memory = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&memory), rBytes + hiddenBytes + partBytes, 0);
    half* r = reinterpret_cast<half*>(memory);
    half* hidden = reinterpret_cast<half*>(memory + rBytes);
    float* parts = reinterpret_cast<float*>(memory + rBytes + hiddenBytes);

    if (!fewGate)
        normalise<<<tokens, 512>>>(x, norm_weight, r, d_model, eps);
    if (fast) {
        if (fewGate && tokens <= 8)
            launch_few_gate<1>(x, norm_weight, W_gate, W_up, hidden, tokens, d_model, d_ff, eps);
        else if (fewGate)
            launch_few_gate<2>(x, norm_weight, W_gate, W_up, hidden, tokens, d_model, d_ff, eps);
        else if (tall)
            launch_gate<3>(r, W_gate, W_up, hidden, tokens, d_model, d_ff, rowTiles);
        else
            launch_gate<2>(r, W_gate, W_up, hidden, tokens, d_model, d_ff, rowTiles);

        if (fewDown)
            few_down<<<(unsigned)((d_model - 1) / 16 + 1), 512>>>(hidden, W_down, x, y, tokens, d_model, d_ff);
        else if (tall)
            launch_down<3>(W_down, x, hidden, y, parts, tokens, d_model, d_ff, rowTiles, downTiles, splits, perSplit);
        else
            launch_down<2>(W_down, x, hidden, y, parts, tokens, d_model, d_ff, rowTiles, downTiles, splits, perSplit);
        if (splits > 1)
            add_parts<<<(unsigned)((count / 4 + 255) / 256), 256>>>(x, parts, y, count, splits);
    } else {
        product_any<true><<<any_blocks(tokens, d_ff), 256>>>(r, W_gate, W_up, nullptr, hidden, tokens, d_ff, d_model);
        product_any<false><<<any_blocks(tokens, d_model), 256>>>(hidden, W_down, nullptr, x, y, tokens, d_model, d_ff);
    }
    cudaFreeAsync(memory, 0);
}
