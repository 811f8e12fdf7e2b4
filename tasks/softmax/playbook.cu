// Softmax of rows: how often a row is read, who shares a row, and how wide it may be.

#include <cfloat>
#include <cmath>
#include <cuda_runtime.h>

#define HOLD 0      // tunable: 0 1 2; a row is read three times, twice by running sums, once into registers
#define SHORT 0     // tunable: 0 1; a short row by a block, by a warp
#define LONG 0      // tunable: 0 1 2 3; a row beyond registers by a block, by blocks of two launches, by a cluster, by a cluster and beyond its registers by blocks that stay and wait for those of their row
#define THREADS 256 // tunable: 128 256 512; of a block
#define VECTORS 4   // tunable: 2 4 8; of four elements that a thread holds
#define STREAM 0    // tunable: 0 1; caches are told that what is held is not needed again

// tunable-if: HOLD == 2 or LONG < 2 and VECTORS == 4 and STREAM == 0
// tunable-if: HOLD > 0 or LONG == 0

// tunable-hint: dram_bandwidth HOLD=2
// tunable-hint: dram_bandwidth STREAM=1
// tunable-hint: l2_bandwidth HOLD=2
// tunable-hint: issue HOLD=1
// tunable-hint: issue HOLD=2 SHORT=1
// tunable-hint: latency SHORT=1
// tunable-hint: latency HOLD=2 VECTORS=8
// tunable-hint: tail LONG=1
// tunable-hint: tail HOLD=2 LONG=2
// tunable-hint: tail HOLD=2 LONG=3
// tunable-hint: low_occupancy HOLD=2 VECTORS=2
// tunable-hint: launch_overhead LONG=0

constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

// Sum of exp(x - largest) over some elements, of which `largest` is the largest.
struct Part {
    float largest;
    float sum;
};

__device__ Part join_warp(Part part)
{
    float largest = part.largest;
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, distance));
    }
    float sum = part.sum * __expf(part.largest - largest);
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(kWholeWarp, sum, distance);
    }
    return {largest, sum};
}

// Idea: maximum and sum travel together, so the threads of a row meet once. All of them get the result.
template <int kGroup>
__device__ Part join_group(Part part)
{
    part = join_warp(part);
    if constexpr (kGroup > kWarp) {
        constexpr int kWarps = kGroup / kWarp;
        __shared__ Part parts[kWarps];
        int lane = threadIdx.x % kWarp;
        if (lane == 0) {
            parts[threadIdx.x / kWarp] = part;
        }
        __syncthreads();
        part = join_warp(lane < kWarps ? parts[lane] : Part{-FLT_MAX, 0.0f});
    }
    return part;
}

// Part of the elements `lane`, `lane` + kGroup, ... of `count`.
template <int kGroup>
__device__ Part read_part(const float* __restrict__ from, int lane, int count)
{
    Part part = {-FLT_MAX, 0.0f};
#if HOLD == 0
#pragma unroll 4
    for (int i = lane; i < count; i += kGroup) {
        part.largest = fmaxf(part.largest, from[i]);
    }
#pragma unroll 4
    for (int i = lane; i < count; i += kGroup) {
        part.sum += __expf(from[i] - part.largest);
    }
#else
    // Idea: the sum follows a maximum that grows, so one pass finds both; few elements at a time share
    // one correction.
    constexpr int kAtOnce = 8;
    for (int i = lane; i < count; i += kGroup * kAtOnce) {
        float values[kAtOnce];
        float largest = part.largest;
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
            int at = i + j * kGroup;
            values[j] = at < count ? from[at] : -INFINITY;
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
            largest = fmaxf(largest, values[j]);
        }
        float sum = part.sum * __expf(part.largest - largest);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
            sum += __expf(values[j] - largest);
        }
        part = {largest, sum};
    }
#endif
    return part;
}

template <int kGroup>
__device__ void write_quotients(const float* __restrict__ from, float* __restrict__ to, int lane, int count, Part whole)
{
    float factor = 1.0f / whole.sum;
#pragma unroll 8
    for (int i = lane; i < count; i += kGroup) {
        to[i] = __expf(from[i] - whole.largest) * factor;
    }
}

// Any row: by kGroup threads, which read it again for the quotients.
template <int kGroup>
__global__ void __launch_bounds__(THREADS)
    read_again(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    constexpr int kRows = THREADS / kGroup;
    size_t row = (size_t)blockIdx.x * kRows + threadIdx.x / kGroup;
    if (row >= rows) {
        return;
    }
    int lane = threadIdx.x % kGroup;
    Part whole = join_group<kGroup>(read_part<kGroup>(x + row * cols, lane, cols));
    write_quotients<kGroup>(x + row * cols, y + row * cols, lane, cols, whole);
}

#if LONG > 0
// Idea: rows too few to fill the chip are cut into parts. The second launch joins the parts of its row
// and reads the elements again, from L2 where they fit.
__global__ void __launch_bounds__(THREADS)
    read_parts(const float* __restrict__ x, Part* __restrict__ parts, int cols, int count, int length)
{
    size_t row = blockIdx.x / count;
    int first = blockIdx.x % count * length;
    int own = min(length, cols - first);
    Part part = join_group<THREADS>(read_part<THREADS>(x + row * cols + first, threadIdx.x, own));
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = part;
    }
}

__global__ void __launch_bounds__(THREADS) write_parts(
    const float* __restrict__ x, const Part* __restrict__ parts, float* __restrict__ y, int cols, int count, int length)
{
    size_t row = blockIdx.x / count;
    int first = blockIdx.x % count * length;
    int own = min(length, cols - first);
    Part part = {-FLT_MAX, 0.0f};
    for (int i = threadIdx.x; i < count; i += THREADS) {
        Part other = parts[row * count + i];
        float largest = fmaxf(part.largest, other.largest);
        part = {largest, part.sum * __expf(part.largest - largest) + other.sum * __expf(other.largest - largest)};
    }
    Part whole = join_group<THREADS>(part);
    size_t begin = row * cols + first;
    write_quotients<THREADS>(x + begin, y + begin, threadIdx.x, own, whole);
}
#endif

#if HOLD == 2
__device__ float4 read_vector(const float4* from)
{
#if STREAM == 1
    return __ldcs(from);
#else
    return *from;
#endif
}

__device__ void write_vector(float4* to, float4 value)
{
#if STREAM == 1
    __stcs(to, value);
#else
    *to = value;
#endif
}

#if LONG >= 2
constexpr int kMostBlocks = 8; // of a cluster, on every GPU that has them

// Idea: the blocks of a cluster give each other their parts in shared memory; nothing goes through L2.
// Every block has to have begun before another one writes into it, hence the first barrier.
__device__ Part join_cluster(Part part, int blocks, int rank)
{
#if __CUDA_ARCH__ >= 900
    __shared__ Part parts[kMostBlocks];
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x < blocks) {
        unsigned own = (unsigned)__cvta_generic_to_shared(parts + rank);
        unsigned there;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(threadIdx.x));
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(part.largest) : "memory");
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 4), "f"(part.sum) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    int lane = threadIdx.x % kWarp;
    part = join_warp(lane < blocks ? parts[lane] : Part{-FLT_MAX, 0.0f});
#endif
    return part;
}
#endif

// Turns elements into their exponentials, below the largest of them.
template <int kVectors>
__device__ Part raise(float4 (&held)[kVectors])
{
    Part part = {-FLT_MAX, 0.0f};
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        part.largest = fmaxf(part.largest, fmaxf(fmaxf(held[i].x, held[i].y), fmaxf(held[i].z, held[i].w)));
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        held[i].x = __expf(held[i].x - part.largest);
        held[i].y = __expf(held[i].y - part.largest);
        held[i].z = __expf(held[i].z - part.largest);
        held[i].w = __expf(held[i].w - part.largest);
        part.sum += (held[i].x + held[i].y) + (held[i].z + held[i].w);
    }
    return part;
}

// Stores exponentials times `factor`, every kGroup-th vector from `first` on below `end`.
template <int kGroup, int kVectors>
__device__ void write_held(float4* __restrict__ to, const float4 (&held)[kVectors], int first, int end, float factor)
{
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        int at = first + i * kGroup;
        if (at < end) {
            float4 value = held[i];
            write_vector(to + at, {value.x * factor, value.y * factor, value.z * factor, value.w * factor});
        }
    }
}

#if LONG >= 2
// Shared memory takes vectors as they come, without a register in between.
__device__ void fetch_to_shared(float4* to, const float4* from)
{
#if __CUDA_ARCH__ >= 800
    unsigned there = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(from) : "memory");
#else
    *to = *from;
#endif
}

__device__ void wait_for_shared()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
#endif

// Idea: a row stays in registers, so memory is read once; all loads are under way before the first
// element is needed. Very long rows, if there are few, need shared memory as well to be on the chip all
// at once: kShared vectors more a thread, each read by the thread that fetched it alone. Columns are a
// multiple of four, and make at most kGroup * (kVectors + kShared) vectors a block.
template <int kGroup, int kVectors, int kShared>
__global__ void __launch_bounds__(kGroup < THREADS ? THREADS : kGroup)
    hold_rows(const float4* __restrict__ x, float4* __restrict__ y, int rows, int vectors, int blocks)
{
    constexpr float4 kNothing = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    constexpr int kRows = kGroup < THREADS ? THREADS / kGroup : 1;
    size_t row = (size_t)(blockIdx.x / blocks) * kRows + threadIdx.x / kGroup;
    if (row >= rows) {
        return;
    }
#if LONG >= 2 && __CUDA_ARCH__ >= 900
    if (blocks > 1) {
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    }
#endif
    int rank = blockIdx.x % blocks;
    int length = (vectors - 1) / blocks + 1;
    int first = rank * length + threadIdx.x % kGroup;
    int end = min(rank * length + length, vectors);
    const float4* from = x + row * vectors;
    float4* to = y + row * vectors;

#if LONG >= 2
    extern __shared__ float4 kept[];
#pragma unroll
    for (int i = 0; i < kShared; ++i) {
        int at = first + (kVectors + i) * kGroup;
        if (at < end) {
            fetch_to_shared(kept + i * kGroup + threadIdx.x, from + at);
        } else {
            kept[i * kGroup + threadIdx.x] = kNothing;
        }
    }
#endif
    float4 held[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        int at = first + i * kGroup;
        held[i] = at < end ? read_vector(from + at) : kNothing;
    }
#if LONG >= 2
    Part other = {-FLT_MAX, 0.0f};
    if constexpr (kShared > 0) {
        wait_for_shared(); // what was asked for first; the rest arrives meanwhile
#pragma unroll
        for (int i = 0; i < kShared; ++i) {
            float4 value = kept[i * kGroup + threadIdx.x];
            other.largest = fmaxf(other.largest, fmaxf(fmaxf(value.x, value.y), fmaxf(value.z, value.w)));
        }
#pragma unroll
        for (int i = 0; i < kShared; ++i) {
            float4 one[1] = {kept[i * kGroup + threadIdx.x]};
            one[0].x = __expf(one[0].x - other.largest);
            one[0].y = __expf(one[0].y - other.largest);
            one[0].z = __expf(one[0].z - other.largest);
            one[0].w = __expf(one[0].w - other.largest);
            other.sum += (one[0].x + one[0].y) + (one[0].z + one[0].w);
            kept[i * kGroup + threadIdx.x] = one[0];
        }
    }
#endif
    Part part = raise(held);
    Part both = part;
#if LONG >= 2
    if constexpr (kShared > 0) {
        float largest = fmaxf(part.largest, other.largest);
        both = {largest, part.sum * __expf(part.largest - largest) + other.sum * __expf(other.largest - largest)};
    }
#endif
    Part whole = join_group<kGroup>(both);
#if LONG >= 2
    if (blocks > 1) {
        whole = join_cluster(whole, blocks, rank);
    }
#endif
    write_held<kGroup>(to, held, first, end, __expf(part.largest - whole.largest) / whole.sum);
#if LONG >= 2
    if constexpr (kShared > 0) {
        float factor = __expf(other.largest - whole.largest) / whole.sum;
#pragma unroll
        for (int i = 0; i < kShared; ++i) {
            float4 one[1] = {kept[i * kGroup + threadIdx.x]};
            write_held<kGroup>(to, one, first + (kVectors + i) * kGroup, end, factor);
        }
    }
#endif
}

template <int kGroup, int kVectors, int kShared = 0>
void launch_hold(const float* x, float* y, int rows, int cols, int blocks)
{
    constexpr int kRows = kGroup < THREADS ? THREADS / kGroup : 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(((rows - 1) / kRows + 1) * blocks);
    config.blockDim = dim3(kGroup * kRows);
#if LONG >= 2
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = blocks;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = blocks > 1 ? 1 : 0;
    config.dynamicSmemBytes = sizeof(float4) * kGroup * kShared;
    if (kShared > 0) {
        int most = (int)config.dynamicSmemBytes;
        cudaFuncSetAttribute(
            hold_rows<kGroup, kVectors, kShared>, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    }
#endif
    auto from = reinterpret_cast<const float4*>(x);
    auto to = reinterpret_cast<float4*>(y);
    cudaLaunchKernelEx(&config, hold_rows<kGroup, kVectors, kShared>, from, to, rows, cols / 4, blocks);
}

#if LONG == 3
constexpr unsigned kUnset = 0xffffffffu; // bits that no maximum has
constexpr int kCrew = 256;               // threads of a block that holds parts
constexpr int kHeld = 8;                 // vectors of a thread
constexpr int kPart = kCrew * kHeld;

__global__ void __launch_bounds__(kCrew) clear(unsigned long long* parts, int total)
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    int i = blockIdx.x * kCrew + threadIdx.x;
    if (i < total) {
        parts[i] = kUnset;
    }
}

// Joins the `count` parts of a row as their blocks leave them. By a warp.
__device__ Part join_row(const volatile unsigned long long* parts, int count)
{
    Part whole = {-FLT_MAX, 0.0f};
    for (int i = threadIdx.x; i < count; i += kWarp) {
        unsigned long long bits;
        do {
            bits = parts[i];
        } while ((unsigned)bits == kUnset);
        float largest_there = __uint_as_float((unsigned)bits);
        float largest = fmaxf(whole.largest, largest_there);
        whole = {largest, whole.sum * __expf(whole.largest - largest) +
                              __uint_as_float((unsigned)(bits >> 32)) * __expf(largest_there - largest)};
    }
    return join_warp(whole);
}

// Idea: blocks, all of them resident, take parts of rows in turn. While a part is written, whose row is complete
// by then, the next one is on its way. None is fetched further ahead: reads that outrun the writes make both slow.
__global__ void __launch_bounds__(kCrew, 2)
    hold_parts(const float4* __restrict__ x, float4* __restrict__ y, volatile unsigned long long* parts, int vectors,
               int count, int total)
{
    constexpr float4 kNothing = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    __shared__ float4 next[kPart];
    __shared__ Part joined[2]; // in turn: the one before may still be read
    float4* own = next + threadIdx.x; // each thread reads what it has fetched
    auto fetch = [&](int part) {
        size_t row = part / count;
        int first = part % count * kPart + threadIdx.x;
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            int at = first + i * kCrew;
            if (at < vectors) {
                fetch_to_shared(own + i * kCrew, x + row * vectors + at);
            } else {
                own[i * kCrew] = kNothing;
            }
        }
    };
    fetch(blockIdx.x);
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
    float4 before[kHeld];
    float largest_before = 0.0f;
    int stride = gridDim.x;
    int turn = 0;
#pragma unroll 1
    for (int part = blockIdx.x; part < total + stride; part += stride) {
        float4 held[kHeld];
        float largest = 0.0f;
        if (part < total) {
            wait_for_shared();
#pragma unroll
            for (int i = 0; i < kHeld; ++i) {
                held[i] = own[i * kCrew];
            }
            if (part + stride < total) {
                fetch(part + stride);
            }
            Part raised = raise(held);
            largest = raised.largest;
            Part sum = join_group<kCrew>(raised);
            if (threadIdx.x == 0) {
                parts[part] = (unsigned long long)__float_as_uint(sum.sum) << 32 | __float_as_uint(sum.largest);
            }
        }
        int earlier = part - stride;
        int row = earlier / count;
        if (earlier >= 0 && threadIdx.x < kWarp) {
            Part whole = join_row(parts + row * count, count);
            if (threadIdx.x == 0) {
                joined[turn] = whole;
            }
        }
        __syncthreads();
        if (earlier >= 0) {
            int first = (earlier - row * count) * kPart + threadIdx.x;
            float factor = __expf(largest_before - joined[turn].largest) / joined[turn].sum;
            write_held<kCrew>(y + (size_t)row * vectors, before, first, vectors, factor);
        }
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            before[i] = held[i];
        }
        largest_before = largest;
        turn ^= 1;
    }
}

// Starts a kernel before the one in front of it has ended, where the device can.
template <typename... Parameters, typename... Arguments>
void launch_early(void (*kernel)(Parameters...), int blocks, Arguments... arguments)
{
    int device = 0;
    int generation = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, device);
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(kCrew);
    config.attrs = &early;
    config.numAttrs = generation >= 9 ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

// Launches what holds parts of rows; false where the parts of a row would not all be on the chip.
bool hold_by_parts(const float* x, float* y, int rows, int cols)
{
    constexpr int kResident = 2; // of a multiprocessor: with more, reads outrun writes
    int device = 0;
    int processors = 0;
    int each = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, hold_parts, kCrew, 0);
    int blocks = processors * (each < kResident ? each : kResident);
    int count = (cols / 4 - 1) / kPart + 1;
    long long total = (long long)rows * count;
    if (cols % 4 != 0 || cols / 4 <= kPart || count > blocks || total > 0x7fffffff - blocks) {
        return false;
    }
    unsigned long long* parts = nullptr;
    cudaMalloc(&parts, sizeof(*parts) * total);
    clear<<<(unsigned)(total - 1) / kCrew + 1, kCrew>>>(parts, (int)total);
    launch_early(hold_parts, blocks < total ? blocks : (int)total, reinterpret_cast<const float4*>(x),
                 reinterpret_cast<float4*>(y), parts, cols / 4, count, (int)total);
    cudaDeviceSynchronize();
    cudaFree(parts);
    return true;
}
#endif

// Launches what holds rows in registers; false where none can.
bool hold(const float* x, float* y, int rows, int cols)
{
    int vectors = cols / 4;
    if (cols % 4 != 0) {
        return false;
    }
#if SHORT == 1
    if (vectors <= kWarp * 8) {
        if (vectors <= kWarp * 4) {
            launch_hold<kWarp, 4>(x, y, rows, cols, 1);
        } else {
            launch_hold<kWarp, 8>(x, y, rows, cols, 1);
        }
        return true;
    }
#endif
    if (vectors <= THREADS * VECTORS / 2) {
        launch_hold<THREADS, VECTORS / 2>(x, y, rows, cols, 1);
        return true;
    }
    if (vectors <= THREADS * VECTORS) {
        launch_hold<THREADS, VECTORS>(x, y, rows, cols, 1);
        return true;
    }
#if LONG >= 2
    int device = 0;
    int major = 0;
    int shared = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    for (int blocks = 2; major >= 9 && blocks <= kMostBlocks; blocks *= 2) {
        if (vectors <= blocks * THREADS * VECTORS) {
            launch_hold<THREADS, VECTORS>(x, y, rows, cols, blocks);
            return true;
        }
    }
#if LONG == 3
    return false;
#else
    constexpr int kWide = 1024;
    constexpr int kEach = kWide * 16;
    if (major < 9 || vectors > kMostBlocks * kEach || shared < kEach / 2 * (int)sizeof(float4) + 1024) {
        return false;
    }
    launch_hold<kWide, 8, 8>(x, y, rows, cols, (vectors - 1) / kEach + 1);
    return true;
#endif
#else
    return false;
#endif
}
#endif

extern "C" void solve(const float* x, float* y, int rows, int cols)
{
#if HOLD == 2
    if (hold(x, y, rows, cols)) {
        cudaDeviceSynchronize();
        return;
    }
#endif
#if LONG == 3
    if (hold_by_parts(x, y, rows, cols)) {
        return;
    }
#endif
#if LONG > 0
    constexpr int kLength = THREADS * 16;
    if (cols > 2 * kLength && rows < 512) {
        int count = (cols - 1) / kLength + 1;
        Part* parts = nullptr;
        cudaMalloc(&parts, sizeof(Part) * rows * count);
        read_parts<<<rows * count, THREADS>>>(x, parts, cols, count, kLength);
        write_parts<<<rows * count, THREADS>>>(x, parts, y, cols, count, kLength);
        cudaDeviceSynchronize();
        cudaFree(parts);
        return;
    }
#endif
#if SHORT == 1
    if (cols <= 1024) {
        constexpr int kRows = THREADS / kWarp;
        read_again<kWarp><<<(rows - 1) / kRows + 1, THREADS>>>(x, y, rows, cols);
        cudaDeviceSynchronize();
        return;
    }
#endif
    read_again<THREADS><<<rows, THREADS>>>(x, y, rows, cols);
    cudaDeviceSynchronize();
}
