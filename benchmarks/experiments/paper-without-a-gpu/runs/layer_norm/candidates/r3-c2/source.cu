// Grid-stride pipelined register tiles; one-pass shifted moments; 32-bit small path.

#include <cuda_runtime.h>

namespace {

template <int VW, bool KEEP>
__device__ __forceinline__ void put(float* p, const float (&v)[VW])
{
    if constexpr (VW == 4) {
        const float4 q = make_float4(v[0], v[1], v[2], v[3]);
        if constexpr (KEEP) *reinterpret_cast<float4*>(p) = q;
        else __stcs(reinterpret_cast<float4*>(p), q);
    } else {
        if constexpr (KEEP) *p = v[0];
        else __stcs(p, v[0]);
    }
}

template <int C, int VW>
__device__ __forceinline__ void load_all(float (&v)[C][VW], const float* __restrict__ px, size_t P)
{
    if constexpr (VW == 4) {
        float4 q[C];
#pragma unroll
        for (int c = 0; c < C; ++c) q[c] = __ldcs(reinterpret_cast<const float4*>(px + c * P));
#pragma unroll
        for (int c = 0; c < C; ++c) {
            v[c][0] = q[c].x;
            v[c][1] = q[c].y;
            v[c][2] = q[c].z;
            v[c][3] = q[c].w;
        }
    } else {
#pragma unroll
        for (int c = 0; c < C; ++c) v[c][0] = __ldcs(px + c * P);
    }
}

template <int C, int VW, bool KEEP>
__device__ __forceinline__ void store_all(float* __restrict__ py, const float (&v)[C][VW], size_t P)
{
#pragma unroll
    for (int c = 0; c < C; ++c) put<VW, KEEP>(py + c * P, v[c]);
}

// Differences from the first channel lose nothing where the mean is large.
template <int C, int VW>
__device__ __forceinline__ void normalise(float (&v)[C][VW], float eps)
{
    constexpr float inv = 1.0f / C;
#pragma unroll
    for (int j = 0; j < VW; ++j) {
        const float x0 = v[0][j];
        if constexpr (C <= 4) {
            // The first channel is at most sqrt(C - 1) deviations from the mean, so the
            // shifted second moment is at most C variances: little is cancelled.
            float sum = 0.f, sq = 0.f;
#pragma unroll
            for (int c = 1; c < C; ++c) {
                const float d = v[c][j] - x0;
                v[c][j] = d;
                if (c == 1) {
                    sum = d;
                    sq = d * d;
                } else {
                    sum += d;
                    sq = fmaf(d, d, sq);
                }
            }
            const float mean = sum * inv;
            const float e = fmaf(-mean, mean, fmaf(sq, inv, eps));
            const float r = rsqrtf(e);
            const float m = -mean * r;
            v[0][j] = m;
#pragma unroll
            for (int c = 1; c < C; ++c) v[c][j] = fmaf(v[c][j], r, m);
        } else {
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
    }
}

constexpr unsigned SMS = 132;
constexpr unsigned T_LOOP = 256;
constexpr unsigned BLOCKS_SM = 4;
constexpr unsigned long long SMALL = 1056ull * 256ull;  // groups that are resident at once

// All groups resident at once: one group a thread, offsets fit 32 bits.
// FLAT: groups counts those of all images; else those of one image, blockIdx.y is the image.
template <int C, int VW, bool FLAT>
__global__ void __launch_bounds__(256) norm_small(const float* __restrict__ x,
                                                  float* __restrict__ y,
                                                  unsigned groups, unsigned P, float eps)
{
    const unsigned q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= groups) return;
    unsigned base;
    if constexpr (FLAT) {
        const unsigned img = q / (P / VW);
        base = img * ((C - 1) * P) + q * VW;
    } else {
        base = blockIdx.y * (C * P) + q * VW;
    }
    float v[C][VW];
    load_all<C, VW>(v, x + base, P);
    normalise<C, VW>(v, eps);
    store_all<C, VW, true>(y + base, v, P);
}

// More groups than that: a grid that fills the chip once and strides over the groups.
// per: groups of an image; per32: the same, at most 2^32 - 1.
// step_p, step_off: what a stride adds to the group within its image and to the offset.
// A thread has full groups, one more if its number is below rem.
template <int C, int VW>
__global__ void __launch_bounds__(T_LOOP, BLOCKS_SM)
norm_loop(const float* __restrict__ x, float* __restrict__ y, unsigned long long P,
          unsigned long long per, unsigned per32, unsigned long long step_p,
          unsigned long long step_off, unsigned full, unsigned rem, float eps)
{
    const unsigned q = blockIdx.x * T_LOOP + threadIdx.x;
    unsigned iters = full + (q < rem ? 1u : 0u);
    if (iters == 0) return;
    const unsigned img = q / per32;
    unsigned long long p = q - img * per32;
    const unsigned long long wrap = (unsigned long long)(C - 1) * P;
    unsigned long long off = (unsigned long long)img * wrap + (unsigned long long)q * VW;

    if constexpr (C <= 4) {
        float v[C][VW];
        load_all<C, VW>(v, x + off, P);
        while (--iters != 0) {
            const unsigned long long cur = off;
            p += step_p;
            off += step_off;
            if (p >= per) {
                p -= per;
                off += wrap;
            }
            float w[C][VW];
            load_all<C, VW>(w, x + off, P);  // in flight while v is worked on
            normalise<C, VW>(v, eps);
            store_all<C, VW, false>(y + cur, v, P);
#pragma unroll
            for (int c = 0; c < C; ++c) {
#pragma unroll
                for (int j = 0; j < VW; ++j) v[c][j] = w[c][j];
            }
        }
        normalise<C, VW>(v, eps);
        store_all<C, VW, false>(y + off, v, P);
    } else {
        for (;;) {
            float v[C][VW];
            load_all<C, VW>(v, x + off, P);
            normalise<C, VW>(v, eps);
            store_all<C, VW, false>(y + off, v, P);
            if (--iters == 0) break;
            p += step_p;
            off += step_off;
            if (p >= per) {
                p -= per;
                off += wrap;
            }
        }
    }
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
    for (long long c = ty; c < C; c += ROWS) sum += (double)px[(size_t)c * P];
    sm[0][ty][tx] = sum;
    __syncthreads();
    sum = 0.0;
    for (int k = 0; k < ROWS; ++k) sum += sm[0][k][tx];
    const double mean = sum / (double)C;

    double ss = 0.0;
    for (long long c = ty; c < C; c += ROWS) {
        const double d = (double)px[(size_t)c * P] - mean;
        ss += d * d;
    }
    sm[1][ty][tx] = ss;
    __syncthreads();
    ss = 0.0;
    for (int k = 0; k < ROWS; ++k) ss += sm[1][k][tx];
    const double r = 1.0 / sqrt(ss / (double)C + (double)eps);

    if (in) {
        float* py = y + base;
        for (long long c = ty; c < C; c += ROWS)
            py[(size_t)c * P] = (float)(((double)px[(size_t)c * P] - mean) * r);
    }
}

template <int C, int VW>
void launch_loop(const float* x, float* y, unsigned long long all, unsigned long long P, float eps)
{
    const unsigned grid = SMS * BLOCKS_SM;
    const unsigned long long S = (unsigned long long)grid * T_LOOP;
    const unsigned long long per = P / VW;
    const unsigned per32 = per > 0xffffffffull ? 0xffffffffu : (unsigned)per;
    const unsigned long long step_p = S % per;
    const unsigned long long step_off = (S / per) * (unsigned long long)C * P + step_p * VW;
    norm_loop<C, VW><<<grid, T_LOOP>>>(x, y, P, per, per32, step_p, step_off,
                                       (unsigned)(all / S), (unsigned)(all % S), eps);
}

template <int C>
void launch(const float* x, float* y, int N, unsigned long long P, float eps)
{
    if (P % 4 == 0) {
        const unsigned long long per = P / 4;
        const unsigned long long all = (unsigned long long)N * per;
        if (all > SMALL) {
            launch_loop<C, 4>(x, y, all, P, eps);
            return;
        }
        const unsigned T = all <= 131072ull ? 128u : 256u;
        if constexpr (C <= 4) {
            if (per >= T) {
                // N is at most SMALL / T here, which a grid's y can hold.
                norm_small<C, 4, false>
                    <<<dim3(((unsigned)per + T - 1) / T, (unsigned)N), T>>>(
                        x, y, (unsigned)per, (unsigned)P, eps);
                return;
            }
        }
        norm_small<C, 4, true><<<((unsigned)all + T - 1) / T, T>>>(
            x, y, (unsigned)all, (unsigned)P, eps);
    } else {
        const unsigned long long all = (unsigned long long)N * P;
        if (all > SMALL) {
            launch_loop<C, 1>(x, y, all, P, eps);
            return;
        }
        norm_small<C, 1, true><<<((unsigned)all + 255u) / 256u, 256>>>(
            x, y, (unsigned)all, (unsigned)P, eps);
    }
}

}  // namespace

extern "C" void solve(const float* x, float* y, int N, int C, int H, int W, float eps)
{
    const unsigned long long P = (unsigned long long)H * (unsigned long long)W;
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
