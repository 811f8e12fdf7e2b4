// Register and shuffle scan; blocks mail packed totals to later blocks
#include <cuda_runtime.h>

#define MAX_TILES 128
#define BIG_BLOCKS 1056

// Row i: the totals mailed to block i. All zero between calls: each call leaves it so.
__device__ __align__(128) unsigned long long g_slot[MAX_TILES * MAX_TILES];
// Written and then read by the two launches for long arrays.
__device__ float g_partial[BIG_BLOCKS];

__device__ __forceinline__ unsigned long long ld_slot(const unsigned long long* p)
{
    unsigned long long v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void st_slot(unsigned long long* p, unsigned long long v)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

// rem: elements from p on to the end of the array (may be negative).
__device__ __forceinline__ float4 load4(const float* p, int rem)
{
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (rem >= 4) {
        v = __ldg(reinterpret_cast<const float4*>(p));
    } else if (rem > 0) {
        v.x = __ldg(p);
        if (rem > 1) v.y = __ldg(p + 1);
        if (rem > 2) v.z = __ldg(p + 2);
    }
    return v;
}

__device__ __forceinline__ void store4(float* p, int rem, float4 v)
{
    if (rem >= 4) {
        *reinterpret_cast<float4*>(p) = v;
    } else if (rem > 0) {
        p[0] = v.x;
        if (rem > 1) p[1] = v.y;
        if (rem > 2) p[2] = v.z;
    }
}

// Scan of V rows of 128 elements in a warp. Leaves in ex[k] what precedes x[k].x in the warp's
// rows, makes x[k] inclusive within the vector, and returns the warp's total in every lane.
template <int V>
__device__ __forceinline__ float warp_rows(float4 (&x)[V], float (&ex)[V], int lane)
{
    float inc[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
        x[k].y += x[k].x;
        x[k].z += x[k].y;
        x[k].w += x[k].z;
        inc[k] = x[k].w;
    }
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
#pragma unroll
        for (int k = 0; k < V; ++k) {
            float t = __shfl_up_sync(0xffffffffu, inc[k], d);
            if (lane >= d) inc[k] += t;
        }
    }
    float run = 0.f;
#pragma unroll
    for (int k = 0; k < V; ++k) {
        float e = __shfl_up_sync(0xffffffffu, inc[k], 1);
        float t = __shfl_sync(0xffffffffu, inc[k], 31);
        ex[k] = run + (lane == 0 ? 0.f : e);
        run += t;
    }
    return run;
}

template <int THREADS, int V, bool MULTI>
__global__ void __launch_bounds__(THREADS)
scan_tiles(const float* __restrict__ input, float* __restrict__ output, int n)
{
    constexpr int W = THREADS / 32;
    __shared__ __align__(16) float part[W];
    __shared__ float s_pred;

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int bid = MULTI ? (int)blockIdx.x : 0;
    const int base = bid * (THREADS * V * 4) + warp * (128 * V) + lane * 4;

    float4 x[V];
    float ex[V];
#pragma unroll
    for (int k = 0; k < V; ++k) x[k] = load4(input + base + k * 128, n - (base + k * 128));

    if (MULTI && warp == W - 1 && lane * 4 < bid) {
        // Our row of mail boxes comes into L2 meanwhile.
        asm volatile("prefetch.global.L2 [%0];" : : "l"(&g_slot[bid * MAX_TILES + lane * 4]));
    }

    const float warp_total = warp_rows<V>(x, ex, lane);
    if (lane == 0) part[warp] = warp_total;
    __syncthreads();

    float pre = 0.f, total = 0.f;
#pragma unroll
    for (int k = 0; k < W; k += 4) {
        const float4 q = *reinterpret_cast<const float4*>(&part[k]);
        if (k + 0 == warp) pre = total;
        total += q.x;
        if (k + 1 == warp) pre = total;
        total += q.y;
        if (k + 2 == warp) pre = total;
        total += q.z;
        if (k + 3 == warp) pre = total;
        total += q.w;
    }

    if (MULTI) {
        const unsigned long long READY = 1ull << 32;
        if (tid > bid && tid < (int)gridDim.x) {
            st_slot(&g_slot[tid * MAX_TILES + bid],
                    READY | (unsigned long long)__float_as_uint(total));
        }
        if (bid > 0) {
            if (warp == 0) {
                unsigned long long* row = &g_slot[bid * MAX_TILES];
                unsigned long long w[4];
#pragma unroll
                for (int k = 0; k < 4; ++k) w[k] = (lane + 32 * k < bid) ? 0ull : READY;
                bool missing;
                do {
#pragma unroll
                    for (int k = 0; k < 4; ++k) {
                        if ((w[k] >> 32) == 0ull) w[k] = ld_slot(row + lane + 32 * k);
                    }
                    missing = false;
#pragma unroll
                    for (int k = 0; k < 4; ++k) missing = missing || ((w[k] >> 32) == 0ull);
                } while (missing);
                __syncwarp();
                float acc = (__uint_as_float((unsigned int)w[0]) +
                             __uint_as_float((unsigned int)w[1])) +
                            (__uint_as_float((unsigned int)w[2]) +
                             __uint_as_float((unsigned int)w[3]));
                acc = warp_sum(acc);
                if (lane == 0) s_pred = acc;
            }
            __syncthreads();
            pre += s_pred;
        }
    }

#pragma unroll
    for (int k = 0; k < V; ++k) {
        const float o = pre + ex[k];
        float4 r = make_float4(x[k].x + o, x[k].y + o, x[k].z + o, x[k].w + o);
        store4(output + base + k * 128, n - (base + k * 128), r);
    }

    if (MULTI && bid > 0 && warp == 0) {
        // Only this warp reads this row, and everybody has mailed: empty it again.
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (lane + 32 * k < bid) st_slot(&g_slot[bid * MAX_TILES + lane + 32 * k], 0ull);
        }
    }
}

// Long arrays: sums of chunks, then a scan of each chunk.
__global__ void __launch_bounds__(256)
chunk_sum(const float* __restrict__ input, int n, int chunk)
{
    __shared__ float part[8];
    const int tid = threadIdx.x;
    const long long start = (long long)blockIdx.x * chunk;
    float a0 = 0.f, a1 = 0.f, a2 = 0.f, a3 = 0.f;
    for (int c = tid * 4; c < chunk; c += 2048) {
        const long long e = start + c;
        float4 u = load4(input + e, (int)((long long)n - e));
        float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
        if (c + 1024 < chunk) v = load4(input + e + 1024, (int)((long long)n - e - 1024));
        a0 += u.x + v.x;
        a1 += u.y + v.y;
        a2 += u.z + v.z;
        a3 += u.w + v.w;
    }
    float s = warp_sum((a0 + a1) + (a2 + a3));
    if ((tid & 31) == 0) part[tid >> 5] = s;
    __syncthreads();
    if (tid == 0) {
        float r = 0.f;
#pragma unroll
        for (int k = 0; k < 8; ++k) r += part[k];
        g_partial[blockIdx.x] = r;
    }
}

__global__ void __launch_bounds__(256)
chunk_scan(const float* __restrict__ input, float* __restrict__ output, int n, int chunk)
{
    constexpr int V = 2;
    __shared__ float red[8];
    __shared__ float part[2][8];
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const long long start = (long long)blockIdx.x * chunk;

    float s = 0.f;
    for (int b = tid; b < (int)blockIdx.x; b += 256) s += g_partial[b];
    s = warp_sum(s);
    if (lane == 0) red[warp] = s;
    __syncthreads();
    float carry = 0.f;
#pragma unroll
    for (int k = 0; k < 8; ++k) carry += red[k];

    int buf = 0;
    for (int c = 0; c < chunk; c += 2048) {   // chunk is a multiple of 2048
        const long long e = start + c + warp * (128 * V) + lane * 4;
        float4 x[V];
        float ex[V];
#pragma unroll
        for (int k = 0; k < V; ++k)
            x[k] = load4(input + e + k * 128, (int)((long long)n - e - k * 128));
        const float t = warp_rows<V>(x, ex, lane);
        if (lane == 0) part[buf][warp] = t;
        __syncthreads();
        float pre = 0.f, total = 0.f;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (k == warp) pre = total;
            total += part[buf][k];
        }
#pragma unroll
        for (int k = 0; k < V; ++k) {
            const float o = carry + (pre + ex[k]);
            float4 r = make_float4(x[k].x + o, x[k].y + o, x[k].z + o, x[k].w + o);
            store4(output + e + k * 128, (int)((long long)n - e - k * 128), r);
        }
        carry += total;
        buf ^= 1;
    }
}

extern "C" void solve(const float* input, float* output, int n)
{
    if (n <= 1024) {
        scan_tiles<128, 2, false><<<1, 128>>>(input, output, n);
    } else if (n <= 4096) {
        scan_tiles<256, 4, false><<<1, 256>>>(input, output, n);
    } else if (n <= 65536) {
        scan_tiles<128, 1, true><<<(n + 511) / 512, 128>>>(input, output, n);
    } else if (n <= 262144) {
        scan_tiles<256, 2, true><<<(n + 2047) / 2048, 256>>>(input, output, n);
    } else {
        long long per = ((long long)n + BIG_BLOCKS - 1) / BIG_BLOCKS;
        int chunk = (int)((per + 2047) / 2048 * 2048);
        int blocks = (int)(((long long)n + chunk - 1) / chunk);
        chunk_sum<<<blocks, 256>>>(input, n, chunk);
        chunk_scan<<<blocks, 256>>>(input, output, n, chunk);
    }
}
