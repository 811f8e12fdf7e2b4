// One block when short; beyond, last-started block collects packed partials
#include <cuda_runtime.h>

#define MAX_BLOCKS 1056

// All zero between calls: each call leaves them as it found them.
__device__ unsigned int g_ticket;
__device__ __align__(128) unsigned long long g_box[MAX_BLOCKS];

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

__device__ __forceinline__ float4 load_or_zero(const float4* p, int i, int nv)
{
    float4 z = make_float4(0.f, 0.f, 0.f, 0.f);
    if (i < nv) z = __ldg(p + i);
    return z;
}

__device__ __forceinline__ void add_squares(float4& s, const float4& x, const float4& y)
{
    const float a = x.x - y.x;
    const float b = x.y - y.y;
    const float c = x.z - y.z;
    const float d = x.w - y.w;
    s.x = fmaf(a, a, s.x);
    s.y = fmaf(b, b, s.y);
    s.z = fmaf(c, c, s.z);
    s.w = fmaf(d, d, s.w);
}

__device__ __forceinline__ unsigned long long ld_box(const unsigned long long* p)
{
    unsigned long long v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void st_box(unsigned long long* p, unsigned long long v)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
}

// n <= THREADS * V * 4, one block.
template <int THREADS, int V>
__global__ void __launch_bounds__(THREADS)
mse_one(const float* __restrict__ predictions, const float* __restrict__ targets,
        float* __restrict__ mse, int n)
{
    __shared__ __align__(16) float part[THREADS / 32];
    const int tid = threadIdx.x;
    const int nv = n >> 2;
    const float4* p = reinterpret_cast<const float4*>(predictions);
    const float4* t = reinterpret_cast<const float4*>(targets);

    float4 x[V], y[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
        x[k] = load_or_zero(p, tid + k * THREADS, nv);
        y[k] = load_or_zero(t, tid + k * THREADS, nv);
    }
    float d = 0.f;
    if (tid < (n & 3)) {
        const int e = (nv << 2) + tid;
        d = __ldg(predictions + e) - __ldg(targets + e);
    }

    float4 s = make_float4(d * d, 0.f, 0.f, 0.f);
#pragma unroll
    for (int k = 0; k < V; ++k) add_squares(s, x[k], y[k]);
    const float v = warp_sum((s.x + s.y) + (s.z + s.w));
    if ((tid & 31) == 0) part[tid >> 5] = v;
    __syncthreads();
    if (tid == 0) {
        float r = 0.f;
#pragma unroll
        for (int k = 0; k < THREADS / 128; ++k) {
            const float4 q = reinterpret_cast<const float4*>(part)[k];
            r += (q.x + q.y) + (q.z + q.w);
        }
        mse[0] = r / (float)n;
    }
}

// Blocks of 128. A partial sum and its "ready" mark are one 64-bit word, so no fence is needed.
// The block with the last ticket collects: all others have started by then.
__global__ void __launch_bounds__(128)
mse_grid(const float* __restrict__ predictions, const float* __restrict__ targets,
         float* __restrict__ mse, int n)
{
    __shared__ __align__(16) float part[4];
    __shared__ unsigned int s_ticket;

    const int tid = threadIdx.x;
    const int bid = blockIdx.x;
    const int grid = gridDim.x;
    const int nv = n >> 2;
    const float4* p = reinterpret_cast<const float4*>(predictions);
    const float4* t = reinterpret_cast<const float4*>(targets);

    unsigned int ticket = 0;
    if (tid == 0) ticket = atomicInc(&g_ticket, (unsigned int)(grid - 1));

    const int stride = grid * 128;
    const int first = bid * 128 + tid;

    float d = 0.f;
    if (first < (n & 3)) {
        const int e = (nv << 2) + first;
        d = __ldg(predictions + e) - __ldg(targets + e);
    }
    float4 s = make_float4(d * d, 0.f, 0.f, 0.f);
    float4 u = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int i = first; i < nv; i += 4 * stride) {
        float4 x[4], y[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            x[k] = load_or_zero(p, i + k * stride, nv);
            y[k] = load_or_zero(t, i + k * stride, nv);
        }
        add_squares(s, x[0], y[0]);
        add_squares(u, x[1], y[1]);
        add_squares(s, x[2], y[2]);
        add_squares(u, x[3], y[3]);
    }
    const float v = warp_sum(((s.x + s.y) + (s.z + s.w)) + ((u.x + u.y) + (u.z + u.w)));

    if ((tid & 31) == 0) part[tid >> 5] = v;
    if (tid == 0) s_ticket = ticket;
    __syncthreads();
    if (tid >= 32) return;

    const float4 q = *reinterpret_cast<const float4*>(part);
    const float mine = (q.x + q.y) + (q.z + q.w);

    const unsigned long long READY = 1ull << 32;
    if (s_ticket != (unsigned int)(grid - 1)) {
        if (tid == 0) st_box(&g_box[bid], READY | (unsigned long long)__float_as_uint(mine));
        return;
    }

    // The collecting warp.
    float acc = (tid == 0) ? mine : 0.f;
    for (int b0 = tid; b0 < grid; b0 += 128) {
        unsigned long long w[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int b = b0 + 32 * k;
            w[k] = (b < grid && b != bid) ? 0ull : READY;
        }
        bool missing;
        do {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                if ((w[k] >> 32) == 0ull) w[k] = ld_box(&g_box[b0 + 32 * k]);
            }
            missing = false;
#pragma unroll
            for (int k = 0; k < 4; ++k) missing = missing || ((w[k] >> 32) == 0ull);
        } while (missing);
        acc += (__uint_as_float((unsigned int)w[0]) + __uint_as_float((unsigned int)w[1])) +
               (__uint_as_float((unsigned int)w[2]) + __uint_as_float((unsigned int)w[3]));
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int b = b0 + 32 * k;
            if (b < grid && b != bid) st_box(&g_box[b], 0ull);
        }
    }
    __syncwarp();
    acc = warp_sum(acc);
    if (tid == 0) mse[0] = acc / (float)n;
}

extern "C" void solve(const float* predictions, const float* targets, float* mse, int n)
{
    if (n <= 1024) {
        mse_one<128, 2><<<1, 128>>>(predictions, targets, mse, n);
    } else if (n <= 4096) {
        mse_one<256, 4><<<1, 256>>>(predictions, targets, mse, n);
    } else {
        int blocks;
        if (n <= 262144) {
            blocks = (n + 511) / 512;
            if (blocks > 128) blocks = 128;
        } else {
            blocks = (int)(((long long)n + 2047) / 2048);
            if (blocks > MAX_BLOCKS) blocks = MAX_BLOCKS;
        }
        mse_grid<<<blocks, 128>>>(predictions, targets, mse, n);
    }
}
