// Cross-entropy: how logits reach the threads, and how losses are joined within a block and across blocks.

#include <cstdint>
#include <cuda_runtime.h>

#define STAGED 0    // tunable: 0 1 2 3; a thread reads its sample from global memory; a warp brings many into shared memory; that where they are half a million or more; the same by the copy engine
#define JOIN 1      // tunable: 0 1 2 3 4; blocks join by atomics of threads, of blocks, a second kernel, the last block, a barrier
#define EARLY 0     // tunable: 0 1; 1: the later of two kernels starts while the earlier one runs
#define STAGES 2    // tunable: 2 3 4; tiles of a warp on their way or in use
#define ROWS 1      // tunable: 1 2; samples of a tile, for each lane
#define THREADS 128 // tunable: 128 256; of a block
#define FAST 0      // tunable: 0 1; 1: the exponential of the special function unit, whose argument is at most 0

// tunable-if: STAGED > 0 or (STAGES == 2 and ROWS == 1)
// tunable-if: JOIN > 0 and JOIN < 4 or EARLY == 0

// tunable-hint: atomic_contention JOIN=2
// tunable-hint: uncoalesced_global STAGED=1
// tunable-hint: l1_bandwidth STAGED=1
// tunable-hint: dram_bandwidth STAGED=1 STAGES=3
// tunable-hint: launch_overhead EARLY=1
// tunable-hint: latency STAGES=3 ROWS=2
// tunable-hint: issue FAST=1
// tunable-hint: tail STAGED=2 THREADS=256
// tunable-hint: issue STAGED=3

#if STAGED > 0
#include <cuda_pipeline.h>
#endif
#if JOIN == 4
#define _CG_LIMIT_INCLUDED_DEPENDENCIES // no libcu++: it takes nvcc most of its time
#include <cooperative_groups.h>
#endif

constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr int kWarps = THREADS / kWarp;
constexpr int kMostThreads = 2048; // of a multiprocessor
constexpr int kFewClasses = 32;    // more are read by a warp together
#if STAGED > 0
constexpr int kTile = kWarp * ROWS; // samples of a warp at a time
constexpr size_t kMostShared = 47 * 1024; // bytes of a block that every GPU has, beside those of block_sum
constexpr int kMany = STAGED > 1 ? 1 << 19 : 0; // samples that are staged
#endif

#if FAST == 1
// Of two; subnormal results are nothing beside the 1 of the largest logit.
__device__ float power(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
#endif

__device__ float exponential(float x)
{
#if FAST == 1
    return power(x * 1.4426950408889634f);
#else
    return expf(x);
#endif
}

// Loss of one sample whose logits this thread reads alone; `is_near`: in shared memory.
template <int kClasses, bool is_near = false>
__device__ float loss_of(const float* row, int label, int C)
{
    int classes = kClasses > 0 ? kClasses : C;
    if constexpr (kClasses > 0 && kClasses % 2 == 0) {
        float2 pairs[kClasses / 2];
        float largest = -INFINITY;
        // From registers where another load would wait long for the label.
        float chosen = is_near ? row[label] : 0.0f;
#pragma unroll
        for (int c = 0; c < kClasses / 2; ++c) {
            pairs[c] = reinterpret_cast<const float2*>(row)[c];
            largest = fmaxf(largest, fmaxf(pairs[c].x, pairs[c].y));
            if constexpr (!is_near) {
                chosen = label == 2 * c ? pairs[c].x : label == 2 * c + 1 ? pairs[c].y : chosen;
            }
        }
#if FAST == 1
        if constexpr (is_near) {
            // Powers of two of logits in units of ln 2: one multiply-add each, and the rounding of `top` cancels.
            constexpr float kUnit = 1.4426950408889634f;
            float top = largest * kUnit;
            float sum = 0.0f;
#pragma unroll
            for (int c = 0; c < kClasses / 2; ++c) {
                sum += power(fmaf(pairs[c].x, kUnit, -top)) + power(fmaf(pairs[c].y, kUnit, -top));
            }
            return (fmaf(-chosen, kUnit, top) + __log2f(sum)) * 0.6931471805599453f;
        }
#endif
        float sum = 0.0f;
#pragma unroll
        for (int c = 0; c < kClasses / 2; ++c) {
            sum += exponential(pairs[c].x - largest) + exponential(pairs[c].y - largest);
        }
        return largest - chosen + logf(sum);
    } else {
        float largest = row[0];
        for (int c = 1; c < classes; ++c) {
            largest = fmaxf(largest, row[c]);
        }
        float sum = 0.0f;
        for (int c = 0; c < classes; ++c) {
            sum += exponential(row[c] - largest);
        }
        return largest - row[label] + logf(sum);
    }
}

__device__ float warp_sum(float value)
{
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(kWholeWarp, value, distance);
    }
    return value;
}

// Idea: with many classes the lanes of a warp share a sample, so that they read side by side.
__device__ float sum_by_warp(const float* __restrict__ logits, const int* __restrict__ labels, int N, int C)
{
    int lane = threadIdx.x % kWarp;
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * kWarps + threadIdx.x / kWarp; i < N; i += gridDim.x * kWarps) {
        const float* row = logits + (size_t)i * C;
        float largest = -INFINITY;
#pragma unroll 4
        for (int c = lane; c < C; c += kWarp) {
            largest = fmaxf(largest, row[c]);
        }
#pragma unroll
        for (int distance = kWarp / 2; distance > 0; distance /= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, distance));
        }
        float spread = 0.0f;
#pragma unroll 4
        for (int c = lane; c < C; c += kWarp) {
            spread += exponential(row[c] - largest);
        }
        spread = warp_sum(spread);
        if (lane == 0) {
            sum += largest - row[labels[i]] + logf(spread);
        }
    }
    return sum;
}

// A sample a thread.
template <int kClasses>
__device__ float sum_by_thread(const float* __restrict__ logits, const int* __restrict__ labels, int N, int C)
{
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < N; i += gridDim.x * THREADS) {
        sum += loss_of<kClasses>(logits + (size_t)i * C, labels[i], C);
    }
    return sum;
}

#if STAGED > 0
// Idea: samples lie one after another, so a warp copies many of them in whole sectors, while it works on
// those before. No thread waits for another warp. From shared memory each lane reads its own sample.
template <int kClasses>
__device__ float sum_staged(const float* __restrict__ logits, const int* __restrict__ labels, int N, int C)
{
    extern __shared__ float4 shared[];
    int classes = kClasses > 0 ? kClasses : C;
    int lane = threadIdx.x % kWarp;
    int tile_floats = kTile * classes; // whole vectors of four
    float* buffers = reinterpret_cast<float*>(shared) + threadIdx.x / kWarp * STAGES * tile_floats;
    unsigned tiles = (N - 1) / kTile + 1;
    unsigned step = gridDim.x * kWarps;
    unsigned begin = blockIdx.x * kWarps + threadIdx.x / kWarp;

    auto fetch = [&](unsigned tile, int stage) {
        if (tile < tiles) {
            size_t from = (size_t)tile * tile_floats;
            size_t left = (size_t)N * classes - from;
            int count = left < tile_floats ? (int)left : tile_floats;
            float* to = buffers + stage * tile_floats;
#pragma unroll
            for (int i = lane * 4; i < tile_floats; i += kWarp * 4) {
                if (i + 4 <= count) {
                    __pipeline_memcpy_async(to + i, logits + from + i, 16);
                }
            }
            int whole = count / 4 * 4;
            if (whole + lane < count) {
                to[whole + lane] = logits[from + whole + lane];
            }
        }
        __pipeline_commit();
    };

    for (int stage = 0; stage + 1 < STAGES; ++stage) {
        fetch(begin + stage * step, stage);
    }
    float sum = 0.0f;
    int stage = 0;
    for (unsigned tile = begin; tile < tiles; tile += step) {
        unsigned first = tile * kTile + lane;
        int label[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            unsigned i = first + r * kWarp;
            label[r] = i < N ? labels[i] : 0;
        }
        int ahead = stage + STAGES - 1;
        fetch(tile + (STAGES - 1) * step, ahead < STAGES ? ahead : ahead - STAGES);
        __pipeline_wait_prior(STAGES - 1);
        __syncwarp();
        const float* rows = buffers + stage * tile_floats;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            if (first + r * kWarp < N) {
                sum += loss_of<kClasses, true>(rows + (lane + r * kWarp) * classes, label[r], classes);
            }
        }
        __syncwarp(); // all have read what the next copy overwrites
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
    return sum;
}
#endif

#if STAGED == 3
// Idea: one instruction brings a whole tile, so that next to none are spent on copies.
template <int kClasses>
__device__ float sum_brought(const float* __restrict__ logits, const int* __restrict__ labels, int N, int C)
{
#if __CUDA_ARCH__ >= 900
    extern __shared__ float4 shared[];
    __shared__ uint64_t barriers[kWarps * STAGES];
    int classes = kClasses > 0 ? kClasses : C;
    int lane = threadIdx.x % kWarp;
    int warp = threadIdx.x / kWarp;
    int tile_floats = kTile * classes;
    int stage_floats = tile_floats + kTile; // and labels
    float* buffers = reinterpret_cast<float*>(shared) + warp * STAGES * stage_floats;
    unsigned own = (unsigned)__cvta_generic_to_shared(barriers + warp * STAGES);
    unsigned tiles = N / kTile; // whole ones
    unsigned step = gridDim.x * kWarps;
    unsigned begin = blockIdx.x * kWarps + warp;

    // By one lane.
    auto fetch = [&](unsigned tile, int stage) {
        if (lane == 0 && tile < tiles) {
            unsigned to = (unsigned)__cvta_generic_to_shared(buffers + stage * stage_floats);
            unsigned barrier = own + stage * 8;
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                         "r"(stage_floats * 4) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                             to), "l"(logits + (size_t)tile * tile_floats), "r"(tile_floats * 4), "r"(barrier)
                         : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                             to + tile_floats * 4), "l"(labels + (size_t)tile * kTile), "r"(kTile * 4), "r"(barrier)
                         : "memory");
        }
    };

    if (lane == 0) {
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(own + stage * 8) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        fetch(begin + stage * step, stage);
    }
    float sum = 0.0f;
    int stage = 0;
    unsigned parity = 0;
    for (unsigned tile = begin; tile < tiles; tile += step) {
        asm volatile("{\n"
                     ".reg .pred done;\n"
                     "again:\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                     "@!done bra again;\n"
                     "}" ::"r"(own + stage * 8), "r"(parity) : "memory");
        const float* rows = buffers + stage * stage_floats;
        const int* chosen = reinterpret_cast<const int*>(rows + tile_floats);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            int i = lane + r * kWarp;
            sum += loss_of<kClasses, true>(rows + i * classes, chosen[i], classes);
        }
        __syncwarp(); // all have read what the next copy overwrites
        fetch(tile + STAGES * step, stage);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
    }
    unsigned i = tiles * kTile + blockIdx.x * THREADS + threadIdx.x; // what fills no tile
    if (i < N) {
        sum += loss_of<kClasses>(logits + (size_t)i * classes, labels[i], classes);
    }
    return sum;
#else
    return sum_staged<kClasses>(logits, labels, N, C);
#endif
}
#endif

#if JOIN > 0
// A warp adds up in registers; shared memory and one barrier join the warps only. Right in thread 0.
__device__ float block_sum(float value)
{
    __shared__ float values[kWarps];
    value = warp_sum(value);
    if (threadIdx.x % kWarp == 0) {
        values[threadIdx.x / kWarp] = value;
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
        value = warp_sum(threadIdx.x < kWarps ? values[threadIdx.x] : 0.0f);
    }
    return value;
}
#endif

#if EARLY == 1
// The earlier kernel lets the later one start; that one waits until the earlier one's stores show.
__device__ void let_start()
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

__device__ void wait_for_earlier()
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}
#endif

#if JOIN >= 2
// Sum of what the blocks left in scratch memory, past L1, where another block's stores may not show.
__device__ float sum_partial(const float* partial, int count)
{
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += THREADS) {
        sum += __ldcg(partial + i);
    }
    __syncthreads(); // shared memory of the sum before is free again
    return block_sum(sum);
}
#endif

// Joins what the threads of all blocks have summed. `partial` holds one number a block; `loss`, or
// `finished`, was cleared before if blocks add to it.
__device__ void join_blocks(float sum, float* loss, float* partial, unsigned* finished, float factor)
{
#if JOIN == 0
    atomicAdd(loss, sum * factor);
#else
    sum = block_sum(sum);
#if JOIN == 1
    if (threadIdx.x == 0) {
#if EARLY == 1
        wait_for_earlier();
#endif
        atomicAdd(loss, sum * factor);
    }
#else
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
#endif
#if JOIN == 3
    // Blocks count themselves as they finish, so that the last one knows that all sums are there.
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        __threadfence();
#if EARLY == 1
        wait_for_earlier();
#endif
        is_last = atomicAdd(finished, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last) {
        __threadfence();
#elif JOIN == 4
    // All blocks are resident at once, so they can wait for each other: one launch, nothing to clear.
    cooperative_groups::this_grid().sync();
    if (blockIdx.x == 0) {
#endif
#if JOIN >= 3
        sum = sum_partial(partial, gridDim.x);
        if (threadIdx.x == 0) {
            *loss = sum * factor;
        }
    }
#endif
#endif
}

enum class Readers { kThread, kStage, kWarp };

// `kClasses` is their number, or 0 where it is not known.
template <Readers readers, int kClasses>
__global__ void __launch_bounds__(THREADS)
    add_losses(const float* __restrict__ logits, const int* __restrict__ labels, float* loss, float* partial,
               unsigned* finished, int N, int C, float factor)
{
#if EARLY == 1 && JOIN == 2
    let_start();
#endif
    float sum = 0.0f;
    if constexpr (readers == Readers::kThread) {
        sum = sum_by_thread<kClasses>(logits, labels, N, C);
#if STAGED > 0
    } else if constexpr (readers == Readers::kStage) {
#if STAGED == 3
        sum = sum_brought<kClasses>(logits, labels, N, C);
#else
        sum = sum_staged<kClasses>(logits, labels, N, C);
#endif
#endif
    } else {
        sum = sum_by_warp(logits, labels, N, C);
    }
    join_blocks(sum, loss, partial, finished, factor);
}

#if JOIN == 2
// Idea: no atomics, hence the same order of additions in every run; the kernel's end is the barrier.
__global__ void __launch_bounds__(THREADS) join(const float* partial, float* loss, int count, float factor)
{
#if EARLY == 1
    wait_for_earlier();
#endif
    float sum = sum_partial(partial, count);
    if (threadIdx.x == 0) {
        *loss = sum * factor;
    }
}
#endif

#if EARLY == 1 && JOIN != 2
// Clears what the blocks add to or count in.
__global__ void clear(unsigned* word)
{
    let_start();
    *word = 0;
}
#endif

#if EARLY == 1
// Starts a kernel before the one in front of it has ended, where the device can.
template <typename... Parameters, typename... Arguments>
void launch_early(void (*kernel)(Parameters...), int blocks, size_t bytes, Arguments... arguments)
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
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = bytes;
    config.attrs = &early;
    config.numAttrs = generation >= 9 ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}
#endif

extern "C" void solve(const float* logits, const int* labels, float* loss, int N, int C)
{
    auto kernel = C == 10 ? add_losses<Readers::kThread, 10> : add_losses<Readers::kThread, 0>;
    int samples = THREADS; // of a block, before it needs a second round
    size_t bytes = 0;
    if (C > kFewClasses) {
        kernel = add_losses<Readers::kWarp, 0>;
        samples = kWarps;
    }
#if STAGED > 0
    size_t staged = sizeof(float) * kWarps * STAGES * kTile * (C + (STAGED == 3 ? 1 : 0));
    if (N >= kMany && staged <= kMostShared) {
        kernel = C == 10 ? add_losses<Readers::kStage, 10> : add_losses<Readers::kStage, 0>;
        samples = kWarps * kTile;
        bytes = staged;
    }
#endif
    int device = 0;
    int processors = 0;
    int each = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, THREADS, bytes);
    each = each < kMostThreads / THREADS ? each : kMostThreads / THREADS;
    int wanted = (N - 1) / samples + 1;
    int blocks = wanted < processors * each ? wanted : processors * each;
    float factor = 1.0f / N;

    float* partial = nullptr;
    unsigned* finished = nullptr;
#if JOIN >= 2
    cudaMalloc(&partial, sizeof(float) * (blocks + 1));
    finished = reinterpret_cast<unsigned*>(partial + blocks);
#endif
#if JOIN == 4
    void* arguments[] = {&logits, &labels, &loss, &partial, &finished, &N, &C, &factor};
    cudaLaunchCooperativeKernel((const void*)kernel, dim3(blocks), dim3(THREADS), arguments, bytes, nullptr);
#elif JOIN == 2
    kernel<<<blocks, THREADS, bytes>>>(logits, labels, loss, partial, finished, N, C, factor);
#if EARLY == 1
    launch_early(join, 1, 0, partial, loss, blocks, factor);
#else
    join<<<1, THREADS>>>(partial, loss, blocks, factor);
#endif
#else
    unsigned* cleared = JOIN == 3 ? finished : reinterpret_cast<unsigned*>(loss);
#if EARLY == 1
    clear<<<1, 1>>>(cleared);
    launch_early(kernel, blocks, bytes, logits, labels, loss, partial, finished, N, C, factor);
#else
    cudaMemsetAsync(cleared, 0, sizeof(unsigned));
    kernel<<<blocks, THREADS, bytes>>>(logits, labels, loss, partial, finished, N, C, factor);
#endif
#endif
    cudaDeviceSynchronize();
#if JOIN >= 2
    cudaFree(partial);
#endif
}
