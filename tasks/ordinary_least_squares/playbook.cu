// Ordinary least squares by the normal equations: who adds up which products, and how samples reach him.

#include <cuda_runtime.h>

#define VARIANT 0    // tunable: 0 1 2 3; a block an element, threads share a block's samples, sums in registers, the same from staged samples
#define THREADS 256  // tunable: 128 256 512; of a block
#define RESIDENT 1   // tunable: 1 2 4; blocks that a multiprocessor holds
#define ITEMS 1      // tunable: 1 2; samples a thread loads at once, variant 2
#define STAGES 4     // tunable: 2 4 6 8; groups of 32 samples under way a warp, variant 3
#define WIDTH 1      // tunable: 1 4; elements that one asynchronous copy moves, variant 3

// tunable-if: VARIANT > 0 or RESIDENT == 1
// tunable-if: VARIANT < 2 or THREADS * RESIDENT <= 512
// tunable-if: VARIANT == 2 or ITEMS == 1
// tunable-if: VARIANT == 3 or STAGES == 4 and WIDTH == 1

// tunable-hint: latency VARIANT=3
// tunable-hint: latency STAGES=8
// tunable-hint: l1_bandwidth VARIANT=3
// tunable-hint: l2_bandwidth VARIANT=2
// tunable-hint: uncoalesced_global VARIANT=3
// tunable-hint: issue VARIANT=2
// tunable-hint: issue WIDTH=4
// tunable-hint: tail VARIANT=2
// tunable-hint: launch_overhead VARIANT=2
// tunable-hint: low_occupancy RESIDENT=2
// tunable-hint: dram_bandwidth WIDTH=4

constexpr int kWarp = 32;
constexpr int kWarps = THREADS / kWarp;
constexpr unsigned kWholeWarp = 0xffffffffu;

// Sums are numbered by rows of the lower triangle of A^T A, where A is X with y as its last column: element
// (i, j) is number i (i + 1) / 2 + j. The last one, y^T y, is not needed.
__host__ __device__ int count_sums(int features)
{
    return (features + 1) * (features + 2) / 2 - 1;
}

__device__ int row_of(int number)
{
    int row = (int)((sqrtf(8.0f * number + 1.0f) - 1.0f) / 2.0f);
    while ((row + 1) * (row + 2) / 2 <= number) {
        ++row;
    }
    while (row * (row + 1) / 2 > number) {
        --row;
    }
    return row;
}

__device__ float warp_sum(float value)
{
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(kWholeWarp, value, distance);
    }
    return value;
}

// Solves by LDL^T in place, all threads of a block together. `matrix` has features + 1 rows of `features`
// elements, of which the lower triangle is used; its last row is X^T y.
__device__ void solve_in_place(float* matrix, float* beta, int features)
{
    int elements = (features + 1) * features;
    for (int k = 0; k < features; ++k) {
        __syncthreads();
        float inverse = 1.0f / matrix[k * features + k];
        for (int i = (k + 1) * features + threadIdx.x; i < elements; i += THREADS) {
            int row = i / features;
            int column = i - row * features;
            if (column > k && column <= row) {
                matrix[i] -= matrix[row * features + k] * inverse * matrix[column * features + k];
            }
        }
    }
    float* rest = matrix + features * features;
    for (int k = features - 1; k >= 0; --k) {
        __syncthreads();
        float own = rest[k] / matrix[k * features + k];
        for (int column = threadIdx.x; column < k; column += THREADS) {
            rest[column] -= matrix[k * features + column] * own;
        }
        if (threadIdx.x == 0) {
            beta[k] = own;
        }
    }
}

#if VARIANT == 0
// Idea: a block for each element of the normal equations; the samples come from the cache all but once.
__global__ void __launch_bounds__(THREADS) add_products(
    const float* __restrict__ X, const float* __restrict__ y, float* matrix, int samples, int features)
{
    __shared__ float sums[kWarps];
    int row = row_of(blockIdx.x);
    int column = blockIdx.x - row * (row + 1) / 2;
    float sum = 0.0f;
    for (int k = threadIdx.x; k < samples; k += THREADS) {
        const float* sample = X + (size_t)k * features;
        sum = fmaf(row < features ? sample[row] : y[k], sample[column], sum);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % kWarp == 0) {
        sums[threadIdx.x / kWarp] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < kWarps; ++warp) {
            sum += sums[warp];
        }
        matrix[row * features + column] = sum;
    }
}

__global__ void __launch_bounds__(THREADS) solve_equations(float* matrix, float* beta, int features)
{
    solve_in_place(matrix, beta, features);
}
#else
constexpr int kSmall = 32; // features whose matrix fits a block's shared memory

// Counts the blocks that are done; it wraps to 0 with the last.
__device__ unsigned finished;

// The last block to come here adds up what all left in `partial`, `parts` numbers a sum, and solves. What
// this block left has to be written before.
__device__ void finish(const float* partial, float* matrix, float* beta, int parts, int features)
{
    __shared__ float small[(kSmall + 1) * kSmall];
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) {
        return;
    }
    __threadfence();
    matrix = features <= kSmall ? small : matrix;
    int sums = count_sums(features);
#pragma unroll 4
    for (int number = threadIdx.x / kWarp; number < sums; number += kWarps) {
        const float* from = partial + (size_t)number * parts;
        float sum = 0.0f;
#pragma unroll 4
        for (int part = threadIdx.x % kWarp; part < parts; part += kWarp) {
            sum += __ldcg(from + part);
        }
        sum = warp_sum(sum);
        if (threadIdx.x % kWarp == 0) {
            int row = row_of(number);
            matrix[row * features + number - row * (row + 1) / 2] = sum;
        }
    }
    solve_in_place(matrix, beta, features);
}

// Any number of features. Idea: a block adds up its own samples, every thread one element at a time; threads to
// spare take the samples in turns.
__global__ void __launch_bounds__(THREADS) add_by_elements(const float* __restrict__ X, const float* __restrict__ y,
                                                           float* partial, float* matrix, float* beta, int samples,
                                                           int features, int slots)
{
    int sums = count_sums(features);
    int share = (samples - 1) / (int)gridDim.x + 1;
    int first = min((int)blockIdx.x * share, samples);
    int last = min(first + share, samples);
    int slot = threadIdx.x / sums;
    for (int number = threadIdx.x - slot * sums; number < sums && slot < slots; number += THREADS) {
        int row = row_of(number);
        int column = number - row * (row + 1) / 2;
        float sum = 0.0f;
#pragma unroll 4
        for (int k = first + slot; k < last; k += slots) {
            const float* sample = X + (size_t)k * features;
            sum = fmaf(row < features ? sample[row] : y[k], sample[column], sum);
        }
        partial[((size_t)number * gridDim.x + blockIdx.x) * slots + slot] = sum;
    }
    finish(partial, matrix, beta, gridDim.x * slots, features);
}
#endif

#if VARIANT > 1
constexpr int kFeatures = 10; // of the kernel that keeps all sums in registers
constexpr int kSums = (kFeatures + 1) * (kFeatures + 2) / 2 - 1;
constexpr int kHalving = 64; // sums that are joined all at once; those beyond one by one
static_assert(kSums >= kHalving, "all of them exist");

__device__ void add_sample(float (&sums)[kSums], const float (&sample)[kFeatures + 1])
{
#pragma unroll
    for (int row = 0; row <= kFeatures; ++row) {
#pragma unroll
        for (int column = 0; column <= row && column < kFeatures; ++column) {
            float& sum = sums[row * (row + 1) / 2 + column];
            sum = fmaf(sample[row], sample[column], sum);
        }
    }
}

// Lanes `kDistance` apart hand over one half of their sums to each other and keep the other half. A template,
// so that every index is known to the compiler and the sums stay in registers.
template <int kDistance>
__device__ void join_halves(float (&sums)[kSums])
{
    constexpr int kHalf = kHalving / kWarp * kDistance;
    bool upper = threadIdx.x & kDistance;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
        float other = __shfl_xor_sync(kWholeWarp, upper ? sums[i] : sums[i + kHalf], kDistance);
        sums[i] = (upper ? sums[i + kHalf] : sums[i]) + other;
    }
    if constexpr (kDistance > 1) {
        join_halves<kDistance / 2>(sums);
    }
}

// Joins the sums of a warp's lanes. Idea: each exchange between lanes halves the sums of a lane, so that 64 sums
// take 62 shuffles, not 320.
__device__ void join_lanes(float (&sums)[kSums], float* joined)
{
    int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int number = kHalving; number < kSums; ++number) {
        float sum = warp_sum(sums[number]);
        if (lane == 0) {
            joined[number] = sum;
        }
    }
    join_halves<kWarp / 2>(sums);
#pragma unroll
    for (int i = 0; i < kHalving / kWarp; ++i) {
        joined[lane * (kHalving / kWarp) + i] = sums[i];
    }
}

// Leaves a block's sums in `partial`: those of its warps that had samples, `groups` of 32 being dealt to the grid.
__device__ void leave_sums(float (&sums)[kSums], float* partial, int groups)
{
    __shared__ float joined[kWarps][kSums];
    int warp = threadIdx.x / kWarp;
    int warps = min(kWarps, (groups - 1) / (int)gridDim.x + 1);
    if (warp < warps) {
        join_lanes(sums, joined[warp]);
    }
    __syncthreads();
    for (int number = threadIdx.x; number < kSums; number += THREADS) {
        float sum = joined[0][number];
#pragma unroll 4
        for (int w = 1; w < warps; ++w) {
            sum += joined[w][number];
        }
        partial[(size_t)number * gridDim.x + blockIdx.x] = sum;
    }
}
#endif

#if VARIANT == 2
// Idea: a thread keeps all sums of its samples in registers, so that a sample is read once.
__global__ void __launch_bounds__(THREADS, RESIDENT)
    add_by_samples(const float* __restrict__ X, const float* __restrict__ y, float* partial, float* beta, int samples)
{
    float sums[kSums] = {};
    unsigned step = gridDim.x * THREADS;
    // Warps of one number in all blocks are neighbours: few samples occupy every multiprocessor.
    unsigned group = threadIdx.x / kWarp * gridDim.x + blockIdx.x;
    for (unsigned first = group * kWarp + threadIdx.x % kWarp; first < samples; first += step * ITEMS) {
        float loaded[ITEMS][kFeatures + 1];
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            unsigned k = first + item * step;
            bool there = k < samples;
            const float2* sample = reinterpret_cast<const float2*>(X + (size_t)k * kFeatures);
#pragma unroll
            for (int pair = 0; pair < kFeatures / 2; ++pair) {
                float2 values = there ? sample[pair] : float2{};
                loaded[item][2 * pair] = values.x;
                loaded[item][2 * pair + 1] = values.y;
            }
            loaded[item][kFeatures] = there ? y[k] : 0.0f;
        }
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            add_sample(sums, loaded[item]);
        }
    }
    leave_sums(sums, partial, (samples - 1) / kWarp + 1);
    finish(partial, nullptr, beta, gridDim.x, kFeatures);
}
#elif VARIANT == 3
// 32 samples, one a lane, as they lie in global memory.
struct alignas(16) Group {
    float samples[kWarp * kFeatures];
    float y[kWarp];
};

constexpr size_t kShared = sizeof(Group) * STAGES * kWarps;

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
    for (int i = 0; i < kBytes / 4; ++i) {
        to[i] = from[i];
    }
#endif
}

__device__ void end_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

__device__ void wait_for_oldest()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
#endif
}

// A warp's lanes bring in group `number`, if there is one.
__device__ void load_group(Group& group, const float* X, const float* y, int number, int samples)
{
    int lane = threadIdx.x % kWarp;
    long long first = (long long)number * kWarp;
    if (first + kWarp <= samples) {
        constexpr int kOfX = kWarp * kFeatures / WIDTH;
        constexpr int kAll = kOfX + kWarp / WIDTH;
#pragma unroll
        for (int i = 0; i < kAll; i += kWarp) {
            int at = i + lane;
            const float* from = at < kOfX ? X + first * kFeatures + at * WIDTH : y + first + (at - kOfX) * WIDTH;
            if (at < kAll) {
                copy_async<4 * WIDTH>(group.samples + at * WIDTH, from);
            }
        }
    } else if (first < samples) {
        int left = (int)(samples - first);
        for (int i = lane; i < left * kFeatures; i += kWarp) {
            copy_async<4>(group.samples + i, X + first * kFeatures + i);
        }
        if (lane < left) {
            copy_async<4>(group.y + lane, y + first + lane);
        }
    }
    end_copies();
}

// Idea: every warp has several groups of samples under way, copied as they lie, and nobody else to wait for.
__global__ void __launch_bounds__(THREADS, RESIDENT)
    add_by_samples(const float* __restrict__ X, const float* __restrict__ y, float* partial, float* beta, int samples)
{
    extern __shared__ __align__(16) unsigned char shared[];
    int lane = threadIdx.x % kWarp;
    int warp = threadIdx.x / kWarp;
    Group* stages = reinterpret_cast<Group*>(shared) + warp * STAGES;
    // Warps of one number in all blocks are neighbours: few samples occupy every multiprocessor.
    int step = gridDim.x * kWarps;
    int number = warp * gridDim.x + blockIdx.x;
    float sums[kSums] = {};
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        load_group(stages[stage], X, y, number + stage * step, samples);
    }
    int stage = 0;
    for (; (long long)number * kWarp < samples; number += step) {
        wait_for_oldest();
        __syncwarp();
        int free_stage = stage == 0 ? STAGES - 1 : stage - 1;
        load_group(stages[free_stage], X, y, number + (STAGES - 1) * step, samples);
        if (number * (long long)kWarp + lane < samples) {
            float sample[kFeatures + 1];
            const float2* pairs = reinterpret_cast<const float2*>(stages[stage].samples + lane * kFeatures);
#pragma unroll
            for (int pair = 0; pair < kFeatures / 2; ++pair) {
                float2 values = pairs[pair];
                sample[2 * pair] = values.x;
                sample[2 * pair + 1] = values.y;
            }
            sample[kFeatures] = stages[stage].y[lane];
            add_sample(sums, sample);
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    leave_sums(sums, partial, (samples - 1) / kWarp + 1);
    finish(partial, nullptr, beta, gridDim.x, kFeatures);
}
#endif

extern "C" void solve(const float* X, const float* y, float* beta, int n_samples, int n_features)
{
    size_t matrix_size = (size_t)(n_features + 1) * n_features;
    float* matrix = nullptr;
#if VARIANT == 0
    cudaMalloc(&matrix, sizeof(float) * matrix_size);
    add_products<<<count_sums(n_features), THREADS>>>(X, y, matrix, n_samples, n_features);
    solve_equations<<<1, THREADS>>>(matrix, beta, n_features);
#else
    int device = 0;
    int processors = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    int blocks = processors * RESIDENT < 512 ? processors * RESIDENT : 512;
    int sums = count_sums(n_features);
    bool done = false;
#if VARIANT > 1
    if (n_features == kFeatures) {
        int groups = (n_samples - 1) / kWarp + 1;
        blocks = blocks < groups ? blocks : groups;
        cudaMalloc(&matrix, sizeof(float) * sums * blocks);
#if VARIANT == 2
        add_by_samples<<<blocks, THREADS>>>(X, y, matrix, beta, n_samples);
        done = true;
#else
        // Static shared memory counts too, so that less than 48 KiB may need the attribute.
        done = cudaFuncSetAttribute(add_by_samples, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)kShared) ==
               cudaSuccess;
        if (done) {
            add_by_samples<<<blocks, THREADS, kShared>>>(X, y, matrix, beta, n_samples);
        } else {
            cudaGetLastError(); // this chip has less shared memory
            cudaFree(matrix);
        }
#endif
    }
#endif
    if (!done) {
        int most = (n_samples - 1) / 64 + 1;
        blocks = blocks < most ? blocks : most;
        int slots = THREADS / sums < 1 ? 1 : THREADS / sums < 4 ? THREADS / sums : 4;
        blocks = blocks * slots < 1000 ? blocks : 1000 / slots;
        cudaMalloc(&matrix, sizeof(float) * (matrix_size + (size_t)sums * blocks * slots));
        add_by_elements<<<blocks, THREADS>>>(X, y, matrix + matrix_size, matrix, beta, n_samples, n_features, slots);
    }
#endif
    cudaDeviceSynchronize();
    cudaFree(matrix);
}
