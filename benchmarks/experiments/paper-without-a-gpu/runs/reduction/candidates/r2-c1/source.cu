// Less work a thread; warp sums through shared, one shuffle
#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// At most this many blocks add to g_acc: both 8-bit counters below hold it.
static const unsigned MAX_BLOCKS = 132;

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their partial in a slot;
// bits 16..63: signed sum of the other partials in units of 2^-28. Zero between calls.
__device__ unsigned long long g_acc = 0ull;
// (1 << 32) | bits of the partial, for partials that the units do not hold exactly. Zero between calls.
__device__ unsigned long long g_slot[160] = {};

// Sum over a warp. scratch: 32 floats of this warp alone, 16-byte aligned.
// Even lanes add one half of them, odd lanes the other, one shuffle joins the halves.
__device__ __forceinline__ float warp_sum(float s, float* scratch, unsigned lane)
{
    scratch[lane] = s;
    __syncwarp();
    const float4* q = reinterpret_cast<const float4*>(scratch) + (lane & 1u);
    const float4 a = q[0];
    const float4 b = q[2];
    const float4 c = q[4];
    const float4 d = q[6];
    const float ab = ((a.x + b.x) + (a.y + b.y)) + ((a.z + b.z) + (a.w + b.w));
    const float cd = ((c.x + d.x) + (c.y + d.y)) + ((c.z + d.z) + (c.w + d.w));
    float r = ab + cd;
    r += __shfl_xor_sync(0xffffffffu, r, 1);
    return r;
}

// Sum of VEC float4 a thread, THREADS apart, of the tile at base.
template <int THREADS, int VEC>
__device__ __forceinline__ float tile_sum(const float4* __restrict__ in4, unsigned base, unsigned t, unsigned n4)
{
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
    float acc[VEC];
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
        acc[k] = (v[k].x + v[k].y) + (v[k].z + v[k].w);
    }
#pragma unroll
    for (int w = VEC / 2; w > 0; w >>= 1) {
#pragma unroll
        for (int k = 0; k < w; ++k) {
            acc[k] += acc[k + w];
        }
    }
    return acc[0];
}

// One cluster of 8 blocks: n4 <= T * V * 8.
template <int T, int V>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T)
cluster_sum(const float* __restrict__ input, float* __restrict__ output, unsigned n)
{
    constexpr int W = T / 32;          // warps a block
    constexpr int SLOTS = 8 * W;       // one a warp of the cluster
    constexpr int LANES = SLOTS / 16;  // lanes that add the slots up
    __shared__ __align__(16) float slots[SLOTS];
    __shared__ __align__(16) float scratch[T];

    // Tells that this block has started; waited for once the data are here.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

    const unsigned tid = threadIdx.x;
    const unsigned rank = blockIdx.x;  // the grid is one cluster
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    float extra = 0.0f;
    if (tail != 0u && rank == 0u && tid < tail) {
        extra = __ldg(input + (4u * n4 + tid));
    }
    float s = tile_sum<T, V>(reinterpret_cast<const float4*>(input), rank * (unsigned)(T * V), tid, n4) + extra;
    s = warp_sum(s, scratch + (tid & ~31u), tid & 31u);

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if ((tid & 31u) == 0u) {
        float* remote = cg::this_cluster().map_shared_rank(slots, 0);
        remote[rank * W + (tid >> 5)] = s;
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

    if (rank == 0u && tid < 32u) {
        const float4* q = reinterpret_cast<const float4*>(slots) + (tid & (unsigned)(LANES - 1));
        const float4 a = q[0];
        const float4 b = q[LANES];
        const float4 c = q[2 * LANES];
        const float4 d = q[3 * LANES];
        const float ab = ((a.x + b.x) + (a.y + b.y)) + ((a.z + b.z) + (a.w + b.w));
        const float cd = ((c.x + d.x) + (c.y + d.y)) + ((c.z + d.z) + (c.w + d.w));
        float r = ab + cd;
#pragma unroll
        for (int o = LANES / 2; o > 0; o >>= 1) {
            r += __shfl_xor_sync(0xffffffffu, r, o);
        }
        if (tid == 0u) {
            output[0] = r;
        }
    }
}

template <int THREADS, int VEC, bool LOOP, bool SINGLE>
__global__ void __launch_bounds__(THREADS)
sum_kernel(const float* __restrict__ input, float* __restrict__ output, unsigned n)
{
    constexpr int WARPS = THREADS / 32;
    __shared__ __align__(16) float ws[WARPS];
    __shared__ __align__(16) float scratch[THREADS];

    const float4* __restrict__ in4 = reinterpret_cast<const float4*>(input);
    const unsigned n4 = n >> 2;
    const unsigned t = threadIdx.x;
    const unsigned tail = n & 3u;

    float extra = 0.0f;
    if (tail != 0u && blockIdx.x == gridDim.x - 1u && t < tail) {
        extra = __ldg(input + ((size_t)n4 * 4u + t));
    }

    float s;
    if (!LOOP) {
        s = tile_sum<THREADS, VEC>(in4, blockIdx.x * (unsigned)(THREADS * VEC), t, n4);
    } else {
        float acc[VEC];
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
#pragma unroll
        for (int w = VEC / 2; w > 0; w >>= 1) {
#pragma unroll
            for (int k = 0; k < w; ++k) {
                acc[k] += acc[k + w];
            }
        }
        s = acc[0];
    }
    s += extra;

    s = warp_sum(s, scratch + (t & ~31u), t & 31u);
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
        sum_kernel<128, 2, false, true><<<1, 128>>>(input, output, un);
    } else if (n4 <= 1024u) {
        // up to 4,099 elements
        sum_kernel<256, 4, false, true><<<1, 256>>>(input, output, un);
    } else if (n4 <= 4096u) {
        // up to 16,387 elements
        cluster_sum<128, 4><<<8, 128>>>(input, output, un);
    } else if (n4 <= 16384u) {
        // up to 65,539 elements
        cluster_sum<512, 4><<<8, 512>>>(input, output, un);
    } else if (n4 <= MAX_BLOCKS * 256u) {
        const unsigned blocks = (n4 + 255u) / 256u;
        sum_kernel<128, 2, false, false><<<blocks, 128>>>(input, output, un);
    } else if (n4 <= MAX_BLOCKS * 512u) {
        const unsigned blocks = (n4 + 511u) / 512u;
        sum_kernel<128, 4, false, false><<<blocks, 128>>>(input, output, un);
    } else {
        const unsigned tiles = (n4 + 4095u) / 4096u;
        const unsigned blocks = tiles < MAX_BLOCKS ? tiles : MAX_BLOCKS;
        sum_kernel<1024, 4, true, false><<<blocks, 1024>>>(input, output, un);
    }
}
