// Register window slides down time, four channels a thread

#include <cuda_runtime.h>

template <int V>
__device__ __forceinline__ void loadv(float (&d)[V], const float* p)
{
    if constexpr (V == 4) {
        const float4 t = __ldg(reinterpret_cast<const float4*>(p));
        d[0] = t.x;
        d[1] = t.y;
        d[2] = t.z;
        d[3] = t.w;
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
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            p[v] = s[v];
        }
    }
}

// Four taps. px and py point at this thread's first output row; n rows are left in the sequence.
template <int V, int R, bool FULL>
__device__ __forceinline__ void window4(const float* __restrict__ px, const float* __restrict__ pf,
                                        const float* __restrict__ pb, float* __restrict__ py, size_t stride,
                                        bool head, int n)
{
    float in[R + 3][V];
    if (head) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                in[i][v] = 0.0f;
            }
        }
    } else {
        const float* p = px - 3 * stride;
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            loadv<V>(in[i], p + (size_t)i * stride);
        }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
        if (FULL || r < n) {
            loadv<V>(in[r + 3], px + (size_t)r * stride);
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                in[r + 3][v] = 0.0f;
            }
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
    loadv<V>(b, pb);

#pragma unroll
    for (int r = 0; r < R; ++r) {
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
            storev<V>(py + (size_t)r * stride, acc);
        }
    }
}

// A warp: 32 * V channels, R rows. The W warps of a block lie below each other, so halo rows meet in L1.
template <int V, int R, int W, int MINB>
__global__ void __launch_bounds__(32 * W, MINB)
slide4(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
       float* __restrict__ y, int length, int channels)
{
    static_assert(R >= 3, "the halo must lie within one chunk");
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned c = (blockIdx.x * 32u + lane) * (unsigned)V;
    const int t0 = (int)((blockIdx.y * (unsigned)W + warp) * (unsigned)R);
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
    if (n >= R) {
        window4<V, R, true>(px, pf, pb, py, stride, t0 == 0, n);
    } else {
        window4<V, R, false>(px, pf, pb, py, stride, t0 == 0, n);
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

extern "C" void solve(const float* x, const float* filter, const float* bias, float* y, int batch, int length,
                      int channels, int taps)
{
    if (batch <= 0 || length <= 0 || channels <= 0 || taps <= 0) {
        return;
    }
    const size_t count = (size_t)batch * (size_t)length * (size_t)channels;

    if (taps == 4 && batch <= 65535) {
        if (channels % 4 == 0 && count >= 1500000) {
            constexpr int V = 4, R = 8, W = 8;
            const long long gx = ((long long)channels + 32 * V - 1) / (32 * V);
            const long long gy = ((long long)length + R * W - 1) / (R * W);
            if (gy <= 65535) {
                slide4<V, R, W, 3><<<dim3((unsigned)gx, (unsigned)gy, (unsigned)batch), 32 * W>>>(
                    x, filter, bias, y, length, channels);
                return;
            }
        } else {
            constexpr int V = 1, R = 8, W = 4;
            const long long gx = ((long long)channels + 32 * V - 1) / (32 * V);
            const long long gy = ((long long)length + R * W - 1) / (R * W);
            if (gy <= 65535) {
                slide4<V, R, W, 1><<<dim3((unsigned)gx, (unsigned)gy, (unsigned)batch), 32 * W>>>(
                    x, filter, bias, y, length, channels);
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
