// Prefix sum: how tiles learn the sum of what lies before them, and how a block scans its tile.

#include <cuda_runtime.h>

#define ACROSS 0     // tunable: 0 1 2; tiles join by three kernels, by looking back, by all looking at all
#define THREADS 256  // tunable: 128 256 512 1024; of a block
#define ROWS 1       // tunable: 1 2 4; vectors of four elements that a thread has of a tile
#define ALONE 0      // tunable: 0 4096 16384; up to so many elements one block does everything
#define CLUSTER 0    // tunable: 0 8 16; most blocks that tell each other through shared memory, from sm_90 on
#define STREAMED 0   // tunable: 0 1; the output is stored past what L2 keeps

// tunable-if: ALONE == 0 or ACROSS > 0
// tunable-if: CLUSTER == 0 or ACROSS == 2 and ALONE > 0 and THREADS >= 512

// tunable-hint: launch_overhead ACROSS=2
// tunable-hint: launch_overhead ALONE=4096
// tunable-hint: dram_bandwidth ACROSS=1
// tunable-hint: dram_bandwidth ROWS=4
// tunable-hint: latency ACROSS=2
// tunable-hint: latency CLUSTER=8
// tunable-hint: latency THREADS=512
// tunable-hint: low_occupancy THREADS=512
// tunable-hint: tail ROWS=1

constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr int kWidth = 4; // elements of a vector
constexpr int kTile = THREADS * ROWS * kWidth;

template <int rows>
struct Elements {
    float at[rows][kWidth];
};

// Idea: neighbours load neighbouring vectors, row after row, so that nothing has to change places.
template <int rows>
__device__ Elements<rows> load(const float* __restrict__ input, unsigned begin, unsigned n)
{
    Elements<rows> own;
#pragma unroll
    for (int row = 0; row < rows; ++row) {
        unsigned i = begin + (row * blockDim.x + threadIdx.x) * kWidth;
        if (i < n && n - i >= kWidth) {
            float4 vector = *reinterpret_cast<const float4*>(input + i);
            own.at[row][0] = vector.x;
            own.at[row][1] = vector.y;
            own.at[row][2] = vector.z;
            own.at[row][3] = vector.w;
        } else {
#pragma unroll
            for (int j = 0; j < kWidth; ++j) {
                own.at[row][j] = i + j < n ? input[i + j] : 0.0f;
            }
        }
    }
    return own;
}

template <int rows>
__device__ void store(float* output, unsigned begin, unsigned n, const Elements<rows>& own)
{
#pragma unroll
    for (int row = 0; row < rows; ++row) {
        unsigned i = begin + (row * blockDim.x + threadIdx.x) * kWidth;
        if (i < n && n - i >= kWidth) {
            float4 vector = make_float4(own.at[row][0], own.at[row][1], own.at[row][2], own.at[row][3]);
#if STREAMED == 1
            __stcs(reinterpret_cast<float4*>(output + i), vector);
#else
            *reinterpret_cast<float4*>(output + i) = vector;
#endif
        } else {
#pragma unroll
            for (int j = 0; j < kWidth; ++j) {
                if (i + j < n) {
                    output[i + j] = own.at[row][j];
                }
            }
        }
    }
}

// Sum over the lanes up to this one.
__device__ float scan_warp(float value)
{
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
        float before = __shfl_up_sync(kWholeWarp, value, distance);
        if (threadIdx.x % kWarp >= distance) {
            value += before;
        }
    }
    return value;
}

__device__ float sum_warp(float value)
{
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(kWholeWarp, value, distance);
    }
    return value;
}

// Idea: rows are scanned by warps side by side; the first warp scans the warps' totals, and meanwhile
// finds what lies before the tile: `sum_before(total)`, called by all its lanes with the tile's sum. The
// other warps do `meanwhile()`.
template <int rows, typename SumBefore, typename Meanwhile>
__device__ void scan_tile(Elements<rows>& own, SumBefore sum_before, Meanwhile meanwhile)
{
    constexpr int kMostWarps = 32;
    __shared__ float totals[rows * kMostWarps];
    int warps = blockDim.x / kWarp;
    int lane = threadIdx.x % kWarp;
    float before[rows];
#pragma unroll
    for (int row = 0; row < rows; ++row) {
#pragma unroll
        for (int j = 1; j < kWidth; ++j) {
            own.at[row][j] += own.at[row][j - 1];
        }
        float scanned = scan_warp(own.at[row][kWidth - 1]);
        float left = __shfl_up_sync(kWholeWarp, scanned, 1);
        before[row] = lane == 0 ? 0.0f : left;
        if (lane == kWarp - 1) {
            totals[row * warps + threadIdx.x / kWarp] = scanned;
        }
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
        float exclusive[rows]; // of the totals: `warps` of them a round, as there are at most 32
        float sum = 0.0f;
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            float total = lane < warps ? totals[row * warps + lane] : 0.0f;
            float scanned = scan_warp(total);
            float left = __shfl_up_sync(kWholeWarp, scanned, 1);
            exclusive[row] = sum + (lane == 0 ? 0.0f : left);
            sum += __shfl_sync(kWholeWarp, scanned, kWarp - 1);
        }
        float start = sum_before(sum);
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            if (lane < warps) {
                totals[row * warps + lane] = start + exclusive[row];
            }
        }
    } else {
        meanwhile();
    }
    __syncthreads();
#pragma unroll
    for (int row = 0; row < rows; ++row) {
        float start = totals[row * warps + threadIdx.x / kWarp] + before[row];
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
            own.at[row][j] += start;
        }
    }
}

template <int rows, typename SumBefore>
__device__ void scan_tile(Elements<rows>& own, SumBefore sum_before)
{
    scan_tile(own, sum_before, [] {});
}

#if ACROSS == 0
// Idea: sums of the tiles, a scan of the sums, and the tiles once more; the input is read twice.
__global__ void __launch_bounds__(THREADS) sum_tiles(const float* __restrict__ input, float* sums, unsigned n)
{
    Elements<ROWS> own = load<ROWS>(input, blockIdx.x * kTile, n);
    scan_tile(own, [&](float total) {
        if (threadIdx.x == 0) {
            sums[blockIdx.x] = total;
        }
        return 0.0f;
    });
}

__global__ void __launch_bounds__(THREADS) scan_sums(float* sums, unsigned tiles)
{
    __shared__ float carried;
    if (threadIdx.x == 0) {
        carried = 0.0f;
    }
    for (unsigned begin = 0; begin < tiles; begin += kTile) {
        __syncthreads();
        Elements<ROWS> own = load<ROWS>(sums, begin, tiles);
        scan_tile(own, [&](float total) {
            float before = carried;
            __syncwarp();
            if (threadIdx.x == 0) {
                carried = before + total;
            }
            return before;
        });
        store(sums, begin, tiles, own);
    }
}

__global__ void __launch_bounds__(THREADS)
    scan(const float* __restrict__ input, float* output, const float* sums, unsigned n)
{
    Elements<ROWS> own = load<ROWS>(input, blockIdx.x * kTile, n);
    float before = blockIdx.x == 0 ? 0.0f : sums[blockIdx.x - 1];
    scan_tile(own, [&](float) { return before; });
    store(output, blockIdx.x * kTile, n, own);
}
#else
constexpr unsigned kOfTile = 1;  // a state holds the sum of the tile,
constexpr unsigned kOfPrefix = 2; // or of everything up to its end

// Idea: tag and sum travel in one word, so that who sees the one has the other.
__device__ unsigned long long pack(unsigned tag, float sum)
{
    return (unsigned long long)tag << 32 | __float_as_uint(sum);
}

__device__ float sum_of(unsigned long long state)
{
    return __uint_as_float((unsigned)state);
}

// Idea: a tile tells its own sum at once, then adds up those before it, 32 at a time, until it meets one
// that knows its prefix. Tiles are taken in order, so every tile before is under way.
__global__ void __launch_bounds__(THREADS) scan_looking_back(
    const float* __restrict__ input, float* output, volatile unsigned long long* states, unsigned* next, unsigned n)
{
    __shared__ unsigned taken;
    if (threadIdx.x == 0) {
        taken = atomicAdd(next, 1u);
    }
    __syncthreads();
    unsigned tile = taken;
    Elements<ROWS> own = load<ROWS>(input, tile * kTile, n);
    scan_tile(own, [&](float total) {
        int lane = threadIdx.x;
        if (lane == 0) {
            states[tile] = pack(tile == 0 ? kOfPrefix : kOfTile, total);
        }
        float before = 0.0f;
        for (long long nearest = (long long)tile - 1; nearest >= 0; nearest -= kWarp) {
            unsigned long long state = pack(kOfTile, 0.0f);
            if (lane <= nearest) {
                do {
                    state = states[nearest - lane];
                } while (state >> 32 == 0);
            }
            unsigned known = __ballot_sync(kWholeWarp, state >> 32 == kOfPrefix);
            bool counts = known == 0 || lane < __ffs(known);
            before += sum_warp(counts ? sum_of(state) : 0.0f);
            if (known != 0) {
                break;
            }
        }
        if (lane == 0 && tile > 0) {
            states[tile] = pack(kOfPrefix, before + total);
        }
        return before;
    });
    store(output, tile * kTile, n, own);
}

#if ALONE > 0
// Idea: no other block to wait for, and all loads under way at once.
template <int rows>
__global__ void __launch_bounds__(1024) scan_alone(const float* __restrict__ input, float* output, unsigned n)
{
    Elements<rows> own = load<rows>(input, 0, n);
    scan_tile(own, [](float) { return 0.0f; });
    store(output, 0, n, own);
}
#endif

#if ACROSS == 2
constexpr unsigned kMostSeen = 256; // tiles that look at each other

__device__ unsigned long long seen[kMostSeen];
__device__ unsigned calls; // that are over

// Idea: all tiles are resident, so each adds up the sums of all before it, in one trip through L2. Sums
// bear the number of the call, so nothing has to be cleared; the last tile counts the call, when every
// other has read the count.
__global__ void __launch_bounds__(THREADS)
    scan_looking_at_all(const float* __restrict__ input, float* output, unsigned n)
{
    volatile unsigned long long* sums = seen;
    volatile unsigned* count = &calls;
    unsigned tag = 0;
    if (threadIdx.x < kWarp) {
        tag = *count + 1;
    }
    Elements<ROWS> own = load<ROWS>(input, blockIdx.x * kTile, n);
    scan_tile(own, [&](float total) {
        if (threadIdx.x == 0) {
            sums[blockIdx.x] = pack(tag, total);
        }
        float before = 0.0f;
        constexpr int kEach = kMostSeen / kWarp;
        unsigned long long state[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            unsigned tile = i * kWarp + threadIdx.x;
            state[i] = tile < blockIdx.x ? sums[tile] : pack(tag, 0.0f);
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            while (state[i] >> 32 != tag) {
                state[i] = sums[i * kWarp + threadIdx.x];
            }
            before += sum_of(state[i]);
        }
        before = sum_warp(before);
        if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
            *count = tag;
        }
        return before;
    });
    store(output, blockIdx.x * kTile, n, own);
}

#if CLUSTER > 0
// All threads of the cluster arrive and wait; what was stored before is seen after.
__device__ void arrive_in_cluster()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

__device__ void wait_for_cluster()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Stores to where `place` is in another block of the cluster.
__device__ void store_in_block(float* place, unsigned block, float value)
{
#if __CUDA_ARCH__ >= 900
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there)
                 : "r"((unsigned)__cvta_generic_to_shared(place)), "r"(block));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
#endif
}

// Idea: the grid is one cluster, whose blocks write their sums into the shared memory of those after them:
// no trip through L2.
template <int rows>
__global__ void __launch_bounds__(THREADS)
    scan_in_cluster(const float* __restrict__ input, float* output, unsigned n)
{
    __shared__ float sums[CLUSTER];
    arrive_in_cluster(); // a block's shared memory is there once it has begun
    unsigned begin = blockIdx.x * THREADS * rows * kWidth;
    Elements<rows> own = load<rows>(input, begin, n);
    auto before = [&](float total) {
        wait_for_cluster();
        if (threadIdx.x > blockIdx.x && threadIdx.x < gridDim.x) {
            store_in_block(sums + blockIdx.x, threadIdx.x, total);
        }
        __syncwarp();
        arrive_in_cluster();
        wait_for_cluster();
        return sum_warp(threadIdx.x < blockIdx.x ? sums[threadIdx.x] : 0.0f);
    };
    auto meanwhile = [] {
        wait_for_cluster();
        arrive_in_cluster();
        wait_for_cluster();
    };
    scan_tile(own, before, meanwhile);
    store(output, begin, n, own);
}

template <int rows>
bool launch_cluster(const float* input, float* output, unsigned n)
{
    unsigned blocks = 1;
    while (blocks * THREADS * rows * kWidth < n) {
        blocks *= 2;
    }
    if (blocks > CLUSTER) {
        return false;
    }
#if CLUSTER == 16
    cudaFuncSetAttribute(scan_in_cluster<rows>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
#endif
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = blocks;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(THREADS);
    config.attrs = &cluster;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, scan_in_cluster<rows>, input, output, n);
    cudaDeviceSynchronize();
    return true;
}

// Whether the device has clusters, and one holds everything; then it is done.
bool scan_by_cluster(const float* input, float* output, unsigned n)
{
    int device = 0;
    int major = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (major < 9 || n > CLUSTER * THREADS * 4 * kWidth) {
        return false;
    }
    return launch_cluster<1>(input, output, n) || launch_cluster<2>(input, output, n) ||
           launch_cluster<4>(input, output, n);
}
#endif

// Blocks that the device holds at once.
unsigned resident_blocks()
{
    int device = 0;
    int processors = 0;
    int each = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, scan_looking_at_all, THREADS, 0);
    return processors * each;
}
#endif
#endif

extern "C" void solve(const float* input, float* output, int n)
{
    unsigned tiles = (n - 1) / kTile + 1;
#if ACROSS == 0
    float* sums = nullptr;
    cudaMalloc(&sums, sizeof(float) * tiles);
    sum_tiles<<<tiles, THREADS>>>(input, sums, n);
    scan_sums<<<1, THREADS>>>(sums, tiles);
    scan<<<tiles, THREADS>>>(input, output, sums, n);
    cudaDeviceSynchronize();
    cudaFree(sums);
#else
#if ALONE > 0
    if (n <= ALONE) {
        int wanted = ((n - 1) / (kWarp * kWidth) + 1) * kWarp;
        if (wanted <= 1024) {
            scan_alone<1><<<1, wanted>>>(input, output, n);
        } else {
            scan_alone<ALONE / 4096><<<1, 1024>>>(input, output, n);
        }
        cudaDeviceSynchronize();
        return;
    }
#endif
#if CLUSTER > 0
    if (scan_by_cluster(input, output, n)) {
        return;
    }
#endif
#if ACROSS == 2
    if (tiles <= kMostSeen && tiles <= resident_blocks()) {
        scan_looking_at_all<<<tiles, THREADS>>>(input, output, n);
        cudaDeviceSynchronize();
        return;
    }
#endif
    unsigned long long* states = nullptr;
    size_t bytes = sizeof(unsigned long long) * (tiles + size_t(1));
    cudaMalloc(&states, bytes);
    cudaMemsetAsync(states, 0, bytes);
    unsigned* next = reinterpret_cast<unsigned*>(states + tiles);
    scan_looking_back<<<tiles, THREADS>>>(input, output, states, next, n);
    cudaDeviceSynchronize();
    cudaFree(states);
#endif
}
