// Split-tf32 mma in registers, keys split among warps, combined last.

#include <cuda_runtime.h>
#include <math.h>
#include <stddef.h>

#define FULL 0xffffffffu

__device__ __forceinline__ float ex2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// x = hi + lo, both of 11 bits (the mma ignores what lies below)
__device__ __forceinline__ void split(float x, unsigned& hi, unsigned& lo)
{
    hi = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    lo = __float_as_uint(x - __uint_as_float(hi)) + 0x1000u;
}

__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <int COUNT>
__device__ __forceinline__ void load_row(const float* p, float (&v)[COUNT])
{
    if constexpr (COUNT == 1) {
        v[0] = __ldg(p);
    } else if constexpr (COUNT == 2) {
        float2 a = __ldg(reinterpret_cast<const float2*>(p));
        v[0] = a.x;
        v[1] = a.y;
    } else {
#pragma unroll
        for (int i = 0; i < COUNT / 4; ++i) {
            float4 a = __ldg(reinterpret_cast<const float4*>(p) + i);
            v[4 * i] = a.x;
            v[4 * i + 1] = a.y;
            v[4 * i + 2] = a.z;
            v[4 * i + 3] = a.w;
        }
    }
}

// Heads of 8 * J columns; a block has 16 * MT queries of a head; each of NW warps every NW-th chunk of 8 keys.
// Columns are dealt to the mma's k so that a lane reads neighbours: k = t, t + 4 of step s are columns
// t * 2J + 2s, + 1; column n of tile j of the output is column n * J + j.
template <int J, int MT, int NW, int MINB>
__global__ void __launch_bounds__(NW * 32, MINB)
attend(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
       float* __restrict__ out, int N, int d_model, int tiles)
{
    constexpr int W = 8 * J;
    constexpr int ROWS = 16 * MT;
    constexpr int STR = W + 4;
    constexpr int CH = J > 1 ? 2 : 1;
    constexpr float SCALE = (float)(1.4426950408889634 * (J == 1 ? 0.35355339059327379
                                                          : J == 2 ? 0.25 : 0.17677669529663689));
    __shared__ __align__(16) float so[NW * ROWS * STR];
    __shared__ float sm[NW * ROWS];
    __shared__ float sl[NW * ROWS];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int g = lane >> 2;
    const int t = lane & 3;
    const int head = blockIdx.x / tiles;
    const int q0 = (blockIdx.x - head * tiles) * ROWS;
    const int chunks = (N + 7) / 8;
    const size_t dm = (size_t)d_model;
    const float* Kh = K + (size_t)head * W + t * 2 * J;
    const float* Vh = V + (size_t)head * W + g * J;

    float kr[2 * J];
    float va[J];
    float vb[J];
    auto load_k = [&](int c) {
        load_row<2 * J>(Kh + (size_t)min(c * 8 + g, N - 1) * dm, kr);
    };
    auto load_v = [&](int c) {
        load_row<J>(Vh + (size_t)min(c * 8 + 2 * t, N - 1) * dm, va);
        load_row<J>(Vh + (size_t)min(c * 8 + 2 * t + 1, N - 1) * dm, vb);
    };
    if (warp < chunks) {
        load_k(warp);
        load_v(warp);
    }

    unsigned qh[MT][J][4];
    unsigned ql[MT][J][4];
    {
        float qr[MT][2][2 * J];
#pragma unroll
        for (int mt = 0; mt < MT; ++mt) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                int row = min(q0 + mt * 16 + g + 8 * r, N - 1);
                load_row<2 * J>(Q + (size_t)row * dm + (size_t)head * W + t * 2 * J, qr[mt][r]);
            }
        }
#pragma unroll
        for (int mt = 0; mt < MT; ++mt) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
#pragma unroll
                for (int s = 0; s < J; ++s) {
                    split(qr[mt][r][2 * s] * SCALE, qh[mt][s][r], ql[mt][s][r]);
                    split(qr[mt][r][2 * s + 1] * SCALE, qh[mt][s][2 + r], ql[mt][s][2 + r]);
                }
            }
        }
    }

    float o[MT][J][4];
    float m[MT][2];
    float l[MT][2];
#pragma unroll
    for (int mt = 0; mt < MT; ++mt) {
        m[mt][0] = m[mt][1] = -INFINITY;
        l[mt][0] = l[mt][1] = 0.0f;
#pragma unroll
        for (int j = 0; j < J; ++j) {
            o[mt][j][0] = o[mt][j][1] = o[mt][j][2] = o[mt][j][3] = 0.0f;
        }
    }

#pragma unroll 1
    for (int c = warp; c < chunks; c += NW) {
        if (c != warp) {
            load_v(c);
        }
        unsigned kh[J][2];
        unsigned kl[J][2];
        unsigned vh[J][2];
        unsigned vl[J][2];
#pragma unroll
        for (int s = 0; s < J; ++s) {
            split(kr[2 * s], kh[s][0], kl[s][0]);
            split(kr[2 * s + 1], kh[s][1], kl[s][1]);
        }
        if (c + NW < chunks) {
            load_k(c + NW);
        }
        const int key = c * 8 + 2 * t;
#pragma unroll
        for (int mt = 0; mt < MT; ++mt) {
            float small[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            float small2[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            float big[CH][4];
#pragma unroll
            for (int i = 0; i < CH; ++i) {
                big[i][0] = big[i][1] = big[i][2] = big[i][3] = 0.0f;
            }
#pragma unroll
            for (int s = 0; s < J; ++s) {
                mma(small, ql[mt][s], kh[s]);
                mma(small2, qh[mt][s], kl[s]);
                mma(big[s % CH], qh[mt][s], kh[s]);
            }
            float sc[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float b = big[0][i];
                if (CH == 2) {
                    b += big[CH - 1][i];
                }
                sc[i] = b + (small[i] + small2[i]);
            }
            if (key >= N) {
                sc[0] = sc[2] = -INFINITY;
            }
            if (key + 1 >= N) {
                sc[1] = sc[3] = -INFINITY;
            }
            float r0 = fmaxf(sc[0], sc[1]);
            float r1 = fmaxf(sc[2], sc[3]);
            // the subtracted number follows the largest score only when that is far above
            if (__any_sync(FULL, r0 > m[mt][0] + 16.0f || r1 > m[mt][1] + 16.0f)) {
                r0 = fmaxf(r0, __shfl_xor_sync(FULL, r0, 1));
                r1 = fmaxf(r1, __shfl_xor_sync(FULL, r1, 1));
                r0 = fmaxf(r0, __shfl_xor_sync(FULL, r0, 2));
                r1 = fmaxf(r1, __shfl_xor_sync(FULL, r1, 2));
                r0 = fmaxf(r0, m[mt][0]);
                r1 = fmaxf(r1, m[mt][1]);
                float f0 = ex2(m[mt][0] - r0);
                float f1 = ex2(m[mt][1] - r1);
                m[mt][0] = r0;
                m[mt][1] = r1;
                l[mt][0] *= f0;
                l[mt][1] *= f1;
#pragma unroll
                for (int j = 0; j < J; ++j) {
                    o[mt][j][0] *= f0;
                    o[mt][j][1] *= f0;
                    o[mt][j][2] *= f1;
                    o[mt][j][3] *= f1;
                }
            }
            float p0 = ex2(sc[0] - m[mt][0]);
            float p1 = ex2(sc[1] - m[mt][0]);
            float p2 = ex2(sc[2] - m[mt][1]);
            float p3 = ex2(sc[3] - m[mt][1]);
            l[mt][0] += p0 + p1;
            l[mt][1] += p2 + p3;
            unsigned ph[4];
            unsigned pl[4];
            split(p0, ph[0], pl[0]);
            split(p2, ph[1], pl[1]);
            split(p1, ph[2], pl[2]);
            split(p3, ph[3], pl[3]);
            if (mt == 0) {
#pragma unroll
                for (int j = 0; j < J; ++j) {
                    split(va[j], vh[j][0], vl[j][0]);
                    split(vb[j], vh[j][1], vl[j][1]);
                }
            }
#pragma unroll
            for (int j = 0; j < J; ++j) {
                float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                mma(d, pl, vh[j]);
                mma(d, ph, vl[j]);
                mma(d, ph, vh[j]);
                o[mt][j][0] += d[0];
                o[mt][j][1] += d[1];
                o[mt][j][2] += d[2];
                o[mt][j][3] += d[3];
            }
        }
    }

    // every warp leaves its maximum, sum and output
#pragma unroll
    for (int mt = 0; mt < MT; ++mt) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float sum = l[mt][r];
            sum += __shfl_xor_sync(FULL, sum, 1);
            sum += __shfl_xor_sync(FULL, sum, 2);
            int row = warp * ROWS + mt * 16 + g + 8 * r;
            if (t == 0) {
                sm[row] = m[mt][r];
                sl[row] = sum;
            }
            float* to = so + row * STR + t * 2 * J;
#pragma unroll
            for (int j = 0; j < J; ++j) {
                to[j] = o[mt][j][2 * r];
                to[J + j] = o[mt][j][2 * r + 1];
            }
        }
    }
    __syncthreads();

    for (int i = threadIdx.x; i < ROWS * (W / 4); i += NW * 32) {
        int row = i / (W / 4);
        int col = (i - row * (W / 4)) * 4;
        if (q0 + row < N) {
            float most = sm[row];
#pragma unroll
            for (int w = 1; w < NW; ++w) {
                most = fmaxf(most, sm[w * ROWS + row]);
            }
            float sum = 0.0f;
            float4 all = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
            for (int w = 0; w < NW; ++w) {
                float f = ex2(sm[w * ROWS + row] - most);
                float4 part = *reinterpret_cast<const float4*>(so + (w * ROWS + row) * STR + col);
                sum = fmaf(f, sl[w * ROWS + row], sum);
                all.x = fmaf(f, part.x, all.x);
                all.y = fmaf(f, part.y, all.y);
                all.z = fmaf(f, part.z, all.z);
                all.w = fmaf(f, part.w, all.w);
            }
            float inverse = 1.0f / sum;
            all.x *= inverse;
            all.y *= inverse;
            all.z *= inverse;
            all.w *= inverse;
            *reinterpret_cast<float4*>(out + (size_t)(q0 + row) * dm + (size_t)head * W + col) = all;
        }
    }
}

// Any shape: a block a query and head, as many keys at a time as it has threads.
__global__ void __launch_bounds__(128)
attend_any(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
           float* out, int N, int d_model, int h, int w)
{
    __shared__ float p[128];
    const int T = blockDim.x;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const float root = sqrtf((float)w);
    const size_t total = (size_t)N * h;
    for (size_t b = blockIdx.x; b < total; b += gridDim.x) {
        const size_t row = b / h;
        const size_t first = (b - row * h) * (size_t)w;
        const float* q = Q + row * d_model + first;
        float* o = out + row * d_model + first;
        float most = -INFINITY;
        float sum = 0.0f;
        for (int j0 = 0; j0 < N; j0 += T) {
            const int n = min(T, N - j0);
            if (w < 32) {
                if (tid < n) {
                    const float* k = K + (size_t)(j0 + tid) * d_model + first;
                    float s = 0.0f;
                    for (int c = 0; c < w; ++c) {
                        s = fmaf(q[c], k[c], s);
                    }
                    p[tid] = s / root;
                }
            } else {
                for (int j = tid >> 5; j < n; j += T >> 5) {
                    const float* k = K + (size_t)(j0 + j) * d_model + first;
                    float s = 0.0f;
#pragma unroll 4
                    for (int c = lane; c < w; c += 32) {
                        s = fmaf(q[c], k[c], s);
                    }
                    for (int d = 16; d > 0; d >>= 1) {
                        s += __shfl_xor_sync(FULL, s, d);
                    }
                    if (lane == 0) {
                        p[j] = s / root;
                    }
                }
            }
            __syncthreads();
            float now = most;
            for (int j = 0; j < n; ++j) {
                now = fmaxf(now, p[j]);
            }
            __syncthreads();
            if (tid < n) {
                p[tid] = expf(p[tid] - now);
            }
            __syncthreads();
            const float f = expf(most - now);
            most = now;
            float part = 0.0f;
            for (int j = 0; j < n; ++j) {
                part += p[j];
            }
            sum = fmaf(sum, f, part);
            const bool last = N - j0 <= T;
            for (int c = tid; c < w; c += T) {
                const float* v = V + (size_t)j0 * d_model + first + c;
                float acc = 0.0f;
#pragma unroll 4
                for (int j = 0; j < n; ++j) {
                    acc = fmaf(p[j], v[(size_t)j * d_model], acc);
                }
                if (j0 > 0) {
                    acc = fmaf(o[c], f, acc);
                }
                o[c] = last ? acc / sum : acc;
            }
            __syncthreads();
            if (last) {
                break;
            }
        }
    }
}

template <int J, int MT, int NW, int MINB>
static void launch(const float* Q, const float* K, const float* V, float* output, int N, int d_model, int h)
{
    int tiles = (N - 1) / (16 * MT) + 1;
    attend<J, MT, NW, MINB><<<(unsigned)((size_t)tiles * h), NW * 32>>>(Q, K, V, output, N, d_model, tiles);
}

extern "C" void solve(const float* Q, const float* K, const float* V, float* output, int N, int d_model, int h)
{
    int w = d_model / h;
    size_t blocks = (size_t)((N - 1) / 16 + 1) * h;
    if (N >= 32 && N <= 0x40000000 && blocks <= 0x7fffffffULL && (w == 8 || w == 16 || w == 32)) {
        bool wide = blocks <= 132 && N > 120;
        if (w == 8) {
            if (wide) {
                launch<1, 1, 16, 1>(Q, K, V, output, N, d_model, h);
            } else {
                launch<1, 1, 8, 3>(Q, K, V, output, N, d_model, h);
            }
        } else if (w == 16) {
            if (wide) {
                launch<2, 1, 16, 1>(Q, K, V, output, N, d_model, h);
            } else {
                launch<2, 1, 8, 3>(Q, K, V, output, N, d_model, h);
            }
        } else {
            if (blocks > 200) {
                launch<4, 2, 6, 2>(Q, K, V, output, N, d_model, h);
            } else {
                launch<4, 1, 8, 2>(Q, K, V, output, N, d_model, h);
            }
        }
        return;
    }
    size_t total = (size_t)N * h;
    unsigned grid = (unsigned)(total < 0x7fffffffULL ? total : 0x7fffffffULL);
    int threads = N <= 32 && w <= 32 ? 32 : N <= 64 && w <= 64 ? 64 : 128;
    attend_any<<<grid, threads>>>(Q, K, V, output, N, d_model, h, w);
}
