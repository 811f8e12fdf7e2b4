// One packed atomic a block carries sum and count together.

#include <cuda_runtime.h>

// bits 53..63: blocks done; bit 52: something is in sum_rest; bits 0..51: biased fixed-point sum.
// The last block of each call sets both back to zero.
__device__ unsigned long long sum_word = 0ull;
__device__ double sum_rest = 0.0;

// toq is a power of two; unit = (b - a) / n.
template <int T, int V>
__global__ void __launch_bounds__(T)
integrate(const float* __restrict__ y, float* __restrict__ result, unsigned quads, unsigned tail, float toq,
          double fromq, double unit)
{
    __shared__ float4 part4[(T / 32 + 3) / 4];
    float* part = reinterpret_cast<float*>(part4);
    const float4* y4 = reinterpret_cast<const float4*>(y);
    const unsigned stride = gridDim.x * T;

    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    if (blockIdx.x == 0 && threadIdx.x < tail) {
        s0 = __ldg(y + (size_t)quads * 4 + threadIdx.x);
    }
    for (unsigned i = blockIdx.x * T + threadIdx.x; i < quads; i += V * stride) {
        float4 x[V];
#pragma unroll
        for (int k = 0; k < V; ++k) {
            x[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i + k * stride < quads) {
                x[k] = __ldg(y4 + (i + k * stride));
            }
        }
#pragma unroll
        for (int k = 0; k < V; ++k) {
            s0 += x[k].x;
            s1 += x[k].y;
            s2 += x[k].z;
            s3 += x[k].w;
        }
    }

    float s = (s0 + s1) + (s2 + s3);
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        s += __shfl_xor_sync(0xffffffffu, s, o);
    }
    if ((threadIdx.x & 31) == 0) {
        part[threadIdx.x >> 5] = s;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float4 p[T / 128];
#pragma unroll
        for (int k = 0; k < T / 128; ++k) {
            p[k] = part4[k];
        }
#pragma unroll
        for (int d = T / 256; d > 0; d >>= 1) {
#pragma unroll
            for (int k = 0; k < d; ++k) {
                p[k].x += p[k + d].x;
                p[k].y += p[k + d].y;
                p[k].z += p[k + d].z;
                p[k].w += p[k + d].w;
            }
        }
        float v = (p[0].x + p[0].y) + (p[0].z + p[0].w);
        if (gridDim.x == 1) {
            *result = (float)((double)v * unit);
        } else {
            const unsigned long long flag = 1ull << 52;
            const unsigned long long bias = 1ull << 40;
            const unsigned long long one = (1ull << 53) + bias;
            unsigned long long add = one;
            float q = v * toq;
            float size = fabsf(q);
            if (v == 0.0f || (size >= 134217728.0f && size < 1099511627776.0f)) {
                add = one + (unsigned long long)__float2ll_rn(q);
            } else {
                // out of the range of the fixed point: a double beside it
                atomicAdd(&sum_rest, (double)v);
                __threadfence();
                atomicOr(&sum_word, flag);
            }
            unsigned long long old = atomicAdd(&sum_word, add);
            if ((old >> 53) == (unsigned long long)(gridDim.x - 1)) {
                unsigned long long total = old + add;
                long long sum = (long long)(total & (flag - 1ull)) - (long long)(bias * gridDim.x);
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

template <int T, int V>
static void launch(const float* y, float* result, double length, int n, int most)
{
    unsigned quads = (unsigned)n / 4u;
    unsigned tail = (unsigned)n % 4u;
    unsigned grid = (quads + T - 1) / T;
    if (grid > (unsigned)most) {
        grid = (unsigned)most;
    }
    if (grid < 1u) {
        grid = 1u;
    }
    // a mean of 1 in a block becomes a number between 2^33 and 2^34
    double each = (double)n / grid;
    double toq = 17179869184.0;
    for (double m = 1.0; m < each; m *= 2.0) {
        toq *= 0.5;
    }
    integrate<T, V><<<grid, T>>>(y, result, quads, tail, (float)toq, length / ((double)n * toq),
                                 length / (double)n);
}

extern "C" void solve(const float* y_samples, float* result, float a, float b, int n)
{
    double length = (double)b - (double)a;
    int quads = n / 4;
    if (quads <= 128 * 32) {
        launch<128, 1>(y_samples, result, length, n, 32);
    } else if (quads <= 256 * 66) {
        launch<256, 1>(y_samples, result, length, n, 66);
    } else if (quads <= 256 * 132 * 2) {
        launch<256, 2>(y_samples, result, length, n, 132);
    } else if (quads <= 512 * 132 * 4) {
        launch<512, 4>(y_samples, result, length, n, 132);
    } else {
        launch<1024, 8>(y_samples, result, length, n, 132);
    }
}
