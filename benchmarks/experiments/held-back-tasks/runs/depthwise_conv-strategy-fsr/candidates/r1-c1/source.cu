// Two channels a thread, strip of positions slides through registers.

#include <cuda_runtime.h>

// Four taps, even channels. A warp covers 64 channels (float2 a lane) and T consecutive positions;
// the warps of a block take neighbouring strips, so that the three shared rows come from L1.
template <int T, int WARPS, int MIN_BLOCKS>
__global__ void __launch_bounds__(32 * WARPS, MIN_BLOCKS)
strip4(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
       float* __restrict__ y, unsigned length, unsigned channels)
{
    const unsigned c = (blockIdx.x * 32u + threadIdx.x) * 2u;
    const unsigned t0 = (blockIdx.y * (unsigned)WARPS + threadIdx.y) * (unsigned)T;
    if (c >= channels || t0 >= length) {
        return;
    }
    const size_t stride = channels;
    const size_t base = ((size_t)blockIdx.z * length + t0) * stride + c;
    const float* p = x + base;
    float* q = y + base;

    float2 v[T + 3];
    if (t0 != 0) {  // then t0 >= T > 3
        const float* h = p - 3 * stride;
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            v[k] = __ldcs(reinterpret_cast<const float2*>(h + (size_t)k * stride));
        }
    } else {
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            v[k] = make_float2(0.0f, 0.0f);
        }
    }

    const float4* f = reinterpret_cast<const float4*>(filter) + c;

    if (length - t0 >= (unsigned)T) {
#pragma unroll
        for (int k = 0; k < T; ++k) {
            v[k + 3] = __ldcs(reinterpret_cast<const float2*>(p + (size_t)k * stride));
        }
        const float4 fa = __ldg(f);
        const float4 fb = __ldg(f + 1);
        const float2 bb = __ldg(reinterpret_cast<const float2*>(bias + c));
#pragma unroll
        for (int k = 0; k < T; ++k) {
            float2 s;
            s.x = fmaf(fa.x, v[k].x, bb.x);
            s.y = fmaf(fb.x, v[k].y, bb.y);
            s.x = fmaf(fa.y, v[k + 1].x, s.x);
            s.y = fmaf(fb.y, v[k + 1].y, s.y);
            s.x = fmaf(fa.z, v[k + 2].x, s.x);
            s.y = fmaf(fb.z, v[k + 2].y, s.y);
            s.x = fmaf(fa.w, v[k + 3].x, s.x);
            s.y = fmaf(fb.w, v[k + 3].y, s.y);
            *reinterpret_cast<float2*>(q + (size_t)k * stride) = s;
        }
    } else {
        const int n = (int)(length - t0);  // 1 .. T - 1
#pragma unroll
        for (int k = 0; k < T; ++k) {
            v[k + 3] = make_float2(0.0f, 0.0f);
            if (k < n) {
                v[k + 3] = __ldg(reinterpret_cast<const float2*>(p + (size_t)k * stride));
            }
        }
        const float4 fa = __ldg(f);
        const float4 fb = __ldg(f + 1);
        const float2 bb = __ldg(reinterpret_cast<const float2*>(bias + c));
#pragma unroll
        for (int k = 0; k < T; ++k) {
            if (k < n) {
                float2 s;
                s.x = fmaf(fa.x, v[k].x, bb.x);
                s.y = fmaf(fb.x, v[k].y, bb.y);
                s.x = fmaf(fa.y, v[k + 1].x, s.x);
                s.y = fmaf(fb.y, v[k + 1].y, s.y);
                s.x = fmaf(fa.z, v[k + 2].x, s.x);
                s.y = fmaf(fb.z, v[k + 2].y, s.y);
                s.x = fmaf(fa.w, v[k + 3].x, s.x);
                s.y = fmaf(fb.w, v[k + 3].y, s.y);
                *reinterpret_cast<float2*>(q + (size_t)k * stride) = s;
            }
        }
    }
}

// Everything else: one output at a time, grid-stride.
__global__ void __launch_bounds__(256)
general(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
        float* __restrict__ y, int length, int channels, int taps, size_t count)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const size_t row = i / (size_t)channels;
        const int c = (int)(i - row * (size_t)channels);
        const int t = (int)(row % (size_t)length);
        int j = taps - 1 - t;
        if (j < 0) {
            j = 0;
        }
        const float* f = filter + (size_t)c * taps;
        const float* p = x + (i - (size_t)(taps - 1 - j) * channels);
        float sum = bias[c];
        for (; j < taps; ++j) {
            sum = fmaf(f[j], *p, sum);
            p += channels;
        }
        y[i] = sum;
    }
}

extern "C" void solve(const float* x, const float* filter, const float* bias, float* y, int batch, int length,
                      int channels, int taps)
{
    const long long groups = ((long long)channels + 63) / 64;
    if (taps == 4 && channels % 2 == 0 && batch <= 65535) {
        const long long strips16 = ((long long)length + 15) / 16;
        const long long warps16 = groups * strips16 * batch;
        if (warps16 <= 1536) {
            const long long tiles = ((long long)length + 15) / 16;  // 2 warps of 8 positions
            if (tiles <= 65535) {
                dim3 grid((unsigned)groups, (unsigned)tiles, (unsigned)batch);
                strip4<8, 2, 1><<<grid, dim3(32, 2)>>>(x, filter, bias, y, (unsigned)length, (unsigned)channels);
                return;
            }
        } else {
            const long long tiles = ((long long)length + 63) / 64;  // 4 warps of 16 positions
            if (tiles <= 65535) {
                dim3 grid((unsigned)groups, (unsigned)tiles, (unsigned)batch);
                strip4<16, 4, 8><<<grid, dim3(32, 4)>>>(x, filter, bias, y, (unsigned)length, (unsigned)channels);
                return;
            }
        }
    }
    const size_t count = (size_t)batch * length * channels;
    size_t blocks = (count + 255) / 256;
    if (blocks > ((size_t)1 << 20)) {
        blocks = (size_t)1 << 20;
    }
    general<<<(unsigned)blocks, 256>>>(x, filter, bias, y, length, channels, taps, count);
}
