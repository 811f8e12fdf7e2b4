// Unguarded batched loads, paired accumulators, shared-memory transposes replace shuffles.
#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// At most this many blocks: both 8-bit counters below hold it.
static const unsigned MAX_BLOCKS = 132;

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their partial in a slot;
// bits 16..63: signed sum of the other partials in units of 2^-28. Zero between calls.
__device__ unsigned long long g_acc = 0ull;
// (1 << 32) | bits of the partial, for partials that the units do not hold exactly. Zero between calls.
__device__ unsigned long long g_slot[160] = {};

// Sum of N floats of shared memory (16-byte aligned, N a multiple of 4), all lanes read the same words.
template <int N>
__device__ __forceinline__ float sum_shared(const float* row)
{
    const float4* q = reinterpret_cast<const float4*>(row);
    if (N == 4) {
        const float4 a = q[0];
        return (a.x + a.y) + (a.z + a.w);
    } else {
        constexpr int M = N / 4;
        float4 v[M];
#pragma unroll
        for (int k = 0; k < M; ++k) {
            v[k] = q[k];
        }
        float4 a = v[0];
        float4 b = v[M > 1 ? 1 : 0];
#pragma unroll
        for (int k = 2; k + 1 < M; k += 2) {
            a.x += v[k].x;
            a.y += v[k].y;
            a.z += v[k].z;
            a.w += v[k].w;
            b.x += v[k + 1].x;
            b.y += v[k + 1].y;
            b.z += v[k + 1].z;
            b.w += v[k + 1].w;
        }
        return ((a.x + b.x) + (a.y + b.y)) + ((a.z + b.z) + (a.w + b.w));
    }
}

// Sum over the lanes of a warp, in every lane; red holds one float a thread of the block.
__device__ __forceinline__ float warp_sum(float s, float* red, unsigned t)
{
    red[t] = s;
    __syncwarp();
    return sum_shared<32>(red + (t & ~31u));
}

// Sum of V float4 a thread (V even), T threads apart, from the tile that starts at base.
template <int T, int V>
__device__ __forceinline__ float gather(const float4* __restrict__ p, unsigned base, unsigned t, unsigned n4)
{
    float4 v[V];
    if (base + (unsigned)(T * V) <= n4) {
        const float4* __restrict__ b = p + (base + t);
#pragma unroll
        for (int k = 0; k < V; ++k) {
            v[k] = __ldg(b + k * T);
        }
    } else {
#pragma unroll
        for (int k = 0; k < V; ++k) {
            const unsigned i = base + t + (unsigned)(k * T);
            v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < n4) {
                v[k] = __ldg(p + i);
            }
        }
    }
    float4 a = v[0];
    float4 c = v[1];
#pragma unroll
    for (int k = 2; k < V; k += 2) {
        a.x += v[k].x;
        a.y += v[k].y;
        a.z += v[k].z;
        a.w += v[k].w;
        c.x += v[k + 1].x;
        c.y += v[k + 1].y;
        c.z += v[k + 1].z;
        c.w += v[k + 1].w;
    }
    return ((a.x + c.x) + (a.y + c.y)) + ((a.z + c.z) + (a.w + c.w));
}

// One block: n <= T * V * 4.
template <int T, int V>
__global__ void __launch_bounds__(T)
single_block(const float* __restrict__ input, float* __restrict__ output, unsigned n)
{
    __shared__ __align__(16) float red[T];
    __shared__ __align__(16) float part[T / 32 < 4 ? 4 : T / 32];

    const unsigned t = threadIdx.x;
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    float extra = 0.0f;
    if (tail != 0u && t < tail) {
        extra = __ldg(input + (4u * n4 + t));
    }
    float s = gather<T, V>(reinterpret_cast<const float4*>(input), 0u, t, n4) + extra;
    s = warp_sum(s, red, t);
    if (T == 32) {
        if (t == 0u) {
            output[0] = s;
        }
    } else {
        if ((t & 31u) == 0u) {
            part[t >> 5] = s;
        }
        __syncthreads();
        if (t == 0u) {
            output[0] = sum_shared<(T / 32 < 4 ? 4 : T / 32)>(part);
        }
    }
}

// One cluster of 8 blocks: n <= 8 * T * V * 4.
template <int T, int V>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T)
cluster_sum(const float* __restrict__ input, float* __restrict__ output, unsigned n)
{
    constexpr int W = T / 32;        // warps a block
    constexpr int SLOTS = 8 * W;     // one a warp of the cluster
    __shared__ __align__(16) float slots[SLOTS];
    __shared__ __align__(16) float red[T];

    // Tells that this block has started; waited for once the data are here.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

    const unsigned t = threadIdx.x;
    const unsigned rank = blockIdx.x;     // the grid is one cluster
    const unsigned n4 = n >> 2;
    const unsigned tail = n & 3u;
    float extra = 0.0f;
    if (tail != 0u && rank == 0u && t < tail) {
        extra = __ldg(input + (4u * n4 + t));
    }
    float s = gather<T, V>(reinterpret_cast<const float4*>(input), rank * (unsigned)(T * V), t, n4) + extra;
    s = warp_sum(s, red, t);

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if ((t & 31u) == 0u) {
        float* remote = cg::this_cluster().map_shared_rank(slots, 0);
        remote[rank * W + (t >> 5)] = s;
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

    if (rank == 0u && t == 0u) {
        output[0] = sum_shared<SLOTS>(slots);
    }
}

// Any n: one atomic a block. Without LOOP the grid covers all with one tile a block.
template <int T, int V, bool LOOP>
__global__ void __launch_bounds__(T)
many_blocks(const float* __restrict__ input, float* __restrict__ output, unsigned n)
{
    constexpr int W = T / 32;
    __shared__ __align__(16) float red[T];
    __shared__ __align__(16) float part[W];

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
        s = gather<T, V>(in4, blockIdx.x * (unsigned)(T * V), t, n4);
    } else {
        s = 0.0f;
        const unsigned step = gridDim.x * (unsigned)(T * V);
        for (unsigned base = blockIdx.x * (unsigned)(T * V); base < n4; base += step) {
            s += gather<T, V>(in4, base, t, n4);
        }
    }
    s += extra;

    s = warp_sum(s, red, t);
    if ((t & 31u) == 0u) {
        part[t >> 5] = s;
    }
    __syncthreads();
    if (t != 0u) {
        return;
    }
    const float p = sum_shared<W>(part);

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
        float res;
        if (((total >> 8) & 0xffull) == 0ull) {
            res = __ll2float_rn(fixedSum) * (1.0f / 268435456.0f);
        } else {
            __threadfence();
            double r = (double)fixedSum * (1.0 / 268435456.0);
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
            res = (float)r;
        }
        output[0] = res;
        g_acc = 0ull;
    }
}

extern "C" void solve(const float* input, float* output, int n)
{
    const unsigned un = (unsigned)n;
    const unsigned n4 = un >> 2;
    if (un <= 1024u) {
        single_block<32, 8><<<1, 32>>>(input, output, un);
    } else if (un <= 4096u) {
        single_block<256, 4><<<1, 256>>>(input, output, un);
    } else if (un <= 16384u) {
        cluster_sum<128, 4><<<8, 128>>>(input, output, un);
    } else if (un <= 65536u) {
        cluster_sum<256, 8><<<8, 256>>>(input, output, un);
    } else if (n4 <= MAX_BLOCKS * 512u) {
        const unsigned blocks = (n4 + 511u) / 512u;
        many_blocks<128, 4, false><<<blocks, 128>>>(input, output, un);
    } else {
        const unsigned tiles = (n4 + 4095u) / 4096u;
        const unsigned blocks = tiles < MAX_BLOCKS ? tiles : MAX_BLOCKS;
        many_blocks<1024, 4, true><<<blocks, 1024>>>(input, output, un);
    }
}
