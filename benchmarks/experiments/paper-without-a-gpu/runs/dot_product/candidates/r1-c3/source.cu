// One block an SM, batched loads; last block collects flagged partials.

#include <cuda_runtime.h>

typedef unsigned long long u64;

constexpr int SMS = 132;

// Each block but the last leaves its partial sum with a flag in one word of its own.
// The last block reads them and puts zero back: zero between calls.
__device__ u64 g_slots[160];

__device__ __forceinline__ u64 load_word(const u64* p)
{
    u64 w;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(w) : "l"(p) : "memory");
    return w;
}

__device__ __forceinline__ void store_word(u64* p, u64 w)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(w) : "memory");
}

__device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

template <int N>
__device__ __forceinline__ float tree(float (&s)[N])
{
#pragma unroll
    for (int d = N / 2; d > 0; d >>= 1) {
#pragma unroll
        for (int k = 0; k < d; k++) s[k] += s[k + d];
    }
    return s[0];
}

// Block b sums vectors [b * per, (b + 1) * per); T and U are powers of two.
template <int T, int U>
__global__ void __launch_bounds__(T)
dot_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ result,
           int n, int per)
{
    constexpr int W = T / 32;
    __shared__ __align__(16) float sums[W];

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int last = (int)gridDim.x - 1;
    const int n4 = n >> 2;
    const int start = (int)blockIdx.x * per;
    const int end = min(start + per, n4);
    const float4* a4 = reinterpret_cast<const float4*>(a);
    const float4* b4 = reinterpret_cast<const float4*>(b);

    float extra_a = 0.f, extra_b = 0.f;
    if ((int)blockIdx.x == last && t < (n & 3)) {
        const size_t j = (size_t)n4 * 4 + t;
        extra_a = a[j];
        extra_b = b[j];
    }

    float acc[U];
#pragma unroll
    for (int k = 0; k < U; k++) acc[k] = 0.f;

    for (int i = start + t; i < end; i += U * T) {
        float4 x[U], y[U];
#pragma unroll
        for (int k = 0; k < U; k++) {
            x[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            y[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            if (k == 0 || i + k * T < end) {
                x[k] = __ldg(a4 + i + k * T);
                y[k] = __ldg(b4 + i + k * T);
            }
        }
#pragma unroll
        for (int k = 0; k < U; k++) {
            acc[k] = fmaf(x[k].x, y[k].x, acc[k]);
            acc[k] = fmaf(x[k].y, y[k].y, acc[k]);
            acc[k] = fmaf(x[k].z, y[k].z, acc[k]);
            acc[k] = fmaf(x[k].w, y[k].w, acc[k]);
        }
    }

    float s = fmaf(extra_a, extra_b, tree<U>(acc));
    s = warp_sum(s);
    if (lane == 0) sums[warp] = s;
    __syncthreads();
    if (warp != 0) return;

    float q[W / 4];
#pragma unroll
    for (int k = 0; k < W / 4; k++) {
        const float4 v = reinterpret_cast<const float4*>(sums)[k];
        q[k] = (v.x + v.y) + (v.z + v.w);
    }
    const float total = tree<W / 4>(q);

    if ((int)blockIdx.x != last) {
        if (lane == 0) {
            store_word(&g_slots[blockIdx.x], ((u64)1u << 32) | (u64)__float_as_uint(total));
        }
        return;
    }

    // The last block's first warp: five slots a lane, their loads under way together.
    u64 w[5];
#pragma unroll
    for (int k = 0; k < 5; k++) {
        w[k] = (u64)1u << 32;                       // nothing to wait for, value 0
        if (lane + 32 * k < last) w[k] = load_word(&g_slots[lane + 32 * k]);
    }
    float p[5];
#pragma unroll
    for (int k = 0; k < 5; k++) {
        const int j = lane + 32 * k;
        while ((w[k] >> 32) == 0) w[k] = load_word(&g_slots[j]);
        p[k] = __uint_as_float((unsigned)w[k]);
        if (j < last) store_word(&g_slots[j], 0ULL);
    }
    __syncwarp();
    const float all = warp_sum(((p[0] + p[1]) + (p[2] + p[3])) + p[4]);
    if (lane == 0) result[0] = all + total;
}

template <int T, int U>
static void launch(const float* a, const float* b, float* result, int n, int per, int blocks)
{
    dot_kernel<T, U><<<blocks, T>>>(a, b, result, n, per);
}

extern "C" void solve(const float* a, const float* b, float* result, int n)
{
    const int n4 = n / 4;
    int per = (n4 + SMS - 1) / SMS;                 // vectors a block
    per = (per + 7) / 8 * 8;                        // whole lines of 128 bytes
    if (per < 128) per = 128;
    int blocks = (n4 + per - 1) / per;              // 132 at most
    if (blocks < 1) blocks = 1;

    if (per <= 128) {
        launch<128, 1>(a, b, result, n, per, blocks);
    } else if (per <= 256) {
        launch<128, 2>(a, b, result, n, per, blocks);
    } else if (per <= 512) {
        launch<128, 4>(a, b, result, n, per, blocks);
    } else if (per <= 1024) {
        launch<256, 4>(a, b, result, n, per, blocks);
    } else {
        launch<512, 4>(a, b, result, n, per, blocks);
    }
}
