// One launch, balanced chunks, last block's warp adds the partials
#include <cuda_runtime.h>

#define MAX_BLOCKS 264

__device__ __align__(128) float g_partial[MAX_BLOCKS];
// Zero between calls: atomicInc wraps it.
__device__ __align__(128) unsigned int g_done;

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

// chunk: vectors of four a block. blockDim.x is a multiple of 32, 128 at least, 512 at most.
__global__ void __launch_bounds__(512)
dot_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ result,
           int n, int chunk)
{
    __shared__ float part[16];

    const int tid = threadIdx.x;
    const int threads = blockDim.x;
    const int grid = gridDim.x;
    const int bid = blockIdx.x;
    const int nv = n >> 2;

    const long long start = (long long)bid * chunk;
    const long long left = (long long)nv - start;
    const int len = left < (long long)chunk ? (left > 0 ? (int)left : 0) : chunk;
    const float4* pa = reinterpret_cast<const float4*>(a) + start;
    const float4* pb = reinterpret_cast<const float4*>(b) + start;

    // What the blocks share comes into L2 while the vectors are on their way.
    if (tid == 32) asm volatile("prefetch.global.L2 [%0];" : : "l"(&g_partial[bid]));
    if (tid == 64 && bid == 0) asm volatile("prefetch.global.L2 [%0];" : : "l"(&g_done));

    float s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f;
    const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);

    for (int i = tid; i < len; i += 4 * threads) {
        float4 x[4], y[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int j = i + k * threads;
            x[k] = zero;
            y[k] = zero;
            if (j < len) {
                x[k] = __ldg(pa + j);
                y[k] = __ldg(pb + j);
            }
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            s0 = fmaf(x[k].x, y[k].x, s0);
            s1 = fmaf(x[k].y, y[k].y, s1);
            s2 = fmaf(x[k].z, y[k].z, s2);
            s3 = fmaf(x[k].w, y[k].w, s3);
        }
    }
    if (bid == 0 && tid < (n & 3)) {
        const long long e = ((long long)nv << 2) + tid;
        s0 = fmaf(__ldg(a + e), __ldg(b + e), s0);
    }

    float v = warp_sum((s0 + s1) + (s2 + s3));
    if ((tid & 31) == 0) part[tid >> 5] = v;
    __syncthreads();
    if (tid >= 32) return;

    // One warp from here on.
    const int warps = threads >> 5;
    float mine = tid < warps ? part[tid] : 0.f;
#pragma unroll
    for (int d = 8; d > 0; d >>= 1) mine += __shfl_xor_sync(0xffffffffu, mine, d);

    if (grid == 1) {
        if (tid == 0) result[0] = mine;
        return;
    }

    unsigned int old = 0;
    if (tid == 0) {
        __stcg(&g_partial[bid], mine);
        __threadfence();
        old = atomicInc(&g_done, (unsigned int)(grid - 1));
    }
    old = __shfl_sync(0xffffffffu, old, 0);
    if (old != (unsigned int)(grid - 1)) return;

    // The last block: all partial sums are there.
    float q[(MAX_BLOCKS + 31) / 32];
#pragma unroll
    for (int k = 0; k < (MAX_BLOCKS + 31) / 32; ++k) {
        const int j = tid + 32 * k;
        q[k] = 0.f;
        if (j < grid) q[k] = *(const volatile float*)&g_partial[j];
    }
    float acc = 0.f;
#pragma unroll
    for (int k = 0; k < (MAX_BLOCKS + 31) / 32; ++k) acc += q[k];
    acc = warp_sum(acc);
    if (tid == 0) result[0] = acc;
}

extern "C" void solve(const float* a, const float* b, float* result, int n)
{
    const int nv = n >> 2;
    const int threads = n <= 65536 ? 128 : (n <= 524288 ? 256 : 512);
    int blocks = (nv + threads - 1) / threads;
    const int most = n <= 4194304 ? 132 : MAX_BLOCKS;
    if (blocks > most) blocks = most;
    if (blocks < 1) blocks = 1;
    // Whole lines of 128 bytes a block.
    int chunk = (nv + blocks - 1) / blocks;
    chunk = (chunk + 7) / 8 * 8;
    if (chunk < 8) chunk = 8;
    blocks = (nv + chunk - 1) / chunk;
    if (blocks < 1) blocks = 1;
    dot_kernel<<<blocks, threads>>>(a, b, result, n, chunk);
}
