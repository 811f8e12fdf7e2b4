// Filters turned around in shared memory, windows convolved in place

#include <cuda_runtime.h>

__device__ __forceinline__ void copy16(void* to, const void* from)
{
    const unsigned s = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(s), "l"(from) : "memory");
}

__device__ __forceinline__ void copy4(void* to, const void* from)
{
    const unsigned s = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(s), "l"(from) : "memory");
}

__device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

template <int V>
__device__ __forceinline__ void loadv(float (&d)[V], const float* p)
{
    if constexpr (V == 4) {
        const float4 t = __ldg(reinterpret_cast<const float4*>(p));
        d[0] = t.x;
        d[1] = t.y;
        d[2] = t.z;
        d[3] = t.w;
    } else if constexpr (V == 2) {
        const float2 t = __ldg(reinterpret_cast<const float2*>(p));
        d[0] = t.x;
        d[1] = t.y;
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            d[v] = __ldg(p + v);
        }
    }
}

template <int V>
__device__ __forceinline__ void storev(float* p, const float (&s)[V])
{
    if constexpr (V == 4) {
        __stcs(reinterpret_cast<float4*>(p), make_float4(s[0], s[1], s[2], s[3]));
    } else if constexpr (V == 2) {
        *reinterpret_cast<float2*>(p) = make_float2(s[0], s[1]);
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            p[v] = s[v];
        }
    }
}

// Four taps, channels a multiple of 4. A block: 128 channels, R * W rows; its warps lie below each other.
// The block copies its filters once, neighbours to neighbours, and lays them down turned around:
// tap quads of channel 4 * l + v at v * 34 + l, so that both sides are free of bank conflicts.
template <int R, int W, int MINB>
__global__ void __launch_bounds__(32 * W, MINB)
wide4(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
      float* __restrict__ y, int length, int channels)
{
    static_assert(32 * W >= 128, "one thread a channel copies the filters");
    static_assert(R >= 3, "chunks after the first have their halo inside the sequence");
    __shared__ float4 fs[4 * 34];
    __shared__ float bs[4 * 40];

    const unsigned tid = threadIdx.x;
    const unsigned lane = tid & 31u;
    const unsigned warp = tid >> 5;
    const unsigned c0 = blockIdx.x * 128u;

    if (tid < 128u && c0 + tid < (unsigned)channels) {
        const unsigned v = tid & 3u;
        const unsigned l = tid >> 2;
        copy16(&fs[v * 34u + l], filter + (size_t)(c0 + tid) * 4);
        copy4(&bs[v * 40u + l], bias + (c0 + tid));
    }

    const unsigned c = c0 + lane * 4u;
    const int t0 = (int)((blockIdx.y * (unsigned)W + warp) * (unsigned)R);
    const bool active = c < (unsigned)channels && t0 < length;
    const bool interior = active && t0 > 0 && t0 <= length - R;
    const size_t stride = (size_t)channels;
    const size_t off = ((size_t)blockIdx.z * (size_t)length + (size_t)t0) * stride + c;

    float in[R + 3][4];
    if (interior) {
        const float* p = x + (off - 3 * stride);
#pragma unroll
        for (int i = 0; i < R + 3; ++i) {
            loadv<4>(in[i], p);
            p += stride;
        }
    } else {
#pragma unroll
        for (int i = 0; i < R + 3; ++i) {
            const int t = t0 - 3 + i;
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                in[i][v] = 0.0f;
            }
            if (active && t >= 0 && t < length) {
                loadv<4>(in[i], x + (off + (size_t)i * stride - 3 * stride));
            }
        }
    }

    copy_wait();
    __syncthreads();
    if (!active) {
        return;
    }

    // In place: output r takes the registers of input r, which no later output needs.
#pragma unroll
    for (int v = 0; v < 4; ++v) {
        const float4 f = fs[v * 34 + lane];
        const float b = bs[v * 40 + lane];
#pragma unroll
        for (int r = 0; r < R; ++r) {
            float s = fmaf(f.x, in[r][v], b);
            s = fmaf(f.y, in[r + 1][v], s);
            s = fmaf(f.z, in[r + 2][v], s);
            in[r][v] = fmaf(f.w, in[r + 3][v], s);
        }
    }

    float* q = y + off;
    if (interior) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
            storev<4>(q, in[r]);
            q += stride;
        }
    } else {
#pragma unroll
        for (int r = 0; r < R; ++r) {
            if (r < length - t0) {
                storev<4>(q + (size_t)r * stride, in[r]);
            }
        }
    }
}

// Four taps, V channels a thread, no barrier: small problems, and channels that are no multiple of 4.
template <int V, int R, int W, typename I>
__global__ void __launch_bounds__(32 * W)
strips(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
       float* __restrict__ y, int length, int channels)
{
    static_assert(R >= 3, "chunks after the first have their halo inside the sequence");
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned c = (blockIdx.x * 32u + lane) * (unsigned)V;
    const int t0 = (int)((blockIdx.y * (unsigned)W + warp) * (unsigned)R);
    if (c >= (unsigned)channels || t0 >= length) {
        return;
    }
    const I stride = (I)channels;
    const I off = ((I)blockIdx.z * (I)length + (I)t0) * stride + (I)c;
    const bool interior = t0 > 0 && t0 <= length - R;

    float4 f[V];
    float b[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
        f[v] = __ldg(reinterpret_cast<const float4*>(filter + (size_t)c * 4) + v);
    }
    loadv<V>(b, bias + c);

    float in[R + 3][V];
    if (interior) {
        const float* p = x + (off - (I)3 * stride);
#pragma unroll
        for (int i = 0; i < R + 3; ++i) {
            loadv<V>(in[i], p + (size_t)((I)i * stride));
        }
    } else {
#pragma unroll
        for (int i = 0; i < R + 3; ++i) {
            const int t = t0 - 3 + i;
#pragma unroll
            for (int v = 0; v < V; ++v) {
                in[i][v] = 0.0f;
            }
            if (t >= 0 && t < length) {
                const I at = off + (I)i * stride - (I)3 * stride;
                loadv<V>(in[i], x + at);
            }
        }
    }

#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            float s = fmaf(f[v].x, in[r][v], b[v]);
            s = fmaf(f[v].y, in[r + 1][v], s);
            s = fmaf(f[v].z, in[r + 2][v], s);
            in[r][v] = fmaf(f[v].w, in[r + 3][v], s);
        }
        if (interior || r < length - t0) {
            storev<V>(y + (size_t)(off + (I)r * stride), in[r]);
        }
    }
}

// Any extents, any number of taps.
__global__ void __launch_bounds__(256)
general(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
        float* __restrict__ y, int length, int channels, int taps, size_t count)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const size_t row = i / (size_t)channels;
        const size_t c = i - row * (size_t)channels;
        const int t = (int)(row % (size_t)length);
        const int most = taps - 1;
        const int back = t < most ? t : most;
        const float* f = filter + c * (size_t)taps + (size_t)(most - back);
        const float* p = x + (i - (size_t)back * (size_t)channels);
        float sum = __ldg(bias + c);
#pragma unroll 4
        for (int k = 0; k <= back; ++k) {
            sum = fmaf(__ldg(f + k), __ldg(p + (size_t)k * (size_t)channels), sum);
        }
        y[i] = sum;
    }
}

template <int V, int R, int W, typename I>
static bool launch_strips(const float* x, const float* filter, const float* bias, float* y, int batch, int length,
                          int channels)
{
    const long long gx = ((long long)channels + 32 * V - 1) / (32 * V);
    const long long gy = ((long long)length + R * W - 1) / (R * W);
    if (gy > 65535) {
        return false;
    }
    strips<V, R, W, I><<<dim3((unsigned)gx, (unsigned)gy, (unsigned)batch), 32 * W>>>(x, filter, bias, y, length,
                                                                                     channels);
    return true;
}

extern "C" void solve(const float* x, const float* filter, const float* bias, float* y, int batch, int length,
                      int channels, int taps)
{
    if (batch <= 0 || length <= 0 || channels <= 0 || taps <= 0) {
        return;
    }
    const size_t count = (size_t)batch * (size_t)length * (size_t)channels;
    const size_t large = 1500000;

    if (taps == 4 && batch <= 65535) {
        if (channels % 4 == 0 && count >= large) {
            constexpr int R = 8, W = 8;
            const long long gx = ((long long)channels + 127) / 128;
            const long long gy = ((long long)length + R * W - 1) / (R * W);
            if (gy <= 65535) {
                wide4<R, W, 4><<<dim3((unsigned)gx, (unsigned)gy, (unsigned)batch), 32 * W>>>(x, filter, bias, y,
                                                                                             length, channels);
                return;
            }
        } else if (channels % 2 == 0) {
            if (count < large) {
                if (launch_strips<2, 4, 4, unsigned>(x, filter, bias, y, batch, length, channels)) {
                    return;
                }
            } else {
                if (launch_strips<2, 8, 8, size_t>(x, filter, bias, y, batch, length, channels)) {
                    return;
                }
            }
        } else {
            if (launch_strips<1, 8, 4, size_t>(x, filter, bias, y, batch, length, channels)) {
                return;
            }
        }
    }

    size_t blocks = (count + 255) / 256;
    if (blocks > ((size_t)1 << 22)) {
        blocks = (size_t)1 << 22;
    }
    general<<<(unsigned)blocks, 256>>>(x, filter, bias, y, length, channels, taps, count);
}
