// Four 16-byte loads up front, trimmed 32-bit addressing, exact grids.

#include <cuda_runtime.h>

namespace {

// Arguments are normal numbers here: the host sends tiny eps to norm_any.
__device__ __forceinline__ float fast_rsqrt(float t)
{
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(t));
    return r;
}

// Normalises VW positions, all of whose C channels are in registers.
template <int C, int VW>
__device__ __forceinline__ void normalise(float (&v)[C][VW], float eps)
{
    constexpr float inv = 1.0f / C;
#pragma unroll
    for (int j = 0; j < VW; ++j) {
        // Differences from the first channel lose nothing where the mean is large.
        const float x0 = v[0][j];
        float sum = 0.f;
#pragma unroll
        for (int c = 1; c < C; ++c) {
            v[c][j] -= x0;
            sum += v[c][j];
        }
        const float d0 = sum * -inv;
        v[0][j] = d0;
        float ss = d0 * d0;
#pragma unroll
        for (int c = 1; c < C; ++c) {
            v[c][j] = fmaf(sum, -inv, v[c][j]);
            ss = fmaf(v[c][j], v[c][j], ss);
        }
        const float r = fast_rsqrt(fmaf(ss, inv, eps));
#pragma unroll
        for (int c = 0; c < C; ++c) v[c][j] *= r;
    }
}

// blockIdx.y is the image; per: groups of four positions of an image.
// All offsets fit in 32 bits. EXACT: per is a multiple of the block.
template <int C, bool EXACT>
__global__ void __launch_bounds__(256, (C <= 4) ? 8 : 1)
    norm_vec(const float4* __restrict__ x, float4* __restrict__ y, unsigned per, float eps)
{
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if constexpr (!EXACT) {
        if (p >= per) return;
    }
    const unsigned base = blockIdx.y * ((unsigned)C * per) + p;

    float v[C][4];
#pragma unroll
    for (int c = 0; c < C; ++c) {
        const float4 q = __ldcs(x + (base + (unsigned)c * per));
        v[c][0] = q.x;
        v[c][1] = q.y;
        v[c][2] = q.z;
        v[c][3] = q.w;
    }

    normalise<C, 4>(v, eps);

#pragma unroll
    for (int c = 0; c < C; ++c)
        __stcs(y + (base + (unsigned)c * per),
               make_float4(v[c][0], v[c][1], v[c][2], v[c][3]));
}

// Any extents: a thread's number counts through all images. P: positions of an image.
template <int C, int VW>
__global__ void __launch_bounds__(256)
    norm_flat(const float* __restrict__ x, float* __restrict__ y, unsigned long long groups,
              unsigned long long P, float eps)
{
    const unsigned long long q = (unsigned long long)blockIdx.x * 256u + threadIdx.x;
    if (q >= groups) return;
    const unsigned long long per = P / VW;
    const unsigned long long img = q / per;
    const unsigned long long p = q - img * per;
    const unsigned long long base = img * C * P + p * VW;

    float v[C][VW];
#pragma unroll
    for (int c = 0; c < C; ++c) {
        const float* s = x + base + (unsigned long long)c * P;
        if constexpr (VW == 4) {
            const float4 t = __ldcs(reinterpret_cast<const float4*>(s));
            v[c][0] = t.x;
            v[c][1] = t.y;
            v[c][2] = t.z;
            v[c][3] = t.w;
        } else {
            v[c][0] = __ldcs(s);
        }
    }

    normalise<C, VW>(v, eps);

#pragma unroll
    for (int c = 0; c < C; ++c) {
        float* d = y + base + (unsigned long long)c * P;
        if constexpr (VW == 4) {
            __stcs(reinterpret_cast<float4*>(d),
                   make_float4(v[c][0], v[c][1], v[c][2], v[c][3]));
        } else {
            __stcs(d, v[c][0]);
        }
    }
}

// Any number of channels: a block takes 32 positions, its 16 warps share the channels.
constexpr int ROWS = 16;

__global__ void __launch_bounds__(32 * ROWS)
    norm_any(const float* __restrict__ x, float* __restrict__ y, unsigned long long positions,
             int C, unsigned long long P, float eps)
{
    __shared__ double sm[2][ROWS][32];
    const int tx = threadIdx.x & 31;
    const int ty = threadIdx.x >> 5;
    const unsigned long long q = (unsigned long long)blockIdx.x * 32u + tx;
    const bool in = q < positions;
    const unsigned long long img = in ? q / P : 0ull;
    const unsigned long long p = in ? q - img * P : 0ull;
    const unsigned long long base = img * (unsigned long long)C * P + p;
    const float* px = x + base;
    const float x0 = px[0];

    double sum = 0.0;
    for (long long c = ty; c < C; c += ROWS)
        sum += (double)(px[(unsigned long long)c * P] - x0);
    sm[0][ty][tx] = sum;
    __syncthreads();
    sum = 0.0;
    for (int k = 0; k < ROWS; ++k) sum += sm[0][k][tx];
    const double mean = sum / C;
    const float mhi = (float)mean;

    double ss = 0.0;
    for (long long c = ty; c < C; c += ROWS) {
        const float d = (px[(unsigned long long)c * P] - x0) - mhi;
        ss += (double)d * (double)d;
    }
    sm[1][ty][tx] = ss;
    __syncthreads();
    ss = 0.0;
    for (int k = 0; k < ROWS; ++k) ss += sm[1][k][tx];
    const float r = (float)(1.0 / sqrt(ss / C + (double)eps));

    if (in) {
        float* py = y + base;
        for (long long c = ty; c < C; c += ROWS)
            py[(unsigned long long)c * P] = ((px[(unsigned long long)c * P] - x0) - mhi) * r;
    }
}

template <int C>
void launch(const float* x, float* y, int N, unsigned long long P, float eps)
{
    const unsigned long long total = (unsigned long long)N * C * P;
    if (P % 4 == 0) {
        const unsigned long long per = P / 4;
        const unsigned long long all = (unsigned long long)N * per;
        const unsigned T = all <= 131072ull ? 128u : 256u;
        if (per >= T && N <= 65535 && total < (1ull << 32)) {
            const dim3 grid((unsigned)((per + T - 1) / T), (unsigned)N);
            const float4* x4 = reinterpret_cast<const float4*>(x);
            float4* y4 = reinterpret_cast<float4*>(y);
            if (per % T == 0)
                norm_vec<C, true><<<grid, T>>>(x4, y4, (unsigned)per, eps);
            else
                norm_vec<C, false><<<grid, T>>>(x4, y4, (unsigned)per, eps);
        } else {
            norm_flat<C, 4><<<(unsigned)((all + 255) / 256), 256>>>(x, y, all, P, eps);
        }
    } else {
        const unsigned long long all = (unsigned long long)N * P;
        norm_flat<C, 1><<<(unsigned)((all + 255) / 256), 256>>>(x, y, all, P, eps);
    }
}

}  // namespace

extern "C" void solve(const float* x, float* y, int N, int C, int H, int W, float eps)
{
    const unsigned long long P = (unsigned long long)H * (unsigned long long)W;
    const int kind = eps >= 1e-30f ? C : 0;
    switch (kind) {
    case 1: launch<1>(x, y, N, P, eps); break;
    case 2: launch<2>(x, y, N, P, eps); break;
    case 3: launch<3>(x, y, N, P, eps); break;
    case 4: launch<4>(x, y, N, P, eps); break;
    case 5: launch<5>(x, y, N, P, eps); break;
    case 6: launch<6>(x, y, N, P, eps); break;
    case 7: launch<7>(x, y, N, P, eps); break;
    case 8: launch<8>(x, y, N, P, eps); break;
    default: {
        const unsigned long long positions = (unsigned long long)N * P;
        norm_any<<<(unsigned)((positions + 31) / 32), 32 * ROWS>>>(x, y, positions, C, P, eps);
    }
    }
}
