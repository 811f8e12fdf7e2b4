// Integer warp reductions replace shuffle trees; packed atomic merges blocks.
#include <cuda_runtime.h>

constexpr unsigned ALL = 0xffffffffu;
constexpr unsigned FAILED = 0x80000000u;

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_xor_sync(ALL, v, o);
    return v;
}

// Sum of a warp in fixed point by one exchange. Not `good` where a lane is out of the range in which that is
// as good as single precision; the vote does not wait for the sum. toq is a power of two.
__device__ __forceinline__ int warp_fixed(float s, float toq, bool& good)
{
    const float q = s * toq;
    const float size = fabsf(q);
    const int sum = __reduce_add_sync(ALL, __float2int_rn(q));
    good = __all_sync(ALL, s == 0.0f || (size >= 1048576.0f && size < 67108864.0f));
    return sum;
}

// Up to 16,384 samples: one block of 1,024 threads.
__global__ void __launch_bounds__(1024)
integrate_short(const float* __restrict__ y, float* __restrict__ result, int n, float toq, float backq, double fromq,
                double unit)
{
    __shared__ unsigned part[32];
    __shared__ float rest[32];
    const int t = threadIdx.x;
    const unsigned quads = (unsigned)n / 4u;
    const float4* __restrict__ y4 = reinterpret_cast<const float4*>(y);

    float4 x[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        x[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if ((unsigned)t + k * 1024u < quads)
            x[k] = __ldg(y4 + t + k * 1024);
    }
    float extra = 0.0f;
    if (t < (n & 3))
        extra = __ldg(y + (size_t)quads * 4 + t);
    float s[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
        s[k] = (x[k].x + x[k].y) + (x[k].z + x[k].w);
    const float sum = ((s[0] + s[1]) + (s[2] + s[3])) + extra;

    bool good;
    const int fixed = warp_fixed(sum, toq, good);
    if (good) {
        if ((t & 31) == 0)
            part[t >> 5] = (unsigned)((fixed >> 5) + (1 << 26));
    } else {
        const float v = warp_sum(sum);
        if ((t & 31) == 0) {
            part[t >> 5] = FAILED;
            rest[t >> 5] = v;
        }
    }
    __syncthreads();
    if (t < 32) {
        const unsigned p = part[t];
        const int own = (int)p - (1 << 26);
        const int total = __reduce_add_sync(ALL, p == FAILED ? 0 : own);
        if (__any_sync(ALL, p == FAILED)) {
            const float v = warp_sum(p == FAILED ? rest[t] : (float)own * backq);
            if (t == 0)
                *result = (float)((double)v * unit);
        } else if (t == 0) {
            *result = (float)((double)total * fromq);
        }
    }
}

// bits 53..63: blocks done; bit 52: something is in sum_rest; bits 0..51: biased fixed-point sum.
// The last block of each call sets both back to zero.
__device__ unsigned long long sum_word = 0ull;
__device__ double sum_rest = 0.0;

constexpr int log2_of(int v)
{
    return v <= 1 ? 0 : 1 + log2_of(v / 2);
}

// toq is a power of two, backq and fromq turn the block's fixed point into a sum and into its part of the
// result; unit = (b - a) / n.
template <int T, int V>
__global__ void __launch_bounds__(T)
integrate(const float* __restrict__ y, float* __restrict__ result, unsigned quads, unsigned tail, float toq,
          float backq, double fromq, double unit)
{
    constexpr int W = T / 32;
    constexpr int SH = log2_of(W);
    __shared__ uint4 part4[(W + 3) / 4];
    __shared__ float rest[W];
    unsigned* part = reinterpret_cast<unsigned*>(part4);
    const float4* y4 = reinterpret_cast<const float4*>(y);
    const unsigned stride = gridDim.x * T;

    float extra = 0.0f;
    if (blockIdx.x == 0 && threadIdx.x < tail)
        extra = __ldg(y + (size_t)quads * 4 + threadIdx.x);
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    for (unsigned i = blockIdx.x * T + threadIdx.x; i < quads; i += V * stride) {
        float4 x[V];
#pragma unroll
        for (int k = 0; k < V; ++k) {
            x[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i + k * stride < quads)
                x[k] = __ldg(y4 + (i + k * stride));
        }
#pragma unroll
        for (int d = V / 2; d > 0; d >>= 1) {
#pragma unroll
            for (int k = 0; k < d; ++k) {
                x[k].x += x[k + d].x;
                x[k].y += x[k + d].y;
                x[k].z += x[k + d].z;
                x[k].w += x[k + d].w;
            }
        }
        s0 += x[0].x;
        s1 += x[0].y;
        s2 += x[0].z;
        s3 += x[0].w;
    }
    const float s = ((s0 + s1) + (s2 + s3)) + extra;

    bool good;
    int fixed = warp_fixed(s, toq, good);
    double failed_sum = 0.0;
    if constexpr (T == 32) {
        if (!good)
            failed_sum = (double)warp_sum(s);
    } else {
        constexpr int BIAS = (int)(0x80000000u >> SH);
        const int warp = threadIdx.x >> 5;
        if (good) {
            if ((threadIdx.x & 31) == 0)
                part[warp] = (unsigned)((fixed >> SH) + BIAS);
        } else {
            const float v = warp_sum(s);
            if ((threadIdx.x & 31) == 0) {
                part[warp] = FAILED;
                rest[warp] = v;
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned any = 0u, sum = 0u;
#pragma unroll
            for (int k = 0; k < W / 4; ++k) {
                const uint4 p = part4[k];
                any |= (p.x | p.y) | (p.z | p.w);
                sum += (p.x + p.y) + (p.z + p.w);
            }
            good = (any & FAILED) == 0u;
            fixed = (int)(sum - 0x80000000u); // W times BIAS
            if (!good) {
                for (int w = 0; w < W; ++w) {
                    const unsigned p = part[w];
                    failed_sum += p == FAILED ? (double)rest[w] : (double)((int)p - BIAS) * (double)backq;
                }
            }
        }
    }

    if (threadIdx.x == 0) {
        if (gridDim.x == 1) {
            *result = (float)(good ? (double)fixed * fromq : failed_sum * unit);
        } else {
            const unsigned long long flag = 1ull << 52;
            const unsigned long long bias = 1ull << 40;
            unsigned long long add = (1ull << 53) + bias;
            if (good) {
                add += (unsigned long long)(long long)fixed;
            } else {
                // out of the range of the fixed point: a double beside it
                atomicAdd(&sum_rest, failed_sum);
                __threadfence();
                atomicOr(&sum_word, flag);
            }
            const unsigned long long old = atomicAdd(&sum_word, add);
            if ((old >> 53) == (unsigned long long)(gridDim.x - 1)) {
                const unsigned long long total = old + add;
                const long long sum = (long long)(total & (flag - 1ull)) - (long long)(bias * gridDim.x);
                double r = (double)sum * fromq;
                if (total & flag) {
                    __threadfence();
                    r += __ldcg(&sum_rest) * unit;
                    sum_rest = 0.0;
                }
                *result = (float)r;
                sum_word = 0ull;
            }
        }
    }
}

// A mean of 1 makes a lane's sum a number between 2^22 and 2^23.
static double lane_scale(double each)
{
    double toq = 8388608.0;
    for (double m = 1.0; m < each; m *= 2.0)
        toq *= 0.5;
    return toq;
}

template <int T, int V>
static void launch(const float* y, float* result, double length, int n, int most)
{
    const unsigned quads = (unsigned)n / 4u;
    const unsigned tail = (unsigned)n % 4u;
    unsigned grid = (quads + T - 1) / T;
    if (grid > (unsigned)most)
        grid = (unsigned)most;
    if (grid < 1u)
        grid = 1u;
    const double toq = lane_scale((double)n / ((double)grid * T));
    const double back = (double)(T / 32) / toq;
    integrate<T, V><<<grid, T>>>(y, result, quads, tail, (float)toq, (float)back, length / (double)n * back,
                                 length / (double)n);
}

extern "C" void solve(const float* y_samples, float* result, float a, float b, int n)
{
    const double length = (double)b - (double)a;
    const int quads = n / 4;
    if (n <= 16384) {
        const double toq = lane_scale((double)n / 1024.0);
        const double back = 32.0 / toq;
        integrate_short<<<1, 1024>>>(y_samples, result, n, (float)toq, (float)back, length / (double)n * back,
                                     length / (double)n);
    } else if (quads <= 64 * 32 * 8) {
        launch<32, 8>(y_samples, result, length, n, 64); // no barrier at all
    } else if (quads <= 128 * 132 * 4) {
        launch<128, 4>(y_samples, result, length, n, 132);
    } else if (quads <= 512 * 132 * 4) {
        launch<512, 4>(y_samples, result, length, n, 132);
    } else {
        launch<1024, 8>(y_samples, result, length, n, 132);
    }
}
