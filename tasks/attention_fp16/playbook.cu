// Attention: from a warp a query, straight from memory, to tiles in shared memory, to tensor cores with
// scores and weights that never leave registers, to warpgroups that a copy engine feeds.

#include <cstdint>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define STRUCTURE 0 // tunable: 0 1 2 3; 0: a warp a query, 1: tiles, 2: tiles by mma.sync, 3: by wgmma and TMA
#define WARPS 4     // tunable: 4 8; of a block, in structures 0 to 2
#define ITEMS 1     // tunable: 1 2 4; queries of a warp, in structure 2 sixteen times as many
#define KEYS 64     // tunable: 32 64 128; keys of a tile
#define BUFFERS 1   // tunable: 1 2 3; tiles of keys and of values held at once
#define GROUPS 2    // tunable: 1 2 3; warpgroups of a block that multiply, 64 queries each
#define ORDERED 0   // tunable: 0 1; two warpgroups take turns: one multiplies while the other weighs
#define SMALL 0     // tunable: 0 1; one warpgroup a block where two leave multiprocessors idle

// tunable-if: STRUCTURE != 0 or ITEMS == 1
// tunable-if: STRUCTURE >= 2 or KEYS == 64 and BUFFERS == 1
// tunable-if: STRUCTURE != 2 or ITEMS <= 2
// tunable-if: STRUCTURE != 2 or ITEMS * KEYS <= 128 and BUFFERS <= 2
// tunable-if: STRUCTURE != 1 or WARPS * ITEMS <= 16
// tunable-if: STRUCTURE != 3 or WARPS == 4 and ITEMS == 1 and KEYS >= 64
// tunable-if: STRUCTURE == 3 or GROUPS == 2 and ORDERED == 0 and SMALL == 0
// tunable-if: GROUPS == 2 or ORDERED == 0
// tunable-if: GROUPS != 1 or SMALL == 0
// tunable-if: GROUPS != 3 or KEYS == 64

// tunable-hint: l1_bandwidth STRUCTURE=1 ITEMS=4
// tunable-hint: shared_bandwidth ITEMS=2
// tunable-hint: fp32 STRUCTURE=2
// tunable-hint: issue STRUCTURE=2 ITEMS=2
// tunable-hint: latency BUFFERS=2
// tunable-hint: low_occupancy KEYS=32
// tunable-hint: tail WARPS=4

constexpr int kWarp = 32;
constexpr unsigned kAll = 0xffffffff;
constexpr int kThreads = WARPS * kWarp;

struct Problem {
    const half* Q;
    const half* K;
    const half* V;
    half* O;
    int heads, length, width, causal;
    float scale; // of scores, for powers of two
};

__device__ float exp2_of(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ float lowest() { return __int_as_float(0xff800000); }

// A block's tile of queries. With a mask, those that see most keys come first.
struct Place {
    int head, top;
};

__device__ Place place_of(const Problem& p, int rows)
{
    int tiles = (p.length - 1) / rows + 1;
    if (p.causal) {
        return {(int)(blockIdx.x % p.heads), (tiles - 1 - (int)(blockIdx.x / p.heads)) * rows};
    }
    return {(int)(blockIdx.x / tiles), (int)(blockIdx.x % tiles) * rows};
}

__device__ int seen_by(const Problem& p, int row) { return p.causal ? min(row + 1, p.length) : p.length; }

#if STRUCTURE == 0
constexpr int kItems = 256 / kWarp;

// Idea: a warp a query, its lanes share the elements; one pass by a running maximum.
__global__ void __launch_bounds__(kThreads) attend_plain(Problem p)
{
    Place place = place_of(p, WARPS);
    int row = place.top + threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    if (row >= p.length) {
        return;
    }
    size_t head = (size_t)place.head * p.length * p.width, at = head + (size_t)row * p.width;
    float query[kItems], sums[kItems] = {};
    for (int i = 0; i < kItems; ++i) {
        int column = lane + i * kWarp;
        query[i] = column < p.width ? __half2float(p.Q[at + column]) * p.scale : 0.0f;
    }
    float largest = lowest(), total = 0.0f;
    for (int key = 0; key < seen_by(p, row); ++key) {
        size_t from = head + (size_t)key * p.width;
        float score = 0.0f;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            int column = lane + i * kWarp;
            score = column < p.width ? fmaf(query[i], __half2float(p.K[from + column]), score) : score;
        }
        for (int offset = kWarp / 2; offset > 0; offset /= 2) {
            score += __shfl_xor_sync(kAll, score, offset);
        }
        float next = fmaxf(largest, score), factor = exp2_of(largest - next), weight = exp2_of(score - next);
        largest = next;
        total = total * factor + weight;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            int column = lane + i * kWarp;
            float value = column < p.width ? __half2float(p.V[from + column]) : 0.0f;
            sums[i] = sums[i] * factor + weight * value;
        }
    }
    for (int i = 0; i < kItems; ++i) {
        int column = lane + i * kWarp;
        if (column < p.width) {
            p.O[at + column] = __float2half_rn(sums[i] / total);
        }
    }
}
#else
constexpr int kWidest = 256;

// A tile of keys, and of values: as many rows as lanes. The spare pair sets neighbouring rows in other banks.
struct Tiles {
    half2 keys[kWarp][kWidest / 2 + 1];
    half values[kWarp][kWidest];
    half2 queries[WARPS][ITEMS][kWidest / 2];
};

// Idea: a tile of keys serves all queries of a block; for scores a lane has a key, for sums columns. Any
// width up to 256: where tensor cores have no way, this is it.
__global__ void __launch_bounds__(kThreads) attend_tiles(Problem p)
{
    __shared__ Tiles tiles;
    constexpr int kColumns = kWidest / kWarp, kRows = WARPS * ITEMS;
    Place place = place_of(p, kRows);
    int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, pairs = (p.width + 1) / 2;
    int first = place.top + warp * ITEMS;
    size_t head = (size_t)place.head * p.length * p.width;
    auto pair = [&](const half* from, int row, int i) {
        half zero = __float2half_rn(0.0f);
        const half* at = from + head + (size_t)row * p.width + 2 * i;
        return __halves2half2(row < p.length ? at[0] : zero, row < p.length && 2 * i + 1 < p.width ? at[1] : zero);
    };
    for (int i = lane; i < ITEMS * pairs; i += kWarp) {
        tiles.queries[warp][i / pairs][i % pairs] = pair(p.Q, first + i / pairs, i % pairs);
    }
    float largest[ITEMS], total[ITEMS] = {}, sums[ITEMS][kColumns] = {};
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
        largest[r] = lowest();
    }
    int keys = seen_by(p, place.top + kRows - 1);
    for (int start = 0; start < keys; start += kWarp) {
        __syncthreads();
        for (int i = threadIdx.x; i < kWarp * pairs; i += kThreads) {
            int row = i / pairs, column = i % pairs;
            tiles.keys[row][column] = pair(p.K, start + row, column);
            *reinterpret_cast<half2*>(&tiles.values[row][2 * column]) = pair(p.V, start + row, column);
        }
        __syncthreads();
        float scores[ITEMS] = {};
        for (int i = 0; i < pairs; ++i) {
            float2 key = __half22float2(tiles.keys[lane][i]);
#pragma unroll
            for (int r = 0; r < ITEMS; ++r) {
                float2 query = __half22float2(tiles.queries[warp][r][i]);
                scores[r] = fmaf(query.y, key.y, fmaf(query.x, key.x, scores[r]));
            }
        }
        float weights[ITEMS];
#pragma unroll
        for (int r = 0; r < ITEMS; ++r) {
            float score = start + lane < seen_by(p, first + r) ? scores[r] * p.scale : lowest();
            float next = score;
            for (int offset = kWarp / 2; offset > 0; offset /= 2) {
                next = fmaxf(next, __shfl_xor_sync(kAll, next, offset));
            }
            next = fmaxf(next, largest[r]);
            float factor = exp2_of(largest[r] - next);
            weights[r] = exp2_of(score - next);
            largest[r] = next;
            total[r] = total[r] * factor + weights[r];
#pragma unroll
            for (int i = 0; i < kColumns; ++i) {
                sums[r][i] *= factor;
            }
        }
        for (int key = 0; key < min(kWarp, keys - start); ++key) {
            float each[ITEMS];
#pragma unroll
            for (int r = 0; r < ITEMS; ++r) {
                each[r] = __shfl_sync(kAll, weights[r], key);
            }
#pragma unroll
            for (int i = 0; i < kColumns; ++i) {
                if (i * kWarp >= p.width) {
                    break;
                }
                float value = lane + i * kWarp < p.width ? __half2float(tiles.values[key][lane + i * kWarp]) : 0.0f;
#pragma unroll
                for (int r = 0; r < ITEMS; ++r) {
                    sums[r][i] = fmaf(each[r], value, sums[r][i]);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
        for (int offset = kWarp / 2; offset > 0; offset /= 2) {
            total[r] += __shfl_xor_sync(kAll, total[r], offset);
        }
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            int column = lane + i * kWarp;
            if (first + r < p.length && column < p.width) {
                p.O[head + (size_t)(first + r) * p.width + column] = __float2half_rn(sums[r][i] / total[r]);
            }
        }
    }
}
#endif

#if STRUCTURE >= 2
// Scores of 16 queries as tensor cores leave them: a thread has rows r and r + 8 of its warp's, and in each
// eight columns two neighbours, so four threads share a row.
struct Rows {
    float largest[2]; // so far, times the scale
    float total[2];   // of this thread's columns
};

// Scores become weights; returns what earlier sums shrink by. One rounded product of maximum and scale is used
// for both, so that they stay in step.
template <int kScores>
__device__ float2 weigh(float (&s)[kScores], Rows& rows, float scale)
{
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float top = s[2 * h];
#pragma unroll
        for (int i = 0; i < kScores; i += 4) {
            top = fmaxf(top, fmaxf(s[i + 2 * h], s[i + 2 * h + 1]));
        }
        top = fmaxf(top, __shfl_xor_sync(kAll, top, 1));
        top = fmaxf(top, __shfl_xor_sync(kAll, top, 2));
        float next = fmaxf(rows.largest[h], top * scale);
        factor[h] = exp2_of(rows.largest[h] - next);
        rows.largest[h] = next;
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kScores; i += 4) {
            s[i + 2 * h] = exp2_of(fmaf(s[i + 2 * h], scale, -next));
            s[i + 2 * h + 1] = exp2_of(fmaf(s[i + 2 * h + 1], scale, -next));
            sum += s[i + 2 * h] + s[i + 2 * h + 1];
        }
        rows.total[h] = rows.total[h] * factor[h] + sum;
    }
    return {factor[0], factor[1]};
}

// Keys that a query does not see; column and row are those of s[0].
template <int kScores>
__device__ void hide(float (&s)[kScores], const Problem& p, int row, int column)
{
    int left[2] = {seen_by(p, row) - column, seen_by(p, row + 8) - column};
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
        s[i] = i / 4 * 8 + i % 2 < left[i / 2 % 2] ? s[i] : lowest();
    }
}

template <int kSums>
__device__ void shrink(float (&sums)[kSums], float2 factor)
{
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
        sums[i] *= i / 2 % 2 ? factor.y : factor.x;
    }
}

// Sixteen keys' weights, as the left factor of a product with their values.
template <int kScores>
__device__ void pack(uint32_t (&a)[kScores / 2], const float (&s)[kScores])
{
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) {
        half2 pair = __floats2half2_rn(s[2 * i], s[2 * i + 1]);
        a[i] = *reinterpret_cast<uint32_t*>(&pair);
    }
}

template <int kSums>
__device__ void store(float (&sums)[kSums], const Rows& rows, const Problem& p, int head, int row)
{
    int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float total = rows.total[h];
        total += __shfl_xor_sync(kAll, total, 1);
        total += __shfl_xor_sync(kAll, total, 2);
        float inverse = 1.0f / total;
        half* to = p.O + ((size_t)head * p.length + row + 8 * h) * p.width;
#pragma unroll
        for (int i = 0; i < kSums; i += 4) {
            if (row + 8 * h < p.length && column + i * 2 < p.width) {
                *reinterpret_cast<half2*>(to + column + i * 2) =
                    __floats2half2_rn(sums[i + 2 * h] * inverse, sums[i + 2 * h + 1] * inverse);
            }
        }
    }
}

__device__ uint32_t shared_address(const void* pointer)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

#if STRUCTURE == 3 && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BY_MMA 0 // warpgroups are there
#elif __CUDA_ARCH__ >= 800
#define BY_MMA 1
#else
#define BY_MMA 0
#endif

constexpr int kHeld = ITEMS * 16; // queries of a warp
constexpr int kQueries = WARPS * kHeld;

// Bytes from a tile's begin to 16 of a row: chunks of 16 change places by row, so that eight rows' lie in
// different banks.
template <int kWidth>
__device__ int chunk_at(int row, int chunk)
{
    return (row * (kWidth / 8) + (chunk ^ row % 8)) * 16;
}

#if BY_MMA
__device__ void load_four(uint32_t (&to)[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}

__device__ void load_four_turned(uint32_t (&to)[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}

__device__ void multiply_add(float* d, const uint32_t* a, const uint32_t* b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Rows of one head, zeros beyond it.
template <int kWidth, int kRows>
__device__ void bring(uint32_t to, const half* matrix, const Problem& p, int head, int first)
{
    constexpr int kStep = kThreads * 8 / kWidth; // rows of one turn of all threads, a multiple of eight
    int chunk = threadIdx.x % (kWidth / 8), row = threadIdx.x / (kWidth / 8);
    int left = chunk * 8 < p.width ? p.length - first - row : 0;
    const half* from = matrix + ((size_t)head * p.length + first + row) * p.width + chunk * 8;
    to += chunk_at<kWidth>(row, chunk);
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) {
        bool inside = i * kStep < left;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + i * kStep * kWidth * 2),
                     "l"(inside ? from : matrix), "r"(inside ? 16 : 0) : "memory");
        from += (size_t)kStep * p.width;
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}
#endif

// Idea: scores stay where the tensor core leaves them, and are the left factor of the next product there.
template <int kWidth>
__global__ void __launch_bounds__(kThreads) attend_mma(Problem p)
{
#if BY_MMA
    extern __shared__ __align__(128) unsigned char raw[];
    constexpr int kTileBytes = KEYS * kWidth * 2;
    Place place = place_of(p, kQueries);
    int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    int first = place.top + warp * kHeld, keys = seen_by(p, place.top + kQueries - 1);
    int tiles = (keys - 1) / KEYS + 1;
    uint32_t queries = shared_address(raw), k_tiles = queries + kQueries * kWidth * 2;
    uint32_t v_tiles = k_tiles + BUFFERS * kTileBytes;
    auto bring_keys = [&](int tile) {
        bring<kWidth, KEYS>(k_tiles + tile % BUFFERS * kTileBytes, p.K, p, place.head, tile * KEYS);
    };
    auto bring_values = [&](int tile) {
        bring<kWidth, KEYS>(v_tiles + tile % BUFFERS * kTileBytes, p.V, p, place.head, tile * KEYS);
    };

    bring<kWidth, kQueries>(queries, p.Q, p, place.head, place.top);
    bring_keys(0);
#if BUFFERS == 2
    bring_values(0);
#endif
    float sums[ITEMS][kWidth / 2] = {};
    Rows rows[ITEMS];
#pragma unroll
    for (int m = 0; m < ITEMS; ++m) {
        rows[m] = {{lowest(), lowest()}, {0.0f, 0.0f}};
    }
    for (int tile = 0; tile < tiles; ++tile) {
        // While scores are worked out, values are under way: with two buffers the next keys too.
        asm volatile("cp.async.wait_group %0;" ::"n"(BUFFERS - 1) : "memory");
        __syncthreads();
#if BUFFERS == 2
        bring_keys(tile + 1);
#else
        bring_values(tile);
#endif
        uint32_t k_tile = k_tiles + tile % BUFFERS * kTileBytes, v_tile = v_tiles + tile % BUFFERS * kTileBytes;
        float scores[ITEMS][KEYS / 2] = {};
#pragma unroll 4
        for (int k = 0; k < kWidth / 16; ++k) {
            uint32_t a[ITEMS][4];
#pragma unroll
            for (int m = 0; m < ITEMS; ++m) {
                load_four(a[m], queries + chunk_at<kWidth>(warp * kHeld + m * 16 + lane % 16, 2 * k + lane / 16));
            }
#pragma unroll
            for (int n = 0; n < KEYS / 16; ++n) {
                uint32_t b[4];
                load_four(b, k_tile + chunk_at<kWidth>(n * 16 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
                for (int m = 0; m < ITEMS; ++m) {
                    multiply_add(scores[m] + n * 8, a[m], b);
                    multiply_add(scores[m] + n * 8 + 4, a[m], b + 2);
                }
            }
        }
        uint32_t weights[ITEMS][KEYS / 4];
#pragma unroll
        for (int m = 0; m < ITEMS; ++m) {
            int row = first + m * 16 + lane / 4;
            if ((tile + 1) * KEYS > seen_by(p, first + m * 16)) {
                hide(scores[m], p, row, tile * KEYS + lane % 4 * 2);
            }
            shrink(sums[m], weigh(scores[m], rows[m], p.scale));
            pack(weights[m], scores[m]);
        }
        asm volatile("cp.async.wait_group %0;" ::"n"(BUFFERS - 1) : "memory");
        __syncthreads();
#if BUFFERS == 2
        bring_values(tile + 1); // zeros beyond the last
#else
        bring_keys(tile + 1);
#endif
#pragma unroll
        for (int k = 0; k < KEYS / 16; ++k) {
#pragma unroll
            for (int n = 0; n < kWidth / 16; ++n) {
                uint32_t b[4];
                load_four_turned(b, v_tile + chunk_at<kWidth>(k * 16 + lane % 16, 2 * n + lane / 16));
#pragma unroll
                for (int m = 0; m < ITEMS; ++m) {
                    multiply_add(sums[m] + n * 8, weights[m] + k * 4, b);
                    multiply_add(sums[m] + n * 8 + 4, weights[m] + k * 4, b + 2);
                }
            }
        }
    }
#pragma unroll
    for (int m = 0; m < ITEMS; ++m) {
        store(sums[m], rows[m], p, place.head, first + m * 16 + lane / 4);
    }
#endif
}
#endif

#if STRUCTURE == 3
constexpr int kGroup = 128; // threads of a warpgroup

template <int kWidth, int kGroups>
struct Layout { // bytes of panels, 64 columns of a tile, from a multiple of 1,024
    static constexpr int kQueries = kGroups * 64, kThreads = (kGroups + 1) * kGroup;
    static constexpr int kProducer = kGroups == 3 ? 32 : 24, kConsumer = kGroups == 3 ? 160 : 240; // registers
    static constexpr int kPanels = kWidth / 64, kQueryPanel = kQueries * 128, kPanel = KEYS * 128;
    static constexpr int kTile = kPanels * kPanel, kKeys = kPanels * kQueryPanel;
    static constexpr int kValues = kKeys + BUFFERS * kTile, kBytes = kValues + BUFFERS * kTile + 1024;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i) FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)
#define NAMES32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES64 \
    NAMES32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, " \
            "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// Queries by keys, both from shared memory. Without `adds`, what d held is left out.
__device__ void multiply(float (&d)[32], uint64_t a, uint64_t b, int adds)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 "{" NAMES32 "}, %32, %33, p, 1, 1, 0, 0;}"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16) : "l"(a), "l"(b), "r"(adds));
}

__device__ void multiply(float (&d)[64], uint64_t a, uint64_t b, int adds)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 "{" NAMES64 "}, %64, %65, p, 1, 1, 0, 0;}"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16), SIXTEEN(d, 32), SIXTEEN(d, 48) : "l"(a), "l"(b), "r"(adds));
}

// Weights from registers by values.
__device__ void multiply(float (&d)[32], const uint32_t* a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" NAMES32 "}, {%32, %33, %34, %35}, %36, "
                 "1, 1, 1, 1;"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ void multiply(float (&d)[64], const uint32_t* a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" NAMES64 "}, {%64, %65, %66, %67}, %68, "
                 "1, 1, 1, 1;"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16), SIXTEEN(d, 32), SIXTEEN(d, 48)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until all but `kLeft` products are done; nothing that reads d moves in front of it.
template <int kLeft, int kCount>
__device__ void finish(float (&d)[kCount])
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        asm volatile("" : "+f"(d[i])::"memory");
    }
}

// Panels of 128-byte rows, swizzled: eight rows after each other, panels `apart` bytes apart.
__device__ uint64_t describe(uint32_t address, uint64_t apart)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | apart >> 4 << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

__device__ void make(uint32_t barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

__device__ void arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ void wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;}" ::"r"(barrier), "r"(parity) : "memory");
}

template <int kPanels>
__device__ void bring(uint32_t to, const CUtensorMap& map, int head, int row, int panel_bytes, uint32_t barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kPanels * panel_bytes)
                 : "memory");
#pragma unroll
    for (int i = 0; i < kPanels; ++i) {
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                     "[%1, {%2, %3, %4}], [%5];" ::"r"(to + i * panel_bytes), "l"(&map), "r"(i * 64), "r"(row),
                     "r"(head), "r"(barrier) : "memory");
    }
}
#endif

// Idea: one thread has tiles copied ahead; the others multiply. A tile's scores are under way while the
// weights of the one before multiply its values, and are weighed beside that.
template <int kWidth, int kGroups>
__global__ void __launch_bounds__(Layout<kWidth, kGroups>::kThreads, 1)
    attend_groups(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                  const __grid_constant__ CUtensorMap v_map, Problem p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    using At = Layout<kWidth, kGroups>;
    extern __shared__ unsigned char raw[];
    __shared__ uint64_t barriers[1 + 4 * BUFFERS];
    uint32_t queries = (shared_address(raw) + 1023) & ~1023u;
    uint32_t q_full = shared_address(barriers), k_full = q_full + 8, v_full = k_full + 8 * BUFFERS;
    uint32_t k_empty = v_full + 8 * BUFFERS, v_empty = k_empty + 8 * BUFFERS;
    Place place = place_of(p, At::kQueries);
    int tiles = (seen_by(p, place.top + At::kQueries - 1) - 1) / KEYS + 1;
    if (threadIdx.x == 0) {
        make(q_full, 1);
        for (int i = 0; i < BUFFERS; ++i) {
            make(k_full + 8 * i, 1);
            make(v_full + 8 * i, 1);
            make(k_empty + 8 * i, kGroups * 4);
            make(v_empty + 8 * i, kGroups * 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x < kGroup) {
        if (kGroups > 1) {
            asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(At::kProducer));
        }
        if (threadIdx.x == 0) {
            bring<At::kPanels>(queries, q_map, place.head, place.top, At::kQueryPanel, q_full);
            for (int tile = 0; tile < tiles; ++tile) {
                int b = tile % BUFFERS, parity = tile / BUFFERS % 2 ^ 1;
                wait(k_empty + 8 * b, parity);
                bring<At::kPanels>(queries + At::kKeys + b * At::kTile, k_map, place.head, tile * KEYS, At::kPanel,
                                   k_full + 8 * b);
                wait(v_empty + 8 * b, parity);
                bring<At::kPanels>(queries + At::kValues + b * At::kTile, v_map, place.head, tile * KEYS, At::kPanel,
                                   v_full + 8 * b);
            }
        }
    } else {
        if (kGroups > 1) {
            asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(At::kConsumer));
        }
        int thread = threadIdx.x - kGroup, lane = thread % kWarp;
        int first = place.top + thread / kWarp * 16, row = first + lane / 4;
        uint32_t own = queries + thread / kGroup * 64 * 128;
        float scores[KEYS / 2], sums[kWidth / 2] = {};
        uint32_t weights[KEYS / 4];
        Rows rows = {{lowest(), lowest()}, {0.0f, 0.0f}};
        auto score = [&](int tile) {
            wait(k_full + 8 * (tile % BUFFERS), tile / BUFFERS % 2);
            uint32_t keys = queries + At::kKeys + tile % BUFFERS * At::kTile;
            begin();
#pragma unroll
            for (int k = 0; k < kWidth / 16; ++k) {
                multiply(scores, describe(own + k / 4 * At::kQueryPanel + k % 4 * 32, 16),
                         describe(keys + k / 4 * At::kPanel + k % 4 * 32, 16), k);
            }
            commit();
        };
        auto add_values = [&](int tile) {
            wait(v_full + 8 * (tile % BUFFERS), tile / BUFFERS % 2);
            uint32_t values = queries + At::kValues + tile % BUFFERS * At::kTile;
            begin();
#pragma unroll
            for (int k = 0; k < KEYS / 16; ++k) {
                multiply(sums, weights + 4 * k, describe(values + k * 2048, At::kPanel));
            }
            commit();
        };
        auto release = [&](uint32_t empty, int tile) {
            if (lane == 0) {
                arrive(empty + 8 * (tile % BUFFERS));
            }
        };
        auto weigh_tile = [&](int tile) {
            if ((tile + 1) * KEYS > seen_by(p, first)) {
                hide(scores, p, row, tile * KEYS + lane % 4 * 2);
            }
            return weigh(scores, rows, p.scale);
        };
#if ORDERED == 1
        // Named barriers 1 and 2: the turns of two warpgroups.
        int group = thread / kGroup;
        auto give_turn = [&] { asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory"); };
        if (kGroups == 2 && group == 1) {
            give_turn();
        }
#endif
        wait(q_full, 0);
        score(0);
        finish<0>(scores);
        release(k_empty, 0);
        weigh_tile(0);
        pack(weights, scores);
#pragma unroll 1
        for (int tile = 1; tile < tiles; ++tile) {
#if ORDERED == 1
            if (kGroups == 2) {
                asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
            }
#endif
            score(tile);
            add_values(tile - 1);
#if ORDERED == 1
            if (kGroups == 2 && (group == 0 || tile + 1 < tiles)) {
                give_turn();
            }
#endif
            finish<1>(scores);
            release(k_empty, tile);
            float2 factor = weigh_tile(tile);
            finish<0>(sums);
            release(v_empty, tile - 1);
            shrink(sums, factor);
            pack(weights, scores);
        }
        add_values(tiles - 1);
        finish<0>(sums);
        store(sums, rows, p, place.head, row);
    }
#endif
}

// Rows of all heads in tiles of 64 columns, zeros beyond each head's last row.
bool describe(CUtensorMap* map, const half* matrix, const Problem& p, int rows)
{
    cuuint64_t extents[] = {(cuuint64_t)p.width, (cuuint64_t)p.length, (cuuint64_t)p.heads};
    cuuint64_t pitch[] = {(cuuint64_t)p.width * 2, (cuuint64_t)p.width * p.length * 2};
    cuuint32_t box[] = {64, (cuuint32_t)rows, 1}, steps[] = {1, 1, 1};
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, (void*)matrix, extents, pitch, box, steps,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
#endif

unsigned blocks_of(const Problem& p, int rows)
{
    return (unsigned)((p.length - 1) / rows + 1) * (unsigned)p.heads;
}

#if STRUCTURE >= 2
int attribute(cudaDeviceAttr which)
{
    int device = 0, value = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&value, which, device);
    return value;
}

#if STRUCTURE == 3
template <int kWidth, int kGroups>
bool attend_by_groups(const Problem& p)
{
    using At = Layout<kWidth, kGroups>;
    CUtensorMap q, k, v;
    if (!describe(&q, p.Q, p, At::kQueries) || !describe(&k, p.K, p, KEYS) || !describe(&v, p.V, p, KEYS)) {
        return false;
    }
    auto* kernel = attend_groups<kWidth, kGroups>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, At::kBytes);
    kernel<<<blocks_of(p, At::kQueries), At::kThreads, At::kBytes>>>(q, k, v, p);
    return true;
}
#endif

// By tensor cores, where the device and the shape allow it.
template <int kWidth>
bool attend(const Problem& p)
{
    int generation = attribute(cudaDevAttrComputeCapabilityMajor);
#if STRUCTURE == 3
    if (generation == 9) {
#if SMALL == 1
        if ((int)blocks_of(p, 128) < attribute(cudaDevAttrMultiProcessorCount)) {
            return attend_by_groups<kWidth, 1>(p);
        }
#endif
        return attend_by_groups<kWidth, GROUPS>(p);
    }
#endif
    constexpr int kBytes = (kQueries + 2 * BUFFERS * KEYS) * kWidth * 2;
    if (generation < 8 || kBytes > attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) {
        return false;
    }
    cudaFuncSetAttribute(attend_mma<kWidth>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    attend_mma<kWidth><<<blocks_of(p, kQueries), kThreads, kBytes>>>(p);
    return true;
}
#endif

extern "C" void solve(const half* Q, const half* K, const half* V, half* O, int batch_heads, int seq_len,
                      int head_dim, int causal)
{
    Problem p = {Q, K, V, O, batch_heads, seq_len, head_dim, causal, 1.4426950408889634f / sqrtf((float)head_dim)};
#if STRUCTURE == 0
    attend_plain<<<blocks_of(p, WARPS), kThreads>>>(p);
#elif STRUCTURE == 1
    attend_tiles<<<blocks_of(p, WARPS * ITEMS), kThreads>>>(p);
#else
    // Sixteen-byte copies need rows that begin at multiples of them.
    bool fits = head_dim % 8 == 0 && head_dim <= 128;
    if (!fits || !(head_dim <= 64 ? attend<64>(p) : attend<128>(p))) {
        attend_tiles<<<blocks_of(p, WARPS * ITEMS), kThreads>>>(p);
    }
#endif
    cudaDeviceSynchronize();
}
