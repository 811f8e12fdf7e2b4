// Bulk copies stage mirrored tiles in shared; reversed vector stores.

#include <cstdint>
#include <cuda_runtime.h>

constexpr unsigned THREADS = 256;
constexpr unsigned TILE = 512;          // vectors of 16 bytes a tile: 8 KiB at either end

// A vector with its elements in reverse order.
__device__ __forceinline__ float4 flipped(float4 v) { return make_float4(v.w, v.z, v.y, v.x); }
__device__ __forceinline__ float2 flipped(float2 v) { return make_float2(v.y, v.x); }
__device__ __forceinline__ float flipped(float v) { return v; }

__device__ __forceinline__ void bulk_load(unsigned to, const void* from, unsigned bytes, unsigned bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}

// v[0 .. m - 1]: the whole array as vectors. A block owns vectors [s, s + L) at the front and their
// mirror images [m - s - L, m - s) at the back; nobody else touches either.
__global__ void __launch_bounds__(THREADS, 8)
reverse_tiles(float4* v, unsigned m)
{
    __shared__ alignas(128) float4 front[TILE];
    __shared__ alignas(128) float4 back[TILE];
    __shared__ alignas(8) uint64_t full;

    const unsigned pairs = m / 2u;
    const unsigned s = blockIdx.x * TILE;
    const unsigned left = pairs - s;                    // s < pairs, or both are 0
    const unsigned L = left < TILE ? left : TILE;

    if (L > 0u) {                                       // the same for all threads of the block
        float4* const f = v + s;
        float4* const b = v + (m - s - L);
        const unsigned bar = (unsigned)__cvta_generic_to_shared(&full);

        if (threadIdx.x == 0u) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            const unsigned bytes = L * 16u;
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :: "r"(bar), "r"(2u * bytes) : "memory");
            bulk_load((unsigned)__cvta_generic_to_shared(front), f, bytes, bar);
            bulk_load((unsigned)__cvta_generic_to_shared(back), b, bytes, bar);
        }
        __syncthreads();                                // the barrier is initialised for everybody

        unsigned done;
        do {
            asm volatile("{\n\t"
                         ".reg .pred p;\n\t"
                         "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\t"
                         "selp.u32 %0, 1, 0, p;\n\t"
                         "}"
                         : "=r"(done) : "r"(bar) : "memory");
        } while (!done);

        // both tiles have arrived whole: each goes to the other's place, back to front
        if (L == TILE) {
#pragma unroll
            for (unsigned k = 0; k < TILE; k += THREADS) {
                const unsigned j = k + threadIdx.x;
                f[j] = flipped(back[TILE - 1u - j]);
                b[j] = flipped(front[TILE - 1u - j]);
            }
        } else {
            for (unsigned j = threadIdx.x; j < L; j += THREADS) {
                f[j] = flipped(back[L - 1u - j]);
                b[j] = flipped(front[L - 1u - j]);
            }
        }
    }

    // the vector in the middle turns round where it is
    if ((m & 1u) && blockIdx.x == 0u && threadIdx.x == 0u) {
        v[pairs] = flipped(v[pairs]);
    }
}

// Lengths that are no multiple of four: narrower vectors, one pair a thread.
template <typename V>
__global__ void __launch_bounds__(THREADS)
reverse_narrow(V* v, unsigned m)
{
    const unsigned pairs = m / 2u;
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < pairs) {
        const unsigned k = m - 1u - i;
        const V a = v[i];
        const V b = v[k];
        v[i] = flipped(b);
        v[k] = flipped(a);
    }
    if ((m & 1u) && i == 0u) {
        v[pairs] = flipped(v[pairs]);
    }
}

template <typename V>
static void launch_narrow(float* data, unsigned m)
{
    unsigned blocks = (m / 2u + THREADS - 1u) / THREADS;
    if (blocks == 0u) {
        blocks = 1u;
    }
    reverse_narrow<V><<<blocks, THREADS>>>(reinterpret_cast<V*>(data), m);
}

extern "C" void solve(float* data, int n)
{
    if (n <= 0) {
        return;
    }
    const unsigned count = (unsigned)n;
    if (count % 4u == 0u) {
        const unsigned m = count / 4u;
        unsigned blocks = (m / 2u + TILE - 1u) / TILE;
        if (blocks == 0u) {
            blocks = 1u;
        }
        reverse_tiles<<<blocks, THREADS>>>(reinterpret_cast<float4*>(data), m);
    } else if (count % 2u == 0u) {
        launch_narrow<float2>(data, count / 2u);
    } else {
        launch_narrow<float>(data, count);
    }
}
