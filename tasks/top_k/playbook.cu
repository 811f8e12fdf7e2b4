// The largest k: sort everything, or select by digits, or bound the k-th value by maxima of groups first.

#include <cuda_runtime.h>

#define REACH 0     // tunable: 0 1 2; a network in global memory, passes over digits, a bound by groups
#define ALONE 1024  // tunable: 1024 4096 16384; up to so many elements one block finds the bound
#define VECTORS 1   // tunable: 1 2 4; of four elements, that a thread loads before it needs the first
#define GROUPS 4    // tunable: 2 4 8; groups of elements for each value that is wanted
#define THREADS 256 // tunable: 128 256 512; of a block that is not alone

// tunable-if: REACH == 2 or ALONE == 1024 and VECTORS == 1 and GROUPS == 4

// tunable-hint: launch_overhead REACH=2
// tunable-hint: latency REACH=2
// tunable-hint: latency ALONE=4096
// tunable-hint: low_occupancy ALONE=1024
// tunable-hint: dram_bandwidth VECTORS=2
// tunable-hint: tail VECTORS=1
// tunable-hint: issue GROUPS=2

// Bits that ascend as the numbers do.
__device__ unsigned ascending(float value)
{
    unsigned bits = __float_as_uint(value);
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

__device__ float number_of(unsigned key)
{
    return __uint_as_float(key ^ (key >> 31 ? 0x80000000u : 0xffffffffu));
}

#if REACH == 0
// Idea: exchanges that all descend: the first of a merge mirrors the second half, the others halve the
// distance. So what lies beyond the end counts as the least and is never touched.
__global__ void __launch_bounds__(THREADS) exchange(float* values, unsigned n, unsigned distance, bool mirrored)
{
    unsigned pair = blockIdx.x * THREADS + threadIdx.x;
    unsigned below = pair % distance;
    unsigned low = (pair - below) * 2 + below;
    unsigned high = mirrored ? low + 2 * (distance - below) - 1 : low + distance;
    if (low < n && high < n) {
        float left = values[low];
        float right = values[high];
        if (left < right) {
            values[low] = right;
            values[high] = left;
        }
    }
}

void select(const float* input, float* output, unsigned n, unsigned k)
{
    float* values = nullptr;
    cudaMalloc(&values, sizeof(float) * n);
    cudaMemcpyAsync(values, input, sizeof(float) * n, cudaMemcpyDeviceToDevice);
    for (unsigned half = 1; half == 1 || half < n; half *= 2) {
        // Pairs up to the last one that may be below n: whole groups of `distance` pairs.
        for (unsigned distance = half; distance > 0; distance /= 2) {
            unsigned pairs = (n - 1) / (2 * distance) * distance + distance;
            exchange<<<(pairs - 1) / THREADS + 1, THREADS>>>(values, n, distance, distance == half);
        }
    }
    cudaMemcpyAsync(output, values, sizeof(float) * k, cudaMemcpyDeviceToDevice);
    cudaDeviceSynchronize();
    cudaFree(values);
}
#else
constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

using Key = float;

// The largest value comes first.
__device__ unsigned order_of(Key value)
{
    return ~ascending(value);
}

#include "shared/digit_sort.cuh"

void select_by_digits(const float* input, float* output, unsigned n, unsigned k)
{
    unsigned all = (n - 1) / kTile + 1;
    unsigned tiles = (all - 1) / kMostBlocks + 1;
    unsigned blocks = (all - 1) / tiles + 1;
    float* sorted[2] = {};
    unsigned* counts = nullptr;
    cudaMalloc(&sorted[0], sizeof(float) * n);
    cudaMalloc(&sorted[1], sizeof(float) * n);
    cudaMalloc(&counts, sizeof(unsigned) * kDigits * blocks);
    for (int pass = 0; pass < kPasses; ++pass) {
        const float* from = pass == 0 ? input : sorted[(pass + 1) % 2];
        count_digits<<<blocks, THREADS>>>(from, counts, n, tiles, pass);
        scan_counts<<<1, 1024>>>(counts, kDigits * blocks);
        scatter<<<blocks, THREADS>>>(from, sorted[pass % 2], counts, n, tiles, pass);
    }
    cudaMemcpyAsync(output, sorted[(kPasses + 1) % 2], sizeof(float) * k, cudaMemcpyDeviceToDevice);
    cudaDeviceSynchronize();
    cudaFree(counts);
    cudaFree(sorted[1]);
    cudaFree(sorted[0]);
}

#if REACH == 1
void select(const float* input, float* output, unsigned n, unsigned k)
{
    select_by_digits(input, output, n, k);
}
#else
constexpr unsigned kMostWanted = 1024;
constexpr unsigned kMostGroups = 4096;
constexpr unsigned kMostFound = 4096;    // values above the bound that are ranked
constexpr unsigned kLeastKey = 0x007fffff; // of minus infinity
constexpr unsigned kTurned = 0x80000000u;
constexpr int kMostSteps = 33;           // of halving 32 bits

// What blocks tell each other. One block alone keeps the lists in its shared memory.
__device__ unsigned shared_maxima[kMostGroups];
__device__ unsigned shared_found[kMostFound];
__device__ unsigned digit_counts[kPasses][kDigits];
__device__ unsigned found_counts[2];
__device__ unsigned arrivals; // the top bit turns when all blocks have come

// Idea: one atomic a block, and nothing to clear: the last arrival leaves all bits but the top one 0.
// `turn` is the top bit before, and afterwards.
__device__ void meet(unsigned& turn)
{
    __syncthreads();
    if (gridDim.x == 1) {
        return;
    }
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&arrivals, blockIdx.x == 0 ? kTurned - (gridDim.x - 1) : 1u);
        while (((*(volatile unsigned*)&arrivals ^ turn) & kTurned) == 0) {
        }
        __threadfence();
    }
    turn ^= kTurned;
    __syncthreads();
}

// Calls `take` with the key of each element of this thread; loads do not wait for each other.
template <typename Take>
__device__ void for_each_key(const float* __restrict__ input, unsigned n, Take take)
{
    unsigned threads = gridDim.x * blockDim.x;
    unsigned number = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned vectors = n / 4;
    for (unsigned first = number; first < vectors; first += threads * VECTORS) {
        float4 loaded[VECTORS];
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            unsigned at = first + i * threads;
            loaded[i] = reinterpret_cast<const float4*>(input)[at < vectors ? at : first];
        }
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            if (first + i * threads < vectors) {
                take(ascending(loaded[i].x));
                take(ascending(loaded[i].y));
                take(ascending(loaded[i].z));
                take(ascending(loaded[i].w));
            }
        }
    }
    if (number < n % 4) {
        take(ascending(input[vectors * 4 + number]));
    }
}

__device__ unsigned largest_of_warp(unsigned key, unsigned lanes)
{
    for (unsigned distance = lanes / 2; distance > 0; distance /= 2) {
        unsigned other = __shfl_xor_sync(kWholeWarp, key, distance);
        key = key > other ? key : other;
    }
    return key;
}

// A number that at least k of the keys reach, and not many more do where the keys are not alike. `counts`
// has kMostSteps zeros; `ends` the least key and the largest.
__device__ unsigned bound_by(const unsigned* keys, unsigned groups, unsigned k, unsigned* counts, const unsigned* ends)
{
    unsigned low = ends[0];
    unsigned high = ends[1];
    for (int step = 0; low < high; ++step) {
        unsigned middle = low + (high - low) / 2 + ((high - low) & 1);
        unsigned count = 0;
        for (unsigned first = 0; first < groups; first += blockDim.x) {
            unsigned group = first + threadIdx.x;
            count += __popc(__ballot_sync(kWholeWarp, group < groups && keys[group] >= middle));
        }
        if (threadIdx.x % kWarp == 0) {
            atomicAdd(counts + step, count);
        }
        __syncthreads();
        count = counts[step];
        if (count < k) {
            high = middle - 1;
        } else {
            low = middle;
            if (count - k <= k / 8) {
                break;
            }
        }
    }
    return low;
}

// The k-th largest key itself, digit by digit; for inputs whose maxima say little.
__device__ unsigned select_key(const float* input, unsigned n, unsigned k, unsigned* counts, unsigned& turn)
{
    __shared__ unsigned chosen[2];
    unsigned prefix = 0;
    for (int pass = kPasses - 1; pass >= 0; --pass) {
        int shift = pass * kDigitBits;
        for (unsigned digit = threadIdx.x; digit < kDigits; digit += blockDim.x) {
            counts[digit] = 0;
        }
        __syncthreads();
        for_each_key(input, n, [&](unsigned key) {
            if (pass == kPasses - 1 || key >> (shift + kDigitBits) == prefix) {
                atomicAdd(counts + (key >> shift & (kDigits - 1)), 1u);
            }
        });
        __syncthreads();
        for (unsigned digit = threadIdx.x; digit < kDigits; digit += blockDim.x) {
            if (counts[digit] != 0) {
                atomicAdd(&digit_counts[pass][digit], counts[digit]);
            }
        }
        meet(turn);
        if (threadIdx.x < kWarp) {
            // From the highest digits down, a warp at a time.
            unsigned above = 0;
            for (int top = kDigits - 1; top > 0; top -= kWarp) {
                unsigned digit = top - threadIdx.x;
                unsigned count = *(volatile unsigned*)&digit_counts[pass][digit];
                unsigned through = scan_warp(count);
                if (above + through >= k && above + through - count < k) {
                    chosen[0] = digit;
                    chosen[1] = above + through - count;
                }
                above += __shfl_sync(kWholeWarp, through, kWarp - 1);
            }
        }
        __syncthreads();
        prefix = prefix << kDigitBits | chosen[0];
        k -= chosen[1];
        __syncthreads();
    }
    return prefix;
}

// Gathers the keys above `bound` from all blocks, and says how many there are.
__device__ unsigned gather(
    const float* input, unsigned n, unsigned bound, unsigned* own, unsigned* found, unsigned* total, unsigned& turn)
{
    __shared__ unsigned count;
    __shared__ unsigned place;
    if (threadIdx.x == 0) {
        count = 0;
    }
    __syncthreads();
    for_each_key(input, n, [&](unsigned key) {
        if (key > bound) {
            unsigned at = atomicAdd(&count, 1u);
            if (at < kMostFound) {
                own[at] = key;
            }
        }
    });
    __syncthreads();
    if (gridDim.x == 1) {
        return count;
    }
    if (threadIdx.x == 0) {
        place = count == 0 ? 0 : atomicAdd(total, count);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < count && place + i < kMostFound; i += blockDim.x) {
        found[place + i] = own[i];
    }
    meet(turn);
    return *(volatile unsigned*)total;
}

// Idea: where at least k groups have a maximum of at least b, the k-th largest value is no less than b; and
// where values lie in any order, hardly more than k are above the best such b. Those are ranked by
// counting. If less than k are above it, then the others are b.
__global__ void __launch_bounds__(1024)
    select_above(const float* __restrict__ input, float* output, unsigned n, unsigned k, unsigned width)
{
    __shared__ unsigned keys[kMostFound > kMostGroups ? kMostFound : kMostGroups];
    __shared__ unsigned counts[kDigits > kMostSteps ? kDigits : kMostSteps];
    __shared__ unsigned ends[2];
    unsigned threads = gridDim.x * blockDim.x;
    unsigned number = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned groups = threads / width;
    unsigned turn = threadIdx.x == 0 ? *(volatile unsigned*)&arrivals : 0;
    if (blockIdx.x == 0) {
        for (unsigned i = threadIdx.x; i < kPasses * kDigits; i += blockDim.x) {
            digit_counts[i / kDigits][i % kDigits] = 0;
        }
        if (threadIdx.x < 2) {
            found_counts[threadIdx.x] = 0;
        }
    }
    for (unsigned i = threadIdx.x; i < kMostSteps; i += blockDim.x) {
        counts[i] = 0;
    }
    if (threadIdx.x < 2) {
        ends[threadIdx.x] = threadIdx.x == 0 ? 0xffffffffu : 0;
    }
    unsigned* maxima = gridDim.x == 1 ? keys : shared_maxima;
    unsigned largest = kLeastKey;
    for_each_key(input, n, [&](unsigned key) { largest = key > largest ? key : largest; });
    largest = largest_of_warp(largest, width);
    if (number % width == 0) {
        maxima[number / width] = largest;
    }
    meet(turn);
    unsigned least = 0xffffffffu;
    largest = 0;
    for (unsigned group = threadIdx.x; group < groups; group += blockDim.x) {
        unsigned key = maxima[group];
        keys[group] = key;
        least = key < least ? key : least;
        largest = key > largest ? key : largest;
    }
    least = ~largest_of_warp(~least, kWarp);
    largest = largest_of_warp(largest, kWarp);
    if (threadIdx.x % kWarp == 0) {
        atomicMin(ends, least);
        atomicMax(ends + 1, largest);
    }
    __syncthreads();
    unsigned bound = groups < k ? kLeastKey : bound_by(keys, groups, k, counts, ends);
    __syncthreads();
    unsigned count = gather(input, n, bound, keys, shared_found, found_counts, turn);
    if (count > kMostFound) {
        bound = select_key(input, n, k, counts, turn);
        count = gather(input, n, bound, keys, shared_found, found_counts + 1, turn);
    }
    if (gridDim.x > 1) {
        for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
            keys[i] = shared_found[i];
        }
        __syncthreads();
    }
    for (unsigned i = number / kWarp; i < count; i += threads / kWarp) {
        unsigned key = keys[i];
        unsigned before = 0;
        for (unsigned j = threadIdx.x % kWarp; j < count; j += kWarp) {
            before += keys[j] > key || keys[j] == key && j < i ? 1 : 0;
        }
        for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) {
            before += __shfl_xor_sync(kWholeWarp, before, distance);
        }
        if (threadIdx.x % kWarp == 0 && before < k) {
            output[before] = number_of(key);
        }
    }
    for (unsigned i = count + number; i < k; i += threads) {
        output[i] = number_of(bound);
    }
}

// Blocks of `select_above` that the device holds at once.
unsigned resident_blocks()
{
    int device = 0;
    int processors = 0;
    int each = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, select_above, THREADS, 0);
    return processors * each;
}

void select(const float* input, float* output, unsigned n, unsigned k)
{
    if (k > kMostWanted) {
        select_by_digits(input, output, n, k);
        return;
    }
    unsigned filled = ((n - 1) / (kWarp * 4) + 1) * kWarp; // threads that have a vector
    unsigned threads = n > ALONE ? THREADS : filled < 1024 ? filled : 1024;
    unsigned blocks = 1;
    if (n > ALONE) {
        unsigned wanted = (n - 1) / (THREADS * VECTORS * 4) + 1;
        unsigned most = resident_blocks();
        most = most < kMostGroups / (THREADS / kWarp) ? most : kMostGroups / (THREADS / kWarp);
        blocks = wanted < most ? wanted : most;
    }
    unsigned width = kWarp; // threads of a group
    while (width > 1 && blocks * threads / width < GROUPS * k && 2 * blocks * threads / width <= kMostGroups) {
        width /= 2;
    }
    select_above<<<blocks, threads>>>(input, output, n, k, width);
    cudaDeviceSynchronize();
}
#endif
#endif

extern "C" void solve(const float* input, float* output, int n, int k)
{
    select(input, output, n, k);
}
