// All channels of four positions in registers; streaming 16-byte accesses.

#include <cuda_runtime.h>

namespace {

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
    if constexpr (VW == 4) {
        __stcs(reinterpret_cast<float4*>(p), make_float4(v[0], v[1], v[2], v[3]));
    } else {
        __stcs(p, v[0]);
    }
}

// A thread normalises VW neighbouring positions over C channels. P: positions of an image.
// FLAT: a thread's number counts through all images; else blockIdx.y is the image.
template <int C, int VW, bool FLAT>
__global__ void __launch_bounds__(256) norm_small(const float* __restrict__ x,
                                                  float* __restrict__ y,
                                                  unsigned long long groups, unsigned P, float eps)
{
    size_t base;
    if constexpr (FLAT) {
        const unsigned long long q = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
        if (q >= groups) return;
        const unsigned per = P / VW;
        const unsigned long long img = q / per;
        const unsigned p = (unsigned)(q - img * per);
        base = (size_t)img * C * P + (size_t)p * VW;
    } else {
        const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
        if (p >= (unsigned)groups) return;
        base = (size_t)blockIdx.y * ((size_t)C * P) + (size_t)p * VW;
    }

    const float* px = x + base;
    float v[C][VW];
#pragma unroll
    for (int c = 0; c < C; ++c) get<VW>(v[c], px + (size_t)c * P);

    constexpr float inv = 1.0f / C;
#pragma unroll
    for (int j = 0; j < VW; ++j) {
        // Differences from the first channel lose nothing where the mean is large.
        const float x0 = v[0][j];
        float sum = 0.f;
        v[0][j] = 0.f;
#pragma unroll
        for (int c = 1; c < C; ++c) {
            v[c][j] -= x0;
            sum += v[c][j];
        }
        const float mean = sum * inv;
        float ss = 0.f;
#pragma unroll
        for (int c = 0; c < C; ++c) {
            v[c][j] -= mean;
            ss = fmaf(v[c][j], v[c][j], ss);
        }
        const float r = rsqrtf(fmaf(ss, inv, eps));
#pragma unroll
        for (int c = 0; c < C; ++c) v[c][j] *= r;
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
                                                      unsigned P, float eps)
{
    __shared__ double sm[2][ROWS][32];
    const int tx = threadIdx.x & 31;
    const int ty = threadIdx.x >> 5;
    const unsigned long long q = (unsigned long long)blockIdx.x * 32u + tx;
    const bool in = q < positions;
    const unsigned long long img = in ? q / P : 0;
    const unsigned p = in ? (unsigned)(q - img * P) : 0u;
    const size_t base = (size_t)img * C * P + p;
    const float* px = x + base;
    const float x0 = px[0];

    double sum = 0.0;
    for (int c = ty; c < C; c += ROWS) sum += (double)(px[(size_t)c * P] - x0);
    sm[0][ty][tx] = sum;
    __syncthreads();
    sum = 0.0;
    for (int k = 0; k < ROWS; ++k) sum += sm[0][k][tx];
    const double mean = sum / C;
    const float mhi = (float)mean;

    double ss = 0.0;
    for (int c = ty; c < C; c += ROWS) {
        const float d = (px[(size_t)c * P] - x0) - mhi;
        ss += (double)d * (double)d;
    }
    sm[1][ty][tx] = ss;
    __syncthreads();
    ss = 0.0;
    for (int k = 0; k < ROWS; ++k) ss += sm[1][k][tx];
    const float r = (float)(1.0 / sqrt(ss / C + (double)eps));

    if (in) {
        float* py = y + base;
        for (int c = ty; c < C; c += ROWS)
            py[(size_t)c * P] = ((px[(size_t)c * P] - x0) - mhi) * r;
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
            norm_small<C, 4, false>
                <<<dim3((per + T - 1) / T, (unsigned)N), T>>>(x, y, per, P, eps);
        } else {
            norm_small<C, 4, true>
                <<<(unsigned)((all + T - 1) / T), T>>>(x, y, all, P, eps);
        }
    } else {
        const unsigned long long all = (unsigned long long)N * P;
        norm_small<C, 1, true><<<(unsigned)((all + 255) / 256), 256>>>(x, y, all, P, eps);
    }
}

}  // namespace

extern "C" void solve(const float* x, float* y, int N, int C, int H, int W, float eps)
{
    const unsigned P = (unsigned)((size_t)H * (size_t)W);
    switch (C) {
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
