// Row a thread, integer redux finish; large: warp-private TMA rings.

#include <cuda_runtime.h>
#include <math.h>

// row_each. bits 0..9: blocks that arrived; 10..19: of these, how many used `spill_rows`;
// 20..63: sum of losses in units of 2^-22
__device__ unsigned long long packed_rows = 0ULL;
__device__ double spill_rows = 0.0;

// finish. bits 0..11: blocks that arrived; 12..23: of these, how many used `spill`; 24..63: mean in units of 2^-34
__device__ unsigned long long packed_total = 0ULL;
__device__ double spill = 0.0;   // block sums outside the range of the fixed point

__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float log2_fast(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Sum of exponentials from 2^-12 up to 2^12: no maximum had to be subtracted.
__device__ __forceinline__ bool moderate(float sum)
{
    return (__float_as_uint(sum) - 0x39800000u) < (0x45800000u - 0x39800000u);
}

__device__ __forceinline__ float sum_exp_10(float2 a, float2 b, float2 c, float2 d, float2 e)
{
    const float LOG2E = 1.4426950408889634f;
    float e0 = exp2_fast(a.x * LOG2E);
    float e1 = exp2_fast(a.y * LOG2E);
    float e2 = exp2_fast(b.x * LOG2E);
    float e3 = exp2_fast(b.y * LOG2E);
    float e4 = exp2_fast(c.x * LOG2E);
    float e5 = exp2_fast(c.y * LOG2E);
    float e6 = exp2_fast(d.x * LOG2E);
    float e7 = exp2_fast(d.y * LOG2E);
    float e8 = exp2_fast(e.x * LOG2E);
    float e9 = exp2_fast(e.y * LOG2E);
    return (((e0 + e1) + (e2 + e3)) + ((e4 + e5) + (e6 + e7))) + (e8 + e9);
}

// Any finite logits: subtracts the maximum first.
__device__ __forceinline__ float careful_10(const float* r, int l)
{
    float m = r[0];
#pragma unroll 1
    for (int c = 1; c < 10; ++c) {
        m = fmaxf(m, r[c]);
    }
    float sum = 0.0f;
#pragma unroll 1
    for (int c = 0; c < 10; ++c) {
        sum += expf(r[c] - m);
    }
    return logf(sum) + (m - r[l]);
}

// Adds the threads' shares of the mean over the grid; the last block to arrive writes the result.
template <int T>
__device__ __forceinline__ void finish(float acc, float* loss)
{
    __shared__ float4 shares[T / 4];
    reinterpret_cast<float*>(shares)[threadIdx.x] = acc;
    __syncthreads();
    if (threadIdx.x < 32) {
        float p = 0.0f;
#pragma unroll
        for (int k = 0; k < T / 128; ++k) {
            float4 v = shares[threadIdx.x + 32 * k];
            p += (v.x + v.y) + (v.z + v.w);
        }
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) {
            p += __shfl_down_sync(0xffffffffu, p, d);
        }
        if (threadIdx.x == 0) {
            float scaled = p * (float)gridDim.x;
            unsigned long long add;
            if ((scaled >= 0.25f && scaled < 32.0f) || p == 0.0f) {
                add = (__float2ull_rn(p * 17179869184.0f) << 24) + 1ULL;
            } else {
                atomicAdd(&spill, (double)p);
                __threadfence();
                add = (1ULL << 12) + 1ULL;
            }
            unsigned long long old = atomicAdd(&packed_total, add);
            if ((unsigned)(old & 4095ULL) == gridDim.x - 1u) {
                unsigned long long all = old + add;
                float result;
                if ((all >> 12) & 4095ULL) {
                    __threadfence();
                    unsigned long long bits =
                        atomicExch(reinterpret_cast<unsigned long long*>(&spill), 0ULL);
                    double total = __longlong_as_double((long long)bits)
                                 + (double)(all >> 24) * (1.0 / 17179869184.0);
                    result = (float)total;
                } else {
                    result = __ull2float_rn(all >> 24) * (1.0f / 17179869184.0f);
                }
                loss[0] = result;
                packed_total = 0ULL;
            }
        }
    }
}

// C = 10, at most 270,336 rows: a thread one row, sums as integers.
template <int T>
__global__ void __launch_bounds__(T, 2048 / T)
row_each(const float* __restrict__ logits, const int* __restrict__ labels, float* loss,
         unsigned N, float scale)
{
    __shared__ __align__(16) unsigned sums[T / 32];
    __shared__ double careful_sums[T / 32];
    const unsigned i = blockIdx.x * T + threadIdx.x;
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;

    float units = 0.0f;   // the loss in units of 2^-22
    if (i < N) {
        const float2* r = reinterpret_cast<const float2*>(logits + (size_t)i * 10);
        float2 a = __ldg(r);
        float2 b = __ldg(r + 1);
        float2 c = __ldg(r + 2);
        float2 d = __ldg(r + 3);
        float2 e = __ldg(r + 4);
        int l = __ldg(labels + i);

        float sum = sum_exp_10(a, b, c, d, e);

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

        units = fmaf(log2_fast(sum), 0.6931471805599453f * 4194304.0f, mine * -4194304.0f);
        if (!moderate(sum)) {
            units = 1e30f;
        }
    }

    bool odd = !(units < 62914560.0f);                 // a loss of 15 or more
    unsigned u = __float2uint_rn(units);               // below 0 becomes 0
    unsigned w = __reduce_add_sync(0xffffffffu, u);    // below 2^31 unless some lane is odd
    const unsigned base = i - lane;
    const unsigned rows = base < N ? (N - base < 32u ? N - base : 32u) : 0u;
    odd = odd || w < (rows << 21);                     // a mean below 0.5: too coarse
    if (lane == 0) {
        sums[warp] = w;
    }
    const int redo = __syncthreads_or(odd ? 1 : 0);

    unsigned long long add = 1ULL;
    if (redo) {
        double share = 0.0;
        if (i < N) {
            share = (double)careful_10(logits + (size_t)i * 10, labels[i]) / (double)N;
        }
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) {
            share += __shfl_down_sync(0xffffffffu, share, d);
        }
        if (lane == 0) {
            careful_sums[warp] = share;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            double all = 0.0;
#pragma unroll 1
            for (int k = 0; k < T / 32; ++k) {
                all += careful_sums[k];
            }
            atomicAdd(&spill_rows, all);
            __threadfence();
            add = (1ULL << 10) + 1ULL;
        }
    } else if (threadIdx.x == 0) {
        unsigned long long all = 0ULL;
#pragma unroll
        for (int k = 0; k < T / 128; ++k) {
            uint4 v = reinterpret_cast<const uint4*>(sums)[k];
            all += (unsigned long long)(v.x + v.y) + (unsigned long long)(v.z + v.w);
        }
        add = (all << 20) + 1ULL;
    }

    if (threadIdx.x == 0) {
        unsigned long long old = atomicAdd(&packed_rows, add);
        if ((unsigned)(old & 1023ULL) == gridDim.x - 1u) {
            unsigned long long all = old + add;
            float result;
            if ((all >> 10) & 1023ULL) {
                __threadfence();
                unsigned long long bits =
                    atomicExch(reinterpret_cast<unsigned long long*>(&spill_rows), 0ULL);
                double total = __longlong_as_double((long long)bits)
                             + (double)(all >> 20) / (4194304.0 * (double)N);
                result = (float)total;
            } else {
                result = __ull2float_rn(all >> 20) * scale;
            }
            loss[0] = result;
            packed_rows = 0ULL;
        }
    }
}

// C = 10, many rows: each warp keeps four tiles of 64 rows on their way by bulk copies.
constexpr int RING_THREADS = 128;
constexpr int RING_WARPS = RING_THREADS / 32;
constexpr int STAGES = 4;
constexpr unsigned TILE_ROWS = 64;
constexpr unsigned LOGIT_BYTES = TILE_ROWS * 40;
constexpr unsigned LABEL_BYTES = TILE_ROWS * 4;
constexpr unsigned STAGE_BYTES = LOGIT_BYTES + LABEL_BYTES;

__device__ __forceinline__ unsigned shared_address(const void* p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void bulk_copy(unsigned to, const void* from, unsigned bytes, unsigned bar)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :: "r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(bar) : "memory");
}

__device__ __forceinline__ void fetch_tile(unsigned stage, unsigned bar, const float* logits,
                                           const int* labels, unsigned tile)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(bar), "r"(STAGE_BYTES) : "memory");
    bulk_copy(stage, logits + (size_t)tile * (TILE_ROWS * 10), LOGIT_BYTES, bar);
    bulk_copy(stage + LOGIT_BYTES, labels + (size_t)tile * TILE_ROWS, LABEL_BYTES, bar);
}

__device__ __forceinline__ void wait_for(unsigned bar, unsigned parity)
{
    unsigned done;
    do {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
            "selp.u32 %0, 1, 0, p;\n"
            "}\n"
            : "=r"(done) : "r"(bar), "r"(parity) : "memory");
    } while (!done);
}

__global__ void __launch_bounds__(RING_THREADS, 4)
ring_of_10(const float* __restrict__ logits, const int* __restrict__ labels, float* loss,
           unsigned N, float inv_n)
{
    __shared__ __align__(128) unsigned char ring[RING_WARPS][STAGES][STAGE_BYTES];
    __shared__ __align__(8) unsigned long long bars[RING_WARPS][STAGES];
    const float LN2 = 0.6931471805599453f;
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned tiles = N / TILE_ROWS;
    const unsigned step = gridDim.x * RING_WARPS;
    const unsigned first = blockIdx.x * RING_WARPS + warp;
    const unsigned my_ring = shared_address(&ring[warp][0][0]);
    const unsigned my_bars = shared_address(&bars[warp][0]);

    if (lane == 0) {
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(my_bars + 8u * s) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            unsigned t = first + (unsigned)s * step;
            if (t < tiles) {
                fetch_tile(my_ring + STAGE_BYTES * s, my_bars + 8u * s, logits, labels, t);
            }
        }
    }
    __syncwarp();

    float acc = 0.0f;
    unsigned s = 0, parity = 0;
#pragma unroll 1
    for (unsigned t = first; t < tiles; t += step) {
        const unsigned bar = my_bars + 8u * s;
        wait_for(bar, parity);

        const float* rows = reinterpret_cast<const float*>(&ring[warp][s][0]);
        const int* classes = reinterpret_cast<const int*>(&ring[warp][s][LOGIT_BYTES]);
        const float* row0 = rows + lane * 10u;
        const float* row1 = rows + (lane + 32u) * 10u;
        const int l0 = classes[lane];
        const int l1 = classes[lane + 32u];
        const float2* r0 = reinterpret_cast<const float2*>(row0);
        const float2* r1 = reinterpret_cast<const float2*>(row1);
        float2 a0 = r0[0], b0 = r0[1], c0 = r0[2], d0 = r0[3], e0 = r0[4];
        float2 a1 = r1[0], b1 = r1[1], c1 = r1[2], d1 = r1[3], e1 = r1[4];
        const float mine0 = row0[l0];
        const float mine1 = row1[l1];

        float sum0 = sum_exp_10(a0, b0, c0, d0, e0);
        float sum1 = sum_exp_10(a1, b1, c1, d1, e1);
        float one0 = fmaf(log2_fast(sum0), LN2, -mine0);
        float one1 = fmaf(log2_fast(sum1), LN2, -mine1);
        if (!(moderate(sum0) && moderate(sum1))) {
            one0 = careful_10(row0, l0);
            one1 = careful_10(row1, l1);
        }
        acc = fmaf(one0, inv_n, acc);
        acc = fmaf(one1, inv_n, acc);

        __syncwarp();
        if (lane == 0) {
            unsigned next = t + (unsigned)STAGES * step;
            if (next < tiles) {
                fetch_tile(my_ring + STAGE_BYTES * s, bar, logits, labels, next);
            }
        }
        ++s;
        if (s == (unsigned)STAGES) {
            s = 0;
            parity ^= 1u;
        }
    }

    // the fewer than 64 rows after the last whole tile
    if (blockIdx.x == gridDim.x - 1u) {
        unsigned i = tiles * TILE_ROWS + threadIdx.x;
        if (i < N) {
            acc = fmaf(careful_10(logits + (size_t)i * 10, labels[i]), inv_n, acc);
        }
    }
    finish<RING_THREADS>(acc, loss);
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
    finish<T>((float)acc, loss);
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
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) {
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
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
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) {
            sum += __shfl_xor_sync(0xffffffffu, sum, d);
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
    finish<T>((float)acc, loss);
}

template <int T>
static void launch_each(const float* logits, const int* labels, float* loss, int N)
{
    unsigned blocks = ((unsigned)N + T - 1) / T;
    row_each<T><<<blocks, T>>>(logits, labels, loss, (unsigned)N,
                               (float)(1.0 / (4194304.0 * (double)N)));
}

extern "C" void solve(const float* logits, const int* labels, float* loss, int N, int C)
{
    if (C == 10 && N >= 1024) {
        if (N <= 132 * 128) {
            launch_each<128>(logits, labels, loss, N);
        } else if (N <= 132 * 256) {
            launch_each<256>(logits, labels, loss, N);
        } else if (N <= 132 * 2048) {
            launch_each<512>(logits, labels, loss, N);
        } else {
            ring_of_10<<<528, RING_THREADS>>>(logits, labels, loss, (unsigned)N,
                                              (float)(1.0 / (double)N));
        }
        return;
    }
    const double inv_n = 1.0 / (double)N;
    if (C <= 32) {
        unsigned blocks = ((unsigned)N + 255u) / 256u;
        if (blocks > 1056u) {
            blocks = 1056u;
        }
        short_rows<256><<<blocks, 256>>>(logits, labels, loss, (unsigned)N, C, inv_n);
    } else if (C < 2048) {
        unsigned blocks = (unsigned)N < 2112u ? (unsigned)N : 2112u;
        long_rows<128><<<blocks, 128>>>(logits, labels, loss, (unsigned)N, (unsigned)C, inv_n);
    } else {
        unsigned blocks = (unsigned)N < 528u ? (unsigned)N : 528u;
        long_rows<512><<<blocks, 512>>>(logits, labels, loss, (unsigned)N, (unsigned)C, inv_n);
    }
}
