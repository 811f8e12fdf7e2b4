// One launch: self-flagging 64-bit partial sums, first block collects.

#include <cuda_runtime.h>

constexpr int MAX_BLOCKS = 132; // all resident: at most one block of 1,024 threads an SM
constexpr unsigned ALL = 0xffffffffu;

// Zero means empty; every call finds the slots empty and leaves them empty.
__device__ unsigned long long g_slots[MAX_BLOCKS];

__device__ __forceinline__ unsigned long long peek(const unsigned long long* p)
{
    unsigned long long v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void poke(unsigned long long* p, unsigned long long v)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
}

template <int T, int V>
__global__ void __launch_bounds__(T, 1)
integrate(const float* __restrict__ y, float* __restrict__ result, float a, float b, unsigned n)
{
    constexpr int W = T / 32;
    __shared__ float warp_sums[W];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const unsigned vectors = n >> 2;
    const unsigned stride = gridDim.x * T;
    const float4* y4 = reinterpret_cast<const float4*>(y);

    float tail = 0.0f;
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x < (n & 3u))
        tail = y[(vectors << 2) + threadIdx.x];

    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (unsigned i = blockIdx.x * T + threadIdx.x; i < vectors; i += V * stride) {
        float4 v[V];
#pragma unroll
        for (int k = 0; k < V; ++k) {
            v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i + k * stride < vectors)
                v[k] = __ldg(y4 + i + k * stride);
        }
#pragma unroll
        for (int k = 0; k < V; ++k)
            acc[k & 3] += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    }
    float sum = ((acc[0] + acc[1]) + (acc[2] + acc[3])) + tail;

    // Ready before it is needed.
    double scale = 0.0;
    if (blockIdx.x == 0 && warp == 0)
        scale = ((double)b - (double)a) / (double)n;

#pragma unroll
    for (int o = 16; o > 0; o >>= 1)
        sum += __shfl_xor_sync(ALL, sum, o);
    if (lane == 0)
        warp_sums[warp] = sum;
    __syncthreads();
    if (warp != 0)
        return;

    sum = lane < W ? warp_sums[lane] : 0.0f;
#pragma unroll
    for (int o = W / 2; o > 0; o >>= 1)
        sum += __shfl_xor_sync(ALL, sum, o);
    // Lanes below W hold the sum of the block.

    if (blockIdx.x != 0) {
        if (lane == 0) {
            unsigned long long bits = (unsigned long long)__double_as_longlong((double)sum);
            if (bits == 0)
                bits = 0x8000000000000000ull; // -0 instead of 0: not empty
            poke(&g_slots[blockIdx.x], bits);
        }
        return;
    }

    // First block: lane l collects the slots l, l + 32, ... (its own sum for slot 0).
    constexpr int S = (MAX_BLOCKS + 31) / 32;
    const int blocks = gridDim.x;
    unsigned long long got[S];
#pragma unroll
    for (int s = 0; s < S; ++s)
        got[s] = 0;
    bool missing;
    do {
        missing = false;
#pragma unroll
        for (int s = 0; s < S; ++s) {
            int slot = lane + 32 * s;
            if (slot > 0 && slot < blocks && got[s] == 0)
                got[s] = peek(&g_slots[slot]);
        }
#pragma unroll
        for (int s = 0; s < S; ++s) {
            int slot = lane + 32 * s;
            if (slot > 0 && slot < blocks && got[s] == 0)
                missing = true;
        }
    } while (missing);
    __syncwarp();

    double total = lane == 0 ? (double)sum : 0.0;
#pragma unroll
    for (int s = 0; s < S; ++s)
        total += __longlong_as_double((long long)got[s]); // 0 where there is no slot
#pragma unroll
    for (int o = 16; o > 0; o >>= 1)
        total += __shfl_xor_sync(ALL, total, o);
    if (lane == 0)
        result[0] = (float)(total * scale);
#pragma unroll
    for (int s = 0; s < S; ++s) {
        int slot = lane + 32 * s;
        if (slot > 0 && slot < blocks)
            poke(&g_slots[slot], 0ull);
    }
}

template <int T, int V>
static void launch(const float* y, float* result, float a, float b, unsigned n)
{
    const unsigned vectors = n >> 2;
    unsigned blocks = (vectors + T * V - 1) / (T * V);
    if (blocks < 1)
        blocks = 1;
    if (blocks > MAX_BLOCKS)
        blocks = MAX_BLOCKS;
    integrate<T, V><<<blocks, T>>>(y, result, a, b, n);
}

extern "C" void solve(const float* y_samples, float* result, float a, float b, int n)
{
    if (n <= 0)
        return;
    const unsigned count = (unsigned)n;
    const unsigned vectors = count >> 2;
    if (vectors <= 256u * MAX_BLOCKS)
        launch<256, 1>(y_samples, result, a, b, count);
    else if (vectors <= 512u * MAX_BLOCKS)
        launch<512, 1>(y_samples, result, a, b, count);
    else if (vectors <= 2048u * MAX_BLOCKS)
        launch<1024, 2>(y_samples, result, a, b, count);
    else if (vectors <= 4096u * MAX_BLOCKS)
        launch<1024, 4>(y_samples, result, a, b, count);
    else
        launch<1024, 8>(y_samples, result, a, b, count);
}
