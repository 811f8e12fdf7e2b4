// Registers, one-pass shifted moments, fewer instructions, outputs left in L2.

#include <cuda_runtime.h>

namespace {

__device__ __forceinline__ float rsqrt_fast(float a)
{
    // Only called with normal arguments: eps is well above the smallest normal number.
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

template <int VW>
__device__ __forceinline__ void get(float (&v)[VW], const float* p)
{
    if constexpr (VW == 4) {
        const float4 q = __ldcs(reinterpret_cast<const float4*>(p));
        v[0] = q.x;
        v[1] = q.y;
        v[2] = q.z;
        v[3] = q.w;
    } else {
        v[0] = __ldcs(p);
    }
}

template <int VW>
__device__ __forceinline__ void put(float* p, const float (&v)[VW])
{
    // Plain write-back stores: the inputs, read evict-first, leave L2 before them.
    if constexpr (VW == 4) {
        *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
        *p = v[0];
    }
}

// A thread normalises VW neighbouring positions over C channels. P: positions of an image.
// FLAT: a thread's number counts through all images; else blockIdx.y is the image.
// Index: unsigned where all offsets in elements fit 32 bits.
template <int C, int VW, bool FLAT, typename Index>
__global__ void __launch_bounds__(256) norm_small(const float* __restrict__ x,
                                                  float* __restrict__ y,
                                                  unsigned long long groups, unsigned P, float eps)
{
    Index base;
    if constexpr (FLAT) {
        const unsigned long long q = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
        if (q >= groups) return;
        const unsigned per = P / VW;
        const unsigned long long img = q / per;
        const unsigned p = (unsigned)(q - img * per);
        base = (Index)img * C * P + (Index)p * VW;
    } else {
        const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
        if (p >= (unsigned)groups) return;
        base = (Index)blockIdx.y * ((Index)C * P) + (Index)p * VW;
    }

    const float* px = x + base;
    float v[C][VW];
#pragma unroll
    for (int c = 0; c < C; ++c) get<VW>(v[c], px + (size_t)c * P);

    constexpr float inv = 1.0f / C;
#pragma unroll
    for (int j = 0; j < VW; ++j) {
        // Differences from the first channel lose nothing where the mean is large.
        // Their square sum is at most C times that of the deviations from the mean,
        // so that the subtraction below loses little: both sums can run side by side.
        const float x0 = v[0][j];
        float sum = 0.f;
        float ss = 0.f;
        if constexpr (C > 1) {
            const float d1 = v[1 % C][j] - x0;
            v[1 % C][j] = d1;
            sum = d1;
            ss = d1 * d1;
        }
#pragma unroll
        for (int c = 2; c < C; ++c) {
            const float d = v[c][j] - x0;
            v[c][j] = d;
            sum += d;
            ss = fmaf(d, d, ss);
        }
        const float mean = sum * inv;
        const float var = fmaf(-mean, mean, fmaf(ss, inv, eps));
        const float r = rsqrt_fast(var);
        const float shift = -mean * r;
        v[0][j] = shift;
#pragma unroll
        for (int c = 1; c < C; ++c) v[c][j] = fmaf(v[c][j], r, shift);
    }

    float* py = y + base;
#pragma unroll
    for (int c = 0; c < C; ++c) put<VW>(py + (size_t)c * P, v[c]);
}

// Any number of channels: a block takes 32 positions, its 16 warps share the channels.
constexpr int ROWS = 16;

__global__ void __launch_bounds__(32 * ROWS) norm_any(const float* __restrict__ x,
                                                      float* __restrict__ y,
                                                      unsigned long long positions, int C,
                                                      unsigned long long P, float eps)
{
    __shared__ double sm[2][ROWS][32];
    const int tx = threadIdx.x & 31;
    const int ty = threadIdx.x >> 5;
    const unsigned long long q = (unsigned long long)blockIdx.x * 32u + tx;
    const bool in = q < positions;
    const unsigned long long img = in ? q / P : 0ull;
    const unsigned long long p = in ? q - img * P : 0ull;
    const size_t base = (size_t)img * (size_t)C * P + p;
    const float* px = x + base;

    double sum = 0.0;
    for (int c = ty; c < C; c += ROWS) sum += (double)px[(size_t)c * P];
    sm[0][ty][tx] = sum;
    __syncthreads();
    sum = 0.0;
    for (int k = 0; k < ROWS; ++k) sum += sm[0][k][tx];
    const double mean = sum / C;

    double ss = 0.0;
    for (int c = ty; c < C; c += ROWS) {
        const double d = (double)px[(size_t)c * P] - mean;
        ss += d * d;
    }
    sm[1][ty][tx] = ss;
    __syncthreads();
    ss = 0.0;
    for (int k = 0; k < ROWS; ++k) ss += sm[1][k][tx];
    const double r = 1.0 / sqrt(ss / C + (double)eps);

    if (in) {
        float* py = y + base;
        for (int c = ty; c < C; c += ROWS)
            py[(size_t)c * P] = (float)(((double)px[(size_t)c * P] - mean) * r);
    }
}

template <int C>
void launch(const float* x, float* y, int N, unsigned P, float eps)
{
    if (P % 4 == 0) {
        const unsigned per = P / 4;
        const unsigned long long all = (unsigned long long)N * per;
        const unsigned T = all <= 131072ull ? 128u : 256u;
        if (per >= T && N <= 65535) {
            const dim3 grid((per + T - 1) / T, (unsigned)N);
            if (all * (4ull * C) < (1ull << 32))
                norm_small<C, 4, false, unsigned><<<grid, T>>>(x, y, per, P, eps);
            else
                norm_small<C, 4, false, size_t><<<grid, T>>>(x, y, per, P, eps);
        } else {
            norm_small<C, 4, true, size_t>
                <<<(unsigned)((all + T - 1) / T), T>>>(x, y, all, P, eps);
        }
    } else {
        const unsigned long long all = (unsigned long long)N * P;
        norm_small<C, 1, true, size_t>
            <<<(unsigned)((all + 255) / 256), 256>>>(x, y, all, P, eps);
    }
}

}  // namespace

extern "C" void solve(const float* x, float* y, int N, int C, int H, int W, float eps)
{
    const unsigned long long P = (unsigned long long)H * (unsigned long long)W;
    // Extents beyond 32 bits and an eps near the denormals go the general way.
    const int path = (P < (1ull << 32) && eps > 1e-30f) ? C : 0;
    const unsigned P32 = (unsigned)P;
    switch (path) {
    case 1: launch<1>(x, y, N, P32, eps); break;
    case 2: launch<2>(x, y, N, P32, eps); break;
    case 3: launch<3>(x, y, N, P32, eps); break;
    case 4: launch<4>(x, y, N, P32, eps); break;
    case 5: launch<5>(x, y, N, P32, eps); break;
    case 6: launch<6>(x, y, N, P32, eps); break;
    case 7: launch<7>(x, y, N, P32, eps); break;
    case 8: launch<8>(x, y, N, P32, eps); break;
    default: {
        const unsigned long long positions = (unsigned long long)N * P;
        norm_any<<<(unsigned)((positions + 31) / 32), 32 * ROWS>>>(x, y, positions, C, P, eps);
    }
    }
}
