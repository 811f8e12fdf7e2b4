// Cluster partials by st.async onto one mbarrier; no closing cluster barrier
#include <cuda_runtime.h>
#include <stdint.h>

// At most this many blocks: both 8-bit counters below hold it.
static const unsigned MAX_BLOCKS = 132;

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their partial in a slot;
// bits 16..63: signed sum of the other partials in units of 2^-28. Zero between calls.
__device__ unsigned long long g_acc = 0ull;
// (1 << 32) | bits of the partial, for partials that the units do not hold exactly. Zero between calls.
__device__ unsigned long long g_slot[160] = {};

__device__ __forceinline__ float4 add4(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Tree over V (a power of two) float4.
template <int V>
__device__ __forceinline__ float tree(float4 (&v)[V])
{
#pragma unroll
    for (int w = V / 2; w > 0; w >>= 1) {
#pragma unroll
        for (int k = 0; k < w; ++k) {
            v[k] = add4(v[k], v[k + w]);
        }
    }
    return (v[0].x + v[0].y) + (v[0].z + v[0].w);
}

// 32 consecutive floats of shared memory, by one lane.
__device__ __forceinline__ float sum32(const float* sh)
{
    const float4* q = reinterpret_cast<const float4*>(sh);
    float4 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        v[k] = q[k];
    }
    return tree<8>(v);
}

// Sum of V float4 a thread, T threads apart, from float4 number base on.
template <int T, int V, bool FULL>
__device__ __forceinline__ float gather(const float4* __restrict__ in4, unsigned base, unsigned n4)
{
    const unsigned i0 = base + threadIdx.x;
    float4 v[V];
    if (FULL || base + (unsigned)(T * V) <= n4) {
        const float4* p = in4 + i0;
#pragma unroll
        for (int k = 0; k < V; ++k) {
            v[k] = __ldg(p + k * T);
        }
    } else {
#pragma unroll
        for (int k = 0; k < V; ++k) {
            const unsigned i = i0 + (unsigned)(k * T);
            v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < n4) {
                v[k] = __ldg(in4 + i);
            }
        }
    }
    return tree<V>(v);
}

// Sum over a block of T threads; the result is valid in thread 0 only.
template <int T>
__device__ __forceinline__ float block_sum(float s, float* all, float* few)
{
    const int t = (int)threadIdx.x;
    float r = 0.0f;
    if (T == 32) {
        few[t] = s;
        __syncwarp();
        if (t == 0) {
            r = sum32(few);
        }
    } else {
        all[t] = s;
        __syncthreads();
        if (t < 32) {
            constexpr int K = T / 128 > 0 ? T / 128 : 1;
            const float4* q = reinterpret_cast<const float4*>(all);
            float4 v[K];
#pragma unroll
            for (int k = 0; k < K; ++k) {
                v[k] = q[t + 32 * k];
            }
            few[t] = tree<K>(v);
            __syncwarp();
            if (t == 0) {
                r = sum32(few);
            }
        }
    }
    return r;
}

// One block: n / 4 <= T * V.
template <int T, int V, bool FULL>
__global__ void __launch_bounds__(T)
single_block(const float* __restrict__ input, float* __restrict__ output, unsigned n)
{
    __shared__ __align__(16) float all[T < 128 ? 128 : T];
    __shared__ __align__(16) float few[32];
    const unsigned t = threadIdx.x;
    const unsigned n4 = n >> 2;
    float extra = 0.0f;
    if (!FULL) {
        if (t < (n & 3u)) {
            extra = __ldg(input + (4u * n4 + t));
        }
    }
    float s = gather<T, V, FULL>(reinterpret_cast<const float4*>(input), 0u, n4);
    if (!FULL) {
        s += extra;
    }
    const float r = block_sum<T>(s, all, few);
    if (t == 0u) {
        output[0] = r;
    }
}

// Waits until the first phase of the mbarrier is complete.
__device__ __forceinline__ void wait_first_phase(uint32_t bar)
{
    uint32_t done;
    do {
        asm volatile(
            "{\n\t"
            ".reg .pred p;\n\t"
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
            "selp.u32 %0, 1, 0, p;\n\t"
            "}"
            : "=r"(done)
            : "r"(bar), "r"(0u)
            : "memory");
    } while (done == 0u);
}

// One cluster of 8 blocks: n / 4 <= 8 * T * 4. T is 128 or 512.
template <int T, bool FULL>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T)
cluster_sum(const float* __restrict__ input, float* __restrict__ output, unsigned n)
{
    constexpr int V = 4;
    constexpr int W = T / 32;               // warps a block
    constexpr int R = T <= 128 ? 1 : 4;     // values that a warp passes on
    constexpr int SLOTS = 8 * W * R;        // 32 or 512
    __shared__ __align__(16) float slots[SLOTS];
    __shared__ __align__(16) float own[T];
    __shared__ __align__(8) unsigned long long bar;

    const unsigned t = threadIdx.x;
    const unsigned lane = t & 31u;
    const unsigned warp = t >> 5;
    const unsigned rank = blockIdx.x;       // the grid is one cluster
    const unsigned n4 = n >> 2;
    const uint32_t bar_here = (uint32_t)__cvta_generic_to_shared(&bar);

    // Block 0 expects all partials: one arrival, which also announces their bytes.
    if (rank == 0u && t == 0u) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar_here), "r"(1u) : "memory");
        asm volatile(
            "{\n\t"
            ".reg .b64 state;\n\t"
            "mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n\t"
            "}"
            :: "r"(bar_here), "r"((uint32_t)(SLOTS * 4)) : "memory");
    }
    __syncwarp();
    // Publishes the mbarrier, and that this block has started; waited for once the data are here.
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");

    float extra = 0.0f;
    if (!FULL) {
        if (rank == 0u && t < (n & 3u)) {
            extra = __ldg(input + (4u * n4 + t));
        }
    }
    float s = gather<T, V, FULL>(reinterpret_cast<const float4*>(input), rank * (unsigned)(T * V), n4);
    if (!FULL) {
        s += extra;
    }

    // Within the warp: 32 values become R.
    own[t] = s;
    __syncwarp();
    float r = 0.0f;
    if (R == 1) {
        if (lane == 0u) {
            r = sum32(own + warp * 32u);
        }
    } else {
        const float4* q = reinterpret_cast<const float4*>(own + warp * 32u);
        const float4 a = add4(q[lane & 3u], q[(lane & 3u) + 4u]);
        r = (a.x + a.y) + (a.z + a.w);
    }

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (lane < (unsigned)R) {
        const uint32_t slot_here =
            (uint32_t)__cvta_generic_to_shared(&slots[(rank * (unsigned)W + warp) * (unsigned)R + lane]);
        uint32_t slot_there, bar_there;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(slot_there) : "r"(slot_here), "r"(0u));
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar_there) : "r"(bar_here), "r"(0u));
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                     :: "r"(slot_there), "r"(__float_as_uint(r)), "r"(bar_there) : "memory");
    }

    // Block 0 stays until every partial is here; nobody touches the memory of the others.
    if (rank != 0u) {
        return;
    }
    if (R == 1) {
        if (t == 0u) {
            wait_first_phase(bar_here);
            output[0] = sum32(slots);
        }
    } else if (t < 32u) {
        wait_first_phase(bar_here);
        constexpr int K = SLOTS / 128 > 0 ? SLOTS / 128 : 1;
        const float4* q = reinterpret_cast<const float4*>(slots);
        float4 v[K];
#pragma unroll
        for (int k = 0; k < K; ++k) {
            v[k] = q[(t + 32u * (unsigned)k) & (unsigned)(SLOTS / 4 - 1)];
        }
        const float part = tree<K>(v);
        __syncwarp();
        own[t] = part;
        __syncwarp();
        if (t == 0u) {
            output[0] = sum32(own);
        }
    }
}

// At most MAX_BLOCKS blocks; their partials meet in one 64-bit atomic.
template <int T, int V, bool LOOP, bool FULL>
__global__ void __launch_bounds__(T)
many_blocks(const float* __restrict__ input, float* __restrict__ output, unsigned n)
{
    __shared__ __align__(16) float all[T];
    __shared__ __align__(16) float few[32];

    const float4* __restrict__ in4 = reinterpret_cast<const float4*>(input);
    const unsigned n4 = n >> 2;
    const unsigned t = threadIdx.x;

    float extra = 0.0f;
    if (!FULL) {
        if (blockIdx.x == gridDim.x - 1u && t < (n & 3u)) {
            extra = __ldg(input + ((size_t)n4 * 4u + t));
        }
    }

    float s;
    if (!LOOP) {
        s = gather<T, V, FULL>(in4, blockIdx.x * (unsigned)(T * V), n4);
    } else {
        float acc[V];
#pragma unroll
        for (int k = 0; k < V; ++k) {
            acc[k] = 0.0f;
        }
        const unsigned step = gridDim.x * (unsigned)(T * V);
        for (unsigned base = blockIdx.x * (unsigned)(T * V); base < n4; base += step) {
            float4 v[V];
            if (base + (unsigned)(T * V) <= n4) {
#pragma unroll
                for (int k = 0; k < V; ++k) {
                    v[k] = __ldg(in4 + (base + t + (unsigned)(k * T)));
                }
            } else {
#pragma unroll
                for (int k = 0; k < V; ++k) {
                    const unsigned i = base + t + (unsigned)(k * T);
                    v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (i < n4) {
                        v[k] = __ldg(in4 + i);
                    }
                }
            }
#pragma unroll
            for (int k = 0; k < V; ++k) {
                acc[k] += (v[k].x + v[k].y) + (v[k].z + v[k].w);
            }
        }
#pragma unroll
        for (int w = V / 2; w > 0; w >>= 1) {
#pragma unroll
            for (int k = 0; k < w; ++k) {
                acc[k] += acc[k + w];
            }
        }
        s = acc[0];
    }
    if (!FULL) {
        s += extra;
    }

    const float p = block_sum<T>(s, all, few);
    if (t != 0u) {
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
    const bool whole = (un & 3u) == 0u;     // no elements after the last float4
    if (n4 <= 256u) {
        if (whole && n4 == 256u) {
            single_block<32, 8, true><<<1, 32>>>(input, output, un);
        } else {
            single_block<32, 8, false><<<1, 32>>>(input, output, un);
        }
    } else if (n4 <= 1024u) {
        if (whole && n4 == 1024u) {
            single_block<256, 4, true><<<1, 256>>>(input, output, un);
        } else {
            single_block<256, 4, false><<<1, 256>>>(input, output, un);
        }
    } else if (n4 <= 4096u) {
        if (whole && n4 == 4096u) {
            cluster_sum<128, true><<<8, 128>>>(input, output, un);
        } else {
            cluster_sum<128, false><<<8, 128>>>(input, output, un);
        }
    } else if (n4 <= 16384u) {
        if (whole && n4 == 16384u) {
            cluster_sum<512, true><<<8, 512>>>(input, output, un);
        } else {
            cluster_sum<512, false><<<8, 512>>>(input, output, un);
        }
    } else if (n4 <= MAX_BLOCKS * 1024u) {
        // Half as many atomics on the one word as with blocks of 128 threads.
        const unsigned blocks = (n4 + 1023u) / 1024u;
        if (whole && n4 == blocks * 1024u) {
            many_blocks<256, 4, false, true><<<blocks, 256>>>(input, output, un);
        } else {
            many_blocks<256, 4, false, false><<<blocks, 256>>>(input, output, un);
        }
    } else {
        const unsigned tiles = (n4 + 4095u) / 4096u;
        const unsigned blocks = tiles < MAX_BLOCKS ? tiles : MAX_BLOCKS;
        many_blocks<1024, 4, true, false><<<blocks, 1024>>>(input, output, un);
    }
}
