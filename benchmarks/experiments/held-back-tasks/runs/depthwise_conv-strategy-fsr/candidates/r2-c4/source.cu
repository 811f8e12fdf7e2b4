// Register strip, next chunks prefetched, streaming loads keep L2

#include <cuda_runtime.h>

// Rows of x that this thread owns: read once, first to leave the caches.
template <int V>
__device__ __forceinline__ void load_stream(float (&d)[V], const float* p)
{
    if constexpr (V == 4) {
        const float4 t = __ldcs(reinterpret_cast<const float4*>(p));
        d[0] = t.x;
        d[1] = t.y;
        d[2] = t.z;
        d[3] = t.w;
    } else if constexpr (V == 2) {
        const float2 t = __ldcs(reinterpret_cast<const float2*>(p));
        d[0] = t.x;
        d[1] = t.y;
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            d[v] = __ldcs(p + v);
        }
    }
}

// What others read as well: halo rows, bias.
template <int V>
__device__ __forceinline__ void load_keep(float (&d)[V], const float* p)
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
__device__ __forceinline__ void store_row(float* p, const float (&s)[V])
{
    if constexpr (V == 4) {
        *reinterpret_cast<float4*>(p) = make_float4(s[0], s[1], s[2], s[3]);
    } else if constexpr (V == 2) {
        *reinterpret_cast<float2*>(p) = make_float2(s[0], s[1]);
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            p[v] = s[v];
        }
    }
}

// Loads C rows of chunk k into the window.
template <int V, int C, int K, bool FULL>
__device__ __forceinline__ void load_chunk(float (&in)[3 + C * K][V], const float* px, size_t stride, int k, int n)
{
#pragma unroll
    for (int i = 0; i < C; ++i) {
        const int r = k * C + i;
        if (FULL || r < n) {
            load_stream<V>(in[3 + r], px + (size_t)r * stride);
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                in[3 + r][v] = 0.0f;
            }
        }
    }
}

// Four taps. A thread's strip: V channels, K chunks of C rows; n rows are left in the sequence.
// Two chunks are always on their way. Every index is known when unrolled, so the window lies in registers.
template <int V, int C, int K, bool FULL>
__device__ __forceinline__ void strip4(const float* __restrict__ px, const float* __restrict__ pf,
                                       const float* __restrict__ pb, float* __restrict__ py, size_t stride,
                                       bool head, int n)
{
    float in[3 + C * K][V];

    load_chunk<V, C, K, FULL>(in, px, stride, 0, n);

#pragma unroll
    for (int i = 0; i < 3; ++i) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            in[i][v] = 0.0f;
        }
    }
    if (!head) {
        const float* p = px - 3 * stride;
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            load_keep<V>(in[i], p + (size_t)i * stride);
        }
    }

    float f[V][4];
    float b[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
        const float4 t = __ldg(reinterpret_cast<const float4*>(pf) + v);
        f[v][0] = t.x;
        f[v][1] = t.y;
        f[v][2] = t.z;
        f[v][3] = t.w;
    }
    load_keep<V>(b, pb);

    if constexpr (K > 1) {
        load_chunk<V, C, K, FULL>(in, px, stride, 1, n);
    }

#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
        for (int i = 0; i < C; ++i) {
            const int r = k * C + i;
            float acc[V];
#pragma unroll
            for (int v = 0; v < V; ++v) {
                acc[v] = b[v];
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    acc[v] = fmaf(f[v][j], in[r + j][v], acc[v]);
                }
            }
            if (FULL || r < n) {
                store_row<V>(py + (size_t)r * stride, acc);
            }
        }
        if (k + 2 < K) {
            load_chunk<V, C, K, FULL>(in, px, stride, k + 2, n);
        }
    }
}

// A warp: 32 * V channels, C * K rows. The W warps of a block lie below each other.
template <int V, int C, int K, int W, int MINB>
__global__ void __launch_bounds__(32 * W, MINB)
slide4(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
       float* __restrict__ y, int length, int channels)
{
    constexpr int S = C * K;
    static_assert(S >= 3, "the halo must lie within one strip");
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned c = (blockIdx.x * 32u + lane) * (unsigned)V;
    const int t0 = (int)((blockIdx.y * (unsigned)W + warp) * (unsigned)S);
    if (c >= (unsigned)channels || t0 >= length) {
        return;
    }
    const size_t stride = (size_t)channels;
    const size_t at = ((size_t)blockIdx.z * (size_t)length + (size_t)t0) * stride + c;
    const int n = length - t0;
    const float* px = x + at;
    float* py = y + at;
    const float* pf = filter + (size_t)c * 4;
    const float* pb = bias + c;
    if (n >= S) {
        strip4<V, C, K, true>(px, pf, pb, py, stride, t0 == 0, n);
    } else {
        strip4<V, C, K, false>(px, pf, pb, py, stride, t0 == 0, n);
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

template <int V, int C, int K, int W, int MINB>
static bool launch4(const float* x, const float* filter, const float* bias, float* y, int batch, int length,
                    int channels)
{
    const long long gx = ((long long)channels + 32 * V - 1) / (32 * V);
    const long long gy = ((long long)length + C * K * W - 1) / (C * K * W);
    if (gy > 65535 || batch > 65535) {
        return false;
    }
    slide4<V, C, K, W, MINB><<<dim3((unsigned)gx, (unsigned)gy, (unsigned)batch), 32 * W>>>(
        x, filter, bias, y, length, channels);
    return true;
}

extern "C" void solve(const float* x, const float* filter, const float* bias, float* y, int batch, int length,
                      int channels, int taps)
{
    if (batch <= 0 || length <= 0 || channels <= 0 || taps <= 0) {
        return;
    }
    const size_t count = (size_t)batch * (size_t)length * (size_t)channels;

    if (taps == 4) {
        bool done;
        if (channels % 4 == 0 && count >= 1500000) {
            // Strips of 32 rows where that still fills the GPU several times, else of 16.
            const size_t warps = (((size_t)channels + 127) / 128) * (((size_t)length + 31) / 32) * (size_t)batch;
            if (warps >= 10000) {
                done = launch4<4, 4, 8, 4, 5>(x, filter, bias, y, batch, length, channels);
            } else {
                done = launch4<4, 4, 4, 4, 5>(x, filter, bias, y, batch, length, channels);
            }
        } else if (channels % 2 == 0) {
            if (count < 1500000) {
                done = launch4<2, 4, 1, 4, 4>(x, filter, bias, y, batch, length, channels);
            } else {
                done = launch4<2, 4, 4, 4, 6>(x, filter, bias, y, batch, length, channels);
            }
        } else {
            done = launch4<1, 4, 2, 4, 6>(x, filter, bias, y, batch, length, channels);
        }
        if (done) {
            return;
        }
    }

    size_t blocks = (count + 255) / 256;
    if (blocks > ((size_t)1 << 22)) {
        blocks = (size_t)1 << 22;
    }
    general<<<(unsigned)blocks, 256>>>(x, filter, bias, y, length, channels, taps, count);
}
