// Added 256 x 192 wgmma tiles, two accumulators a warpgroup

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

// ---- products on tensor cores: blocks of 64 G M rows and N rows of weights, 64 columns a stage ----

constexpr int kStages = 4;

// G warpgroups, each with M accumulators of 64 rows by N weights
template <int G, int M, int N>
struct Tile {
    static constexpr int rows = 64 * G * M;
    static constexpr int threads = 128 * G;
    static constexpr int aBytes = rows * 128;
    static constexpr int bBytes = N * 128;
    static constexpr int stageBytes = aBytes + bBytes;
    static constexpr int shared = kStages * stageBytes + 1024; // 230,400 for 192 x 256 and 256 x 192
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

__device__ __forceinline__ void multiply(float (&d)[96], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 "
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
        "%88, %89, %90, %91, %92, %93, %94, %95}, "
        "%96, %97, p, 1, 1, 0, 0;\n"
        "}\n"
        : ACC16(0), ACC16(16), ACC16(32), ACC16(48), ACC16(64), ACC16(80)
        : "l"(a), "l"(b), "r"(1));
}

// A [rows][K]. kGated: B1 and B2 [columns][K], N / 2 rows of each a block; out = silu(A B1^T) * (A B2^T).
// Otherwise B1 [columns][K], N rows a block; out = x + A B1^T, or a part of the sums where there are splits.
// Each of the G warpgroups multiplies 64 M rows of A by all N of the weights.
template <bool kGated, int G, int M, int N>
__global__ void __launch_bounds__(128 * G, 1)
product(const half* __restrict__ A, const half* __restrict__ B1, const half* __restrict__ B2,
        const half* __restrict__ x, half* __restrict__ out, float* __restrict__ parts, int rows, int columns, int K,
        int rowTiles, int tilesPerSplit)
{
    using T = Tile<G, M, N>;
    constexpr int kStep = T::threads / 8;            // rows that all threads fetch at a time: 32 or 48
    constexpr int kRoundsA = T::rows / kStep;        // 4 M
    constexpr int kRoundsB = (N + kStep - 1) / kStep;
    constexpr int kGroupRows = 64 * M;
    static_assert(T::rows % kStep == 0, "whole rounds of A");
    extern __shared__ unsigned char raw[];
    const uint32_t base = ((uint32_t)__cvta_generic_to_shared(raw) + 1023u) & ~1023u;

    const int tid = threadIdx.x;
    const int group = tid / 128;
    const int m0 = (int)(blockIdx.x % rowTiles) * T::rows;
    const int n0 = (int)(blockIdx.x / rowTiles) * (kGated ? N / 2 : N);
    const int firstTile = (int)blockIdx.y * tilesPerSplit;
    const int tiles = min(tilesPerSplit, (K + 63) / 64 - firstTile);
    const bool busy = group * kGroupRows < rows - m0;

    // a thread fetches the same 16 bytes of every kStep-th row; kStep is a multiple of 8, as the swizzle needs
    const int piece = tid % 8;
    const int row = tid / 8;
    const uint32_t spot = (uint32_t)(row * 128 + ((piece ^ (row % 8)) * 16));
    const uint64_t step = (uint64_t)kStep * (uint64_t)K * 2;
    const uint64_t rowBytes = (uint64_t)K * 2;
    const uint64_t safe = (uint64_t)A;
    const uint64_t fromA = safe + (uint64_t)(m0 + row) * rowBytes;
    const uint64_t fromB1 = (uint64_t)B1 + (uint64_t)(n0 + row) * rowBytes;
    // such that row N / 2 of the tile is row n0 of B2
    const uint64_t fromB2 = kGated ? (uint64_t)B2 + (uint64_t)(n0 + row) * rowBytes - (N / 2) * rowBytes : fromB1;
    const int leftA = rows - m0;
    const int leftB = columns - n0;
    // whole groups of rows that have none are left out; the others are filled up with zeros
    const int filled = leftA < T::rows ? (leftA + kGroupRows - 1) / kGroupRows * kGroupRows : T::rows;

    auto fetch = [&](int tile) {
        const uint32_t stage = base + (uint32_t)(tile % kStages) * T::stageBytes + spot;
        const int k = (firstTile + tile) * 64 + piece * 8;
        const bool inside = k < K;
        const uint64_t at = (uint64_t)k * 2;
#pragma unroll
        for (int i = 0; i < kRoundsA; ++i) {
            if (row + i * kStep < filled) {
                const bool valid = inside && row + i * kStep < leftA;
                copy16(stage + i * (kStep * 128), valid ? fromA + i * step + at : safe, valid);
            }
        }
#pragma unroll
        for (int i = 0; i < kRoundsB; ++i) {
            const int r = row + i * kStep;
            if (N % kStep == 0 || i + 1 < kRoundsB || r < N) {
                const bool second = kGated && r >= N / 2;
                const int c = second ? r - N / 2 : r;
                const bool valid = inside && c < leftB;
                copy16(stage + T::aBytes + i * (kStep * 128), valid ? (second ? fromB2 : fromB1) + i * step + at : safe,
                       valid);
            }
        }
    };

    float acc[M][N / 2];
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int i = 0; i < N / 2; ++i)
            acc[m][i] = 0.0f;
    }

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
            const uint64_t a = descriptor(stage + group * (M * 8192));
            const uint64_t b = descriptor(stage + T::aBytes);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < 4; ++k) {
#pragma unroll
                for (int m = 0; m < M; ++m)
                    multiply(acc[m], a + 512 * m + 2 * k, b + 2 * k);
            }
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
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int i = 0; i < N / 2; ++i)
            asm volatile("" : "+f"(acc[m][i])::"memory");
    }

    const int lane = tid % 32;
    const int c0 = n0 + lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < M; ++m) {
        const int r0 = m0 + group * kGroupRows + m * 64 + (tid % 128) / 32 * 16 + lane / 4;
#pragma unroll
        for (int half_ = 0; half_ < 2; ++half_) {
            const int r = r0 + 8 * half_;
            if (r >= rows)
                continue;
            if constexpr (kGated) {
#pragma unroll
                for (int j = 0; j < N / 16; ++j) {
                    const int c = c0 + 8 * j;
                    if (c < columns) {
                        const float g0 = acc[m][4 * j + 2 * half_];
                        const float g1 = acc[m][4 * j + 2 * half_ + 1];
                        const float u0 = acc[m][N / 4 + 4 * j + 2 * half_];
                        const float u1 = acc[m][N / 4 + 4 * j + 2 * half_ + 1];
                        const float h0 = __fdividef(g0, 1.0f + __expf(-g0)) * u0;
                        const float h1 = __fdividef(g1, 1.0f + __expf(-g1)) * u1;
                        *reinterpret_cast<half2*>(out + (size_t)r * columns + c) = __floats2half2_rn(h0, h1);
                    }
                }
            } else if (gridDim.y == 1) {
#pragma unroll
                for (int j = 0; j < N / 8; ++j) {
                    const int c = c0 + 8 * j;
                    if (c < columns) {
                        const size_t at = (size_t)r * columns + c;
                        const float2 own = __half22float2(*reinterpret_cast<const half2*>(x + at));
                        *reinterpret_cast<half2*>(out + at) = __floats2half2_rn(
                            own.x + acc[m][4 * j + 2 * half_], own.y + acc[m][4 * j + 2 * half_ + 1]);
                    }
                }
            } else {
                float* part = parts + (size_t)blockIdx.y * rows * columns;
#pragma unroll
                for (int j = 0; j < N / 8; ++j) {
                    const int c = c0 + 8 * j;
                    if (c < columns)
                        *reinterpret_cast<float2*>(part + (size_t)r * columns + c) =
                            make_float2(acc[m][4 * j + 2 * half_], acc[m][4 * j + 2 * half_ + 1]);
                }
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

// ---- which tile: 128 x 256, 192 x 256 or 256 x 192 ----

static const int kTileRows[3] = {128, 192, 256};
static const int kTileWeights[3] = {256, 256, 192};

// The one that brings fewest rows into shared memory; tall ones only where they are full enough.
static int pick_tile(int tokens, int columns, bool gated)
{
    const long long rows2 = (tokens - 1) / 128 + 1;
    const long long rows3 = (tokens - 1) / 192 + 1;
    int best = rows3 < rows2 ? 1 : 0;
    if (tokens > 192) {
        const long long rowTiles = best ? rows3 : rows2;
        const long long wide = (columns - 1) / (gated ? 128 : 256) + 1;
        const long long rows4 = (tokens - 1) / 256 + 1;
        const long long narrow = (columns - 1) / (gated ? 96 : 192) + 1;
        if (narrow * tokens + rows4 * narrow * 192 < wide * tokens + rowTiles * wide * 256)
            best = 2;
    }
    return best;
}

template <bool kGated, int G, int M, int N>
static void launch_one(const half* A, const half* B1, const half* B2, const half* x, half* out, float* parts, int rows,
                       int columns, int K, int splits, int perSplit)
{
    using T = Tile<G, M, N>;
    cudaFuncSetAttribute(product<kGated, G, M, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::shared);
    const int rowTiles = (rows - 1) / T::rows + 1;
    const int columnTiles = (columns - 1) / (kGated ? N / 2 : N) + 1;
    product<kGated, G, M, N><<<dim3((unsigned)rowTiles * columnTiles, splits), T::threads, T::shared>>>(
        A, B1, B2, x, out, parts, rows, columns, K, rowTiles, perSplit);
}

template <bool kGated>
static void launch_product(int kind, const half* A, const half* B1, const half* B2, const half* x, half* out,
                           float* parts, int rows, int columns, int K, int splits, int perSplit)
{
    if (kind == 0)
        launch_one<kGated, 2, 1, 256>(A, B1, B2, x, out, parts, rows, columns, K, splits, perSplit);
    else if (kind == 1)
        launch_one<kGated, 3, 1, 256>(A, B1, B2, x, out, parts, rows, columns, K, splits, perSplit);
    else
        launch_one<kGated, 2, 2, 192>(A, B1, B2, x, out, parts, rows, columns, K, splits, perSplit);
}

extern "C" void solve(const half* x, const half* norm_weight, const half* W_gate, const half* W_up, const half* W_down,
                      half* y, int tokens, int d_model, int d_ff, float eps)
{
    const size_t rBytes = ((size_t)tokens * d_model * sizeof(half) + 255) / 256 * 256;
    const size_t hiddenBytes = ((size_t)tokens * d_ff * sizeof(half) + 255) / 256 * 256;
    const bool fast = d_model % 8 == 0 && d_ff % 8 == 0;

    const int gateKind = pick_tile(tokens, d_ff, true);
    const int downKind = pick_tile(tokens, d_model, false);
    const int kTiles = (d_ff - 1) / 64 + 1;
    int splits = 1;
    int perSplit = kTiles;
    if (fast) {
        const long long blocks = (long long)((tokens - 1) / kTileRows[downKind] + 1) *
                                 ((d_model - 1) / kTileWeights[downKind] + 1);
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

    normalise<<<tokens, 512>>>(x, norm_weight, r, d_model, eps);
    if (fast) {
        launch_product<true>(gateKind, r, W_gate, W_up, nullptr, hidden, nullptr, tokens, d_ff, d_model, 1,
                             (d_model - 1) / 64 + 1);
        launch_product<false>(downKind, hidden, W_down, nullptr, x, y, parts, tokens, d_model, d_ff, splits, perSplit);
        if (splits > 1)
            add_parts<<<(unsigned)((count / 4 + 255) / 256), 256>>>(x, parts, y, count, splits);
    } else {
        product_any<true><<<any_blocks(tokens, d_ff), 256>>>(r, W_gate, W_up, nullptr, hidden, tokens, d_ff, d_model);
        product_any<false><<<any_blocks(tokens, d_model), 256>>>(hidden, W_down, nullptr, x, y, tokens, d_model, d_ff);
    }
    cudaFreeAsync(memory, 0);
}
