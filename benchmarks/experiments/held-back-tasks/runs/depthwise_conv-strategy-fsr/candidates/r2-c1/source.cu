// Haloed cp.async tile per block, rolling float4 window from shared

#include <cuda_runtime.h>

// ---------------------------------------------------------------------------
// Four taps, channels a multiple of four: a block copies (64 + 3) rows of 128
// channels once, then each of its 8 warps slides a window over 8 rows.
// ---------------------------------------------------------------------------
constexpr int TILE_W = 8;                       // warps of a block
constexpr int TILE_R = 8;                       // output rows of a warp
constexpr int TILE_ROWS = TILE_W * TILE_R;      // output rows of a block
constexpr int TILE_IN = TILE_ROWS + 3;          // input rows of a block

__device__ __forceinline__ void copy16(unsigned dst, const float* src, int size)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(size) : "memory");
}

__device__ __forceinline__ float4 taps4(const float4 b, const float4 f0, const float4 f1, const float4 f2,
                                        const float4 f3, const float4 a0, const float4 a1, const float4 a2,
                                        const float4 a3)
{
    float4 s;
    s.x = fmaf(f0.x, a0.x, b.x);
    s.y = fmaf(f1.x, a0.y, b.y);
    s.z = fmaf(f2.x, a0.z, b.z);
    s.w = fmaf(f3.x, a0.w, b.w);
    s.x = fmaf(f0.y, a1.x, s.x);
    s.y = fmaf(f1.y, a1.y, s.y);
    s.z = fmaf(f2.y, a1.z, s.z);
    s.w = fmaf(f3.y, a1.w, s.w);
    s.x = fmaf(f0.z, a2.x, s.x);
    s.y = fmaf(f1.z, a2.y, s.y);
    s.z = fmaf(f2.z, a2.z, s.z);
    s.w = fmaf(f3.z, a2.w, s.w);
    s.x = fmaf(f0.w, a3.x, s.x);
    s.y = fmaf(f1.w, a3.y, s.y);
    s.z = fmaf(f2.w, a3.z, s.z);
    s.w = fmaf(f3.w, a3.w, s.w);
    return s;
}

__global__ void __launch_bounds__(32 * TILE_W, 4)
tile4(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
      float* __restrict__ y, int length, int channels)
{
    __shared__ __align__(128) float4 tile[TILE_IN * 32];

    const unsigned lane = threadIdx.x & 31u;
    const int warp = (int)(threadIdx.x >> 5);
    const unsigned c = (blockIdx.x * 32u + lane) * 4u;
    const bool inside = c < (unsigned)channels;
    const int t0 = (int)blockIdx.y * TILE_ROWS;
    const long long stride = (long long)channels;
    const long long first = (long long)blockIdx.z * (long long)length;  // first row of the sequence

    // Row k of the tile is position t0 - 3 + k. A warp copies rows warp, warp + 8, ...
    {
        int t = t0 - 3 + warp;
        const float* p = x + ((first + (long long)t) * stride + (long long)c);
        const long long hop = stride * TILE_W;
        unsigned dst = (unsigned)__cvta_generic_to_shared(tile + warp * 32 + (int)lane);
#pragma unroll
        for (int i = 0; i < (TILE_IN + TILE_W - 1) / TILE_W; ++i) {
            if ((i + 1) * TILE_W <= TILE_IN || warp + i * TILE_W < TILE_IN) {
                const bool ok = inside && t >= 0 && t < length;
                copy16(dst, ok ? p : x, ok ? 16 : 0);
            }
            t += TILE_W;
            p += hop;
            dst += TILE_W * 32 * 16;
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");

    // While the tile is on its way: filter and bias of the four channels.
    float4 f0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 f1 = f0, f2 = f0, f3 = f0, b = f0;
    if (inside) {
        const float4* pf = reinterpret_cast<const float4*>(filter + (size_t)c * 4);
        f0 = __ldg(pf);
        f1 = __ldg(pf + 1);
        f2 = __ldg(pf + 2);
        f3 = __ldg(pf + 3);
        b = __ldg(reinterpret_cast<const float4*>(bias + c));
    }

    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();

    const int row = warp * TILE_R;
    const int n = length - (t0 + row);  // rows left for this warp
    if (!inside || n <= 0) {
        return;
    }
    const float4* s = tile + row * 32 + (int)lane;
    float* q = y + ((first + (long long)(t0 + row)) * stride + (long long)c);

    float4 a0 = s[0];
    float4 a1 = s[32];
    float4 a2 = s[64];
    if (n >= TILE_R) {
#pragma unroll
        for (int r = 0; r < TILE_R; ++r) {
            const float4 a3 = s[(r + 3) * 32];
            __stcs(reinterpret_cast<float4*>(q), taps4(b, f0, f1, f2, f3, a0, a1, a2, a3));
            q += stride;
            a0 = a1;
            a1 = a2;
            a2 = a3;
        }
    } else {
#pragma unroll 1
        for (int r = 0; r < n; ++r) {
            const float4 a3 = s[(r + 3) * 32];
            __stcs(reinterpret_cast<float4*>(q), taps4(b, f0, f1, f2, f3, a0, a1, a2, a3));
            q += stride;
            a0 = a1;
            a1 = a2;
            a2 = a3;
        }
    }
}

// ---------------------------------------------------------------------------
// Four taps, small problems or any number of channels: one channel a thread,
// R rows a warp, the window in registers.
// ---------------------------------------------------------------------------
template <int R, bool FULL>
__device__ __forceinline__ void window1(const float* __restrict__ px, const float* __restrict__ pf,
                                        const float* __restrict__ pb, float* __restrict__ py, size_t stride,
                                        bool head, int n)
{
    float in[R + 3];
    if (head) {
        in[0] = 0.0f;
        in[1] = 0.0f;
        in[2] = 0.0f;
    } else {
        const float* p = px - 3 * stride;
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            in[i] = __ldg(p + (size_t)i * stride);
        }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
        if (FULL || r < n) {
            in[r + 3] = __ldg(px + (size_t)r * stride);
        } else {
            in[r + 3] = 0.0f;
        }
    }

    const float4 f = __ldg(reinterpret_cast<const float4*>(pf));
    const float b = __ldg(pb);

#pragma unroll
    for (int r = 0; r < R; ++r) {
        float acc = b;
        acc = fmaf(f.x, in[r], acc);
        acc = fmaf(f.y, in[r + 1], acc);
        acc = fmaf(f.z, in[r + 2], acc);
        acc = fmaf(f.w, in[r + 3], acc);
        if (FULL || r < n) {
            py[(size_t)r * stride] = acc;
        }
    }
}

template <int R, int W>
__global__ void __launch_bounds__(32 * W, 1)
slide1(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
       float* __restrict__ y, int length, int channels)
{
    static_assert(R >= 3, "the halo must lie within one chunk");
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned c = blockIdx.x * 32u + lane;
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
        window1<R, true>(px, pf, pb, py, stride, t0 == 0, n);
    } else {
        window1<R, false>(px, pf, pb, py, stride, t0 == 0, n);
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
            const long long gx = ((long long)channels + 127) / 128;
            const long long gy = ((long long)length + TILE_ROWS - 1) / TILE_ROWS;
            if (gy <= 65535) {
                tile4<<<dim3((unsigned)gx, (unsigned)gy, (unsigned)batch), 32 * TILE_W>>>(x, filter, bias, y, length,
                                                                                         channels);
                return;
            }
        } else {
            constexpr int R = 8, W = 4;
            const long long gx = ((long long)channels + 31) / 32;
            const long long gy = ((long long)length + R * W - 1) / (R * W);
            if (gy <= 65535) {
                slide1<R, W><<<dim3((unsigned)gx, (unsigned)gy, (unsigned)batch), 32 * W>>>(x, filter, bias, y, length,
                                                                                           channels);
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
