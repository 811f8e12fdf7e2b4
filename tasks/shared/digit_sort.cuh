// A pass of a stable sort by digits of 8 bits, lowest first: count the digits of each block, make the counts places,
// scatter. The playbook defines THREADS, the type `Key`, and `order_of(Key)`, whose bits ascend in the order wanted.

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kPasses = 32 / kDigitBits;
constexpr int kEach = 8; // keys that a thread has of a tile
constexpr int kTile = THREADS * kEach;
constexpr int kMostBlocks = 512;

__device__ unsigned digit_of(Key key, int pass)
{
    return order_of(key) >> pass * kDigitBits & (kDigits - 1);
}

// Each block has `tiles` tiles in a row, in both kernels of a pass.
__global__ void __launch_bounds__(THREADS)
    count_digits(const Key* keys, unsigned* counts, unsigned n, unsigned tiles, int pass)
{
    __shared__ unsigned counters[kDigits];
    for (int digit = threadIdx.x; digit < kDigits; digit += THREADS) {
        counters[digit] = 0;
    }
    __syncthreads();
    unsigned begin = blockIdx.x * tiles * kTile;
    unsigned end = n - begin < tiles * kTile ? n : begin + tiles * kTile;
    for (unsigned i = begin + threadIdx.x; i < end; i += THREADS) {
        atomicAdd(counters + digit_of(keys[i], pass), 1u);
    }
    __syncthreads();
    for (int digit = threadIdx.x; digit < kDigits; digit += THREADS) {
        counts[digit * gridDim.x + blockIdx.x] = counters[digit];
    }
}

__device__ unsigned scan_warp(unsigned value)
{
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
        unsigned before = __shfl_up_sync(kWholeWarp, value, distance);
        if (threadIdx.x % kWarp >= distance) {
            value += before;
        }
    }
    return value;
}

// Makes counts the places where they begin: what is before them, of lower digits and of blocks before.
__global__ void __launch_bounds__(1024) scan_counts(unsigned* counts, unsigned number)
{
    __shared__ unsigned totals[kWarp];
    unsigned each = (number - 1) / 1024 + 1;
    unsigned begin = threadIdx.x * each;
    unsigned sum = 0;
    for (unsigned i = begin; i < begin + each && i < number; ++i) {
        sum += counts[i];
    }
    unsigned scanned = scan_warp(sum);
    if (threadIdx.x % kWarp == kWarp - 1) {
        totals[threadIdx.x / kWarp] = scanned;
    }
    __syncthreads();
    unsigned total = totals[threadIdx.x % kWarp];
    unsigned through = scan_warp(total);
    unsigned place = scanned - sum + __shfl_sync(kWholeWarp, through - total, threadIdx.x / kWarp);
    for (unsigned i = begin; i < begin + each && i < number; ++i) {
        unsigned count = counts[i];
        counts[i] = place;
        place += count;
    }
}

// Idea: equal digits keep their order. Each warp ranks its keys, in memory order, among those of the same
// digit; warps before it and tiles before this one add what they have.
__global__ void __launch_bounds__(THREADS) scatter(
    const Key* keys, Key* moved, const unsigned* places, unsigned n, unsigned tiles, int pass)
{
    constexpr int kWarps = THREADS / kWarp;
    __shared__ unsigned ranked[kWarps][kDigits];
    __shared__ unsigned next[kDigits];
    unsigned* mine = ranked[threadIdx.x / kWarp];
    unsigned lane = threadIdx.x % kWarp;
    for (int digit = threadIdx.x; digit < kDigits; digit += THREADS) {
        next[digit] = places[digit * gridDim.x + blockIdx.x];
    }
    for (unsigned tile = blockIdx.x * tiles; tile < (blockIdx.x + 1) * tiles && tile <= (n - 1) / kTile; ++tile) {
        for (int digit = lane; digit < kDigits; digit += kWarp) {
            mine[digit] = 0;
        }
        __syncwarp();
        unsigned begin = tile * kTile + threadIdx.x / kWarp * kWarp * kEach + lane;
        Key key[kEach];
        unsigned rank[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            key[i] = begin + i * kWarp < n ? keys[begin + i * kWarp] : Key{};
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            bool exists = begin + i * kWarp < n;
            unsigned digit = exists ? digit_of(key[i], pass) : kDigits;
            unsigned alike = __match_any_sync(kWholeWarp, digit);
            unsigned before = __popc(alike & ((1u << lane) - 1));
            unsigned count = exists ? mine[digit] : 0;
            __syncwarp();
            rank[i] = count + before;
            if (exists && before == 0) {
                mine[digit] = count + __popc(alike);
            }
            __syncwarp();
        }
        __syncthreads();
        for (int digit = threadIdx.x; digit < kDigits; digit += THREADS) {
            unsigned place = next[digit];
            for (int warp = 0; warp < kWarps; ++warp) {
                unsigned count = ranked[warp][digit];
                ranked[warp][digit] = place;
                place += count;
            }
            next[digit] = place;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            if (begin + i * kWarp < n) {
                moved[mine[digit_of(key[i], pass)] + rank[i]] = key[i];
            }
        }
        __syncthreads();
    }
}
