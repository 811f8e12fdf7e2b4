// Unshifted small rows, cp.async warp rings, integer sums, packed atomic.

#include <cuda_runtime.h>
#include <math.h>

// bits 0..8: blocks that arrived; 9..17: of these, how many used `spill`; 18..63: fixed-point sum
__device__ unsigned long long packed_total = 0ULL;
__device__ double spill = 0.0;        // shares outside the range of the fixed point
__device__ unsigned arrived = 0u;     // blocks that arrived, kernels for any C

#define FULL 0xffffffffu

static constexpr float LOG2E = 1.4426950408889634f;
static constexpr float LN2 = 0.6931471805599453f;

__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ void copy16(unsigned dst, const char* src)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(dst), "l"(src) : "memory");
}

__device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ __forceinline__ void copy_wait_all_but_one()
{
    asm volatile("cp.async.wait_group 1;" ::: "memory");
}

// The loss of a row with the maximum subtracted: right for any logits.
__device__ __forceinline__ float careful_row(const float2& a, const float2& b, const float2& c,
                                             const float2& d, const float2& e, float mine)
{
    float m = fmaxf(fmaxf(fmaxf(fmaxf(a.x, a.y), fmaxf(b.x, b.y)),
                          fmaxf(fmaxf(c.x, c.y), fmaxf(d.x, d.y))),
                    fmaxf(e.x, e.y));
    float e0 = exp2_fast((a.x - m) * LOG2E);
    float e1 = exp2_fast((a.y - m) * LOG2E);
    float e2 = exp2_fast((b.x - m) * LOG2E);
    float e3 = exp2_fast((b.y - m) * LOG2E);
    float e4 = exp2_fast((c.x - m) * LOG2E);
    float e5 = exp2_fast((c.y - m) * LOG2E);
    float e6 = exp2_fast((d.x - m) * LOG2E);
    float e7 = exp2_fast((d.y - m) * LOG2E);
    float e8 = exp2_fast((e.x - m) * LOG2E);
    float e9 = exp2_fast((e.y - m) * LOG2E);
    float sum = (((e0 + e1) + (e2 + e3)) + ((e4 + e5) + (e6 + e7))) + (e8 + e9);
    return fmaf(__log2f(sum), LN2, m - mine);
}

// A row straight from global memory; its first logit is the shift, so nothing waits for a maximum.
__device__ __forceinline__ float direct_row(const float* __restrict__ logits,
                                            const int* __restrict__ labels, unsigned i)
{
    const float2* r = reinterpret_cast<const float2*>(logits + (size_t)i * 10);
    float2 a = __ldg(r);
    float2 b = __ldg(r + 1);
    float2 c = __ldg(r + 2);
    float2 d = __ldg(r + 3);
    float2 e = __ldg(r + 4);
    int l = __ldg(labels + i);

    float x0 = a.x;
    float e1 = exp2_fast((a.y - x0) * LOG2E);
    float e2 = exp2_fast((b.x - x0) * LOG2E);
    float e3 = exp2_fast((b.y - x0) * LOG2E);
    float e4 = exp2_fast((c.x - x0) * LOG2E);
    float e5 = exp2_fast((c.y - x0) * LOG2E);
    float e6 = exp2_fast((d.x - x0) * LOG2E);
    float e7 = exp2_fast((d.y - x0) * LOG2E);
    float e8 = exp2_fast((e.x - x0) * LOG2E);
    float e9 = exp2_fast((e.y - x0) * LOG2E);

    bool b0 = (l & 1) != 0, b1 = (l & 2) != 0, b2 = (l & 4) != 0, b3 = (l & 8) != 0;
    float s0 = b0 ? a.y : a.x;
    float s1 = b0 ? b.y : b.x;
    float s2 = b0 ? c.y : c.x;
    float s3 = b0 ? d.y : d.x;
    float s4 = b0 ? e.y : e.x;
    s0 = b1 ? s1 : s0;
    s2 = b1 ? s3 : s2;
    s0 = b2 ? s2 : s0;
    float mine = b3 ? s4 : s0;

    float sum = (((1.0f + e1) + (e2 + e3)) + ((e4 + e5) + (e6 + e7))) + (e8 + e9);
    float one = fmaf(__log2f(sum), LN2, x0 - mine);
    if (!(sum < 4096.0f)) {
        one = careful_row(a, b, c, d, e, mine);
    }
    return one;
}

// Thread 0 of a block adds the block's share; the last block to arrive writes the result.
__device__ __forceinline__ void deliver(unsigned sum, unsigned flag, float unit, float* loss)
{
    if (flag) {
        __threadfence();
    }
    unsigned long long add = ((unsigned long long)sum << 18)
                           + ((unsigned long long)flag << 9) + 1ULL;
    unsigned long long old = atomicAdd(&packed_total, add);
    if ((unsigned)(old & 511ULL) == gridDim.x - 1u) {
        unsigned long long all = old + add;
        float result = __ull2float_rn(all >> 18) * unit;
        if ((all >> 9) & 511ULL) {
            __threadfence();
            unsigned long long bits =
                atomicExch(reinterpret_cast<unsigned long long*>(&spill), 0ULL);
            double total = __longlong_as_double((long long)bits)
                         + (double)(all >> 18) * (double)unit;
            result = (float)total;
        }
        loss[0] = result;
        packed_total = 0ULL;
    }
}

// acc: the thread's share of the mean; x: the same in fixed-point units (16 of them make one `unit`).
template <int WARPS>
__device__ __forceinline__ void finish(float x, float acc, float unit, float* loss)
{
    __shared__ uint4 slots4[WARPS / 4];
    unsigned* slots = reinterpret_cast<unsigned*>(slots4);
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;

    unsigned s = __reduce_add_sync(FULL, __float2uint_rn(x));
    bool wild = __any_sync(FULL, !(x < 134217728.0f)) != 0;
    unsigned slot = (s + 8u) >> 4;
    if (wild || s < (1u << 26)) {
        // too large or too small for the fixed point (the whole warp comes here)
        float p = acc;
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) {
            p += __shfl_xor_sync(FULL, p, d);
        }
        slot = 0u;
        if (p != 0.0f) {
            slot = 0x80000000u;
            if (lane == 0) {
                atomicAdd(&spill, (double)p);
                __threadfence();
            }
        }
    }
    if (lane == 0) {
        slots[warp] = slot;
    }
    __syncthreads();
    if (WARPS == 4) {
        if (threadIdx.x == 0) {
            uint4 v = slots4[0];
            unsigned sum = ((v.x + v.y) + (v.z + v.w)) & 0x3fffffffu;
            unsigned flag = ((v.x | v.y) | (v.z | v.w)) >> 31;
            deliver(sum, flag, unit, loss);
        }
    } else {
        if (warp == 0) {
            unsigned v = 0u;
            if (lane < (unsigned)WARPS) {
                v = slots[lane];
            }
            unsigned flag = __any_sync(FULL, (v >> 31) != 0u) ? 1u : 0u;
            unsigned sum = __reduce_add_sync(FULL, v & 0x7fffffffu);
            if (lane == 0) {
                deliver(sum, flag, unit, loss);
            }
        }
    }
}

// C = 10, all rows at once: one row a thread, straight into registers.
template <int T>
__global__ void __launch_bounds__(T)
one_row_of_10(const float* __restrict__ logits, const int* __restrict__ labels, float* loss,
              unsigned N, float inv_n, float unit)
{
    const unsigned i = blockIdx.x * T + threadIdx.x;
    float one = 0.0f;
    if (i < N) {
        one = direct_row(logits, labels, i);
    }
    finish<T / 32>(one * 4194304.0f, one * inv_n, unit, loss);
}

// C = 10, many rows: each warp keeps two tiles of 32 rows and their labels on their way.
static constexpr unsigned STAGE = 1408u;    // 1,280 B of logits, 128 B of labels

__global__ void __launch_bounds__(512, 2)
tiles_of_10(const float* __restrict__ logits, const int* __restrict__ labels, float* loss,
            unsigned N, float inv_n, float ln2_n, float to_fixed, float unit)
{
    __shared__ __align__(128) unsigned char ring[16 * 2 * STAGE];
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned W = gridDim.x * 16u;
    const unsigned gw = blockIdx.x * 16u + warp;
    const unsigned tiles = N >> 5;

    const unsigned char* own = ring + warp * (2u * STAGE);
    const unsigned dst = (unsigned)__cvta_generic_to_shared(own) + lane * 16u;
    const char* p0 = reinterpret_cast<const char*>(logits) + (size_t)gw * 1280u + lane * 16u;
    const char* p2 = p0 + 1024;
    const size_t step0 = (size_t)W * 1280u;
    size_t step2 = step0;
    if (lane >= 16u) {
        p2 = reinterpret_cast<const char*>(labels) + (size_t)gw * 128u + (lane - 16u) * 16u;
        step2 = (size_t)W * 128u;
    }
    const bool third = lane < 24u;

    unsigned next = gw;
#pragma unroll
    for (unsigned s = 0; s < 2u; ++s) {
        if (next < tiles) {
            copy16(dst + s * STAGE, p0);
            copy16(dst + s * STAGE + 512u, p0 + 512);
            if (third) {
                copy16(dst + s * STAGE + 1024u, p2);
            }
            p0 += step0;
            p2 += step2;
        }
        copy_commit();
        next += W;
    }

    float acc = 0.0f;
    // rows after the last whole tile
    if (gw == W - 1u && lane < (N & 31u)) {
        acc = direct_row(logits, labels, (tiles << 5) + lane) * inv_n;
    }
    __syncwarp();

    unsigned off = 0u;
#pragma unroll 1
    for (unsigned t = gw; t < tiles; t += W) {
        copy_wait_all_but_one();
        __syncwarp();
        const unsigned char* stage = own + off;
        int l = *reinterpret_cast<const int*>(stage + 1280u + lane * 4u);
        const float* row = reinterpret_cast<const float*>(stage + lane * 40u);
        const float2* r = reinterpret_cast<const float2*>(row);
        float2 a = r[0];
        float2 b = r[1];
        float2 c = r[2];
        float2 d = r[3];
        float2 e = r[4];
        float mine = row[l];
        __syncwarp();
        if (next < tiles) {
            copy16(dst + off, p0);
            copy16(dst + off + 512u, p0 + 512);
            if (third) {
                copy16(dst + off + 1024u, p2);
            }
            p0 += step0;
            p2 += step2;
        }
        copy_commit();
        next += W;
        off = STAGE - off;

        // the label's logit is the shift: the sum is at least 1 and its logarithm the loss
        float e0 = exp2_fast((a.x - mine) * LOG2E);
        float e1 = exp2_fast((a.y - mine) * LOG2E);
        float e2 = exp2_fast((b.x - mine) * LOG2E);
        float e3 = exp2_fast((b.y - mine) * LOG2E);
        float e4 = exp2_fast((c.x - mine) * LOG2E);
        float e5 = exp2_fast((c.y - mine) * LOG2E);
        float e6 = exp2_fast((d.x - mine) * LOG2E);
        float e7 = exp2_fast((d.y - mine) * LOG2E);
        float e8 = exp2_fast((e.x - mine) * LOG2E);
        float e9 = exp2_fast((e.y - mine) * LOG2E);
        float sum = (((e0 + e1) + (e2 + e3)) + ((e4 + e5) + (e6 + e7))) + (e8 + e9);
        if (sum < 1e38f) {
            acc = fmaf(__log2f(sum), ln2_n, acc);
        } else {
            acc = fmaf(careful_row(a, b, c, d, e, mine), inv_n, acc);
        }
    }
    __syncwarp();
    finish<16>(acc * to_fixed, acc, unit, loss);
}

// Any C: the blocks' shares in double precision.
template <int T>
__device__ __forceinline__ void finish_any(double acc, float* loss)
{
    __shared__ double shares[T / 32];
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        acc += __shfl_xor_sync(FULL, acc, d);
    }
    if ((threadIdx.x & 31) == 0) {
        shares[threadIdx.x >> 5] = acc;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double p = 0.0;
        for (int w = 0; w < T / 32; ++w) {
            p += shares[w];
        }
        atomicAdd(&spill, p);
        __threadfence();
        unsigned old = atomicAdd(&arrived, 1u);
        if (old == gridDim.x - 1u) {
            __threadfence();
            unsigned long long bits =
                atomicExch(reinterpret_cast<unsigned long long*>(&spill), 0ULL);
            loss[0] = (float)__longlong_as_double((long long)bits);
            arrived = 0u;
        }
    }
}

// Few classes: a thread a row, any C.
template <int T>
__global__ void __launch_bounds__(T)
short_rows(const float* __restrict__ logits, const int* __restrict__ labels, float* loss,
           unsigned N, int C, double inv_n)
{
    double acc = 0.0;
    const unsigned stride = gridDim.x * T;
    for (unsigned i = blockIdx.x * T + threadIdx.x; i < N; i += stride) {
        const float* r = logits + (size_t)i * (size_t)C;
        int l = labels[i];
        float m = r[0];
        for (int c = 1; c < C; ++c) {
            m = fmaxf(m, r[c]);
        }
        float sum = 0.0f;
        for (int c = 0; c < C; ++c) {
            sum += expf(r[c] - m);
        }
        acc += (double)(logf(sum) + (m - r[l])) * inv_n;
    }
    __syncwarp();
    finish_any<T>(acc, loss);
}

// Many classes: a block a row.
template <int T>
__global__ void __launch_bounds__(T)
long_rows(const float* __restrict__ logits, const int* __restrict__ labels, float* loss,
          unsigned N, unsigned C, double inv_n)
{
    __shared__ float warp_max[T / 32];
    __shared__ double warp_sum[T / 32];
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    double acc = 0.0;
    for (unsigned row = blockIdx.x; row < N; row += gridDim.x) {
        const float* r = logits + (size_t)row * (size_t)C;
        float m = -INFINITY;
#pragma unroll 4
        for (unsigned c = threadIdx.x; c < C; c += T) {
            m = fmaxf(m, r[c]);
        }
        __syncwarp();
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) {
            m = fmaxf(m, __shfl_xor_sync(FULL, m, d));
        }
        if (lane == 0) {
            warp_max[warp] = m;
        }
        __syncthreads();
        m = warp_max[0];
#pragma unroll
        for (int w = 1; w < T / 32; ++w) {
            m = fmaxf(m, warp_max[w]);
        }
        double sum = 0.0;
#pragma unroll 4
        for (unsigned c = threadIdx.x; c < C; c += T) {
            sum += (double)expf(r[c] - m);
        }
        __syncwarp();
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) {
            sum += __shfl_xor_sync(FULL, sum, d);
        }
        if (lane == 0) {
            warp_sum[warp] = sum;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            double all = 0.0;
            for (int w = 0; w < T / 32; ++w) {
                all += warp_sum[w];
            }
            acc += (double)(logf((float)all) + (m - r[labels[row]])) * inv_n;
        }
    }
    __syncwarp();
    finish_any<T>(acc, loss);
}

template <int T>
static void launch_small(const float* logits, const int* labels, float* loss, unsigned N)
{
    unsigned blocks = (N + T - 1u) / T;
    float inv_n = (float)(1.0 / (double)N);
    float unit = (float)(16.0 / ((double)N * 4194304.0));
    one_row_of_10<T><<<blocks, T>>>(logits, labels, loss, N, inv_n, unit);
}

extern "C" void solve(const float* logits, const int* labels, float* loss, int N, int C)
{
    const unsigned n = (unsigned)N;
    if (C == 10 && N >= 1024) {
        if (n <= 132u * 128u) {
            launch_small<128>(logits, labels, loss, n);
        } else if (n <= 132u * 256u) {
            launch_small<256>(logits, labels, loss, n);
        } else if (n <= 132u * 512u) {
            launch_small<512>(logits, labels, loss, n);
        } else {
            // as many rounds as a full chip needs, and no more warps than fill them evenly
            const unsigned tiles = n / 32u;
            const unsigned most = 132u * 2u * 16u;
            const unsigned rounds = (tiles + most - 1u) / most;
            const unsigned blocks = (tiles + rounds * 16u - 1u) / (rounds * 16u);
            const float inv_n = (float)(1.0 / (double)n);
            const float ln2_n = (float)(0.69314718055994530942 / (double)n);
            const float to_fixed = (float)((double)n * 4194304.0 / (double)rounds);
            const float unit = (float)(16.0 / (double)to_fixed);
            tiles_of_10<<<blocks, 512>>>(logits, labels, loss, n, inv_n, ln2_n, to_fixed, unit);
        }
        return;
    }
    const double inv_n = 1.0 / (double)N;
    if (C <= 32) {
        unsigned blocks = (n + 255u) / 256u;
        if (blocks > 1056u) {
            blocks = 1056u;
        }
        short_rows<256><<<blocks, 256>>>(logits, labels, loss, n, C, inv_n);
    } else if (C < 2048) {
        unsigned blocks = n < 2112u ? n : 2112u;
        long_rows<128><<<blocks, 128>>>(logits, labels, loss, n, (unsigned)C, inv_n);
    } else {
        unsigned blocks = n < 528u ? n : 528u;
        long_rows<512><<<blocks, 512>>>(logits, labels, loss, n, (unsigned)C, inv_n);
    }
}
