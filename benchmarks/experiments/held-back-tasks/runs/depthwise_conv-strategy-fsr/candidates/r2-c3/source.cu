// Double-buffered register groups, neighbouring strips walk opposite directions

#include <cuda_runtime.h>

// ---------------------------------------------------------------------------
// Large sizes, four taps, channels a multiple of four.
// A thread owns four channels of one strip of positions. Two groups of four
// rows are kept in registers; as soon as one is used up, the rows two groups
// further are loaded into it, so up to eight rows are always on their way.
// Even strips are walked downwards, odd ones upwards (with the filter turned
// round), so that rows at a common edge are read by both at about one time.
// ---------------------------------------------------------------------------

__device__ __forceinline__ void ld4(float (&d)[4], const float* p)
{
    const float4 t = __ldcs(reinterpret_cast<const float4*>(p));
    d[0] = t.x;
    d[1] = t.y;
    d[2] = t.z;
    d[3] = t.w;
}

__device__ __forceinline__ void group_load(float (&a)[4][4], const float*& p, long long s)
{
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        ld4(a[r], p);
        p += s;
    }
}

template <bool ALL>
__device__ __forceinline__ void group_emit(float (&h)[3][4], const float (&a)[4][4], const float (&g)[4][4],
                                           const float (&b)[4], float*& py, long long s, int left)
{
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        float o[4];
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            o[v] = b[v];
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int i = r + k;
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                const float w = i < 3 ? h[i < 3 ? i : 0][v] : a[i < 3 ? 0 : i - 3][v];
                o[v] = fmaf(g[v][k], w, o[v]);
            }
        }
        if (ALL || r < left) {
            *reinterpret_cast<float4*>(py) = make_float4(o[0], o[1], o[2], o[3]);
        }
        py += s;
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            h[i][v] = a[i + 1][v];
        }
    }
}

__global__ void __launch_bounds__(256, 3)
walk4(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
      float* __restrict__ y, int length, int channels, unsigned quads, unsigned strips, int rows, unsigned total)
{
    const unsigned id = blockIdx.x * 256u + threadIdx.x;
    if (id >= total) {
        return;
    }
    const unsigned strip = id / quads;
    const unsigned c = (id - strip * quads) * 4u;
    const unsigned seq = strip / strips;
    const unsigned p = strip - seq * strips;

    const int t0 = (int)p * rows;
    const int n = min(rows, length - t0);
    const bool up = (p & 1u) != 0u;
    const bool head = p == 0u;

    const long long ch = (long long)channels;
    const long long s = up ? -ch : ch;
    const long long base = (long long)seq * (long long)length * ch + (long long)c;
    // downwards: rows t0 - 3, t0 - 2, ...; upwards: rows t0 + n - 1, t0 + n - 2, ... , t0 - 3
    const long long first_in = up ? (long long)t0 + n - 1 : (long long)t0 - 3;
    const long long first_out = up ? (long long)t0 + n - 1 : (long long)t0;
    const float* pl = x + (base + first_in * ch);
    float* py = y + (base + first_out * ch);

    float h[3][4];
    float A[4][4];
    float B[4][4];

    if (head) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                h[i][v] = 0.0f;
            }
        }
        pl += 3 * s;
    } else {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            ld4(h[i], pl);
            pl += s;
        }
    }

    if (n >= 8) {
        group_load(A, pl, s);
        group_load(B, pl, s);
    } else {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                A[r][v] = 0.0f;
                B[r][v] = 0.0f;
            }
        }
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (r < n) {
                ld4(A[r], pl + (long long)r * s);
            }
            if (4 + r < n) {
                ld4(B[r], pl + (long long)(4 + r) * s);
            }
        }
        pl += 8 * s;
    }

    // g[v][k]: the factor of the k-th oldest row of the walk's window
    float g[4][4];
    float b[4];
    {
        const float4* pf = reinterpret_cast<const float4*>(filter + (size_t)c * 4);
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            const float4 t = __ldg(pf + v);
            g[v][0] = up ? t.w : t.x;
            g[v][1] = up ? t.z : t.y;
            g[v][2] = up ? t.y : t.z;
            g[v][3] = up ? t.x : t.w;
        }
        const float4 t = __ldg(reinterpret_cast<const float4*>(bias + c));
        b[0] = t.x;
        b[1] = t.y;
        b[2] = t.z;
        b[3] = t.w;
    }

    int left = n;
#pragma unroll 1
    while (left >= 16) {
        group_emit<true>(h, A, g, b, py, s, 4);
        group_load(A, pl, s);
        group_emit<true>(h, B, g, b, py, s, 4);
        group_load(B, pl, s);
        left -= 8;
    }

#pragma unroll 1
    while (left > 0) {
        group_emit<false>(h, A, g, b, py, s, left);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (8 + r < left) {
                ld4(A[r], pl + (long long)r * s);
            }
        }
        group_emit<false>(h, B, g, b, py, s, left - 4);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (12 + r < left) {
                ld4(B[r], pl + (long long)(4 + r) * s);
            }
        }
        pl += 8 * s;
        left -= 8;
    }
}

// ---------------------------------------------------------------------------
// Small sizes, four taps: V channels and R rows a thread, everything loaded
// at once, no branches but the last rows' stores. The W warps of a block lie
// below each other, so that halo rows meet in L1.
// ---------------------------------------------------------------------------

template <int V>
__device__ __forceinline__ void loadv(float (&d)[V], const float* p)
{
    if constexpr (V == 2) {
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
__device__ __forceinline__ void storev(float* p, const float (&o)[V])
{
    if constexpr (V == 2) {
        *reinterpret_cast<float2*>(p) = make_float2(o[0], o[1]);
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            p[v] = o[v];
        }
    }
}

template <int V, int R, int W, int MINB>
__global__ void __launch_bounds__(32 * W, MINB)
strip4(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
       float* __restrict__ y, int length, int channels)
{
    static_assert(R >= 3, "only the first strip may reach before the sequence");
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned c = (blockIdx.x * 32u + lane) * (unsigned)V;
    const int t0 = (int)((blockIdx.y * (unsigned)W + warp) * (unsigned)R);
    if (c >= (unsigned)channels || t0 >= length) {
        return;
    }
    const size_t stride = (size_t)channels;
    const size_t at = ((size_t)blockIdx.z * (size_t)length + (size_t)t0) * stride + c;
    const int last = length - t0 - 1;
    const bool head = t0 == 0;
    const float* px = x + at;
    float* py = y + at;

    float in[R + 3][V];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        const float* q = head ? px : px - (size_t)(3 - i) * stride;
        loadv<V>(in[i], q);
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int row = min(r, last);
        loadv<V>(in[r + 3], px + (long long)row * (long long)channels);
    }

    float f[V][4];
    float b[V];
    const float4* pf = reinterpret_cast<const float4*>(filter + (size_t)c * 4);
#pragma unroll
    for (int v = 0; v < V; ++v) {
        const float4 t = __ldg(pf + v);
        f[v][0] = t.x;
        f[v][1] = t.y;
        f[v][2] = t.z;
        f[v][3] = t.w;
    }
    loadv<V>(b, bias + c);

#pragma unroll
    for (int i = 0; i < 3; ++i) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            in[i][v] = head ? 0.0f : in[i][v];
        }
    }

#pragma unroll
    for (int r = 0; r < R; ++r) {
        float o[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            o[v] = b[v];
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                o[v] = fmaf(f[v][j], in[r + j][v], o[v]);
            }
        }
        if (r <= last) {
            storev<V>(py + (size_t)r * stride, o);
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

template <int V, int R, int W, int MINB>
static bool launch_strip(const float* x, const float* filter, const float* bias, float* y, int batch, int length,
                         int channels)
{
    const long long gx = ((long long)channels + 32 * V - 1) / (32 * V);
    const long long gy = ((long long)length + R * W - 1) / (R * W);
    if (gy > 65535 || batch > 65535) {
        return false;
    }
    strip4<V, R, W, MINB><<<dim3((unsigned)gx, (unsigned)gy, (unsigned)batch), 32 * W>>>(x, filter, bias, y, length,
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

    if (taps == 4) {
        if (channels % 4 == 0 && count >= 8000000) {
            const long long room = 132LL * 768LL;  // threads resident at once
            const long long quads = channels / 4;
            const long long per = (long long)batch * quads;  // threads for one strip a sequence
            long long least = room / per;
            if (least < 1) {
                least = 1;
            }
            // As few strips as fill the multiprocessors evenly.
            long long best = least;
            double best_fill = -1.0;
            const long long most = least * 8;
            for (long long q = least; q <= most; ++q) {
                if (q > least && q * 8 > (long long)length) {
                    break;
                }
                const long long threads = q * per;
                const long long waves = (threads + room - 1) / room;
                const double fill = (double)threads / ((double)waves * (double)room);
                if (fill > best_fill + 0.005) {
                    best_fill = fill;
                    best = q;
                }
                if (fill >= 0.9) {
                    break;
                }
            }
            long long rows = ((long long)length + best - 1) / best;
            rows = (rows + 3) / 4 * 4;
            if (rows < 8) {
                rows = 8;
            }
            if (rows > 0x7ffffff8LL) {
                rows = 0x7ffffff8LL;
            }
            const long long strips = ((long long)length + rows - 1) / rows;
            // strips <= 2^28 and per < 2^61 / 2; compare by division, so that nothing overflows
            if (per <= 0x7fffffffLL / strips) {
                const long long total = per * strips;
                const unsigned blocks = (unsigned)((total + 255) / 256);
                walk4<<<blocks, 256>>>(x, filter, bias, y, length, channels, (unsigned)quads, (unsigned)strips,
                                       (int)rows, (unsigned)total);
                return;
            }
        }
        if (channels % 2 == 0) {
            if (count < 1500000) {
                if (launch_strip<2, 4, 4, 8>(x, filter, bias, y, batch, length, channels)) {
                    return;
                }
            } else {
                if (launch_strip<2, 8, 4, 10>(x, filter, bias, y, batch, length, channels)) {
                    return;
                }
            }
        } else {
            if (launch_strip<1, 8, 4, 8>(x, filter, bias, y, batch, length, channels)) {
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
