// Unshifted row a thread; warp-private async double buffers; redux finish.

#include <cuda_runtime.h>
#include <math.h>

// bits 0..11: blocks that arrived; 12..23: of these, how many used `spill`; 24..63: sum in units of 2^-34
__device__ unsigned long long packed_total = 0ULL;
__device__ double spill = 0.0;   // block sums outside the range of the fixed point

__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Adds the threads' shares of the mean over the grid; the last block to arrive writes the result.
template <int T>
__device__ __forceinline__ void finish(float acc, float* loss)
{
    __shared__ float4 shares[T / 4];
    reinterpret_cast<float*>(shares)[threadIdx.x] = acc;
    __syncthreads();
    if (threadIdx.x < 32) {
        float4 v[T / 128];
#pragma unroll
        for (int k = 0; k < T / 128; ++k) {
            v[k] = shares[threadIdx.x + 32 * k];
        }
        float p = 0.0f;
#pragma unroll
        for (int k = 0; k < T / 128; ++k) {
            p += (v[k].x + v[k].y) + (v[k].z + v[k].w);
        }

        // One integer reduction where the fixed point fits in 32 bits: 32 * 2^-7 * 2^34 = 2^32.
        const bool fits = p >= 0.0f && p < 0.0078125f;
        const unsigned units = fits ? __float2uint_rn(p * 17179869184.0f) : 0u;
        const unsigned sum = __reduce_add_sync(0xffffffffu, units);
        const unsigned long long scaled_sum = (unsigned long long)sum * gridDim.x;
        const bool fixed = __all_sync(0xffffffffu, fits) != 0
                        && scaled_sum >= (1ULL << 32) && scaled_sum < (1ULL << 39);
        unsigned long long add = ((unsigned long long)sum << 24) + 1ULL;
        if (!fixed) {   // the same for all lanes
#pragma unroll
            for (int d = 16; d > 0; d >>= 1) {
                p += __shfl_down_sync(0xffffffffu, p, d);
            }
            if (threadIdx.x == 0) {
                float scaled = p * (float)gridDim.x;
                if ((scaled >= 0.25f && scaled < 32.0f) || p == 0.0f) {
                    add = (__float2ull_rn(p * 17179869184.0f) << 24) + 1ULL;
                } else {
                    atomicAdd(&spill, (double)p);
                    __threadfence();
                    add = (1ULL << 12) + 1ULL;
                }
            }
        }
        if (threadIdx.x == 0) {
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

// The sum of ten exponentials, not shifted: right only where the sum is moderate.
__device__ __forceinline__ float plain_sum(float2 a, float2 b, float2 c, float2 d, float2 e)
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

// Then the largest logit, and with it every rounding of an exponent, is small.
__device__ __forceinline__ bool moderate(float sum)
{
    return sum > 0.0078125f && sum < 1024.0f;
}

// Any finite logits: subtract the maximum first.
__device__ __forceinline__ float shifted_loss(const float* r, float mine)
{
    const float LOG2E = 1.4426950408889634f;
    const float LN2 = 0.6931471805599453f;
    float m = r[0];
#pragma unroll 1
    for (int k = 1; k < 10; ++k) {
        m = fmaxf(m, r[k]);
    }
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < 10; ++k) {
        sum += exp2_fast((r[k] - m) * LOG2E);
    }
    return fmaf(__log2f(sum), LN2, m - mine);
}

// C = 10, few rows: a thread has one row at most. Rows are 8-byte aligned, five loads of 8 bytes.
template <int T>
__global__ void __launch_bounds__(T)
rows_of_10(const float* __restrict__ logits, const int* __restrict__ labels, float* loss,
           unsigned N, float inv_n)
{
    const float LN2 = 0.6931471805599453f;
    float acc = 0.0f;
    const unsigned i = blockIdx.x * T + threadIdx.x;
    if (i < N) {
        const int l = __ldg(labels + i);
        const float* row = logits + (size_t)i * 10;
        const float2* r = reinterpret_cast<const float2*>(row);
        const float2 a = __ldg(r);
        const float2 b = __ldg(r + 1);
        const float2 c = __ldg(r + 2);
        const float2 d = __ldg(r + 3);
        const float2 e = __ldg(r + 4);

        const float sum = plain_sum(a, b, c, d, e);

        const bool b0 = (l & 1) != 0, b1 = (l & 2) != 0, b2 = (l & 4) != 0, b3 = (l & 8) != 0;
        float s0 = b0 ? a.y : a.x;
        float s1 = b0 ? b.y : b.x;
        float s2 = b0 ? c.y : c.x;
        float s3 = b0 ? d.y : d.x;
        float s4 = b0 ? e.y : e.x;
        s0 = b1 ? s1 : s0;
        s2 = b1 ? s3 : s2;
        s0 = b2 ? s2 : s0;
        const float mine = b3 ? s4 : s0;

        float one = fmaf(__log2f(sum), LN2, -mine);
        if (!moderate(sum)) {
            one = shifted_loss(row, mine);
        }
        acc = one * inv_n;
    }
    finish<T>(acc, loss);
}

// C = 10, many rows: each warp streams tiles of 32 rows through two buffers of its own.
constexpr int RING_T = 512;
constexpr int RING_TILE = 32 * 10 + 32;                              // logits, then labels
constexpr int RING_BYTES = (RING_T / 32) * 2 * RING_TILE * 4;        // 45,056: four blocks an SM

__device__ __forceinline__ void copy16(unsigned to, const char* from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
}

__global__ void __launch_bounds__(RING_T, 4)
ring_of_10(const float* __restrict__ logits, const int* __restrict__ labels, float* loss,
           unsigned N, float inv_n)
{
    extern __shared__ __align__(128) float ring[];
    const float LN2 = 0.6931471805599453f;
    const int lane = threadIdx.x & 31;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned full = N / 32u;                    // tiles of 32 rows
    const unsigned stride = gridDim.x * (RING_T / 32);
    const unsigned first = warp * gridDim.x + blockIdx.x;
    float* own = ring + warp * (2 * RING_TILE);
    const unsigned to = (unsigned)__cvta_generic_to_shared(own) + 16u * (unsigned)lane;

    // 88 pieces of 16 bytes a tile: lanes 0..31 twice, then 0..15 the rest of the logits, 16..23 the labels
    const char* third = lane < 16 ? reinterpret_cast<const char*>(logits) + 1024 + 16 * lane
                                  : reinterpret_cast<const char*>(labels) + 16 * (lane - 16);
    const unsigned third_step = lane < 16 ? 1280u : 128u;

    auto fetch = [&](unsigned offset, unsigned t) {
        const char* xs = reinterpret_cast<const char*>(logits) + (size_t)t * 1280 + 16 * lane;
        copy16(to + offset, xs);
        copy16(to + offset + 512u, xs + 512);
        if (lane < 24) {
            copy16(to + offset + 1024u, third + (size_t)t * third_step);
        }
    };

    if (first < full) {
        fetch(0u, first);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (first + stride < full) {
        fetch(RING_TILE * 4u, first + stride);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");

    float acc = 0.0f;
    unsigned stage = 0;
#pragma unroll 1
    for (unsigned t = first; t < full; t += stride) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncwarp();

        const float* tile = own + stage * RING_TILE;
        const float* row = tile + lane * 10;
        const int l = __float_as_int(tile[320 + lane]);
        const float2* r = reinterpret_cast<const float2*>(row);
        const float sum = plain_sum(r[0], r[1], r[2], r[3], r[4]);
        const float mine = row[l];
        float one = fmaf(__log2f(sum), LN2, -mine);
        if (!moderate(sum)) {
            one = shifted_loss(row, mine);
        }
        acc = fmaf(one, inv_n, acc);

        __syncwarp();      // all lanes have read the buffer: fill it anew
        const unsigned ahead = t + 2u * stride;
        if (ahead < full) {
            fetch(stage * (RING_TILE * 4u), ahead);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        stage ^= 1u;
    }

    // fewer than 32 rows are left: the last warp takes them
    if (first == stride - 1u) {
        const unsigned i = full * 32u + (unsigned)lane;
        if (i < N) {
            const float* row = logits + (size_t)i * 10;
            acc = fmaf(shifted_loss(row, row[labels[i]]), inv_n, acc);
        }
    }
    finish<RING_T>(acc, loss);
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
static void launch_10(const float* logits, const int* labels, float* loss, int N)
{
    const unsigned blocks = ((unsigned)N + T - 1) / T;
    rows_of_10<T><<<blocks, T>>>(logits, labels, loss, (unsigned)N, (float)(1.0 / (double)N));
}

extern "C" void solve(const float* logits, const int* labels, float* loss, int N, int C)
{
    if (C == 10 && N >= 1024) {
        if (N <= 132 * 128) {
            launch_10<128>(logits, labels, loss, N);
        } else if (N <= 132 * 256) {
            launch_10<256>(logits, labels, loss, N);
        } else if (N <= 132 * 1024) {
            launch_10<512>(logits, labels, loss, N);
        } else {
            ring_of_10<<<528, RING_T, RING_BYTES>>>(logits, labels, loss, (unsigned)N,
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
