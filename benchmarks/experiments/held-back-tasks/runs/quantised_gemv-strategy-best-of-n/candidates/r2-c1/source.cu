// x staged in swizzled shared memory; resident warps walk row pairs.

#include <cuda_runtime.h>
#include <cstddef>

static const int kThreads = 512;
static const int kWarps = kThreads / 32;
static const int kDepth = 4;            // chunks of a row pair on their way to a warp
static const int kTile = 1792;          // blocks of 32 columns that a launch handles at most: 224 KiB of x

struct Slot {
    unsigned w0[4];
    unsigned w1[4];
    float s0;
    float s1;
};

__device__ __forceinline__ void load_weights(unsigned (&w)[4], const signed char* p, int in)
{
    asm volatile(
        "{\n\t"
        ".reg .pred q;\n\t"
        "setp.ne.s32 q, %5, 0;\n\t"
        "mov.u32 %0, 0;\n\t"
        "mov.u32 %1, 0;\n\t"
        "mov.u32 %2, 0;\n\t"
        "mov.u32 %3, 0;\n\t"
        "@q ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n\t"
        "}"
        : "=&r"(w[0]), "=&r"(w[1]), "=&r"(w[2]), "=&r"(w[3])
        : "l"(p), "r"(in));
}

__device__ __forceinline__ void load_scale(float& s, const float* p, int in)
{
    asm volatile(
        "{\n\t"
        ".reg .pred q;\n\t"
        "setp.ne.s32 q, %2, 0;\n\t"
        "mov.f32 %0, 0f00000000;\n\t"
        "@q ld.global.nc.f32 %0, [%1];\n\t"
        "}"
        : "=&f"(s)
        : "l"(p), "r"(in));
}

// Four weights as floats: byte + 128 becomes the low mantissa byte of 2^23, the subtraction is exact.
__device__ __forceinline__ float dot4(unsigned w, float4 v, float sum)
{
    const unsigned u = w ^ 0x80808080u;
    const float a = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7440)) - 8388736.0f;
    const float b = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7441)) - 8388736.0f;
    const float c = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7442)) - 8388736.0f;
    const float d = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7443)) - 8388736.0f;
    sum = fmaf(a, v.x, sum);
    sum = fmaf(b, v.y, sum);
    sum = fmaf(c, v.z, sum);
    return fmaf(d, v.w, sum);
}

// Columns of blocks [first, first + count); a chunk is 16 blocks, of which a lane has 16 weights of a row.
__global__ void __launch_bounds__(kThreads, 1)
walk(const signed char* __restrict__ W, const float* __restrict__ scales, const float* __restrict__ x,
     float* __restrict__ y, unsigned rows, int blocks, int first, int count, int add)
{
    extern __shared__ __align__(128) float4 xs[];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int half = lane >> 1;
    const int chunks = (count + 15) / 16;

    // x on its way to shared memory: float4 f goes to f ^ ((f >> 3) & 3), free of bank conflicts both ways.
    {
        const float* from = x + (size_t)first * 32;
        const int have = count * 8;
        const int all = chunks * 128;
        for (int f = tid; f < all; f += kThreads) {
            float4* to = xs + (f ^ ((f >> 3) & 3));
            if (f < have) {
                const unsigned at = (unsigned)__cvta_generic_to_shared(to);
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                             :
                             : "r"(at), "l"(__cvta_generic_to_global(from + (size_t)f * 4))
                             : "memory");
            } else {
                *to = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
        }
    }

    const unsigned r0 = (unsigned)((unsigned long long)rows * blockIdx.x / gridDim.x);
    const unsigned r1 = (unsigned)((unsigned long long)rows * (blockIdx.x + 1u) / gridDim.x);
    const size_t row_bytes = (size_t)blocks * 32;
    const signed char* w_base = W + (size_t)first * 32 + (size_t)lane * 16;
    const float* s_base = scales + (size_t)first + half;

    // What is loaded next.
    unsigned load_row = r0 + 2u * (unsigned)warp;
    int load_chunk = 0;
    const signed char* wp = w_base + (size_t)load_row * row_bytes;
    const float* sp = s_base + (size_t)load_row * (size_t)blocks;

    Slot ring[kDepth];

    auto fetch = [&](Slot& slot) {
        const int in0 = (load_row < r1 && load_chunk * 16 + half < count) ? 1 : 0;
        const int in1 = (in0 && load_row + 1u < r1) ? 1 : 0;
        load_weights(slot.w0, wp, in0);
        load_weights(slot.w1, wp + row_bytes, in1);
        load_scale(slot.s0, sp, in0);
        load_scale(slot.s1, sp + blocks, in1);
        wp += 512;
        sp += 16;
        if (++load_chunk == chunks) {
            load_chunk = 0;
            load_row += 2u * kWarps;
            wp = w_base + (size_t)load_row * row_bytes;
            sp = s_base + (size_t)load_row * (size_t)blocks;
        }
    };

#pragma unroll
    for (int u = 0; u < kDepth; ++u) {
        fetch(ring[u]);
    }

    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();

    // What is added next.
    unsigned row = r0 + 2u * (unsigned)warp;
    int chunk = 0;
    const int spot = 4 * lane + ((lane >> 1) & 3);
    float sum0 = 0.0f;
    float sum1 = 0.0f;

    while (row < r1) {
#pragma unroll
        for (int u = 0; u < kDepth; ++u) {
            if (row >= r1) {
                break;                  // the whole warp
            }
            const float4* xc = xs + chunk * 128;
            const float4 v0 = xc[spot];
            const float4 v1 = xc[spot ^ 1];
            const float4 v2 = xc[spot ^ 2];
            const float4 v3 = xc[spot ^ 3];
            float a0 = dot4(ring[u].w0[0], v0, 0.0f);
            float b0 = dot4(ring[u].w1[0], v0, 0.0f);
            float a1 = dot4(ring[u].w0[1], v1, 0.0f);
            float b1 = dot4(ring[u].w1[1], v1, 0.0f);
            a0 = dot4(ring[u].w0[2], v2, a0);
            b0 = dot4(ring[u].w1[2], v2, b0);
            a1 = dot4(ring[u].w0[3], v3, a1);
            b1 = dot4(ring[u].w1[3], v3, b1);
            sum0 = fmaf(ring[u].s0, a0 + a1, sum0);
            sum1 = fmaf(ring[u].s1, b0 + b1, sum1);

            fetch(ring[u]);

            if (++chunk == chunks) {
                // Lanes below 16 add up the first row, the others the second.
                const bool low = lane < 16;
                float mine = low ? sum0 : sum1;
                const float other = low ? sum1 : sum0;
                mine += __shfl_xor_sync(0xffffffffu, other, 16);
                mine += __shfl_xor_sync(0xffffffffu, mine, 8);
                mine += __shfl_xor_sync(0xffffffffu, mine, 4);
                mine += __shfl_xor_sync(0xffffffffu, mine, 2);
                mine += __shfl_xor_sync(0xffffffffu, mine, 1);
                const unsigned target = row + (low ? 0u : 1u);
                if ((lane & 15) == 0 && target < r1) {
                    y[target] = add ? y[target] + mine : mine;
                }
                sum0 = 0.0f;
                sum1 = 0.0f;
                chunk = 0;
                row += 2u * kWarps;
            }
        }
    }
}

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    const int widest = blocks < kTile ? blocks : kTile;
    const int most = (widest + 15) / 16 * 2048;
    if (most > 48 * 1024) {
        cudaFuncSetAttribute(walk, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    }
    const unsigned grid = rows < 132 ? (unsigned)rows : 132u;
    for (int first = 0; first < blocks;) {
        const int count = blocks - first < kTile ? blocks - first : kTile;
        const size_t shared = (size_t)((count + 15) / 16) * 2048;
        walk<<<grid, kThreads, shared>>>(W, scales, x, y, (unsigned)rows, blocks, first, count, first > 0 ? 1 : 0);
        first += count;
    }
}
