// wgmma tiles; those of the last wave split along K

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
// Blocks from `full` on share the last `rest` tiles: each takes `tailTiles` stages of one and leaves its
// sums for `finish`. Blocks that run together have the same few rows of weights and all rows of A.
// Each of the G warpgroups multiplies 64 rows of A by all 256 of the weights.
template <bool kGated, int G>
__global__ void __launch_bounds__(128 * G, 1)
product(const half* __restrict__ A, const half* __restrict__ B1, const half* __restrict__ B2,
        const half* __restrict__ x, half* __restrict__ out, float* __restrict__ parts, int rows, int columns, int K,
        int rowTiles, int tilesPerSplit, int full, int rest, int tailTiles)
{
    using T = Tile<G>;
    constexpr int kStep = T::threads / 8;              // rows that all threads fetch at a time: 32 or 48
    constexpr int kRoundsB = (256 + kStep - 1) / kStep; // 8 or 6
    extern __shared__ unsigned char raw[];
    const uint32_t base = ((uint32_t)__cvta_generic_to_shared(raw) + 1023u) & ~1023u;

    const int tid = threadIdx.x;
    const int group = tid / 128;
    int index = (int)blockIdx.x;
    int firstTile = (int)blockIdx.y * tilesPerSplit;
    int mostTiles = tilesPerSplit;
    if (index >= full) {
        const int split = (index - full) / rest;
        index -= split * rest;
        firstTile = split * tailTiles;
        mostTiles = tailTiles;
    }
    const int m0 = index % rowTiles * T::rows;
    const int n0 = index / rowTiles * (kGated ? 128 : 256);
    const int tiles = min(mostTiles, (K + 63) / 64 - firstTile);
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

    if ((int)blockIdx.x >= full) {
        float* part = parts + (size_t)((int)blockIdx.x - full) * (T::rows * 256) + tid * 4;
#pragma unroll
        for (int j = 0; j < 32; ++j)
            *reinterpret_cast<float4*>(part + j * (T::threads * 4)) =
                make_float4(acc[4 * j], acc[4 * j + 1], acc[4 * j + 2], acc[4 * j + 3]);
        return;
    }

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

// The tiles that were split: block x adds the parts of one, block y those of four elements of each thread.
template <bool kGated, int G>
__global__ void __launch_bounds__(128 * G)
finish(const float* __restrict__ parts, const half* __restrict__ x, half* __restrict__ out, int rows, int columns,
       int rowTiles, int full, int rest, int splits)
{
    using T = Tile<G>;
    const int tid = threadIdx.x;
    const int index = full + (int)blockIdx.x;
    const int m0 = index % rowTiles * T::rows;
    const int n0 = index / rowTiles * (kGated ? 128 : 256);
    const int group = tid / 128;
    if (m0 + group * 64 >= rows)
        return;
    const int lane = tid % 32;
    const int r0 = m0 + group * 64 + (tid % 128) / 32 * 16 + lane / 4;
    const int c = n0 + lane % 4 * 2 + 8 * (int)blockIdx.y;
    const size_t step = (size_t)rest * (T::rows * 256);
    const float* from = parts + (size_t)blockIdx.x * (T::rows * 256) + (size_t)blockIdx.y * (T::threads * 4) + tid * 4;
    float4 a = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 b = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (int s = 0; s < splits; ++s) {
        const float4 v = __ldcs(reinterpret_cast<const float4*>(from + s * step));
        a.x += v.x;
        a.y += v.y;
        a.z += v.z;
        a.w += v.w;
        if constexpr (kGated) {
            const float4 w = __ldcs(reinterpret_cast<const float4*>(from + s * step + 16 * (T::threads * 4)));
            b.x += w.x;
            b.y += w.y;
            b.z += w.z;
            b.w += w.w;
        }
    }
    if (c >= columns)
        return;
#pragma unroll
    for (int half_ = 0; half_ < 2; ++half_) {
        const int r = r0 + 8 * half_;
        if (r >= rows)
            continue;
        const size_t at = (size_t)r * columns + c;
        const float v0 = half_ == 0 ? a.x : a.z;
        const float v1 = half_ == 0 ? a.y : a.w;
        if constexpr (kGated) {
            const float u0 = half_ == 0 ? b.x : b.z;
            const float u1 = half_ == 0 ? b.y : b.w;
            const float h0 = __fdividef(v0, 1.0f + __expf(-v0)) * u0;
            const float h1 = __fdividef(v1, 1.0f + __expf(-v1)) * u1;
            *reinterpret_cast<half2*>(out + at) = __floats2half2_rn(h0, h1);
        } else {
            const float2 own = __half22float2(*reinterpret_cast<const half2*>(x + at));
            *reinterpret_cast<half2*>(out + at) = __floats2half2_rn(own.x + v0, own.y + v1);
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

// How a grid of whole tiles, more than the chip takes at once, ends.
struct Tail {
    int full;     // whole tiles
    int rest;     // tiles that are split
    int splits;   // parts of each
    int per;      // stages a part
};

static Tail plan_tail(long long count, int kTiles, size_t tileBytes, size_t allowed)
{
    Tail t = {(int)count, 1, 0, kTiles};
    const long long rest = count % 132;
    if (count < 132 || rest == 0)
        return t;
    long long want = 132 / rest;
    if (want > kTiles / 4)
        want = kTiles / 4;
    const long long room = (long long)(allowed / (tileBytes * (size_t)rest));
    if (want > room)
        want = room;
    if (want < 3)
        return t;
    t.full = (int)(count - rest);
    t.rest = (int)rest;
    t.per = (int)((kTiles + want - 1) / want);
    t.splits = (kTiles + t.per - 1) / t.per;
    return t;
}

template <int G>
static void launch_products(const half* r, const half* W_gate, const half* W_up, const half* W_down, const half* x,
                            half* hidden, half* y, float* parts, int tokens, int d_model, int d_ff, int rowTiles,
                            int downTiles, int splits, int perSplit, const Tail& gate, const Tail& down)
{
    constexpr int shared = Tile<G>::shared;
    constexpr int threads = Tile<G>::threads;
    cudaFuncSetAttribute(product<true, G>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    cudaFuncSetAttribute(product<false, G>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    product<true, G><<<dim3((unsigned)gate.full + (unsigned)(gate.rest * gate.splits), 1), threads, shared>>>(
        r, W_gate, W_up, nullptr, hidden, parts, tokens, d_ff, d_model, rowTiles, (d_model - 1) / 64 + 1, gate.full,
        gate.rest, gate.per);
    if (gate.splits > 0)
        finish<true, G><<<dim3(gate.rest, 16), threads>>>(parts, nullptr, hidden, tokens, d_ff, rowTiles, gate.full,
                                                          gate.rest, gate.splits);
    product<false, G><<<dim3((unsigned)down.full + (unsigned)(down.rest * down.splits), splits), threads, shared>>>(
        hidden, W_down, nullptr, x, y, parts, tokens, d_model, d_ff, rowTiles, perSplit, down.full, down.rest,
        down.per);
    if (down.splits > 0)
        finish<false, G><<<dim3(down.rest, 32), threads>>>(parts, x, y, tokens, d_model, rowTiles, down.full,
                                                           down.rest, down.splits);
}

extern "C" void solve(const half* x, const half* norm_weight, const half* W_gate, const half* W_up, const half* W_down,
                      half* y, int tokens, int d_model, int d_ff, float eps)
{
    const size_t rBytes = ((size_t)tokens * d_model * sizeof(half) + 255) / 256 * 256;
    const size_t hiddenBytes = ((size_t)tokens * d_ff * sizeof(half) + 255) / 256 * 256;
    const bool fast = d_model % 8 == 0 && d_ff % 8 == 0;

    // Tiles of 192 rows where there are fewer of them than of 128.
    const int rowTiles2 = (tokens - 1) / 128 + 1;
    const int rowTiles3 = (tokens - 1) / 192 + 1;
    const bool tall = rowTiles3 < rowTiles2;
    const int rowTiles = tall ? rowTiles3 : rowTiles2;
    const int downTiles = (d_model - 1) / 256 + 1;
    const int gateTiles = (d_ff - 1) / 128 + 1;
    const int kTiles = (d_ff - 1) / 64 + 1;
    const size_t allowed = (size_t)16 * tokens * ((size_t)d_model + d_ff) + 65536 - rBytes - hiddenBytes;
    int splits = 1;
    int perSplit = kTiles;
    if (fast) {
        const long long blocks = (long long)rowTiles * downTiles;
        long long want = 132 / blocks;
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
    size_t partBytes = splits > 1 ? splits * count * sizeof(float) : 0;
    const size_t tileBytes = (size_t)(tall ? 192 : 128) * 256 * sizeof(float);
    const Tail gate = plan_tail((long long)rowTiles * gateTiles, (d_model - 1) / 64 + 1, tileBytes, allowed);
    const Tail down = plan_tail((long long)rowTiles * downTiles, kTiles, tileBytes, allowed); // splits are 1 then
    if (fast) {
        const size_t gateBytes = tileBytes * (size_t)gate.rest * (size_t)gate.splits;
        const size_t downBytes = tileBytes * (size_t)down.rest * (size_t)down.splits;
        partBytes = partBytes > gateBytes ? partBytes : gateBytes;
        partBytes = partBytes > downBytes ? partBytes : downBytes;
    }

    unsigned char* memory = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&memory), rBytes + hiddenBytes + partBytes, 0);
    half* r = reinterpret_cast<half*>(memory);
    half* hidden = reinterpret_cast<half*>(memory + rBytes);
    float* parts = reinterpret_cast<float*>(memory + rBytes + hiddenBytes);

    normalise<<<tokens, 512>>>(x, norm_weight, r, d_model, eps);
    if (fast) {
        if (tall)
            launch_products<3>(r, W_gate, W_up, W_down, x, hidden, y, parts, tokens, d_model, d_ff, rowTiles, downTiles,
                               splits, perSplit, gate, down);
        else
            launch_products<2>(r, W_gate, W_up, W_down, x, hidden, y, parts, tokens, d_model, d_ff, rowTiles, downTiles,
                               splits, perSplit, gate, down);
        if (splits > 1)
            add_parts<<<(unsigned)((count / 4 + 255) / 256), 256>>>(x, parts, y, count, splits);
    } else {
        product_any<true><<<any_blocks(tokens, d_ff), 256>>>(r, W_gate, W_up, nullptr, hidden, tokens, d_ff, d_model);
        product_any<false><<<any_blocks(tokens, d_model), 256>>>(hidden, W_down, nullptr, x, y, tokens, d_model, d_ff);
    }
    cudaFreeAsync(memory, 0);
}
