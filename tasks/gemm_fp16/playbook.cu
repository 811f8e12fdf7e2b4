// Half-precision matrix product: from one element a thread, by way of tiles for a warp's tensor-core
// instructions, to Hopper's: TMA brings tiles, warpgroups multiply them, blocks stay for many tiles.

#include <cstdint>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define UNITS 1    // tunable: 0 1 2; multiplies by threads, by warps (mma), by warpgroups where there are any (wgmma)
#define TILE_M 64  // tunable: 64 128; rows of a block's tile, by warps
#define TILE_N 64  // tunable: 64 128; columns of it
#define WARPS 4    // tunable: 4 8; of a block
#define STAGES 2   // tunable: 2 3 4; tiles of A and B under way, by warps
#define SUPER 8    // tunable: 1 4 8 16; rows of tiles that are computed together, for the L2
#define WIDE 256   // tunable: 128 256; columns of a warpgroup's tile, where tiles are many
#define RING 4     // tunable: 3 4; tiles under way, by warpgroups
#define FEW 128    // tunable: 64 128; columns of a warpgroup's tile, where tiles are few
#define SPLITS 1   // tunable: 1 2 4 8; parts of K, at most, where tiles are few

// tunable-if: UNITS == 1 or TILE_M == 64 and TILE_N == 64 and WARPS == 4 and STAGES == 2
// tunable-if: UNITS != 0 or SUPER == 8
// tunable-if: UNITS == 2 or WIDE == 256 and RING == 4 and FEW == 128 and SPLITS == 1
// tunable-if: STAGES * (TILE_M * 40 + 32 * (TILE_N + 8)) <= 32768

// tunable-hint: uncoalesced_global UNITS=1
// tunable-hint: l1_bandwidth UNITS=1
// tunable-hint: fp32 UNITS=2
// tunable-hint: issue UNITS=2
// tunable-hint: shared_bandwidth TILE_M=128 TILE_N=128
// tunable-hint: l2_bandwidth TILE_M=128 TILE_N=128
// tunable-hint: dram_bandwidth SUPER=16
// tunable-hint: latency STAGES=4
// tunable-hint: latency SPLITS=2
// tunable-hint: latency FEW=64
// tunable-hint: tail SPLITS=8
// tunable-hint: low_occupancy SPLITS=8
// tunable-hint: low_occupancy WARPS=8

#if UNITS == 0
// Idea: every thread reads its row and its column; L1 holds what neighbours share.
__global__ void __launch_bounds__(256) multiply(
    const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C, int M, int N, int K)
{
    size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= (size_t)M * N) {
        return;
    }
    const half* row = A + i / N * K;
    const half* column = B + i % N;
    float sum = 0.0f;
#pragma unroll 4
    for (int k = 0; k < K; ++k) {
        sum = fmaf(__half2float(row[k]), __half2float(column[(size_t)k * N]), sum);
    }
    C[i] = __float2half(sum);
}

extern "C" void solve(const half* A, const half* B, half* C, int M, int N, int K)
{
    multiply<<<(unsigned)(((size_t)M * N + 255) / 256), 256>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
#else
struct Place {
    int row, column; // counted in tiles
};

// Tiles in bands of rows, column by column: neighbours in time share operands in the L2.
template <int band>
__device__ Place place_of(int tile, int rows, int columns)
{
    int above = tile / (band * columns);
    int within = tile - above * band * columns;
    int height = min(band, rows - above * band);
    return {above * band + within % height, within / height};
}

#include "shared/warp_products.cuh"

constexpr int kDepth = 32;              // of the tiles along K
constexpr int kStrideA = kDepth + 8;    // spare halves, so that eight rows lie in eight different groups of banks
constexpr int kStrideB = TILE_N + 8;
constexpr int kStageHalves = TILE_M * kStrideA + kDepth * kStrideB;
constexpr int kThreads = WARPS * 32;
constexpr int kWarpM = TILE_M / 2;      // a warp's part of the tile
constexpr int kWarpN = TILE_N / (WARPS / 2);

__device__ void load_turned(uint32_t (&to)[4], const half* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row)) : "memory");
}

// Idea: a warp multiplies matrices of its registers; STAGES tiles are under way while it does.
__global__ void __launch_bounds__(kThreads) multiply_by_warps(
    const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C, int M, int N, int K)
{
    extern __shared__ __align__(128) unsigned char raw[];
    half* tiles = reinterpret_cast<half*>(raw);
    Place place = place_of<SUPER>(blockIdx.x, (M - 1) / TILE_M + 1, (N - 1) / TILE_N + 1);
    int top = place.row * TILE_M;
    int left = place.column * TILE_N;
    int steps = (K - 1) / kDepth + 1;
    bool wide_a = K % 8 == 0;
    bool wide_b = N % 8 == 0;

    auto load = [&](int step) {
        half* a = tiles + step % STAGES * kStageHalves;
        half* b = a + TILE_M * kStrideA;
        int k = step * kDepth;
        if (step < steps) {
#pragma unroll
            for (int i = threadIdx.x * 8; i < TILE_M * kDepth; i += kThreads * 8) {
                int row = i / kDepth, column = i % kDepth;
                fetch(a + row * kStrideA + column, A, top + row, k + column, M, K, wide_a);
            }
#pragma unroll
            for (int i = threadIdx.x * 8; i < TILE_N * kDepth; i += kThreads * 8) {
                int row = i / TILE_N, column = i % TILE_N;
                fetch(b + row * kStrideB + column, B, k + row, left + column, K, N, wide_b);
            }
        }
        commit_fetches();
    };

    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int warp_top = warp % 2 * kWarpM;
    int warp_left = warp / 2 * kWarpN;
    float sums[kWarpM / 16][kWarpN / 8][4] = {};
    for (int step = 0; step < STAGES - 1; ++step) {
        load(step);
    }
    for (int step = 0; step < steps; ++step) {
        wait_for_fetches();
        __syncthreads();
        load(step + STAGES - 1);
        const half* a = tiles + step % STAGES * kStageHalves + (warp_top + lane % 16) * kStrideA + lane / 16 * 8;
        const half* b = tiles + step % STAGES * kStageHalves + TILE_M * kStrideA + lane % 16 * kStrideB + warp_left +
                        lane / 16 * 8;
#pragma unroll
        for (int k = 0; k < kDepth; k += 16) {
            uint32_t rows[kWarpM / 16][4];
            uint32_t columns[kWarpN / 16][4];
#pragma unroll
            for (int i = 0; i < kWarpM / 16; ++i) {
                load_matrices(rows[i], a + i * 16 * kStrideA + k);
            }
#pragma unroll
            for (int j = 0; j < kWarpN / 16; ++j) {
                load_turned(columns[j], b + k * kStrideB + j * 16);
            }
#pragma unroll
            for (int i = 0; i < kWarpM / 16; ++i) {
#pragma unroll
                for (int j = 0; j < kWarpN / 8; ++j) {
                    multiply_add(sums[i][j], rows[i], columns[j / 2] + j % 2 * 2);
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < kWarpM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < kWarpN / 8; ++j) {
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                int row = top + warp_top + i * 16 + pair * 8 + lane / 4;
                int column = left + warp_left + j * 8 + lane % 4 * 2;
                half* to = C + (size_t)row * N + column;
                half2 values = __floats2half2_rn(sums[i][j][pair * 2], sums[i][j][pair * 2 + 1]);
                if (row < M && N % 2 == 0 && column < N) {
                    *reinterpret_cast<half2*>(to) = values;
                } else if (row < M) {
                    if (column < N) to[0] = __low2half(values);
                    if (column + 1 < N) to[1] = __high2half(values);
                }
            }
        }
    }
}

void solve_by_warps(const half* A, const half* B, half* C, int M, int N, int K)
{
    constexpr int kBytes = STAGES * kStageHalves * sizeof(half);
    unsigned blocks = ((M - 1) / TILE_M + 1) * ((N - 1) / TILE_N + 1);
    cudaFuncSetAttribute(multiply_by_warps, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    multiply_by_warps<<<blocks, kThreads, kBytes>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}

#if UNITS == 1
extern "C" void solve(const half* A, const half* B, half* C, int M, int N, int K)
{
    solve_by_warps(A, B, C, M, N, K);
}
#else
#define TURNED_B "1"
constexpr int kLeadingA = 0;
constexpr int kLeadingB = 64 * 64 * 2;   // a box
constexpr int kAlongB = 16 * 128;

#include "shared/warpgroup_products.cuh"

#if HAS_WARPGROUPS
// By one thread: the next tile of A and of B, both `k` terms along the sum.
template <int columns, int stages>
__device__ void fill(Ring<columns, stages>& ring, const CUtensorMap* a_map, const CUtensorMap* b_map, int row,
                     int column, int k)
{
    wait(ring.empty(ring.done), ring.turn() ^ 1);
    expect_bytes(ring.full(), kStageBytes<columns>);
    bring(ring.a(), a_map, k, row, ring.full());
#pragma unroll
    for (int i = 0; i < columns / kBoxColumns; ++i) {
        bring(ring.b() + i * kBoxBytes, b_map, column + i * kBoxColumns, k, ring.full());
    }
    ++ring.done;
}

// By a warpgroup: its 64 rows, 64 columns at a time, by way of two buffers, which the copy engine empties.
template <int columns>
__device__ void store(const float (&sums)[columns / 2], uint32_t buffers, const CUtensorMap* map, int row, int column,
                      int group, int M, int N)
{
    int lane = threadIdx.x % 32;
    int line = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int part = 0; part < columns / kBoxColumns; ++part) {
        uint32_t buffer = buffers + part % 2 * kBoxBytes;
        if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        meet_group(group);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float* d = sums + part * 32 + i * 8;
            uint32_t to = buffer + line * 128 + ((i * 2 + lane / 16) ^ line % 8) * 16;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                         "r"(pack(d[0], d[1])), "r"(pack(d[2], d[3])), "r"(pack(d[4], d[5])), "r"(pack(d[6], d[7]))
                         : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        meet_group(group);
        if (threadIdx.x % 128 == 0) {
            if (row < M && column + part * kBoxColumns < N) {
                asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                             "r"(column + part * kBoxColumns), "r"(row), "r"(buffer) : "memory");
            }
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
    }
}
#endif

constexpr int kStoreBytes = 4 * kBoxBytes;
constexpr int kFewStages = 196608 / kStageBytes<FEW>;
constexpr int kFewBytes = kFewStages * kStageBytes<FEW> + kAlignment;

template <int columns, int stages>
constexpr int kWholeBytes = stages * kStageBytes<columns> + kStoreBytes + kAlignment;

// Idea: a block stays for many tiles: one thread brings operands without a pause, two warpgroups multiply.
// Bands of `band` rows of tiles are computed together; where all tiles are, rows one by one take least (H100).
template <int columns, int stages, int band>
__global__ void __launch_bounds__(kGroupThreads, 1) multiply_whole(
    const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
    const __grid_constant__ CUtensorMap c_map, int M, int N, int K)
{
#if HAS_WARPGROUPS
    extern __shared__ unsigned char raw[];
    __shared__ uint64_t barriers[2 * stages];
    Ring<columns, stages> ring;
    ring.tiles = (shared_address(raw) + kAlignment - 1) & ~(kAlignment - 1);
    ring.barriers = shared_address(barriers);
    int steps = (K - 1) / kStep + 1;
    int rows = (M - 1) / kTileM + 1;
    int across = (N - 1) / columns + 1;
    if (threadIdx.x == 0) ring.create();
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        if (threadIdx.x == kConsumers) {
            for (int tile = blockIdx.x; tile < rows * across; tile += gridDim.x) {
                Place place = place_of<band>(tile, rows, across);
                for (int step = 0; step < steps; ++step) {
                    fill(ring, &a_map, &b_map, place.row * kTileM, place.column * columns, step * kStep);
                }
            }
        }
    } else {
        int group = threadIdx.x / 128;
        uint32_t buffers = ring.tiles + stages * kStageBytes<columns> + group * 2 * kBoxBytes;
        float sums[columns / 2];
        for (int tile = blockIdx.x; tile < rows * across; tile += gridDim.x) {
            Place place = place_of<band>(tile, rows, across);
            ring.multiply(sums, group, steps);
            store<columns>(sums, buffers, &c_map, place.row * kTileM + group * 64, place.column * columns,
                           group, M, N);
        }
        if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
#endif
}

// Idea: where tiles are few, the blocks of a cluster share the steps of one, and add their sums through
// each other's shared memory, always in the same order.
__global__ void __launch_bounds__(kGroupThreads, 1) multiply_few(
    const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, half* __restrict__ C, int M,
    int N, int K, int splits)
{
#if HAS_WARPGROUPS
    extern __shared__ unsigned char raw[];
    __shared__ uint64_t barriers[2 * kFewStages];
    Ring<FEW, kFewStages> ring;
    ring.tiles = (shared_address(raw) + kAlignment - 1) & ~(kAlignment - 1);
    ring.barriers = shared_address(barriers);
    int rank = rank_in_cluster();
    int all_steps = (K - 1) / kStep + 1;
    int first = (int)((long long)all_steps * rank / splits);
    int steps = (int)((long long)all_steps * (rank + 1) / splits) - first;
    Place place = place_of<1>(blockIdx.x / splits, (M - 1) / kTileM + 1, (N - 1) / FEW + 1);
    int top = place.row * kTileM;
    int left = place.column * FEW;
    if (threadIdx.x == 0) ring.create();
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        if (threadIdx.x == kConsumers) {
            for (int step = first; step < first + steps; ++step) {
                fill(ring, &a_map, &b_map, top, left, step * kStep);
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
    meet_cluster();
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
        if (top + row < M && left + column < N) {
            uint4 packed = {pack(sums[0], sums[1]), pack(sums[2], sums[3]), pack(sums[4], sums[5]),
                            pack(sums[6], sums[7])};
            *reinterpret_cast<uint4*>(C + (size_t)(top + row) * N + left + column) = packed;
        }
    }
    meet_cluster(); // the others still read from here
#endif
}

template <int columns, int stages, int band>
void solve_whole(const CUtensorMap& a_map, const CUtensorMap& b_map, const CUtensorMap& c_map, int M, int N, int K,
                 int processors)
{
    int tiles = ((M - 1) / kTileM + 1) * ((N - 1) / columns + 1);
    launch(multiply_whole<columns, stages, band>, tiles < processors ? tiles : processors, 1,
           kWholeBytes<columns, stages>, a_map, b_map, c_map, M, N, K);
}

extern "C" void solve(const half* A, const half* B, half* C, int M, int N, int K)
{
    CUtensorMap a_map, b_map, c_map;
    bool aligned = K % 8 == 0 && N % 8 == 0;
    if (!aligned || attribute(cudaDevAttrComputeCapabilityMajor) != 9 || !map_boxes(&a_map, A, M, K, kTileM) ||
        !map_boxes(&b_map, B, K, N, kStep) || !map_boxes(&c_map, C, M, N, 64)) {
        solve_by_warps(A, B, C, M, N, K);
        return;
    }
    int processors = attribute(cudaDevAttrMultiProcessorCount);
    int rows = (M - 1) / kTileM + 1;
    int tiles = rows * ((N - 1) / FEW + 1);
    int steps = (K - 1) / kStep + 1;
    int splits = 1;
    while (splits < SPLITS && tiles * splits * 2 <= processors && splits * 2 <= steps) {
        splits *= 2;
    }
    if (rows * ((N - 1) / WIDE + 1) * 2 > processors) {
        solve_whole<WIDE, RING, SUPER>(a_map, b_map, c_map, M, N, K, processors);
    } else if (splits == 1) {
        solve_whole<FEW, kFewStages, 1>(a_map, b_map, c_map, M, N, K, processors);
    } else {
        launch(multiply_few, tiles * splits, splits, kFewBytes, a_map, b_map, C, M, N, K, splits);
    }
    cudaDeviceSynchronize();
}
#endif
#endif
