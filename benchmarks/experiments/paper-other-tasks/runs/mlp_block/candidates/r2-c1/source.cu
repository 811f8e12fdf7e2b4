// wgmma; cluster pairs exchange halves of B through shared memory

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

// ---- products on tensor cores: blocks of 128 rows and 256 rows of weights, 64 columns a stage ----

constexpr int kStages = 4;
constexpr int kABytes = 128 * 128;
constexpr int kBBytes = 256 * 128;
constexpr int kStageBytes = kABytes + kBBytes;
constexpr int kShared = kStages * kStageBytes + 1024;

__device__ __forceinline__ void copy16(uint32_t target, const half* source, bool valid)
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

// What a block has added up: each thread its share of 64 rows and 256 columns of the accumulators.
template <bool kGated>
__device__ __forceinline__ void store_tile(float (&acc)[128], const half* __restrict__ x, half* __restrict__ out,
                                           float* __restrict__ parts, int rows, int columns, int m0, int n0)
{
    const int tid = threadIdx.x;
    const int group = tid / 128;
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

// A [rows][K]. kGated: B1 and B2 [columns][K], 128 rows of each a block; out = silu(A B1^T) * (A B2^T).
// Otherwise B1 [columns][K], 256 rows a block; out = x + A B1^T, or a part of the sums where there are splits.
template <bool kGated>
__global__ void __launch_bounds__(256, 1)
product(const half* __restrict__ A, const half* __restrict__ B1, const half* __restrict__ B2,
        const half* __restrict__ x, half* __restrict__ out, float* __restrict__ parts, int rows, int columns, int K,
        int rowTiles, int tilesPerSplit)
{
    extern __shared__ unsigned char raw[];
    const uint32_t base = ((uint32_t)__cvta_generic_to_shared(raw) + 1023u) & ~1023u;

    const int tid = threadIdx.x;
    const int group = tid / 128;
    const int m0 = (int)(blockIdx.x % rowTiles) * 128;
    const int n0 = (int)(blockIdx.x / rowTiles) * (kGated ? 128 : 256);
    const int allTiles = (K + 63) / 64;
    const int firstTile = (int)blockIdx.y * tilesPerSplit;
    const int tiles = min(tilesPerSplit, allTiles - firstTile);
    const bool busy = m0 + group * 64 < rows;

    // a thread fetches the same 16 bytes of every 32nd row
    const int piece = tid % 8;
    const int row = tid / 8;
    const uint32_t spot = (uint32_t)(row * 128 + ((piece ^ (row % 8)) * 16));
    const size_t step = (size_t)32 * K;
    const half* fromA = A + (size_t)(m0 + row) * K;
    const half* fromB1 = B1 + (size_t)(n0 + row) * K;
    const half* fromB2 = kGated ? B2 + (size_t)(n0 + row) * K : B1 + (size_t)(n0 + 128 + row) * K;
    const int rowsA = rows - m0 - row;       // row + 32 i is there where 32 i is below
    const int rowsB1 = columns - n0 - row;
    const int rowsB2 = kGated ? rowsB1 : rowsB1 - 128;
    const int piecesA = rows - m0 > 64 ? 4 : 2;

    auto fetch = [&](int tile) {
        const uint32_t stage = base + (uint32_t)(tile % kStages) * kStageBytes + spot;
        const int k = (firstTile + tile) * 64 + piece * 8;
        const bool inside = k < K;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i < piecesA) {
                const bool valid = inside && 32 * i < rowsA;
                copy16(stage + i * 4096, valid ? fromA + i * step + k : A, valid);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const bool valid = inside && 32 * i < rowsB1;
            copy16(stage + kABytes + i * 4096, valid ? fromB1 + i * step + k : B1, valid);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const bool valid = inside && 32 * i < rowsB2;
            copy16(stage + kABytes + 16384 + i * 4096, valid ? fromB2 + i * step + k : B1, valid);
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
            const uint32_t stage = base + (uint32_t)(tile % kStages) * kStageBytes;
            const uint64_t a = descriptor(stage + group * 8192);
            const uint64_t b = descriptor(stage + kABytes);
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

    store_tile<kGated>(acc, x, out, parts, rows, columns, m0, n0);
}

// ---- the same by pairs of blocks: two row tiles, the same weights, of which each block fetches one half ----

__device__ __forceinline__ uint32_t at_partner(uint32_t address, uint32_t rank)
{
    uint32_t result;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
    return result;
}

__device__ __forceinline__ void wait_phase(uint32_t barrier, uint32_t parity)
{
    uint32_t done;
    do {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
            "selp.u32 %0, 1, 0, p;\n"
            "}\n"
            : "=r"(done)
            : "r"(barrier), "r"(parity)
            : "memory");
    } while (done == 0);
    __syncwarp();
}

// Tile t lies in stage t % 4. Its life: own A and own half of B come by cp.async; the half goes on to the partner,
// whose `full` counts its bytes; both blocks multiply; all 16 warps of the pair arrive at both `empty`s,
// which says that nobody reads the stage any longer, neither the multiplications nor the copy to the partner.
template <bool kGated>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256, 1)
product_pair(const half* __restrict__ A, const half* __restrict__ B1, const half* __restrict__ B2,
             const half* __restrict__ x, half* __restrict__ out, float* __restrict__ parts, int rows, int columns,
             int K, int rowTiles, int tilesPerSplit)
{
    extern __shared__ unsigned char raw[];
    __shared__ __align__(8) uint64_t barriers[2 * kStages];
    const uint32_t base = ((uint32_t)__cvta_generic_to_shared(raw) + 1023u) & ~1023u;
    const uint32_t full = (uint32_t)__cvta_generic_to_shared(barriers);
    const uint32_t empty = full + 8 * kStages;

    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const uint32_t partner = rank ^ 1u;

    const int tid = threadIdx.x;
    const int group = tid / 128;
    const int m0 = (int)(blockIdx.x % rowTiles) * 128;
    const int n0 = (int)(blockIdx.x / rowTiles) * (kGated ? 128 : 256);
    const int allTiles = (K + 63) / 64;
    const int firstTile = (int)blockIdx.y * tilesPerSplit;
    const int tiles = min(tilesPerSplit, allTiles - firstTile);
    const bool busy = m0 + group * 64 < rows;

    // a thread fetches the same 16 bytes of every 32nd row
    const int piece = tid % 8;
    const int row = tid / 8;
    const uint32_t spot = (uint32_t)(row * 128 + ((piece ^ (row % 8)) * 16));
    const size_t step = (size_t)32 * K;
    const half* B = kGated && rank == 1 ? B2 : B1;
    const int firstB = n0 + (!kGated && rank == 1 ? 128 : 0);
    const half* fromA = A + (size_t)(m0 + row) * K;
    const half* fromB = B + (size_t)(firstB + row) * K;
    const int rowsA = rows - m0 - row;       // row + 32 i is there where 32 i is below
    const int rowsB = columns - firstB - row;
    const int piecesA = rows - m0 > 64 ? 4 : 2;
    const uint32_t halfOffset = kABytes + rank * 16384u;

    auto fetch = [&](int tile) {
        const uint32_t stage = base + (uint32_t)(tile % kStages) * kStageBytes + spot;
        const int k = (firstTile + tile) * 64 + piece * 8;
        const bool inside = k < K;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i < piecesA) {
                const bool valid = inside && 32 * i < rowsA;
                copy16(stage + i * 4096, valid ? fromA + i * step + k : A, valid);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const bool valid = inside && 32 * i < rowsB;
            copy16(stage + halfOffset + i * 4096, valid ? fromB + i * step + k : B, valid);
        }
    };
    // one thread: this block's half to the same place of the partner's stage
    auto send = [&](int tile) {
        const uint32_t from = base + (uint32_t)(tile % kStages) * kStageBytes + halfOffset;
        asm volatile(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                at_partner(from, partner)),
            "r"(from), "r"(16384), "r"(at_partner(full + 8 * (tile % kStages), partner))
            : "memory");
    };

    if (tid == 0) {
        for (int s = 0; s < kStages; ++s) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(full + 8 * s), "r"(1) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty + 8 * s), "r"(16) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();

    float acc[128];
#pragma unroll
    for (int i = 0; i < 128; ++i)
        acc[i] = 0.0f;

#pragma unroll
    for (int s = 0; s < 3; ++s) {
        if (s < tiles)
            fetch(s);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.wait_group 2;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    // the barriers are ready in both blocks, the first tile is there
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (tid == 0)
        send(0);
    __syncwarp();

#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
        const uint32_t slot = (uint32_t)(tile % kStages);
        // own parts of the next tile are there: hand on its half, a tile before it is needed
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        if (tid == 0) {
            if (tile + 1 < tiles)
                send(tile + 1);
            asm volatile(
                "{\n"
                ".reg .b64 s;\n"
                "mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1;\n"
                "}\n" ::"r"(full + 8 * slot),
                "r"(16384)
                : "memory");
        }
        __syncwarp();
        wait_phase(full + 8 * slot, (uint32_t)(tile / kStages) & 1u);
        if (busy) {
            const uint32_t stage = base + slot * kStageBytes;
            const uint64_t a = descriptor(stage + group * 8192);
            const uint64_t b = descriptor(stage + kABytes);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < 4; ++k)
                multiply(acc, a + 2 * k, b + 2 * k);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        }
        // the tile before this one is done with
        if (tile > 0) {
            const uint32_t before = (uint32_t)((tile - 1) % kStages);
            if (tid % 32 == 0) {
                asm volatile(
                    "{\n"
                    ".reg .b64 s;\n"
                    "mbarrier.arrive.shared::cta.b64 s, [%0];\n"
                    "}\n" ::"r"(empty + 8 * before)
                    : "memory");
                asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                                 at_partner(empty + 8 * before, partner))
                             : "memory");
            }
            __syncwarp();
            if (tile + 3 < tiles)
                wait_phase(empty + 8 * before, (uint32_t)((tile - 1) / kStages) & 1u);
        }
        if (tile + 3 < tiles)
            fetch(tile + 3);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    if (busy)
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    // neither block may end while the other one can still reach its shared memory
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    if (busy) {
#pragma unroll
        for (int i = 0; i < 128; ++i)
            asm volatile("" : "+f"(acc[i])::"memory");
        store_tile<kGated>(acc, x, out, parts, rows, columns, m0, n0);
    }
    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
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

extern "C" void solve(const half* x, const half* norm_weight, const half* W_gate, const half* W_up, const half* W_down,
                      half* y, int tokens, int d_model, int d_ff, float eps)
{
    const size_t rBytes = ((size_t)tokens * d_model * sizeof(half) + 255) / 256 * 256;
    const size_t hiddenBytes = ((size_t)tokens * d_ff * sizeof(half) + 255) / 256 * 256;
    const bool fast = d_model % 8 == 0 && d_ff % 8 == 0;

    const int rowTiles = (tokens - 1) / 128 + 1;
    const int downTiles = (d_model - 1) / 256 + 1;
    const int kTiles = (d_ff - 1) / 64 + 1;
    int splits = 1;
    int perSplit = kTiles;
    if (fast) {
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

    normalise<<<tokens, 512>>>(x, norm_weight, r, d_model, eps);
    if (fast) {
        const int gateTiles = (d_ff - 1) / 128 + 1;
        const dim3 gateGrid((unsigned)rowTiles * gateTiles, 1);
        const dim3 downGrid((unsigned)rowTiles * downTiles, splits);
        const int gateK = (d_model - 1) / 64 + 1;
        if (rowTiles % 2 == 0) {
            cudaFuncSetAttribute(product_pair<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
            cudaFuncSetAttribute(product_pair<false>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
            product_pair<true><<<gateGrid, 256, kShared>>>(r, W_gate, W_up, nullptr, hidden, nullptr, tokens, d_ff,
                                                           d_model, rowTiles, gateK);
            product_pair<false><<<downGrid, 256, kShared>>>(hidden, W_down, nullptr, x, y, parts, tokens, d_model,
                                                            d_ff, rowTiles, perSplit);
        } else {
            cudaFuncSetAttribute(product<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
            cudaFuncSetAttribute(product<false>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
            product<true><<<gateGrid, 256, kShared>>>(r, W_gate, W_up, nullptr, hidden, nullptr, tokens, d_ff,
                                                      d_model, rowTiles, gateK);
            product<false><<<downGrid, 256, kShared>>>(hidden, W_down, nullptr, x, y, parts, tokens, d_model, d_ff,
                                                       rowTiles, perSplit);
        }
        if (splits > 1)
            add_parts<<<(unsigned)((count / 4 + 255) / 256), 256>>>(x, parts, y, count, splits);
    } else {
        product_any<true><<<any_blocks(tokens, d_ff), 256>>>(r, W_gate, W_up, nullptr, hidden, tokens, d_ff, d_model);
        product_any<false><<<any_blocks(tokens, d_model), 256>>>(hidden, W_down, nullptr, x, y, tokens, d_model, d_ff);
    }
    cudaFreeAsync(memory, 0);
}
