// Windows tiled into shared by cp.async, register-blocked four channels wide.

#include <cuda_runtime.h>
#include <stddef.h>

__device__ __forceinline__ void copy16(void* to, const void* from)
{
    unsigned s = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(s), "l"(from) : "memory");
}

// 8 warps; a warp makes R positions of 128 channels, a lane R positions of 4 channels.
template <int R, bool STREAM>
__global__ void __launch_bounds__(256, 4)
    convolve4(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
              float* __restrict__ y, int length, int channels, unsigned groups, unsigned tiles)
{
    constexpr int ROWS = 8 * R;
    constexpr int LOADED = ROWS + 3;
    __shared__ float4 tile[LOADED * 32];
    __shared__ float4 weights[128];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;

    unsigned block = blockIdx.x;
    const unsigned group = block % groups;
    block /= groups;
    const unsigned part = block % tiles;
    const unsigned sequence = block / tiles;

    const int t0 = (int)(part * (unsigned)ROWS);
    const int left = length - t0;
    const int rows = left < ROWS ? left : ROWS;
    const unsigned c = group * 128u + (unsigned)lane * 4u;
    const bool inside = c < (unsigned)channels;
    const size_t first = ((size_t)sequence * (size_t)length + (size_t)t0) * (size_t)channels + c;

    float4 start = make_float4(0.f, 0.f, 0.f, 0.f);
    if (inside) {
        const float* from = x + first;
#pragma unroll
        for (int i = 0; i <= R; ++i) {
            const int r = warp + i * 8;
            if (r < LOADED) {
                const int at = r - 3;
                if (at < rows && t0 + at >= 0) {
                    copy16(&tile[r * 32 + lane], from + (ptrdiff_t)at * channels);
                } else {
                    tile[r * 32 + lane] = make_float4(0.f, 0.f, 0.f, 0.f);
                }
            }
        }
        start = __ldg(reinterpret_cast<const float4*>(bias + c));
    }
    if (threadIdx.x >= 128) {
        const unsigned k = threadIdx.x - 128u;
        const unsigned cc = group * 128u + k;
        if (cc < (unsigned)channels) {
            copy16(&weights[(k & 3u) * 32u + (k >> 2)], filter + (size_t)cc * 4);
        }
    }
    asm volatile("cp.async.wait_all;\n" ::: "memory");
    __syncthreads();

    const int r0 = warp * R;
    const int n = rows - r0;
    if (!inside || n <= 0) {
        return;
    }

    const float4 f0 = weights[lane];
    const float4 f1 = weights[32 + lane];
    const float4 f2 = weights[64 + lane];
    const float4 f3 = weights[96 + lane];

    const float4* window = tile + r0 * 32 + lane;
    float4 p = window[0];
    float4 q = window[32];
    float4 s = window[64];
    float* to = y + first + (size_t)r0 * (size_t)channels;
#pragma unroll
    for (int k = 0; k < R; ++k) {
        const float4 u = window[(k + 3) * 32];
        float4 o;
        o.x = fmaf(f0.w, u.x, fmaf(f0.z, s.x, fmaf(f0.y, q.x, fmaf(f0.x, p.x, start.x))));
        o.y = fmaf(f1.w, u.y, fmaf(f1.z, s.y, fmaf(f1.y, q.y, fmaf(f1.x, p.y, start.y))));
        o.z = fmaf(f2.w, u.z, fmaf(f2.z, s.z, fmaf(f2.y, q.z, fmaf(f2.x, p.z, start.z))));
        o.w = fmaf(f3.w, u.w, fmaf(f3.z, s.w, fmaf(f3.y, q.w, fmaf(f3.x, p.w, start.w))));
        if (k < n) {
            if (STREAM) {
                __stcs(reinterpret_cast<float4*>(to), o);
            } else {
                *reinterpret_cast<float4*>(to) = o;
            }
        }
        to += channels;
        p = q;
        q = s;
        s = u;
    }
}

// Any taps, any channels: a thread for each output.
__global__ void __launch_bounds__(256)
    convolveAny(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
                float* __restrict__ y, int length, int channels, int taps, size_t count)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= count) {
        return;
    }
    const size_t row = i / (size_t)channels;
    const size_t c = i - row * (size_t)channels;
    const int t = (int)(row % (size_t)length);
    const int j0 = taps - 1 > t ? taps - 1 - t : 0;
    const float* f = filter + c * (size_t)taps;
    const float* from = x + (i - (size_t)(taps - 1 - j0) * (size_t)channels);
    float a = __ldg(bias + c);
    float b = 0.f;
    int j = j0;
    for (; j < taps - 1; j += 2) {
        a = fmaf(__ldg(f + j), __ldg(from), a);
        b = fmaf(__ldg(f + j + 1), __ldg(from + channels), b);
        from += 2 * (size_t)channels;
    }
    if (j < taps) {
        a = fmaf(__ldg(f + j), __ldg(from), a);
    }
    y[i] = a + b;
}

extern "C" void solve(const float* x, const float* filter, const float* bias, float* y, int batch, int length,
                      int channels, int taps)
{
    const size_t count = (size_t)batch * (size_t)length * (size_t)channels;
    if (count == 0) {
        return;
    }
    if (taps == 4 && channels % 4 == 0) {
        const unsigned groups = ((unsigned)channels + 127u) / 128u;
        const unsigned tiles8 = ((unsigned)length + 63u) / 64u;
        const unsigned long long blocks8 = (unsigned long long)batch * groups * tiles8;
        if (blocks8 < 264) {
            const unsigned tiles2 = ((unsigned)length + 15u) / 16u;
            const unsigned blocks2 = (unsigned)batch * groups * tiles2;
            convolve4<2, false><<<blocks2, 256>>>(x, filter, bias, y, length, channels, groups, tiles2);
        } else if (count <= (size_t)6 * 1024 * 1024) {
            convolve4<8, false><<<(unsigned)blocks8, 256>>>(x, filter, bias, y, length, channels, groups, tiles8);
        } else {
            convolve4<8, true><<<(unsigned)blocks8, 256>>>(x, filter, bias, y, length, channels, groups, tiles8);
        }
        return;
    }
    convolveAny<<<(unsigned)((count + 255) / 256), 256>>>(x, filter, bias, y, length, channels, taps, count);
}
