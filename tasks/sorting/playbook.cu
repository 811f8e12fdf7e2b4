// Sort: a network in global memory, one block for what it holds, many blocks that meet once for a few
// times as much, and passes over digits for everything beyond.

#include <cuda_runtime.h>

#define REACH 0     // tunable: 0 1 2; a network in global memory; one block or digits; blocks that meet too
#define ITEMS 1     // tunable: 1 2 4; keys of a thread of a block that sorts
#define ALONE 1024  // tunable: 512 1024 2048; most elements that one block sorts, but for a power of 2
#define CHUNK 256   // tunable: 256 512 1024; elements that each of the meeting blocks sorts
#define SHARE 8     // tunable: 4 8 16; blocks that sort the same chunk, and rank a part of it each
#define THREADS 256 // tunable: 256 512; of a block that does not sort on its own

// tunable-if: REACH > 0 or ITEMS == 1 and ALONE == 1024
// tunable-if: REACH == 2 or CHUNK == 256 and SHARE == 8
// tunable-if: ALONE <= 1024 * ITEMS
// tunable-if: REACH < 2 or SHARE >= ITEMS and CHUNK // ITEMS >= 64

// tunable-hint: launch_overhead REACH=1
// tunable-hint: launch_overhead REACH=2
// tunable-hint: latency ITEMS=4
// tunable-hint: latency SHARE=16
// tunable-hint: low_occupancy REACH=2
// tunable-hint: tail REACH=2
// tunable-hint: tail SHARE=8
// tunable-hint: shuffle ITEMS=4
// tunable-hint: dram_bandwidth REACH=1

#if REACH == 0
// Idea: exchanges that all ascend: the first of a merge mirrors the second half, the others halve the
// distance. So what lies beyond the end counts as infinite and is never touched.
__global__ void __launch_bounds__(THREADS) exchange(float* data, unsigned n, unsigned distance, bool mirrored)
{
    unsigned pair = blockIdx.x * THREADS + threadIdx.x;
    unsigned below = pair % distance;
    unsigned low = (pair - below) * 2 + below;
    unsigned high = mirrored ? low + 2 * (distance - below) - 1 : low + distance;
    if (low < n && high < n) {
        float left = data[low];
        float right = data[high];
        if (left > right) {
            data[low] = right;
            data[high] = left;
        }
    }
}
#else
constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

// Idea: a thread's keys are neighbours, so that exchanges over short distances stay in registers, those
// within a warp are shuffles, and shared memory is for the few that are left. Sorts ITEMS * blockDim.x.
__device__ void sort_block(float (&own)[ITEMS], float* room)
{
    unsigned first = threadIdx.x * ITEMS;
    unsigned count = blockDim.x * ITEMS;
    for (unsigned size = 2; size <= count; size *= 2) {
        // Mirrored: partners have every bit below `size` unlike, not one alone.
        for (unsigned distance = size / 2, flipped = size - 1; distance > 0; distance /= 2, flipped = distance) {
            unsigned threads = flipped / ITEMS;
            bool lower = (first & distance) == 0;
            if (distance < ITEMS) {
#pragma unroll
                for (int near = 1; near < ITEMS; near *= 2) {
                    if (near == distance) {
#pragma unroll
                        for (int i = 0; i < ITEMS; ++i) {
                            if ((i & near) == 0) {
                                int mirrored = i ^ (2 * near - 1);
                                int straight = i ^ near;
                                float other = flipped == distance ? own[straight] : own[mirrored];
                                float small = fminf(own[i], other);
                                float large = fmaxf(own[i], other);
                                own[i] = small;
                                if (flipped == distance) {
                                    own[straight] = large;
                                } else {
                                    own[mirrored] = large;
                                }
                            }
                        }
                    }
                }
                continue;
            }
            float other[ITEMS];
            if (threads < kWarp) {
#pragma unroll
                for (int i = 0; i < ITEMS; ++i) {
                    other[i] = __shfl_xor_sync(kWholeWarp, own[i], threads);
                }
            } else {
                __syncthreads();
#pragma unroll
                for (int i = 0; i < ITEMS; ++i) {
                    room[i * blockDim.x + threadIdx.x] = own[i];
                }
                __syncthreads();
#pragma unroll
                for (int i = 0; i < ITEMS; ++i) {
                    other[i] = room[i * blockDim.x + (threadIdx.x ^ threads)];
                }
            }
            float kept[ITEMS];
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                float partner = flipped == distance ? other[i] : other[ITEMS - 1 - i];
                kept[i] = lower ? fminf(own[i], partner) : fmaxf(own[i], partner);
            }
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                own[i] = kept[i];
            }
        }
    }
}

// Keys of `blockDim.x * ITEMS` from `begin` on; past the end they are infinite.
__device__ void load(float (&own)[ITEMS], const float* data, unsigned begin, unsigned n)
{
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        unsigned at = begin + i * blockDim.x + threadIdx.x;
        own[i] = at < n ? data[at] : __int_as_float(0x7f800000);
    }
}

__global__ void __launch_bounds__(1024) sort_alone(float* data, unsigned n)
{
    __shared__ float room[1024 * ITEMS];
    float own[ITEMS];
    load(own, data, 0, n);
    sort_block(own, room);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        if (threadIdx.x * ITEMS + i < n) {
            data[threadIdx.x * ITEMS + i] = own[i];
        }
    }
}

using Key = unsigned;

// Bits that ascend as the numbers do.
__device__ unsigned order_of(Key bits)
{
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

#include "shared/digit_sort.cuh"

void sort_by_digits(unsigned* keys, unsigned n)
{
    unsigned all = (n - 1) / kTile + 1;
    unsigned tiles = (all - 1) / kMostBlocks + 1;
    unsigned blocks = (all - 1) / tiles + 1;
    unsigned* other = nullptr;
    unsigned* counts = nullptr;
    cudaMalloc(&other, sizeof(unsigned) * n);
    cudaMalloc(&counts, sizeof(unsigned) * kDigits * blocks);
    for (int pass = 0; pass < kPasses; ++pass) {
        unsigned* from = pass % 2 == 0 ? keys : other;
        unsigned* to = pass % 2 == 0 ? other : keys;
        count_digits<<<blocks, THREADS>>>(from, counts, n, tiles, pass);
        scan_counts<<<1, 1024>>>(counts, kDigits * blocks);
        scatter<<<blocks, THREADS>>>(from, to, counts, n, tiles, pass);
    }
    cudaDeviceSynchronize();
    cudaFree(counts);
    cudaFree(other);
}

#if REACH == 2
constexpr unsigned kMostMeeting = 8192;
constexpr int kSorting = CHUNK / ITEMS; // threads of a block that meets others
constexpr unsigned kTurned = 0x80000000u;

__device__ float chunks[kMostMeeting]; // each in ascending order
__device__ unsigned arrivals;          // the top bit turns when all blocks have come

// Idea: one atomic a block, and nothing to clear: the last arrival leaves all bits but the top one 0.
__device__ void meet(unsigned before)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&arrivals, blockIdx.x == 0 ? kTurned - (gridDim.x - 1) : 1u);
        while (((*(volatile unsigned*)&arrivals ^ before) & kTurned) == 0) {
        }
        __threadfence();
    }
    __syncthreads();
}

// Where an element of the chunks lies in shared memory: searches go to banks of all kinds.
__device__ unsigned spread(unsigned i)
{
    return i + i / kWarp;
}

// Idea: a key's place is how many keys are before it: in its own chunk that is known, in the others a
// search tells. Blocks sort their chunk alike, then rank a part of it each.
__global__ void __launch_bounds__(kSorting) sort_meeting(float* data, unsigned n, unsigned share)
{
    extern __shared__ float sorted[];
    __shared__ float room[CHUNK];
    unsigned before = threadIdx.x == 0 ? *(volatile unsigned*)&arrivals : 0;
    unsigned chunk = blockIdx.x / share;
    unsigned count = gridDim.x / share; // of chunks
    unsigned part = CHUNK / share;      // keys that this block ranks
    unsigned first = blockIdx.x % share * part;
    float own[ITEMS];
    load(own, data, chunk * CHUNK, n);
    sort_block(own, room);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        unsigned at = threadIdx.x * ITEMS + i;
        if (at - first < part) {
            chunks[chunk * CHUNK + at] = own[i];
        }
    }
    meet(before);
    for (unsigned i = threadIdx.x * 4; i < count * CHUNK; i += kSorting * 4) {
        float4 four = __ldcg(reinterpret_cast<const float4*>(chunks + i));
        sorted[spread(i)] = four.x;
        sorted[spread(i + 1)] = four.y;
        sorted[spread(i + 2)] = four.z;
        sorted[spread(i + 3)] = four.w;
    }
    __syncthreads();
    unsigned helpers = kSorting / part; // neighbouring threads that share the chunks of one key
    unsigned place = first + threadIdx.x / helpers;
    float key = sorted[spread(chunk * CHUNK + place)];
    unsigned rank = 0;
#pragma unroll 4
    for (unsigned other = threadIdx.x % helpers; other < count; other += helpers) {
        unsigned base = other * CHUNK;
        unsigned smaller = 0;
#pragma unroll
        for (unsigned step = CHUNK / 2; step > 0; step /= 2) {
            float there = sorted[spread(base + smaller + step - 1)];
            smaller += there < key || there == key && other < chunk ? step : 0;
        }
        float there = sorted[spread(base + smaller)];
        smaller += there < key || there == key && other < chunk ? 1 : 0;
        rank += other == chunk ? place : smaller;
    }
    for (unsigned distance = helpers / 2; distance > 0; distance /= 2) {
        rank += __shfl_xor_sync(kWholeWarp, rank, distance);
    }
    if (threadIdx.x % helpers == 0 && rank < n) {
        data[rank] = key;
    }
}

// Whether all blocks could be resident, with as many for each chunk as there is room for; then it is sorted.
bool sort_by_meeting(float* data, unsigned n)
{
    unsigned count = (n - 1) / CHUNK + 1;
    size_t bytes = sizeof(float) * (count * CHUNK + count * CHUNK / kWarp);
    int device = 0;
    int processors = 0;
    int each = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, sort_meeting, kSorting, bytes);
    // A block ranks no more keys than it has threads.
    for (unsigned share = SHARE; share >= ITEMS && share > 0; share /= 2) {
        if (count * share <= (unsigned)(processors * each)) {
            sort_meeting<<<count * share, kSorting, bytes>>>(data, n, share);
            cudaDeviceSynchronize();
            return true;
        }
    }
    return false;
}
#endif
#endif

extern "C" void solve(float* data, int n)
{
#if REACH == 0
    unsigned blocks = ((unsigned)n - 1) / (2 * THREADS) + 1;
    for (unsigned half = 1; half < (unsigned)n; half *= 2) {
        // Pairs up to the last one that may be below n: whole groups of `distance` pairs.
        for (unsigned distance = half; distance > 0; distance /= 2) {
            unsigned pairs = ((unsigned)n - 1) / (2 * distance) * distance + distance;
            blocks = (pairs - 1) / THREADS + 1;
            exchange<<<blocks, THREADS>>>(data, n, distance, distance == half);
        }
    }
    cudaDeviceSynchronize();
#else
    if (n <= ALONE) {
        unsigned wanted = kWarp * ITEMS;
        while (wanted < (unsigned)n) {
            wanted *= 2;
        }
        sort_alone<<<1, wanted / ITEMS>>>(data, n);
        cudaDeviceSynchronize();
        return;
    }
#if REACH == 2
    if (n <= kMostMeeting && sort_by_meeting(data, n)) {
        return;
    }
#endif
    sort_by_digits(reinterpret_cast<unsigned*>(data), n);
#endif
}
