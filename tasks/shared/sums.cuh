// What sums over a whole grid have in common: how a block joins its threads, how sums of blocks are joined, and how
// a kernel starts early and waits for the one before. The playbook defines JOIN, EARLY, SHUFFLES, THREADS, ITEMS and
// WIDTH.

#if JOIN == 4
#define _CG_LIMIT_INCLUDED_DEPENDENCIES // no libcu++: it takes nvcc most of its time
#include <cooperative_groups.h>
#endif

constexpr int kLoads = ITEMS / WIDTH;
#if SHUFFLES == 1
constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;
#endif
constexpr int kThousand = 1024;

struct alignas(sizeof(float) * WIDTH) Vector {
    float at[WIDTH];
};

#if JOIN > 0 && SHUFFLES == 0
// Idea: halve the number of active threads until one is left. The sum is right in thread 0.
__device__ float block_sum(float value)
{
    __shared__ float values[THREADS];
    values[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            values[threadIdx.x] += values[threadIdx.x + half];
        }
    }
    return values[0];
}
#elif SHUFFLES == 1
__device__ float warp_sum(float value)
{
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        value += __shfl_down_sync(kWholeWarp, value, distance);
    }
    return value;
}

// Idea: a warp adds up in registers; shared memory and one barrier join the warps only. The sum is
// right in thread 0.
__device__ float block_sum(float value)
{
    __shared__ float values[kWarp];
    value = warp_sum(value);
    if (threadIdx.x % kWarp == 0) {
        values[threadIdx.x / kWarp] = value;
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
        value = warp_sum(threadIdx.x < blockDim.x / kWarp ? values[threadIdx.x] : 0.0f);
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
    config.blockDim = dim3(THREADS);
    config.attrs = &early;
    config.numAttrs = generation >= 9 ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}
#endif
