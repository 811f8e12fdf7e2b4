// Batched float4 loads; count and exact fixed-point partial, one atomic.

#include <cuda_runtime.h>

// At most this many blocks: both 8-bit counters below hold it.
static const unsigned MAX_BLOCKS = 132;

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their partial in a slot;
// bits 16..63: signed sum of the other partials in units of 2^-28. Zero between calls.
__device__ unsigned long long g_acc = 0ull;
// (1 << 32) | bits of the partial, for partials that the units do not hold exactly. Zero between calls.
__device__ unsigned long long g_slot[160] = {};

template <int THREADS, int VEC, bool LOOP, bool SINGLE>
__global__ void __launch_bounds__(THREADS) sumKernel(const float* __restrict__ input, float* __restrict__ output, unsigned n)
{
    constexpr int WARPS = THREADS / 32;
    __shared__ __align__(16) float ws[WARPS];

    const float4* __restrict__ in4 = reinterpret_cast<const float4*>(input);
    const unsigned n4 = n >> 2;
    const unsigned t = threadIdx.x;
    const unsigned tail = n & 3u;

    float extra = 0.0f;
    if (tail != 0u && blockIdx.x == gridDim.x - 1u && t < tail) {
        extra = __ldg(input + ((size_t)n4 * 4u + t));
    }

    float acc[VEC];
    if (!LOOP) {
        const unsigned base = blockIdx.x * (unsigned)(THREADS * VEC);
        float4 v[VEC];
        if (base + (unsigned)(THREADS * VEC) <= n4) {
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                v[k] = __ldg(in4 + (base + t + (unsigned)(k * THREADS)));
            }
        } else {
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                const unsigned i = base + t + (unsigned)(k * THREADS);
                v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (i < n4) {
                    v[k] = __ldg(in4 + i);
                }
            }
        }
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            acc[k] = (v[k].x + v[k].y) + (v[k].z + v[k].w);
        }
    } else {
#pragma unroll
        for (int k = 0; k < VEC; ++k) {
            acc[k] = 0.0f;
        }
        const unsigned step = gridDim.x * (unsigned)(THREADS * VEC);
        for (unsigned base = blockIdx.x * (unsigned)(THREADS * VEC); base < n4; base += step) {
            float4 v[VEC];
            if (base + (unsigned)(THREADS * VEC) <= n4) {
#pragma unroll
                for (int k = 0; k < VEC; ++k) {
                    v[k] = __ldg(in4 + (base + t + (unsigned)(k * THREADS)));
                }
            } else {
#pragma unroll
                for (int k = 0; k < VEC; ++k) {
                    const unsigned i = base + t + (unsigned)(k * THREADS);
                    v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (i < n4) {
                        v[k] = __ldg(in4 + i);
                    }
                }
            }
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                acc[k] += (v[k].x + v[k].y) + (v[k].z + v[k].w);
            }
        }
    }

#pragma unroll
    for (int w = VEC / 2; w > 0; w >>= 1) {
#pragma unroll
        for (int k = 0; k < w; ++k) {
            acc[k] += acc[k + w];
        }
    }
    float s = acc[0] + extra;

#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        s += __shfl_xor_sync(0xffffffffu, s, o);
    }
    if ((t & 31u) == 0u) {
        ws[t >> 5] = s;
    }
    __syncthreads();
    if (t != 0u) {
        return;
    }

    float q[WARPS / 4];
#pragma unroll
    for (int k = 0; k < WARPS / 4; ++k) {
        const float4 w = reinterpret_cast<const float4*>(ws)[k];
        q[k] = (w.x + w.y) + (w.z + w.w);
    }
#pragma unroll
    for (int w = WARPS / 8; w > 0; w >>= 1) {
#pragma unroll
        for (int k = 0; k < w; ++k) {
            q[k] += q[k + w];
        }
    }
    const float p = q[0];

    if (SINGLE || gridDim.x == 1u) {
        output[0] = p;
        return;
    }

    // Scaling by 2^28 is exact; a partial that is then no integer, or large, goes through a slot.
    const float scaled = p * 268435456.0f;
    unsigned long long add;
    if (fabsf(p) < 2048.0f && truncf(scaled) == scaled) {
        add = (((unsigned long long)__float2ll_rn(scaled)) << 16) + 1ull;
    } else {
        __stcg(&g_slot[blockIdx.x], (1ull << 32) | (unsigned long long)__float_as_uint(p));
        __threadfence();
        add = (1ull << 8) + 1ull;
    }
    const unsigned long long old = atomicAdd(&g_acc, add);
    if ((unsigned)(old & 0xffull) == gridDim.x - 1u) {
        const unsigned long long total = old + add;
        const long long fixedSum = ((long long)total) >> 16;
        double r = (double)fixedSum * (1.0 / 268435456.0);
        if (((total >> 8) & 0xffull) != 0ull) {
            __threadfence();
            for (unsigned b = 0; b < gridDim.x; b += 12u) {
                unsigned long long x[12];
#pragma unroll
                for (int k = 0; k < 12; ++k) {
                    x[k] = 0ull;
                    if (b + k < gridDim.x) {
                        x[k] = __ldcg(&g_slot[b + k]);
                    }
                }
#pragma unroll
                for (int k = 0; k < 12; ++k) {
                    if ((x[k] >> 32) != 0ull) {
                        r += (double)__uint_as_float((unsigned)x[k]);
                        __stcg(&g_slot[b + k], 0ull);
                    }
                }
            }
        }
        output[0] = (float)r;
        g_acc = 0ull;
    }
}

extern "C" void solve(const float* input, float* output, int n)
{
    const unsigned un = (unsigned)n;
    const unsigned n4 = un >> 2;
    if (n4 <= 256u) {
        // up to 1,027 elements
        sumKernel<128, 2, false, true><<<1, 128>>>(input, output, un);
    } else if (n4 <= 1024u) {
        // up to 4,099 elements
        sumKernel<256, 4, false, true><<<1, 256>>>(input, output, un);
    } else if (n4 <= MAX_BLOCKS * 256u) {
        const unsigned blocks = (n4 + 255u) / 256u;
        sumKernel<128, 2, false, false><<<blocks, 128>>>(input, output, un);
    } else if (n4 <= MAX_BLOCKS * 512u) {
        const unsigned blocks = (n4 + 511u) / 512u;
        sumKernel<128, 4, false, false><<<blocks, 128>>>(input, output, un);
    } else {
        const unsigned tiles = (n4 + 4095u) / 4096u;
        const unsigned blocks = tiles < MAX_BLOCKS ? tiles : MAX_BLOCKS;
        sumKernel<1024, 4, true, false><<<blocks, 1024>>>(input, output, un);
    }
}
