// Packed exchanges: shared-row warp sums, st.async cluster, one packed atomic.
#include <cuda_runtime.h>

// bits 0..7: blocks that arrived; bits 8..15: blocks that left their partial in a slot;
// bits 16..63: signed sum of the other partials in units of 2^-28. Zero between calls.
__device__ unsigned long long g_acc = 0ull;
// (1 << 32) | bits of a partial that the units do not hold exactly. Zero between calls.
__device__ unsigned long long g_slot[160] = {};

static const unsigned MAX_BLOCKS = 132u;

// Sum over a warp: one store, four 16-byte loads and one shuffle instead of five shuffles.
// row: 32 floats of this warp, 16-byte aligned. All lanes get the sum.
__device__ __forceinline__ float warp_sum(float s, float* row, int lane)
{
    row[lane] = s;
    __syncwarp();
    const float4* q = reinterpret_cast<const float4*>(row + ((lane & 1) << 4));
    const float4 a = q[0];
    const float4 b = q[1];
    const float4 c = q[2];
    const float4 d = q[3];
    const float x = (a.x + a.y) + (a.z + a.w);
    const float y = (b.x + b.y) + (b.z + b.w);
    const float z = (c.x + c.y) + (c.z + c.w);
    const float w = (d.x + d.y) + (d.z + d.w);
    float r = (x + y) + (z + w);
    r += __shfl_xor_sync(0xffffffffu, r, 1);
    return r;
}

// V float4 a thread, T threads apart.
template <int T, int V, bool FULL>
__device__ __forceinline__ void load_tile(float4 (&v)[V], const float4* __restrict__ p,
                                          unsigned first, unsigned n4)
{
    if (FULL) {
        const float4* q = p + first;
#pragma unroll
        for (int k = 0; k < V; ++k) {
            v[k] = __ldg(q + k * T);
        }
    } else {
#pragma unroll
        for (int k = 0; k < V; ++k) {
            const unsigned i = first + (unsigned)(k * T);
            v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < n4) {
                v[k] = __ldg(p + i);
            }
        }
    }
}

template <int V>
__device__ __forceinline__ float tile_sum(const float4 (&v)[V])
{
    float s[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
        s[k] = (v[k].x + v[k].y) + (v[k].z + v[k].w);
    }
#pragma unroll
    for (int w = V / 2; w > 0; w >>= 1) {
#pragma unroll
        for (int k = 0; k < w; ++k) {
            s[k] += s[k + w];
        }
    }
    return s[0];
}

// Sum of 4 * Q floats, tree shaped.
template <int Q>
__device__ __forceinline__ float sum_shared(const float4* q)
{
    float4 b[Q];
#pragma unroll
    for (int k = 0; k < Q; ++k) {
        b[k] = q[k];
    }
    return tile_sum<Q>(b);
}

// One block: n <= T * V * 4; FULL: equal.
template <int T, int V, bool FULL>
__global__ void __launch_bounds__(T)
single_block(const float* __restrict__ input, float* __restrict__ output, int n)
{
    constexpr int W = T / 32;
    __shared__ __align__(16) float rows[T];
    __shared__ __align__(16) float part[W < 4 ? 4 : W];

    const int tid = threadIdx.x;
    const unsigned n4 = (unsigned)n >> 2;
    float4 v[V];
    load_tile<T, V, FULL>(v, reinterpret_cast<const float4*>(input), (unsigned)tid, n4);
    float extra = 0.0f;
    if (!FULL) {
        if (tid < (n & 3)) {
            extra = __ldg(input + (size_t)n4 * 4u + tid);
        }
    }
    float s = tile_sum<V>(v);
    if (!FULL) {
        s += extra;
    }
    s = warp_sum(s, rows + (tid & ~31), tid & 31);
    if (W == 1) {
        if (tid == 0) {
            output[0] = s;
        }
    } else {
        if ((tid & 31) == 0) {
            part[tid >> 5] = s;
        }
        __syncthreads();
        if (tid == 0) {
            output[0] = sum_shared<(W < 4 ? 1 : W / 4)>(reinterpret_cast<const float4*>(part));
        }
    }
}

// One cluster of 8 blocks: n <= 8 * T * V * 4; FULL: equal.
// Every warp sends its sum to block 0 with a store that also counts in block 0's mbarrier.
template <int T, int V, bool FULL>
__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(T)
cluster_sum(const float* __restrict__ input, float* __restrict__ output, int n)
{
    constexpr int W = T / 32;
    constexpr int SLOTS = 8 * W;
    __shared__ __align__(16) float rows[T];
    __shared__ __align__(16) float slots[SLOTS];
    __shared__ __align__(8) unsigned long long bar;

    const int tid = threadIdx.x;
    const int rank = blockIdx.x;     // the grid is one cluster
    const unsigned n4 = (unsigned)n >> 2;

    float4 v[V];
    load_tile<T, V, FULL>(v, reinterpret_cast<const float4*>(input),
                          (unsigned)(rank * (T * V) + tid), n4);
    float extra = 0.0f;
    if (!FULL) {
        if (rank == 0 && tid < (n & 3)) {
            extra = __ldg(input + (size_t)n4 * 4u + tid);
        }
    }

    // In the shadow of the loads: the mbarrier, the word that all blocks run, remote addresses.
    const unsigned bar_local = (unsigned)__cvta_generic_to_shared(&bar);
    const unsigned slot_local =
        (unsigned)__cvta_generic_to_shared(&slots[rank * W + (tid >> 5)]);
    if (rank == 0 && tid == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar_local), "r"(1) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     ::"r"(bar_local), "r"(SLOTS * 4) : "memory");
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

    unsigned bar_remote, slot_remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar_remote) : "r"(bar_local), "r"(0));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(slot_remote) : "r"(slot_local), "r"(0));

    float s = tile_sum<V>(v);
    if (!FULL) {
        s += extra;
    }
    s = warp_sum(s, rows + (tid & ~31), tid & 31);

    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if ((tid & 31) == 0) {
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                     ::"r"(slot_remote), "r"(__float_as_uint(s)), "r"(bar_remote) : "memory");
    }

    if (rank == 0 && tid < 32) {
        __syncwarp();
        unsigned done;
        do {
            asm volatile("{\n\t"
                         ".reg .pred p;\n\t"
                         "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
                         "selp.u32 %0, 1, 0, p;\n\t"
                         "}"
                         : "=r"(done) : "r"(bar_local), "r"(0) : "memory");
        } while (done == 0u);
        __syncwarp();
        float r;
        if (SLOTS <= 32) {
            r = sum_shared<SLOTS / 4>(reinterpret_cast<const float4*>(slots));
        } else {
            r = sum_shared<SLOTS / 8>(
                reinterpret_cast<const float4*>(slots + (tid & 1) * (SLOTS / 2)));
            r += __shfl_xor_sync(0xffffffffu, r, 1);
        }
        if (tid == 0) {
            output[0] = r;
        }
    }
}

// Many blocks: sum and count in one 64-bit atomic.
template <int T, int V, bool LOOP, bool FULL>
__global__ void __launch_bounds__(T)
grid_sum(const float* __restrict__ input, float* __restrict__ output, unsigned n)
{
    constexpr int W = T / 32;
    __shared__ __align__(16) float rows[T];
    __shared__ __align__(16) float part[W];

    const float4* __restrict__ in4 = reinterpret_cast<const float4*>(input);
    const unsigned n4 = n >> 2;
    const unsigned t = threadIdx.x;

    float s;
    if (!LOOP) {
        const unsigned base = blockIdx.x * (unsigned)(T * V);
        float4 v[V];
        if (FULL || base + (unsigned)(T * V) <= n4) {
            load_tile<T, V, true>(v, in4, base + t, n4);
        } else {
            load_tile<T, V, false>(v, in4, base + t, n4);
        }
        s = tile_sum<V>(v);
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
                load_tile<T, V, true>(v, in4, base + t, n4);
            } else {
                load_tile<T, V, false>(v, in4, base + t, n4);
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
        if (blockIdx.x == gridDim.x - 1u && t < (n & 3u)) {
            s += __ldg(input + ((size_t)n4 * 4u + t));
        }
        __syncwarp();
    }

    s = warp_sum(s, rows + (t & ~31u), (int)(t & 31u));
    if ((t & 31u) == 0u) {
        part[t >> 5] = s;
    }
    __syncthreads();
    if (t != 0u) {
        return;
    }
    const float p = sum_shared<W / 4>(reinterpret_cast<const float4*>(part));

    // 2^-5 <= |p| < 2^11 is a whole number of 2^-28; anything else goes through a slot.
    const unsigned bits = __float_as_uint(p);
    unsigned long long add;
    if ((bits & 0x7fffffffu) - 0x3d000000u < 0x45000000u - 0x3d000000u) {
        add = (((unsigned long long)__float2ll_rn(p * 268435456.0f)) << 16) + 1ull;
    } else {
        __stcg(&g_slot[blockIdx.x], (1ull << 32) | (unsigned long long)bits);
        __threadfence();
        add = (1ull << 8) + 1ull;
    }
    const unsigned long long old = atomicAdd(&g_acc, add);
    if ((unsigned)(old & 0xffull) == gridDim.x - 1u) {
        const unsigned long long total = old + add;
        const long long fixedSum = ((long long)total) >> 16;
        if (((total >> 8) & 0xffull) == 0ull) {
            output[0] = __ll2float_rn(fixedSum) * (1.0f / 268435456.0f);
        } else {
            double r = (double)fixedSum * (1.0 / 268435456.0);
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
            output[0] = (float)r;
        }
        g_acc = 0ull;
    }
}

extern "C" void solve(const float* input, float* output, int n)
{
    if (n <= 1024) {
        if (n == 1024) {
            single_block<32, 8, true><<<1, 32>>>(input, output, n);
        } else {
            single_block<32, 8, false><<<1, 32>>>(input, output, n);
        }
    } else if (n <= 4096) {
        if (n == 4096) {
            single_block<256, 4, true><<<1, 256>>>(input, output, n);
        } else {
            single_block<256, 4, false><<<1, 256>>>(input, output, n);
        }
    } else if (n <= 16384) {
        if (n == 16384) {
            cluster_sum<64, 8, true><<<8, 64>>>(input, output, n);
        } else {
            cluster_sum<64, 8, false><<<8, 64>>>(input, output, n);
        }
    } else if (n <= 65536) {
        if (n == 65536) {
            cluster_sum<256, 8, true><<<8, 256>>>(input, output, n);
        } else {
            cluster_sum<256, 8, false><<<8, 256>>>(input, output, n);
        }
    } else {
        const unsigned un = (unsigned)n;
        const unsigned n4 = un >> 2;
        if (n4 <= MAX_BLOCKS * 1024u) {
            const unsigned blocks = (n4 + 1023u) / 1024u;
            if ((un & 4095u) == 0u) {
                grid_sum<256, 4, false, true><<<blocks, 256>>>(input, output, un);
            } else {
                grid_sum<256, 4, false, false><<<blocks, 256>>>(input, output, un);
            }
        } else {
            const unsigned tiles = (n4 + 4095u) / 4096u;
            const unsigned blocks = tiles < MAX_BLOCKS ? tiles : MAX_BLOCKS;
            grid_sum<1024, 4, true, false><<<blocks, 1024>>>(input, output, un);
        }
    }
}
