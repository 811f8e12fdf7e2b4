// Multi-head attention: what is one thread's, and how keys and values reach it.

#include <cmath>
#include <cstdint>
#include <cuda_runtime.h>

#define VARIANT 0 // tunable: 0 1 2; a thread an output, a warp a query, a lane a query while warps share the keys
#define WARPS 8   // tunable: 4 8 16; of a block
#define QUERIES 1 // tunable: 1 2; of a lane at most, variant 2; one where two would leave processors idle
#define GROUP 4   // tunable: 1 2 4 8; keys between two looks at the largest score, variant 2
#define TILE 64   // tunable: 32 64 128; keys in shared memory, twice, variant 2

// tunable-if: VARIANT == 2 or QUERIES == 1 and GROUP == 4 and TILE == 64
// tunable-if: WARPS * QUERIES <= 16

// tunable-hint: fp32 VARIANT=1
// tunable-hint: fp32 VARIANT=2
// tunable-hint: l1_bandwidth VARIANT=2
// tunable-hint: uncoalesced_global VARIANT=2
// tunable-hint: shared_bandwidth QUERIES=2
// tunable-hint: issue QUERIES=2
// tunable-hint: issue GROUP=8
// tunable-hint: latency WARPS=16
// tunable-hint: latency TILE=128
// tunable-hint: low_occupancy WARPS=16
// tunable-hint: tail WARPS=16

constexpr int kWarp = 32;
constexpr int kThreads = WARPS * kWarp;
constexpr float kLog2E = 1.44269504f;

#if VARIANT == 0
// Idea: one pass over the keys; what was added up is made smaller whenever a larger score comes.
__global__ void __launch_bounds__(kThreads)
    attend(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
           float* __restrict__ output, int N, int d_model, int h)
{
    size_t i = (size_t)blockIdx.x * kThreads + threadIdx.x;
    if (i >= (size_t)N * d_model) {
        return;
    }
    int width = d_model / h;
    int column = (int)(i % d_model);
    int first = column / width * width;
    float scale = kLog2E / sqrtf((float)width);
    const float* query = Q + i / d_model * d_model + first;
    float largest = -INFINITY;
    float sum = 0.0f;
    float weighted = 0.0f;
    for (int j = 0; j < N; ++j) {
        const float* key = K + (size_t)j * d_model + first;
        float score = 0.0f;
        for (int c = 0; c < width; ++c) {
            score = fmaf(query[c], key[c], score);
        }
        score *= scale;
        float next = fmaxf(largest, score);
        float fade = exp2f(largest - next);
        float weight = exp2f(score - next);
        largest = next;
        sum = fmaf(sum, fade, weight);
        weighted = fmaf(weighted, fade, weight * V[(size_t)j * d_model + column]);
    }
    output[i] = weighted / sum;
}
#else
constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr int kColumns = 4; // of a lane at once

__device__ float warp_max(float value)
{
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, distance));
    }
    return value;
}

__device__ float warp_sum(float value)
{
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(kWholeWarp, value, distance);
    }
    return value;
}

// Heads of any width. Idea: lanes take a key each for the scores, and a column each for the sums.
__global__ void __launch_bounds__(kThreads)
    attend_by_warps(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
                    float* __restrict__ output, int N, int d_model, int h)
{
    size_t pair = (size_t)blockIdx.x * WARPS + threadIdx.x / kWarp;
    int lane = threadIdx.x % kWarp;
    if (pair >= (size_t)N * h) {
        return;
    }
    int width = d_model / h;
    size_t row = pair / h;
    int first = (int)(pair % h) * width;
    float scale = kLog2E / sqrtf((float)width);
    const float* query = Q + row * d_model + first;
    for (int left = 0; left < width; left += kColumns * kWarp) {
        float largest = -INFINITY;
        float sum = 0.0f;
        float weighted[kColumns] = {};
        for (int begin = 0; begin < N; begin += kWarp) {
            int j = begin + lane;
            float score = -INFINITY;
            if (j < N) {
                const float* key = K + (size_t)j * d_model + first;
                score = 0.0f;
                for (int c = 0; c < width; ++c) {
                    score = fmaf(query[c], key[c], score);
                }
                score *= scale;
            }
            float next = fmaxf(largest, warp_max(score));
            float fade = exp2f(largest - next);
            float weight = exp2f(score - next);
            largest = next;
            sum = fmaf(sum, fade, weight);
#pragma unroll
            for (int i = 0; i < kColumns; ++i) {
                weighted[i] *= fade;
            }
            int keys = min(kWarp, N - begin);
            for (int k = 0; k < keys; ++k) {
                float share = __shfl_sync(kWholeWarp, weight, k);
                const float* value = V + (size_t)(begin + k) * d_model + first + left;
#pragma unroll
                for (int i = 0; i < kColumns; ++i) {
                    int c = i * kWarp + lane;
                    if (left + c < width) {
                        weighted[i] = fmaf(share, value[c], weighted[i]);
                    }
                }
            }
        }
        sum = warp_sum(sum);
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            int c = left + i * kWarp + lane;
            if (c < width) {
                output[row * d_model + first + c] = weighted[i] / sum;
            }
        }
    }
}
#endif

#if VARIANT == 2
constexpr int kPart = 16;              // columns in which warps meet at once

// Keys and values of a tile, row by row.
template <int kWidth>
struct Tile {
    float keys[TILE][kWidth];
    float values[TILE][kWidth];
};

// What the warps tell each other when all keys are done; it takes the place of the tiles.
template <int kQueries>
struct Meeting {
    static constexpr int kRows = kWarp * kQueries; // queries of a block
    float largest[WARPS][kRows];
    float sum[WARPS][kRows];
    float parts[WARPS][kRows][kPart + 1]; // one more, so that rows begin in different banks
};

template <int kWidth, int kQueries>
constexpr size_t shared_bytes()
{
    size_t tiles = 2 * sizeof(Tile<kWidth>);
    return tiles > sizeof(Meeting<kQueries>) ? tiles : sizeof(Meeting<kQueries>);
}

template <int kBytes>
__device__ void copy_async(float* to, const float* from)
{
#if __CUDA_ARCH__ >= 800
    unsigned shared = (unsigned)__cvta_generic_to_shared(to);
    if (kBytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(from) : "memory");
    }
#else
    if (kBytes == 16) {
        *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
    } else {
        *to = *from;
    }
#endif
}

__device__ void end_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all but the latest group are there.
__device__ void wait_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

// `count` rows of `width` columns into the tile; the next of a thread's copies does not wait for this one.
template <int kWidth>
__device__ void load_tile(Tile<kWidth>& tile, const float* K, const float* V, int count, int width, int d_model)
{
    if (width == kWidth) {
        constexpr int kVectors = kWidth / 4;
        for (int i = threadIdx.x; i < count * kVectors; i += kThreads) {
            int row = i / kVectors;
            int column = i % kVectors * 4;
            copy_async<16>(&tile.keys[row][column], K + (size_t)row * d_model + column);
            copy_async<16>(&tile.values[row][column], V + (size_t)row * d_model + column);
        }
    } else {
        for (int i = threadIdx.x; i < count * width; i += kThreads) {
            int row = i / width;
            int column = i % width;
            copy_async<4>(&tile.keys[row][column], K + (size_t)row * d_model + column);
            copy_async<4>(&tile.values[row][column], V + (size_t)row * d_model + column);
        }
    }
    end_group();
}

// A lane's queries: the largest score so far, the sum of weights, and the weighted sum of values.
template <int kWidth, int kQueries>
struct Sums {
    float query[kQueries][kWidth];
    float largest[kQueries];
    float sum[kQueries];
    float weighted[kQueries][kWidth];
};

// GROUP keys from `first` on; those from `count` on weigh nothing.
template <int kWidth, int kQueries>
__device__ void add_group(Sums<kWidth, kQueries>& own, const Tile<kWidth>& tile, int first, int count)
{
    float scores[kQueries][GROUP] = {};
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        const float4* key = reinterpret_cast<const float4*>(tile.keys[min(first + g, count - 1)]);
#pragma unroll
        for (int c = 0; c < kWidth / 4; ++c) {
            float4 part = key[c];
#pragma unroll
            for (int q = 0; q < kQueries; ++q) {
                float score = scores[q][g];
                score = fmaf(own.query[q][4 * c], part.x, score);
                score = fmaf(own.query[q][4 * c + 1], part.y, score);
                score = fmaf(own.query[q][4 * c + 2], part.z, score);
                scores[q][g] = fmaf(own.query[q][4 * c + 3], part.w, score);
            }
        }
    }
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
        float next = own.largest[q];
#pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            scores[q][g] = first + g < count ? scores[q][g] : -INFINITY;
            next = fmaxf(next, scores[q][g]);
        }
        float fade = exp2f(own.largest[q] - next);
        own.largest[q] = next;
        own.sum[q] *= fade;
#pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            scores[q][g] = exp2f(scores[q][g] - next);
            own.sum[q] += scores[q][g];
        }
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
            own.weighted[q][c] *= fade;
        }
    }
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        const float4* value = reinterpret_cast<const float4*>(tile.values[min(first + g, count - 1)]);
#pragma unroll
        for (int c = 0; c < kWidth / 4; ++c) {
            float4 part = value[c];
#pragma unroll
            for (int q = 0; q < kQueries; ++q) {
                float weight = scores[q][g];
                own.weighted[q][4 * c] = fmaf(weight, part.x, own.weighted[q][4 * c]);
                own.weighted[q][4 * c + 1] = fmaf(weight, part.y, own.weighted[q][4 * c + 1]);
                own.weighted[q][4 * c + 2] = fmaf(weight, part.z, own.weighted[q][4 * c + 2]);
                own.weighted[q][4 * c + 3] = fmaf(weight, part.w, own.weighted[q][4 * c + 3]);
            }
        }
    }
}

// Idea: a lane keeps a query and its output in registers, so that keys and values are read once a warp, as
// broadcasts. The warps share the keys out, so that few queries fill the chip too, and meet at the end.
template <int kWidth, int kQueries>
__global__ void __launch_bounds__(kThreads)
    attend_by_lanes(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
                    float* __restrict__ output, int N, int d_model, int h)
{
    extern __shared__ __align__(16) unsigned char shared[];
    Tile<kWidth>* tiles = reinterpret_cast<Tile<kWidth>*>(shared);
    Meeting<kQueries>& meeting = *reinterpret_cast<Meeting<kQueries>*>(shared);
    constexpr int kRows = kWarp * kQueries;
    int width = d_model / h;
    int lane = threadIdx.x % kWarp;
    int warp = threadIdx.x / kWarp;
    unsigned blocks_a_head = (N - 1) / kRows + 1;
    int first = (int)(blockIdx.x / blocks_a_head) * width;
    int top = (int)(blockIdx.x % blocks_a_head) * kRows;
    K += first;
    V += first;

    if (width < kWidth) { // what no copy reaches
        float* all = reinterpret_cast<float*>(shared);
        for (int i = threadIdx.x; i < 2 * sizeof(Tile<kWidth>) / sizeof(float); i += kThreads) {
            all[i] = 0.0f;
        }
        __syncthreads();
    }
    load_tile(tiles[0], K, V, min(TILE, N), width, d_model);

    Sums<kWidth, kQueries> own;
    float scale = kLog2E / sqrtf((float)width);
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
        own.largest[q] = -INFINITY;
        own.sum[q] = 0.0f;
        // Queries beyond the last are the last once more.
        const float* query = Q + (size_t)min(top + q * kWarp + lane, N - 1) * d_model + first;
#pragma unroll
        for (int c = 0; c < kWidth; c += 4) {
            float4 part = {};
            if (width == kWidth) {
                part = *reinterpret_cast<const float4*>(query + c);
            } else {
                part.x = c < width ? query[c] : 0.0f;
                part.y = c + 1 < width ? query[c + 1] : 0.0f;
                part.z = c + 2 < width ? query[c + 2] : 0.0f;
                part.w = c + 3 < width ? query[c + 3] : 0.0f;
            }
            own.query[q][c] = part.x * scale;
            own.query[q][c + 1] = part.y * scale;
            own.query[q][c + 2] = part.z * scale;
            own.query[q][c + 3] = part.w * scale;
        }
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
            own.weighted[q][c] = 0.0f;
        }
    }

    int current = 0;
    for (int begin = 0; begin < N; begin += TILE) {
        int next = begin + TILE;
        if (next < N) {
            size_t from = (size_t)next * d_model;
            load_tile(tiles[current ^ 1], K + from, V + from, min(TILE, N - next), width, d_model);
        } else {
            end_group();
        }
        wait_group();
        __syncthreads();
        int count = min(TILE, N - begin);
        for (int key = warp * GROUP; key < count; key += WARPS * GROUP) {
            add_group(own, tiles[current], key, count);
        }
        __syncthreads();
        current ^= 1;
    }

#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
        meeting.largest[warp][q * kWarp + lane] = own.largest[q];
        meeting.sum[warp][q * kWarp + lane] = own.sum[q];
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
        float largest = -INFINITY;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            largest = fmaxf(largest, meeting.largest[w][q * kWarp + lane]);
        }
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            sum = fmaf(meeting.sum[w][q * kWarp + lane], exp2f(meeting.largest[w][q * kWarp + lane] - largest), sum);
        }
        float factor = exp2f(own.largest[q] - largest) / sum;
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
            own.weighted[q][c] *= factor;
        }
    }
    constexpr int kColumns = kWidth < kPart ? kWidth : kPart;
#pragma unroll
    for (int left = 0; left < kWidth; left += kColumns) {
#pragma unroll
        for (int q = 0; q < kQueries; ++q) {
#pragma unroll
            for (int c = 0; c < kColumns; ++c) {
                meeting.parts[warp][q * kWarp + lane][c] = own.weighted[q][left + c];
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < kRows * kColumns; i += kThreads) {
            int row = i / kColumns;
            int column = i % kColumns;
            float sum = 0.0f;
#pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                sum += meeting.parts[w][row][column];
            }
            if (top + row < N && left + column < width) {
                output[(size_t)(top + row) * d_model + first + left + column] = sum;
            }
        }
        __syncthreads();
    }
}

// Returns false where the chip has less shared memory.
template <int kWidth, int kQueries>
bool launch_lanes(const float* Q, const float* K, const float* V, float* output, int N, int d_model, int h)
{
    auto kernel = attend_by_lanes<kWidth, kQueries>;
    constexpr size_t kBytes = shared_bytes<kWidth, kQueries>();
    if (kBytes > 48 * 1024 &&
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)kBytes) != cudaSuccess) {
        cudaGetLastError(); // the caller goes another way
        return false;
    }
    unsigned blocks = (unsigned)h * ((N - 1) / (kWarp * kQueries) + 1);
    kernel<<<blocks, kThreads, kBytes>>>(Q, K, V, output, N, d_model, h);
    return true;
}

template <int kWidth>
bool launch_width(const float* Q, const float* K, const float* V, float* output, int N, int d_model, int h)
{
#if QUERIES == 2
    int device = 0;
    int processors = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if ((long long)h * ((N - 1) / kWarp + 1) > processors) {
        return launch_lanes<kWidth, 2>(Q, K, V, output, N, d_model, h);
    }
#endif
    return launch_lanes<kWidth, 1>(Q, K, V, output, N, d_model, h);
}
#endif

extern "C" void solve(const float* Q, const float* K, const float* V, float* output, int N, int d_model, int h)
{
#if VARIANT == 0
    size_t count = (size_t)N * d_model;
    attend<<<(unsigned)((count - 1) / kThreads + 1), kThreads>>>(Q, K, V, output, N, d_model, h);
#else
    bool done = false;
#if VARIANT == 2
    int width = d_model / h;
    done = width <= 8    ? launch_width<8>(Q, K, V, output, N, d_model, h)
           : width <= 16 ? launch_width<16>(Q, K, V, output, N, d_model, h)
           : width <= 32 ? launch_width<32>(Q, K, V, output, N, d_model, h)
                         : false;
#endif
    if (!done) {
        size_t pairs = (size_t)N * h;
        attend_by_warps<<<(unsigned)((pairs - 1) / WARPS + 1), kThreads>>>(Q, K, V, output, N, d_model, h);
    }
#endif
    cudaDeviceSynchronize();
}
