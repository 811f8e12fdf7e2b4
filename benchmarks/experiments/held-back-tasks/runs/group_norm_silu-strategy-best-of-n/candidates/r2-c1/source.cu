// Split rows: partial statistics, dependent launch combines; short rows register-held.

#include <cuda_runtime.h>
#include <cstddef>

static const int kSlots = 131072;
static __device__ float2 partials[kSlots];      // mean and sum of squared differences of a part: 1 MiB

struct Div {
    unsigned mul;       // 0: divide by 1
    unsigned shift;
};

__device__ __forceinline__ unsigned quotient(unsigned n, Div d)
{
    return d.mul ? __umulhi(n, d.mul) >> d.shift : n;
}

__device__ __forceinline__ float silu(float z)
{
    float hi = z * -1.44269502162933349609f;
    float lo = fmaf(z, -1.44269502162933349609f, -hi);
    lo = fmaf(z, -1.925963033e-8f, lo);
    float e, r;
    float top = fminf(hi, 127.0f);
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(top));
    e = fmaf(e, lo * 0.69314718056f, e);
    float d = 1.0f + e;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
    return z * r;
}

__device__ __forceinline__ float4 finish(float4 v, float mean, float a, float b)
{
    float4 o;
    o.x = silu(fmaf(v.x - mean, a, b));
    o.y = silu(fmaf(v.y - mean, a, b));
    o.z = silu(fmaf(v.z - mean, a, b));
    o.w = silu(fmaf(v.w - mean, a, b));
    return o;
}

// Joins (nb, mb, sb) to (n, m, s): count, mean, sum of squared differences from the mean.
__device__ __forceinline__ void join(float& n, float& m, float& s, float nb, float mb, float sb)
{
    float t = n + nb;
    float r = t > 0.0f ? __fdividef(nb, t) : 0.0f;
    float d = mb - m;
    m = fmaf(d, r, m);
    s = s + fmaf(d * d, n * r, sb);
    n = t;
}

template <int FROM>
__device__ __forceinline__ void join_lanes(float& n, float& m, float& s)
{
#pragma unroll
    for (int o = FROM; o > 0; o >>= 1) {
        float nb = __shfl_xor_sync(0xffffffffu, n, o);
        float mb = __shfl_xor_sync(0xffffffffu, m, o);
        float sb = __shfl_xor_sync(0xffffffffu, s, o);
        join(n, m, s, nb, mb, sb);
    }
}

// All threads of the block get the same mean and sum of squares. One barrier.
template <int WARPS>
__device__ __forceinline__ void join_block(float& n, float& m, float& s, float (*sh)[WARPS])
{
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    join_lanes<16>(n, m, s);
    if (lane == 0) {
        sh[0][warp] = n;
        sh[1][warp] = m;
        sh[2][warp] = s;
    }
    __syncthreads();
    const int w = lane % WARPS;         // WARPS is a power of two, 32 at most
    n = sh[0][w];
    m = sh[1][w];
    s = sh[2][w];
    join_lanes<WARPS / 2>(n, m, s);
    m = __shfl_sync(0xffffffffu, m, 0);
    s = __shfl_sync(0xffffffffu, s, 0);
}

// Count, mean and squares of a thread's own vectors, of which those with i < len count.
template <int NV, int STEP>
__device__ __forceinline__ void own_stats(const float4 (&v)[NV], int tid, int len, float& n, float& m, float& s)
{
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
    int have = 0;
#pragma unroll
    for (int k = 0; k < NV; ++k) {
        if (tid + k * STEP < len) {
            a += v[k].x;
            b += v[k].y;
            c += v[k].z;
            d += v[k].w;
            have += 4;
        }
    }
    n = (float)have;
    m = have ? __fdiv_rn((a + b) + (c + d), n) : 0.0f;
    a = b = c = d = 0.0f;
#pragma unroll
    for (int k = 0; k < NV; ++k) {
        if (tid + k * STEP < len) {
            float e = v[k].x - m, f = v[k].y - m, g = v[k].z - m, h = v[k].w - m;
            a = fmaf(e, e, a);
            b = fmaf(f, f, b);
            c = fmaf(g, g, c);
            d = fmaf(h, h, d);
        }
    }
    s = (a + b) + (c + d);
}

// ---------------------------------------------------------------- a block holds a whole group in registers

template <int T, int NV, int MINB>
__global__ void __launch_bounds__(T, MINB)
whole(const float4* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
      float4* __restrict__ y, int groups, int width, int n4, Div by_pixels, float eps)
{
    __shared__ float sh[3][T / 32];
    const int tid = threadIdx.x;
    const size_t at = (size_t)blockIdx.x * (size_t)n4;
    const float4* from = x + at;
    float4* to = y + at;

    float4 v[NV];
#pragma unroll
    for (int k = 0; k < NV; ++k) {
        v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (tid + k * T < n4) {
            v[k] = __ldcs(from + (tid + k * T));
        }
    }
    float n, m, s;
    own_stats<NV, T>(v, tid, n4, n, m, s);
    join_block<T / 32>(n, m, s, sh);
    const float count = (float)n4 * 4.0f;
    const float rstd = __frsqrt_rn(__fdiv_rn(s, count) + eps);

    const size_t channel0 = (size_t)(blockIdx.x % (unsigned)groups) * (size_t)width;
    const float* gains = gain + channel0;
    const float* shifts = shift + channel0;
#pragma unroll
    for (int k = 0; k < NV; ++k) {
        const int i = tid + k * T;
        if (i < n4) {
            const unsigned c = quotient((unsigned)i, by_pixels);
            __stcs(to + i, finish(v[k], m, __ldg(gains + c) * rstd, __ldg(shifts + c)));
        }
    }
}

// ---------------------------------------------------------------- groups split among blocks

// Statistics of the parts of the groups from stats_first, results of those from apply_first,
// whose statistics the launch before has left in partials.
__global__ void __launch_bounds__(256, 5)
split(const float4* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
      float4* __restrict__ y, int groups, int width, int n4, int part4, int parts, Div by_pixels, float eps,
      int stats_first, unsigned stats_blocks, int apply_first, unsigned apply_blocks)
{
    __shared__ float sh[3][8];
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    const unsigned least = min(stats_blocks, apply_blocks);
    unsigned index = blockIdx.x;
    bool stats;
    if (index < 2u * least) {
        stats = (index & 1u) == 0u;
        index >>= 1;
    } else {
        stats = stats_blocks > apply_blocks;
        index -= least;
    }
    const int tid = threadIdx.x;
    const int local = (int)(index / (unsigned)parts);
    const int part = (int)(index - (unsigned)local * (unsigned)parts);
    const int group = (stats ? stats_first : apply_first) + local;
    const int begin = part * part4;
    const int len = min(part4, n4 - begin);
    const size_t at = (size_t)group * (size_t)n4 + (size_t)begin;
    const float4* from = x + at;

    if (stats) {
        float4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = __ldg(from + min(tid + k * 256, len - 1));
        }
        float n, m, s;
        own_stats<4, 256>(v, tid, len, n, m, s);
        join_block<8>(n, m, s, sh);
        if (tid == 0) {
            partials[(size_t)group * parts + part] = make_float2(m, s);
        }
        return;
    }

    // What does not depend on the launch before comes first.
    float4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float4* p = from + min(tid + k * 256, len - 1);
        asm volatile("ld.global.cs.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v[k].x), "=f"(v[k].y), "=f"(v[k].z), "=f"(v[k].w)
                     : "l"(__cvta_generic_to_global(p))
                     : "memory");
    }
    const size_t channel0 = (size_t)(group % groups) * (size_t)width;
    float a[4], b[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const unsigned c = quotient((unsigned)(begin + min(tid + k * 256, len - 1)), by_pixels);
        a[k] = __ldg(gain + channel0 + c);
        b[k] = __ldg(shift + channel0 + c);
    }

    asm volatile("griddepcontrol.wait;" ::: "memory");

    float n = 0.0f, m = 0.0f, s = 0.0f;
    const float2* mine = partials + (size_t)group * parts;
    for (int q = tid & 31; q < parts; q += 32) {
        float pm, ps;
        asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];"
                     : "=f"(pm), "=f"(ps)
                     : "l"(__cvta_generic_to_global(mine + q))
                     : "memory");
        join(n, m, s, (float)(4 * min(part4, n4 - q * part4)), pm, ps);
    }
    join_lanes<16>(n, m, s);
    m = __shfl_sync(0xffffffffu, m, 0);
    s = __shfl_sync(0xffffffffu, s, 0);
    const float count = (float)n4 * 4.0f;
    const float rstd = __frsqrt_rn(__fdiv_rn(s, count) + eps);

    float4* to = y + at;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int i = tid + k * 256;
        if (i < len) {
            __stcs(to + i, finish(v[k], m, a[k] * rstd, b[k]));
        }
    }
}

// ---------------------------------------------------------------- any extents

__global__ void __launch_bounds__(512)
any_extents(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
    float* __restrict__ y, size_t all, int groups, int width, int pixels, float eps)
{
    __shared__ float sh[3][16];
    const size_t count = (size_t)width * (size_t)pixels;
    const bool narrow = count <= 0xffffffffull;
    for (size_t g = blockIdx.x; g < all; g += gridDim.x) {
        const float* from = x + g * count;
        float* to = y + g * count;
        float n = 0.0f, m = 0.0f, s = 0.0f;
        for (size_t base = threadIdx.x; base < count; base += 512 * 8) {
            float v[8];
            float sum = 0.0f;
            int have = 0;
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                v[k] = 0.0f;
                if (base + (size_t)k * 512 < count) {
                    v[k] = from[base + (size_t)k * 512];
                    ++have;
                }
            }
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                sum += v[k];
            }
            const float own = __fdiv_rn(sum, (float)have);
            float squares = 0.0f;
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                if (k < have) {
                    float d = v[k] - own;
                    squares = fmaf(d, d, squares);
                }
            }
            join(n, m, s, (float)have, own, squares);
        }
        join_block<16>(n, m, s, sh);
        const float rstd = __frsqrt_rn(__fdiv_rn(s, (float)count) + eps);
        const size_t channel0 = (g % (size_t)groups) * (size_t)width;
        for (size_t i = threadIdx.x; i < count; i += 512) {
            const size_t c = channel0 + (narrow ? (size_t)((unsigned)i / (unsigned)pixels) : i / (size_t)pixels);
            to[i] = silu(fmaf(from[i] - m, gain[c] * rstd, shift[c]));
        }
        __syncthreads();
    }
}

extern "C" void solve(const float* x, const float* gain, const float* shift, float* y, int images, int groups,
                      int width, int pixels, float eps)
{
    const size_t count = (size_t)width * (size_t)pixels;
    const size_t all = (size_t)images * (size_t)groups;

    if (pixels % 4 == 0 && count < ((size_t)1 << 31) && all < ((size_t)1 << 31)) {
        const int n4 = (int)(count / 4);
        const unsigned pix4 = (unsigned)(pixels / 4);
        Div div = {0u, 0u};
        if (pix4 > 1) {
            unsigned s = 0;
            while ((1ull << s) < pix4) {
                ++s;
            }
            div.mul = (unsigned)((1ull << (31 + s)) / pix4 + 1);
            div.shift = s - 1;
        }
        const float4* x4 = reinterpret_cast<const float4*>(x);
        float4* y4 = reinterpret_cast<float4*>(y);

        if (n4 <= 256 * 4) {
            whole<256, 4, 4><<<(unsigned)all, 256>>>(x4, gain, shift, y4, groups, width, n4, div, eps);
            return;
        }
        if (all >= 120 && n4 <= 256 * 10) {
            whole<256, 10, 4><<<(unsigned)all, 256>>>(x4, gain, shift, y4, groups, width, n4, div, eps);
            return;
        }
        if (all >= 120 && n4 <= 512 * 20) {
            whole<512, 20, 1><<<(unsigned)all, 512>>>(x4, gain, shift, y4, groups, width, n4, div, eps);
            return;
        }
        const int parts = (n4 + 1023) / 1024;
        if (parts <= 2048 && all * (size_t)parts <= (size_t)kSlots) {
            const int part4 = (n4 + parts - 1) / parts;
            // Chunks of groups small enough that the second reading finds them in L2.
            const size_t bytes = all * count * sizeof(float);
            size_t chunks = 1;
            if (bytes > ((size_t)32 << 20)) {
                chunks = (bytes + ((size_t)16 << 20) - 1) / ((size_t)16 << 20);
            }
            if (chunks > all) {
                chunks = all;
            }
            const size_t step = (all + chunks - 1) / chunks;
            chunks = (all + step - 1) / step;

            for (size_t k = 0; k <= chunks; ++k) {
                int stats_first = 0, apply_first = 0;
                unsigned stats_blocks = 0, apply_blocks = 0;
                if (k < chunks) {
                    const size_t first = k * step;
                    const size_t end = first + step < all ? first + step : all;
                    stats_first = (int)first;
                    stats_blocks = (unsigned)((end - first) * (size_t)parts);
                }
                if (k > 0) {
                    const size_t first = (k - 1) * step;
                    const size_t end = first + step < all ? first + step : all;
                    apply_first = (int)first;
                    apply_blocks = (unsigned)((end - first) * (size_t)parts);
                }
                cudaLaunchConfig_t config = {};
                config.gridDim = dim3(stats_blocks + apply_blocks);
                config.blockDim = dim3(256);
                config.dynamicSmemBytes = 0;
                config.stream = 0;
                cudaLaunchAttribute attribute[1];
                attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
                attribute[0].val.programmaticStreamSerializationAllowed = 1;
                config.attrs = attribute;
                config.numAttrs = k > 0 ? 1 : 0;
                if (cudaLaunchKernelEx(&config, split, x4, gain, shift, y4, groups, width, n4, part4, parts, div, eps,
                                       stats_first, stats_blocks, apply_first, apply_blocks) != cudaSuccess) {
                    cudaGetLastError();
                    split<<<stats_blocks + apply_blocks, 256>>>(x4, gain, shift, y4, groups, width, n4, part4, parts,
                                                                div, eps, stats_first, stats_blocks, apply_first,
                                                                apply_blocks);
                }
            }
            return;
        }
    }
    const unsigned blocks = (unsigned)(all < ((size_t)1 << 30) ? all : ((size_t)1 << 30));
    any_extents<<<blocks, 512>>>(x, gain, shift, y, all, groups, width, pixels, eps);
}
