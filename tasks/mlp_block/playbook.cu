// Gated feed-forward block: a norm and two products, the first with its gate, the second with its residual.
// The products go from one element a thread to warps' tensor-core instructions and to Hopper's warpgroups,
// which TMA brings tiles; what lies between two kernels is rounded to half.

#include <cstdint>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define UNITS 1    // tunable: 0 1 2; multiplies by threads, by warps (mma), by warpgroups where there are any (wgmma)
#define TILE 64    // tunable: 64 128; rows and columns of a block's tile, by warps
#define WARPS 4    // tunable: 4 8; of a block
#define STAGES 2   // tunable: 2 3; tiles under way, by warps
#define SUPER 8    // tunable: 1 4 8 16; rows of tiles that are computed together, for the L2
#define RING 4     // tunable: 3 4; tiles under way, by warpgroups
#define FEW 128    // tunable: 64 128; columns of a warpgroup's tile, where tiles are few
#define SPLITS 1   // tunable: 1 2 4; parts of the sum, at most, where tiles are few
#define THIN 0     // tunable: 0 4 16; up to so many tokens, rows of weights are read once by a warp each
#define FLAT 0     // tunable: 0 1; 1: up to 16 tokens beyond those, a warp's tensor cores multiply rows of weights as they come
#define NORM 256   // tunable: 128 256 512; threads that normalise a row

// tunable-if: UNITS == 1 or TILE == 64 and WARPS == 4 and STAGES == 2
// tunable-if: UNITS != 0 or SUPER == 8 and THIN == 0 and FLAT == 0
// tunable-if: UNITS == 2 or RING == 4 and FEW == 128 and SPLITS == 1
// tunable-if: STAGES * TILE * 120 <= 32768

// tunable-hint: uncoalesced_global UNITS=1
// tunable-hint: l1_bandwidth UNITS=1
// tunable-hint: fp32 UNITS=2
// tunable-hint: issue UNITS=2
// tunable-hint: shared_bandwidth TILE=128
// tunable-hint: l2_bandwidth TILE=128
// tunable-hint: dram_bandwidth SUPER=16
// tunable-hint: latency SPLITS=2
// tunable-hint: latency STAGES=3
// tunable-hint: tail THIN=16
// tunable-hint: tail FLAT=1
// tunable-hint: dram_bandwidth FLAT=1
// tunable-hint: dram_bandwidth THIN=4
// tunable-hint: latency NORM=512
// tunable-hint: tail FEW=64
// tunable-hint: low_occupancy SPLITS=2
// tunable-hint: low_occupancy WARPS=8

__device__ float gated(float gate, float up)
{
    return gate / (1.0f + __expf(-gate)) * up;
}

// One block a row: r = x / sqrt(mean(x^2) + eps) * weight.
__global__ void __launch_bounds__(NORM) normalise(
    const half* __restrict__ x, const half* __restrict__ weight, half* __restrict__ r, int d_model, float eps)
{
    __shared__ float sums[NORM / 32];
    const half* from = x + (size_t)blockIdx.x * d_model;
    half* to = r + (size_t)blockIdx.x * d_model;
    int pairs = d_model % 2 == 0 ? d_model / 2 : 0;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < pairs; i += NORM) {
        float2 v = __half22float2(reinterpret_cast<const half2*>(from)[i]);
        sum = fmaf(v.x, v.x, fmaf(v.y, v.y, sum));
    }
    for (int i = 2 * pairs + threadIdx.x; i < d_model; i += NORM) {
        float v = __half2float(from[i]);
        sum = fmaf(v, v, sum);
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < NORM / 32; ++i) {
        sum += sums[i];
    }
    float factor = rsqrtf(sum / d_model + eps);
    for (int i = threadIdx.x; i < pairs; i += NORM) {
        float2 v = __half22float2(reinterpret_cast<const half2*>(from)[i]);
        float2 w = __half22float2(reinterpret_cast<const half2*>(weight)[i]);
        reinterpret_cast<half2*>(to)[i] = __floats2half2_rn(v.x * factor * w.x, v.y * factor * w.y);
    }
    for (int i = 2 * pairs + threadIdx.x; i < d_model; i += NORM) {
        to[i] = __float2half(__half2float(from[i]) * factor * __half2float(weight[i]));
    }
}

#if UNITS == 0
// Idea: every thread reads its rows; L1 holds what neighbours share.
__device__ float dot(const half* a, const half* b, int n)
{
    float sum = 0.0f;
#pragma unroll 4
    for (int i = 0; i < n; ++i) {
        sum = fmaf(__half2float(a[i]), __half2float(b[i]), sum);
    }
    return sum;
}

// gated ? out = silu(rows W^T) * (rows W_up^T) : out = x + rows W^T; `depth` terms a sum.
template <bool is_gated>
__global__ void __launch_bounds__(256) multiply(
    const half* rows, const half* W, const half* W_up, const half* x, half* out, int tokens, int columns, int depth)
{
    size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= (size_t)tokens * columns) {
        return;
    }
    const half* row = rows + i / columns * depth;
    size_t at = i % columns * depth;
    float sum = dot(row, W + at, depth);
    out[i] = __float2half(is_gated ? gated(sum, dot(row, W_up + at, depth)) : __half2float(x[i]) + sum);
}

template <bool is_gated>
void product(const half* rows, const half* W, const half* W_up, const half* x, half* out, int tokens, int columns,
             int depth)
{
    unsigned blocks = (unsigned)(((size_t)tokens * columns + 255) / 256);
    multiply<is_gated><<<blocks, 256>>>(rows, W, W_up, x, out, tokens, columns, depth);
}
#else
struct Place {
    int row, column; // counted in tiles
};

// Tiles in bands of SUPER rows, column by column: neighbours in time share operands in the L2.
__device__ Place place_of(int tile, int rows, int columns)
{
    int band = tile / (SUPER * columns);
    int within = tile - band * SUPER * columns;
    int height = min(SUPER, rows - band * SUPER);
    return {band * SUPER + within % height, within / height};
}

__device__ uint32_t shared_address(const void* pointer)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

#if THIN > 0
constexpr int kThinWarps = 8; // of a block

// Idea: with few tokens the weights are all that counts: a warp reads a row of them once, in 16-byte loads,
// for all tokens.
template <bool is_gated>
__global__ void __launch_bounds__(kThinWarps * 32) multiply_thin(
    const half* __restrict__ rows, const half* __restrict__ W, const half* __restrict__ W_up,
    const half* __restrict__ x, half* __restrict__ out, int tokens, int columns, int depth)
{
    constexpr int kFactors = is_gated ? 2 : 1;
    int column = blockIdx.x * kThinWarps + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (column >= columns) {
        return;
    }
    const uint4* weights[2] = {reinterpret_cast<const uint4*>(W + (size_t)column * depth),
                               reinterpret_cast<const uint4*>((is_gated ? W_up : W) + (size_t)column * depth)};
    float sums[kFactors][THIN] = {};
#pragma unroll 4
    for (int k = lane; k < depth / 8; k += 32) {
        uint4 held[kFactors];
#pragma unroll
        for (int f = 0; f < kFactors; ++f) {
            held[f] = __ldcs(weights[f] + k);
        }
#pragma unroll
        for (int t = 0; t < THIN; ++t) {
            if (t < tokens) {
                uint4 row = *reinterpret_cast<const uint4*>(rows + (size_t)t * depth + k * 8);
                const half2* a = reinterpret_cast<const half2*>(&row);
#pragma unroll
                for (int f = 0; f < kFactors; ++f) {
                    const half2* b = reinterpret_cast<const half2*>(&held[f]);
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        float2 u = __half22float2(a[j]);
                        float2 v = __half22float2(b[j]);
                        sums[f][t] = fmaf(u.x, v.x, fmaf(u.y, v.y, sums[f][t]));
                    }
                }
            }
        }
    }
#pragma unroll
    for (int t = 0; t < THIN; ++t) {
#pragma unroll
        for (int f = 0; f < kFactors; ++f) {
#pragma unroll
            for (int distance = 16; distance > 0; distance /= 2) {
                sums[f][t] += __shfl_xor_sync(0xffffffffu, sums[f][t], distance);
            }
        }
        if (lane == t && t < tokens) {
            size_t at = (size_t)t * columns + column;
            out[at] = __float2half(is_gated ? gated(sums[0][t], sums[kFactors - 1][t]) : __half2float(x[at]) + sums[0][t]);
        }
    }
}
#endif

#if FLAT == 1
constexpr int kFlatTokens = 16; // rows of one tensor-core product
constexpr int kFlatRows = 32;   // of weights of a block: half of them gates, where there are any
constexpr int kFlatTiles = kFlatRows / 8;
constexpr int kFlatDepth = 64;  // terms of a warp at a time: 128 bytes of each row

// sums += 16 x 16 halves of tokens by 16 x 8 of weights.
__device__ void multiply_flat_tile(float (&d)[4], const uint4& low, const uint4& high, const uint4& b)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(low.x), "r"(high.x), "r"(low.y), "r"(high.y), "r"(b.x), "r"(b.y));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(low.z), "r"(high.z), "r"(low.w), "r"(high.w), "r"(b.z), "r"(b.w));
#endif
}

// Idea: with few tokens the weights are all that counts. Terms of a sum may come in any order, so a lane's
// next eight halves of a row serve as operands as they are: nothing goes through shared memory but the sums,
// of which each warp has a part.
template <bool is_gated, int kWarps>
__global__ void __launch_bounds__(kWarps * 32) multiply_flat(
    const half* __restrict__ rows, const half* __restrict__ W, const half* __restrict__ W_up,
    const half* __restrict__ x, half* __restrict__ out, int tokens, int columns, int depth)
{
    constexpr int kColumns = is_gated ? kFlatRows / 2 : kFlatRows;
    __shared__ float parts[kWarps][kFlatTokens][kFlatRows + 1];
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int line = lane / 4;
    int left = blockIdx.x * kColumns;
    const half* weights[kFlatTiles];
#pragma unroll
    for (int i = 0; i < kFlatTiles; ++i) {
        int column = min(left + (i * 8 + line) % kColumns, columns - 1); // what lies beyond is not stored
        weights[i] = (is_gated && i >= kFlatTiles / 2 ? W_up : W) + (size_t)column * depth;
    }
    const half* low = rows + (size_t)min(line, tokens - 1) * depth;
    const half* high = rows + (size_t)min(line + 8, tokens - 1) * depth;

    float sums[kFlatTiles][4] = {};
    for (int first = warp * kFlatDepth; first < depth; first += kWarps * kFlatDepth) {
        uint4 held[kFlatDepth / 32][kFlatTiles] = {};
        uint4 a[kFlatDepth / 32] = {};
        uint4 b[kFlatDepth / 32] = {};
#pragma unroll
        for (int part = 0; part < kFlatDepth / 32; ++part) {
            int k = first + part * 32 + lane % 4 * 8;
            if (k < depth) {
#pragma unroll
                for (int i = 0; i < kFlatTiles; ++i) {
                    held[part][i] = __ldcs(reinterpret_cast<const uint4*>(weights[i] + k));
                }
                a[part] = *reinterpret_cast<const uint4*>(low + k);
                b[part] = *reinterpret_cast<const uint4*>(high + k);
            }
        }
#pragma unroll
        for (int part = 0; part < kFlatDepth / 32; ++part) {
#pragma unroll
            for (int i = 0; i < kFlatTiles; ++i) {
                multiply_flat_tile(sums[i], a[part], b[part], held[part][i]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kFlatTiles; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            parts[warp][line + j / 2 * 8][i * 8 + lane % 4 * 2 + j % 2] = sums[i][j];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kFlatTokens * kColumns; i += kWarps * 32) {
        int token = i / kColumns;
        int column = i % kColumns;
        float sum = 0.0f;
        float up = 0.0f;
#pragma unroll
        for (int part = 0; part < kWarps; ++part) {
            sum += parts[part][token][column];
            if (is_gated) {
                up += parts[part][token][column + kFlatRows - kColumns];
            }
        }
        if (token < tokens && left + column < columns) {
            size_t at = (size_t)token * columns + left + column;
            out[at] = __float2half(is_gated ? gated(sum, up) : __half2float(x[at]) + sum);
        }
    }
}
#endif

constexpr int kDepth = 32;            // of the tiles along the sum
constexpr int kStride = kDepth + 8;   // spare halves, so that eight rows lie in eight different groups of banks
constexpr int kTileHalves = TILE * kStride;
constexpr int kThreads = WARPS * 32;
constexpr int kWarpM = TILE / 2;      // a warp's part of the tile
constexpr int kWarpN = TILE / (WARPS / 2);

// Eight neighbours of a row into shared memory, zeros beyond the matrix.
__device__ void fetch(half* to, const half* matrix, int row, int column, int rows, int columns, bool wide)
{
    const half* from = matrix + (size_t)row * columns + column;
    if (wide) {
        bool inside = row < rows && column < columns;
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                     "l"(inside ? from : matrix), "r"(inside ? 16 : 0) : "memory");
#else
        *reinterpret_cast<uint4*>(to) = inside ? *reinterpret_cast<const uint4*>(from) : uint4{};
#endif
        return;
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        to[j] = row < rows && column + j < columns ? from[j] : __ushort_as_half(0);
    }
}

__device__ void commit_fetches()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// All but the latest STAGES - 2 groups of this thread have arrived.
__device__ void wait_for_fetches()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
#endif
}

__device__ void load_matrices(uint32_t (&to)[4], const half* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row)) : "memory");
}

// sums += 16 x 16 halves of A by 16 x 8 of B.
__device__ void multiply_add(float (&d)[4], const uint32_t (&a)[4], const uint32_t* b)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
    for (int part = 0; part < 2; ++part) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[2 * part]), "r"(a[2 * part + 1]), "r"(b[part]));
    }
#endif
}

// Idea: a warp multiplies matrices of its registers; the gate and what it gates come to the same thread.
template <bool is_gated>
__global__ void __launch_bounds__(kThreads) multiply_by_warps(
    const half* __restrict__ rows, const half* __restrict__ W, const half* __restrict__ W_up,
    const half* __restrict__ x, half* __restrict__ out, int tokens, int columns, int depth)
{
    constexpr int kFactors = is_gated ? 2 : 1;
    extern __shared__ __align__(128) unsigned char raw[];
    half* tiles = reinterpret_cast<half*>(raw);
    Place place = place_of(blockIdx.x, (tokens - 1) / TILE + 1, (columns - 1) / TILE + 1);
    int top = place.row * TILE;
    int left = place.column * TILE;
    int steps = (depth - 1) / kDepth + 1;
    bool wide = depth % 8 == 0;

    auto load = [&](int step) {
        half* to = tiles + step % STAGES * (1 + kFactors) * kTileHalves;
        int k = step * kDepth;
        if (step < steps) {
#pragma unroll
            for (int i = threadIdx.x * 8; i < TILE * kDepth; i += kThreads * 8) {
                int row = i / kDepth, column = i % kDepth, at = row * kStride + column;
                fetch(to + at, rows, top + row, k + column, tokens, depth, wide);
                fetch(to + kTileHalves + at, W, left + row, k + column, columns, depth, wide);
                if (is_gated) fetch(to + 2 * kTileHalves + at, W_up, left + row, k + column, columns, depth, wide);
            }
        }
        commit_fetches();
    };

    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int warp_top = warp % 2 * kWarpM;
    int warp_left = warp / 2 * kWarpN;
    float sums[kFactors][kWarpM / 16][kWarpN / 8][4] = {};
    for (int step = 0; step < STAGES - 1; ++step) {
        load(step);
    }
    for (int step = 0; step < steps; ++step) {
        wait_for_fetches();
        __syncthreads();
        load(step + STAGES - 1);
        const half* a = tiles + step % STAGES * (1 + kFactors) * kTileHalves + (warp_top + lane % 16) * kStride +
                        lane / 16 * 8;
        const half* b = tiles + (step % STAGES * (1 + kFactors) + 1) * kTileHalves +
                        (warp_left + lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
        for (int k = 0; k < kDepth; k += 16) {
            uint32_t left_factor[kWarpM / 16][4];
#pragma unroll
            for (int i = 0; i < kWarpM / 16; ++i) {
                load_matrices(left_factor[i], a + i * 16 * kStride + k);
            }
#pragma unroll
            for (int f = 0; f < kFactors; ++f) {
#pragma unroll
                for (int j = 0; j < kWarpN / 16; ++j) {
                    uint32_t right_factor[4];
                    load_matrices(right_factor, b + f * kTileHalves + j * 16 * kStride + k);
#pragma unroll
                    for (int i = 0; i < kWarpM / 16; ++i) {
                        multiply_add(sums[f][i][2 * j], left_factor[i], right_factor);
                        multiply_add(sums[f][i][2 * j + 1], left_factor[i], right_factor + 2);
                    }
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < kWarpM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < kWarpN / 8; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int row = top + warp_top + i * 16 + e / 2 * 8 + lane / 4;
                int column = left + warp_left + j * 8 + lane % 4 * 2 + e % 2;
                if (row < tokens && column < columns) {
                    size_t at = (size_t)row * columns + column;
                    float sum = sums[0][i][j][e];
                    out[at] = __float2half(is_gated ? gated(sum, sums[kFactors - 1][i][j][e])
                                                    : __half2float(x[at]) + sum);
                }
            }
        }
    }
}

#if FLAT == 1
bool is_flat(int tokens, int depth)
{
    int device = 0;
    int generation = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, device);
    return tokens <= kFlatTokens && depth % 8 == 0 && generation >= 8;
}
#endif

template <bool is_gated>
void multiply_everywhere(const half* rows, const half* W, const half* W_up, const half* x, half* out, int tokens,
                         int columns, int depth)
{
#if THIN > 0
    if (tokens <= THIN && depth % 8 == 0) {
        multiply_thin<is_gated>
            <<<(columns - 1) / kThinWarps + 1, kThinWarps * 32>>>(rows, W, W_up, x, out, tokens, columns, depth);
        return;
    }
#endif
#if FLAT == 1
    if (is_flat(tokens, depth)) {
        constexpr int kWarps = is_gated ? 8 : 16;
        constexpr int kColumns = is_gated ? kFlatRows / 2 : kFlatRows;
        multiply_flat<is_gated, kWarps>
            <<<(columns - 1) / kColumns + 1, kWarps * 32>>>(rows, W, W_up, x, out, tokens, columns, depth);
        return;
    }
#endif
    constexpr int kBytes = STAGES * (is_gated ? 3 : 2) * kTileHalves * sizeof(half);
    unsigned blocks = ((tokens - 1) / TILE + 1) * ((columns - 1) / TILE + 1);
    cudaFuncSetAttribute(multiply_by_warps<is_gated>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    multiply_by_warps<is_gated><<<blocks, kThreads, kBytes>>>(rows, W, W_up, x, out, tokens, columns, depth);
}

#if UNITS == 1
template <bool is_gated>
void product(const half* rows, const half* W, const half* W_up, const half* x, half* out, int tokens, int columns,
             int depth)
{
    multiply_everywhere<is_gated>(rows, W, W_up, x, out, tokens, columns, depth);
}
#else
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WARPGROUPS 1
#endif

constexpr int kTileM = 128;              // two warpgroups, 64 rows each
constexpr int kStep = 64;                // along K: 64 halves are one swizzled row of 128 bytes
constexpr int kBoxBytes = 64 * 64 * 2;   // 64 rows of 128 bytes
constexpr int kBoxColumns = 64;
constexpr int kWide = 256;               // rows of weights a tile, where tiles are many
constexpr int kConsumers = 256;          // threads that multiply
constexpr int kGroupThreads = kConsumers + 32; // and a warp that brings tiles
constexpr int kAlignment = 1024;         // swizzling counts from multiples of it
constexpr int kSumStride = FEW + 8;      // of sums in shared memory: spare columns against bank conflicts

template <int columns>
constexpr int kStageBytes = (kTileM + columns) * kStep * (int)sizeof(half);

#if HAS_WARPGROUPS
__device__ void create_barrier(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ void expect_bytes(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ void arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ uint32_t address_in_block(uint32_t address, int rank)
{
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ void wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ void bring(uint32_t to, const CUtensorMap* map, int column, int row, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier) : "memory");
}

__device__ void meet_cluster()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ int rank_in_cluster()
{
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Rows of 128 bytes, swizzled, in groups of eight.
__device__ uint64_t describe(uint32_t address)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | 1ull << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

#define SUMS8(d, i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
        "+f"(d[i + 7])
#define SUMS32(d, i) SUMS8(d, i), SUMS8(d, i + 8), SUMS8(d, i + 16), SUMS8(d, i + 24)
#define NAMES32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES64 \
    NAMES32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
    "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES128 \
    NAMES64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, " \
            "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, " \
            "%104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, " \
            "%121, %122, %123, %124, %125, %126, %127"

// sums += 64 x 16 halves of A by as many of 64, 128 or 256 rows of weights; without `adds` the
// sums begin anew.
__device__ void multiply_add(float (&d)[32], uint64_t a, uint64_t b, int adds)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" NAMES32
                 "}, %32, %33, p, 1, 1, 0, 0;}"
                 : SUMS32(d, 0) : "l"(a), "l"(b), "r"(adds));
}

__device__ void multiply_add(float (&d)[64], uint64_t a, uint64_t b, int adds)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" NAMES64
                 "}, %64, %65, p, 1, 1, 0, 0;}"
                 : SUMS32(d, 0), SUMS32(d, 32) : "l"(a), "l"(b), "r"(adds));
}

__device__ void multiply_add(float (&d)[128], uint64_t a, uint64_t b, int adds)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" NAMES128
                 "}, %128, %129, p, 1, 1, 0, 0;}"
                 : SUMS32(d, 0), SUMS32(d, 32), SUMS32(d, 64), SUMS32(d, 96) : "l"(a), "l"(b), "r"(adds));
}

// A ring of tiles in shared memory. Both sides count the steps they have made.
template <int columns, int stages>
struct Ring {
    uint32_t tiles;
    uint32_t barriers; // `stages` that say full, then as many that say empty
    int done = 0;

    __device__ uint32_t a() const { return tiles + done % stages * kStageBytes<columns>; }
    __device__ uint32_t b() const { return a() + 2 * kBoxBytes; }
    __device__ uint32_t full() const { return barriers + done % stages * 8; }
    __device__ uint32_t empty(int step) const { return barriers + (stages + step % stages) * 8; }
    __device__ uint32_t turn() const { return done / stages % 2; }

    __device__ void create()
    {
        for (int stage = 0; stage < stages; ++stage) {
            create_barrier(barriers + stage * 8, 1);
            create_barrier(barriers + (stages + stage) * 8, kConsumers / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }

    // By one thread. The rows of weights are half those of one matrix, half those of another.
    __device__ void fill(const CUtensorMap* a_map, const CUtensorMap* first, const CUtensorMap* second, int row,
                         int first_column, int second_column, int k)
    {
        wait(empty(done), turn() ^ 1);
        expect_bytes(full(), kStageBytes<columns>);
        bring(a(), a_map, k, row, full());
        bring(b(), first, k, first_column, full());
        bring(b() + columns / 2 * 128, second, k, second_column, full());
        ++done;
    }

    __device__ void release(int step) const
    {
        if (threadIdx.x % 32 == 0) arrive(empty(step));
    }

    // By a warpgroup: sums = the products of the next `steps` tiles; the tensor cores run one tile ahead.
    __device__ void multiply(float (&sums)[columns / 2], int group, int steps)
    {
        for (int step = 0; step < steps; ++step) {
            wait(full(), turn());
            uint64_t left = describe(a() + group * kBoxBytes);
            uint64_t right = describe(b());
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < kStep / 16; ++k) {
                multiply_add(sums, left + (k * 32 >> 4), right + (k * 32 >> 4), step + k);
            }
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            if (step > 0) {
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                release(done - 1);
            }
            ++done;
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        release(done - 1);
    }
};

__device__ uint32_t pack(float low, float high)
{
    half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<uint32_t*>(&pair);
}

__device__ void meet_group(int group)
{
    asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
}

// By a warpgroup: its 64 rows, 64 columns at a time, by way of two buffers, which the copy engine empties.
template <bool is_gated>
__device__ void store(const float (&sums)[kWide / 2], uint32_t buffers, const CUtensorMap* map, const half* x, int row,
                      int column, int group, int tokens, int columns)
{
    int lane = threadIdx.x % 32;
    int line = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int part = 0; part < kWide / kBoxColumns / (is_gated ? 2 : 1); ++part) {
        uint32_t buffer = buffers + part % 2 * kBoxBytes;
        if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        meet_group(group);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float* d = sums + part * 32 + i * 8;
            uint32_t packed[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                float2 v = {d[2 * j], d[2 * j + 1]};
                if (is_gated) {
                    v = {gated(v.x, d[kWide / 4 + 2 * j]), gated(v.y, d[kWide / 4 + 2 * j + 1])};
                } else {
                    int r = row + line - lane % 16 + lane / 4 + j % 2 * 8;
                    int c = column + part * kBoxColumns + i * 16 + j / 2 * 8 + lane % 4 * 2;
                    if (r < tokens && c < columns) {
                        float2 own = __half22float2(*reinterpret_cast<const half2*>(x + (size_t)r * columns + c));
                        v = {v.x + own.x, v.y + own.y};
                    }
                }
                packed[j] = pack(v.x, v.y);
            }
            uint32_t to = buffer + line * 128 + ((i * 2 + lane / 16) ^ line % 8) * 16;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(packed[0]),
                         "r"(packed[1]), "r"(packed[2]), "r"(packed[3]) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        meet_group(group);
        if (threadIdx.x % 128 == 0) {
            if (row < tokens && column + part * kBoxColumns < columns) {
                asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                             "r"(column + part * kBoxColumns), "r"(row), "r"(buffer) : "memory");
            }
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
    }
}
#endif

constexpr int kManyBytes = RING * kStageBytes<kWide> + 4 * kBoxBytes + kAlignment;
constexpr int kFewStages = 196608 / kStageBytes<FEW>;
constexpr int kFewBytes = kFewStages * kStageBytes<FEW> + kAlignment;

// Idea: a block stays for many tiles: one thread brings operands without a pause, two warpgroups multiply.
// With a gate, a tile is 128 rows of either matrix, whose products a thread holds side by side.
template <bool is_gated>
__global__ void __launch_bounds__(kGroupThreads, 1) multiply_many(
    const __grid_constant__ CUtensorMap rows_map, const __grid_constant__ CUtensorMap w_map,
    const __grid_constant__ CUtensorMap up_map, const __grid_constant__ CUtensorMap out_map, const half* x, int tokens,
    int columns, int depth)
{
#if HAS_WARPGROUPS
    constexpr int kColumns = is_gated ? kWide / 2 : kWide;
    extern __shared__ unsigned char raw[];
    __shared__ uint64_t barriers[2 * RING];
    Ring<kWide, RING> ring;
    ring.tiles = (shared_address(raw) + kAlignment - 1) & ~(kAlignment - 1);
    ring.barriers = shared_address(barriers);
    int steps = (depth - 1) / kStep + 1;
    int tiles_down = (tokens - 1) / kTileM + 1;
    int tiles_across = (columns - 1) / kColumns + 1;
    if (threadIdx.x == 0) ring.create();
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        if (threadIdx.x == kConsumers) {
            for (int tile = blockIdx.x; tile < tiles_down * tiles_across; tile += gridDim.x) {
                Place place = place_of(tile, tiles_down, tiles_across);
                int column = place.column * kColumns;
                for (int step = 0; step < steps; ++step) {
                    ring.fill(&rows_map, &w_map, is_gated ? &up_map : &w_map, place.row * kTileM, column,
                              is_gated ? column : column + kWide / 2, step * kStep);
                }
            }
        }
    } else {
        int group = threadIdx.x / 128;
        uint32_t buffers = ring.tiles + RING * kStageBytes<kWide> + group * 2 * kBoxBytes;
        float sums[kWide / 2];
        for (int tile = blockIdx.x; tile < tiles_down * tiles_across; tile += gridDim.x) {
            Place place = place_of(tile, tiles_down, tiles_across);
            ring.multiply(sums, group, steps);
            store<is_gated>(sums, buffers, &out_map, x, place.row * kTileM + group * 64, place.column * kColumns, group,
                            tokens, columns);
        }
        if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
#endif
}

// Idea: where tiles are few, the blocks of a cluster share the steps of one, and add their sums through
// each other's shared memory, always in the same order.
__global__ void __launch_bounds__(kGroupThreads, 1) multiply_few(
    const __grid_constant__ CUtensorMap rows_map, const __grid_constant__ CUtensorMap w_map,
    const half* __restrict__ x, half* __restrict__ out, int tokens, int columns, int depth, int splits)
{
#if HAS_WARPGROUPS
    extern __shared__ unsigned char raw[];
    __shared__ uint64_t barriers[2 * kFewStages];
    Ring<FEW, kFewStages> ring;
    ring.tiles = (shared_address(raw) + kAlignment - 1) & ~(kAlignment - 1);
    ring.barriers = shared_address(barriers);
    int rank = splits == 1 ? 0 : rank_in_cluster();
    int all_steps = (depth - 1) / kStep + 1;
    int first = (int)((long long)all_steps * rank / splits);
    int steps = (int)((long long)all_steps * (rank + 1) / splits) - first;
    Place place = place_of(blockIdx.x / splits, (tokens - 1) / kTileM + 1, (columns - 1) / FEW + 1);
    int top = place.row * kTileM;
    int left = place.column * FEW;
    int early = min(steps, kFewStages);
    if (threadIdx.x == kConsumers) {
        ring.create();
        for (int step = first; step < first + early; ++step) {
            ring.fill(&rows_map, &w_map, &w_map, top, left, left + FEW / 2, step * kStep); // all are empty: the others need not be there yet
        }
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        if (threadIdx.x == kConsumers) {
            for (int step = first + early; step < first + steps; ++step) {
                ring.fill(&rows_map, &w_map, &w_map, top, left, left + FEW / 2, step * kStep);
            }
        }
        __syncwarp();
    } else {
        float sums[FEW / 2];
        ring.multiply(sums, threadIdx.x / 128, steps);
        asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory"); // the other group still reads its tiles
        int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        uint32_t to = ring.tiles + (row * kSumStride + threadIdx.x % 4 * 2) * 4;
#pragma unroll
        for (int i = 0; i < FEW / 2; i += 2) {
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + (i / 2 % 2 * 8 * kSumStride + i / 4 * 8) * 4),
                         "f"(sums[i]), "f"(sums[i + 1]) : "memory");
        }
    }
    if (splits == 1) {
        __syncthreads();
    } else {
        meet_cluster();
    }
    int share = threadIdx.x < kConsumers ? kTileM / splits * (FEW / 8) : 0;
    for (int i = threadIdx.x; i < share; i += kConsumers) {
        int row = rank * (kTileM / splits) + i / (FEW / 8);
        int column = i % (FEW / 8) * 8;
        uint32_t from = ring.tiles + (row * kSumStride + column) * 4;
        float sums[8] = {};
#pragma unroll 4
        for (int part = 0; part < splits; ++part) {
            uint32_t there = address_in_block(from, part);
#pragma unroll
            for (int j = 0; j < 8; j += 4) {
                float4 v;
                asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(there + j * 4) : "memory");
                sums[j] += v.x;
                sums[j + 1] += v.y;
                sums[j + 2] += v.z;
                sums[j + 3] += v.w;
            }
        }
        if (top + row < tokens && left + column < columns) {
            size_t at = (size_t)(top + row) * columns + left + column;
            uint4 own = *reinterpret_cast<const uint4*>(x + at);
            uint32_t* pairs = &own.x;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                float2 v = __half22float2(*reinterpret_cast<half2*>(pairs + j));
                pairs[j] = pack(v.x + sums[2 * j], v.y + sums[2 * j + 1]);
            }
            *reinterpret_cast<uint4*>(out + at) = own;
        }
    }
    if (splits > 1) meet_cluster(); // the others still read from here
#endif
}

// A row-major matrix in swizzled boxes of `rows_of_box` x 64, zeros beyond it.
bool map_boxes(CUtensorMap* map, const half* matrix, int rows, int columns, int rows_of_box)
{
    cuuint64_t extents[] = {(cuuint64_t)columns, (cuuint64_t)rows};
    cuuint64_t pitch[] = {(cuuint64_t)columns * sizeof(half)};
    cuuint32_t box[] = {kBoxColumns, (cuuint32_t)rows_of_box};
    cuuint32_t every[] = {1, 1};
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void*)matrix, extents, pitch, box, every,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int blocks, int cluster, int bytes, Arguments... arguments)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster;
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(kGroupThreads);
    config.dynamicSmemBytes = bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaLaunchKernelEx(&config, kernel, arguments...);
}

int attribute(cudaDeviceAttr which)
{
    int device = 0;
    int value = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&value, which, device);
    return value;
}

template <bool is_gated>
void product(const half* rows, const half* W, const half* W_up, const half* x, half* out, int tokens, int columns,
             int depth)
{
    int processors = attribute(cudaDevAttrMultiProcessorCount);
    int tiles_down = (tokens - 1) / kTileM + 1;
    int many = tiles_down * ((columns - 1) / (is_gated ? kWide / 2 : kWide) + 1);
    bool is_many = is_gated || many * 2 > processors;
    int box = (is_many ? kWide : FEW) / 2;
    CUtensorMap rows_map, w_map, up_map, out_map;
    bool aligned = columns % 8 == 0 && depth % 8 == 0;
    bool is_thin = tokens <= THIN;
#if FLAT == 1
    is_thin = is_thin || is_flat(tokens, depth);
#endif
    if (!aligned || is_thin || attribute(cudaDevAttrComputeCapabilityMajor) != 9 ||
        !map_boxes(&rows_map, rows, tokens, depth, kTileM) || !map_boxes(&w_map, W, columns, depth, box) ||
        !map_boxes(&up_map, is_gated ? W_up : W, columns, depth, box) ||
        !map_boxes(&out_map, out, tokens, columns, 64)) {
        multiply_everywhere<is_gated>(rows, W, W_up, x, out, tokens, columns, depth);
        return;
    }
    if (is_many) {
        int blocks = many < processors ? many : processors;
        launch(multiply_many<is_gated>, blocks, 1, kManyBytes, rows_map, w_map, up_map, out_map, x, tokens, columns,
               depth);
    } else {
        int tiles = tiles_down * ((columns - 1) / FEW + 1);
        int steps = (depth - 1) / kStep + 1;
        int splits = 1;
        while (splits < SPLITS && tiles * splits * 2 <= processors && splits * 2 <= steps) {
            splits *= 2;
        }
        launch(multiply_few, tiles * splits, splits, kFewBytes, rows_map, w_map, x, out, tokens, columns, depth, splits);
    }
}
#endif
#endif

extern "C" void solve(const half* x, const half* norm_weight, const half* W_gate, const half* W_up, const half* W_down,
                      half* y, int tokens, int d_model, int d_ff, float eps)
{
    half* r = nullptr;
    half* hidden = nullptr;
    cudaMalloc(&r, (size_t)tokens * d_model * sizeof(half));
    cudaMalloc(&hidden, (size_t)tokens * d_ff * sizeof(half));
    normalise<<<tokens, NORM>>>(x, norm_weight, r, d_model, eps);
    product<true>(r, W_gate, W_up, nullptr, hidden, tokens, d_ff, d_model);
    product<false>(hidden, W_down, nullptr, x, y, tokens, d_model, d_ff);
    cudaDeviceSynchronize();
    cudaFree(hidden);
    cudaFree(r);
}
