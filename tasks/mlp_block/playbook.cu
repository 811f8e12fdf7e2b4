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

#include "shared/warp_products.cuh"

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
#define TURNED_B "0"
constexpr int kLeadingA = 16;
constexpr int kLeadingB = 16;
constexpr int kAlongB = 32;
constexpr int kWide = 256;               // rows of weights a tile, where tiles are many

#include "shared/warpgroup_products.cuh"

#if HAS_WARPGROUPS
// By one thread: the next tiles. The rows of weights are half those of one matrix, half those of another.
template <int columns, int stages>
__device__ void fill(Ring<columns, stages>& ring, const CUtensorMap* a_map, const CUtensorMap* first,
                     const CUtensorMap* second, int row, int first_column, int second_column, int k)
{
    wait(ring.empty(ring.done), ring.turn() ^ 1);
    expect_bytes(ring.full(), kStageBytes<columns>);
    bring(ring.a(), a_map, k, row, ring.full());
    bring(ring.b(), first, k, first_column, ring.full());
    bring(ring.b() + columns / 2 * 128, second, k, second_column, ring.full());
    ++ring.done;
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
                    fill(ring, &rows_map, &w_map, is_gated ? &up_map : &w_map, place.row * kTileM, column,
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
            fill(ring, &rows_map, &w_map, &w_map, top, left, left + FEW / 2, step * kStep); // all are empty: the others need not be there yet
        }
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        if (threadIdx.x == kConsumers) {
            for (int step = first + early; step < first + steps; ++step) {
                fill(ring, &rows_map, &w_map, &w_map, top, left, left + FEW / 2, step * kStep);
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
