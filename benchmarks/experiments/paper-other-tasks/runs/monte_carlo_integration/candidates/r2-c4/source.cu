// Few warps, many loads each; shared-memory transposed sums replace shuffles.
#include <cuda_runtime.h>

// bits 53..63: blocks done; bit 52: something is in sum_rest; bits 0..51: biased fixed-point sum.
// The last block of each call sets both back to zero.
__device__ unsigned long long sum_word = 0ull;
__device__ double sum_rest = 0.0;

// Called by one thread of each block with the block's sum: one packed atomic,
// the last block scales and stores. toq is a power of two;
// offset = 2^52 + bias * blocks; unit = (b - a) / n; fromq = unit / toq.
__device__ __forceinline__ void merge(float v, float* __restrict__ result, unsigned blocks, float toq,
                                      double fromq, double offset, double unit)
{
    const unsigned long long flag = 1ull << 52;
    const unsigned long long one = (1ull << 53) + (1ull << 40);
    unsigned long long add = one;
    const float q = v * toq;
    const float size = fabsf(q);
    if (v == 0.0f || (size >= 134217728.0f && size < 1099511627776.0f)) {
        add = one + (unsigned long long)__float2ll_rn(q);
    } else {
        // out of the range of the fixed point: a double beside it
        atomicAdd(&sum_rest, (double)v);
        __threadfence();
        atomicOr(&sum_word, flag);
    }
    const unsigned long long old = atomicAdd(&sum_word, add);
    if ((old >> 53) == (unsigned long long)(blocks - 1u)) {
        const unsigned long long total = old + add;
        // the 52 bits become the mantissa of a double: exact, no conversion
        const double d = __longlong_as_double((long long)((total & (flag - 1ull)) | 0x4330000000000000ull));
        double r = (d - offset) * fromq;
        if (total & flag) {
            __threadfence();
            r += __ldcg(&sum_rest) * unit;
            sum_rest = 0.0;
        }
        *result = (float)r;
        sum_word = 0ull;
    }
}

// Each block adds up T * V consecutive vectors, all loads of a thread under way at once.
// Then every thread leaves its sum in shared memory, T / 32 lanes add 32 of them each,
// and log2(T / 32) shuffles remain.
template <int T, int V, bool ONE>
__global__ void __launch_bounds__(T)
integrate_chunk(const float* __restrict__ y, float* __restrict__ result, unsigned quads, unsigned tail,
                float toq, float unit_single, double fromq, double offset, double unit)
{
    constexpr int L = T / 32;
    __shared__ float4 part4[T / 4];
    const unsigned t = threadIdx.x;
    const unsigned block = ONE ? 0u : blockIdx.x;
    const unsigned first = block * (unsigned)(T * V) + t;
    const float4* __restrict__ y4 = reinterpret_cast<const float4*>(y);

    float extra = 0.0f;
    if (block == 0u && t < tail) {
        extra = __ldg(y + (size_t)quads * 4 + t);
    }

    float s0, s1, s2, s3;
    if ((block + 1u) * (unsigned)(T * V) <= quads) {
        const float4* __restrict__ p = y4 + first;
        float4 x[V];
#pragma unroll
        for (int k = 0; k < V; ++k) {
            x[k] = __ldg(p + k * T);
        }
        s0 = x[0].x;
        s1 = x[0].y;
        s2 = x[0].z;
        s3 = x[0].w;
#pragma unroll
        for (int k = 1; k < V; ++k) {
            s0 += x[k].x;
            s1 += x[k].y;
            s2 += x[k].z;
            s3 += x[k].w;
        }
    } else {
        float4 x[V];
#pragma unroll
        for (int k = 0; k < V; ++k) {
            const unsigned i = first + (unsigned)(k * T);
            x[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < quads) {
                x[k] = __ldg(y4 + i);
            }
        }
        s0 = x[0].x;
        s1 = x[0].y;
        s2 = x[0].z;
        s3 = x[0].w;
#pragma unroll
        for (int k = 1; k < V; ++k) {
            s0 += x[k].x;
            s1 += x[k].y;
            s2 += x[k].z;
            s3 += x[k].w;
        }
    }

    reinterpret_cast<float*>(part4)[t] = ((s0 + s1) + (s2 + s3)) + extra;
    if (T == 32) {
        __syncwarp();
    } else {
        __syncthreads();
    }
    if (t < 32u) {
        const unsigned l = t & (unsigned)(L - 1);
        float4 p[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            p[k] = part4[(unsigned)(k * L) + l];
        }
#pragma unroll
        for (int d = 4; d > 0; d >>= 1) {
#pragma unroll
            for (int k = 0; k < d; ++k) {
                p[k].x += p[k + d].x;
                p[k].y += p[k + d].y;
                p[k].z += p[k + d].z;
                p[k].w += p[k + d].w;
            }
        }
        float v = (p[0].x + p[0].y) + (p[0].z + p[0].w);
#pragma unroll
        for (int o = L / 2; o > 0; o >>= 1) {
            v += __shfl_xor_sync(0xffffffffu, v, o);
        }
        if (t == 0u) {
            if (ONE) {
                *result = v * unit_single;
            } else {
                merge(v, result, gridDim.x, toq, fromq, offset, unit);
            }
        }
    }
}

// Long ones: one resident wave of large blocks, grid-stride.
template <int T, int V>
__global__ void __launch_bounds__(T)
integrate_stride(const float* __restrict__ y, float* __restrict__ result, unsigned quads, unsigned tail,
                 float toq, double fromq, double offset, double unit)
{
    __shared__ float4 part4[T / 128];
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
        const float v = (p[0].x + p[0].y) + (p[0].z + p[0].w);
        merge(v, result, gridDim.x, toq, fromq, offset, unit);
    }
}

// a mean of 1 in a block becomes a number between 2^33 and 2^34
static double scale_for(int n, unsigned grid)
{
    const double each = (double)n / grid;
    double toq = 17179869184.0;
    for (double m = 1.0; m < each; m *= 2.0) {
        toq *= 0.5;
    }
    return toq;
}

static double offset_for(unsigned grid)
{
    return 4503599627370496.0 + 1099511627776.0 * (double)grid;
}

template <int T, int V>
static void launch_chunk(const float* y, float* result, double length, int n)
{
    const unsigned quads = (unsigned)n / 4u;
    const unsigned tail = (unsigned)n % 4u;
    const unsigned grid = (quads + (unsigned)(T * V) - 1u) / (unsigned)(T * V);
    const double toq = scale_for(n, grid);
    const double unit = length / (double)n;
    integrate_chunk<T, V, false><<<grid, T>>>(y, result, quads, tail, (float)toq, (float)unit,
                                              length / ((double)n * toq), offset_for(grid), unit);
}

extern "C" void solve(const float* y_samples, float* result, float a, float b, int n)
{
    const double length = (double)b - (double)a;
    const unsigned quads = (unsigned)n / 4u;
    const unsigned tail = (unsigned)n % 4u;
    if (n <= 16384) {
        // one block: no merge between blocks at all
        const double unit = length / (double)n;
        integrate_chunk<256, 16, true><<<1, 256>>>(y_samples, result, quads, tail, 1.0f, (float)unit, 0.0, 0.0,
                                                   unit);
    } else if (quads <= 66u * 32u * 8u) {
        // blocks of one warp: no barrier
        launch_chunk<32, 8>(y_samples, result, length, n);
    } else if (quads <= 132u * 64u * 8u) {
        launch_chunk<64, 8>(y_samples, result, length, n);
    } else if (quads <= 132u * 256u * 8u) {
        launch_chunk<256, 8>(y_samples, result, length, n);
    } else {
        const unsigned grid = 132u;
        const double toq = scale_for(n, grid);
        integrate_stride<1024, 8><<<grid, 1024>>>(y_samples, result, quads, tail, (float)toq,
                                                  length / ((double)n * toq), offset_for(grid),
                                                  length / (double)n);
    }
}
