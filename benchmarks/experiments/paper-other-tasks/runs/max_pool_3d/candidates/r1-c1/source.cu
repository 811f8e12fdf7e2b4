// Stream planes through registers, depth first; pool rows in shared.

#include <cmath>
#include <cuda_runtime.h>

namespace {

__device__ __forceinline__ float4 max3(const float4& a, const float4& b, const float4& c)
{
    return make_float4(fmaxf(fmaxf(a.x, b.x), c.x), fmaxf(fmaxf(a.y, b.y), c.y),
                       fmaxf(fmaxf(a.z, b.z), c.z), fmaxf(fmaxf(a.w, b.w), c.w));
}

// kernel 3, stride 2, dilation 3, padding 0 or 1; H * W is a multiple of 4.
// A block walks through the planes of one channel. Output plane od needs the input planes
// 2 od - pad + (0, 3, 6): those at 0 and 6 form one chain, kept in registers.
// A thread holds F vectors of a plane and makes at most F outputs of a plane; ZT output planes a step.
template <int F, int ZT, int MAXT, int MINB, bool PRE>
__global__ void __launch_bounds__(MAXT, MINB)
pool_stream(const float* __restrict__ input, float* __restrict__ output, int D, int H, int W, int OD, int OH, int OW,
            int pad)
{
    extern __shared__ float4 planes[];
    const int tid = threadIdx.x;
    const int threads = blockDim.x;
    const int P4 = H * W / 4;
    const int Q = OH * OW;
    const float4* channel = reinterpret_cast<const float4*>(input) + (size_t)blockIdx.x * D * P4;
    float* out = output + (size_t)blockIdx.x * OD * Q;
    const float4 none = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);

    bool active[F];
    unsigned code[F];
#pragma unroll
    for (int f = 0; f < F; ++f) {
        const int p = tid + f * threads;
        active[f] = false;
        if (p < P4) {
            // rows that no window reads are not loaded
            const int last = (4 * p + 3) / W;
            for (int h = 4 * p / W; h <= last; ++h) {
                const int r = h + pad;
                const bool used = (r & 1) ? (r >= 3 && (r - 3) / 2 < OH)
                                          : (r / 2 < OH || (r >= 6 && (r - 6) / 2 < OH));
                active[f] = active[f] || used;
            }
        }
        code[f] = 0;
        if (p < Q) {
            const int oh = p / OW;
            const int ow = p - oh * OW;
            const int y = 2 * oh - pad + 3;   // the middle tap always lies inside
            const int x = 2 * ow - pad + 3;
            unsigned c = (unsigned)(y * W + x) | (1u << 20);
            c |= (y - 3 >= 0) ? (1u << 16) : 0u;
            c |= (y + 3 < H) ? (1u << 17) : 0u;
            c |= (x - 3 >= 0) ? (1u << 18) : 0u;
            c |= (x + 3 < W) ? (1u << 19) : 0u;
            code[f] = c;
        }
    }

    float4 q[F][ZT + 3];
    float4 e[F][ZT];

    auto fetch = [&](int d, int f, bool on) -> float4 {
        float4 v = none;
        if (on && active[f] && d >= 0 && d < D) {
            v = __ldcs(channel + ((size_t)d * P4 + (tid + f * threads)));
        }
        return v;
    };
    auto fetch_step = [&](int first) {
#pragma unroll
        for (int j = 0; j < ZT; ++j) {
            const int od = first + j;
            const bool on = od < OD;
#pragma unroll
            for (int f = 0; f < F; ++f) {
                e[f][j] = fetch(2 * od - pad + 3, f, on);
                q[f][j + 3] = fetch(2 * od - pad + 6, f, on);
            }
        }
    };

#pragma unroll
    for (int j = 0; j < 3; ++j) {
#pragma unroll
        for (int f = 0; f < F; ++f) {
            q[f][j] = fetch(2 * j - pad, f, j < OD);
        }
    }
    fetch_step(0);

    int buffer = 0;
#pragma unroll 1
    for (int first = 0; first < OD; first += ZT) {
        if (!PRE && first > 0) {
            fetch_step(first);
        }
        float4* s = planes + buffer * (ZT * P4);
#pragma unroll
        for (int f = 0; f < F; ++f) {
            if (active[f]) {
#pragma unroll
                for (int j = 0; j < ZT; ++j) {
                    s[j * P4 + tid + f * threads] = max3(q[f][j], e[f][j], q[f][j + 3]);
                }
            }
#pragma unroll
            for (int j = 0; j < 3; ++j) {
                q[f][j] = q[f][j + ZT];
            }
        }
        if (PRE && first + ZT < OD) {
            fetch_step(first + ZT);
        }
        __syncthreads();
        const float* sf = reinterpret_cast<const float*>(s);
#pragma unroll
        for (int f = 0; f < F; ++f) {
            const unsigned c = code[f];
            if (c != 0) {
                const int up = (c & (1u << 16)) ? 3 * W : 0;
                const int down = (c & (1u << 17)) ? 3 * W : 0;
                const int left = (c & (1u << 18)) ? 3 : 0;
                const int right = (c & (1u << 19)) ? 3 : 0;
                const int middle = (int)(c & 0xffffu);
#pragma unroll
                for (int j = 0; j < ZT; ++j) {
                    if (first + j < OD) {
                        const float* m = sf + j * 4 * P4 + middle;
                        const float* a = m - up;
                        const float* b = m + down;
                        const float va = fmaxf(fmaxf(a[-left], a[0]), a[right]);
                        const float vm = fmaxf(fmaxf(m[-left], m[0]), m[right]);
                        const float vb = fmaxf(fmaxf(b[-left], b[0]), b[right]);
                        out[(size_t)(first + j) * Q + (tid + f * threads)] = fmaxf(fmaxf(va, vm), vb);
                    }
                }
            }
        }
        buffer ^= 1;
    }
}

struct Place {
    size_t channel;
    int od, oh, ow;
};

__device__ __forceinline__ Place place_of(size_t i, size_t count, int OD, int OH, int OW)
{
    Place p;
    if (count <= 0xffffffffull) {
        unsigned r = (unsigned)i;
        unsigned t = r / (unsigned)OW;
        p.ow = (int)(r - t * (unsigned)OW);
        r = t / (unsigned)OH;
        p.oh = (int)(t - r * (unsigned)OH);
        t = r / (unsigned)OD;
        p.od = (int)(r - t * (unsigned)OD);
        p.channel = t;
    } else {
        size_t t = i / OW;
        p.ow = (int)(i - t * OW);
        size_t r = t / OH;
        p.oh = (int)(t - r * OH);
        t = r / OD;
        p.od = (int)(r - t * OD);
        p.channel = t;
    }
    return p;
}

// kernel 3, so padding 0 or 1: the middle tap is valid, an outer one outside is replaced by it.
template <int S, int DL>
__global__ void __launch_bounds__(256)
pool_three(const float* __restrict__ input, float* __restrict__ output, size_t count, int D, int H, int W, int OD,
           int OH, int OW, int pad)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    const Place p = place_of(i, count, OD, OH, OW);
    const int z = p.od * S - pad + DL;
    const int y = p.oh * S - pad + DL;
    const int x = p.ow * S - pad + DL;
    const int zs[3] = {z - DL >= 0 ? z - DL : z, z, z + DL < D ? z + DL : z};
    const int ys[3] = {y - DL >= 0 ? y - DL : y, y, y + DL < H ? y + DL : y};
    const int xs[3] = {x - DL >= 0 ? x - DL : x, x, x + DL < W ? x + DL : x};
    const float* channel = input + p.channel * D * H * W;
    float largest = -INFINITY;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
#pragma unroll
        for (int b = 0; b < 3; ++b) {
            const float* row = channel + ((size_t)zs[a] * H + ys[b]) * W;
#pragma unroll
            for (int c = 0; c < 3; ++c) {
                largest = fmaxf(largest, __ldg(row + xs[c]));
            }
        }
    }
    output[i] = largest;
}

__device__ __forceinline__ void valid_taps(int start, int extent, int kernel, int dilation, int& lo, int& hi)
{
    lo = start < 0 ? (int)(((long long)-start + dilation - 1) / dilation) : 0;
    hi = start >= extent ? 0 : (int)(((long long)extent - 1 - start) / dilation + 1);
    hi = hi < kernel ? hi : kernel;
}

__global__ void __launch_bounds__(256)
pool_any(const float* __restrict__ input, float* __restrict__ output, size_t count, int D, int H, int W, int OD,
         int OH, int OW, int kernel, int stride, int pad, int dilation)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    const Place p = place_of(i, count, OD, OH, OW);
    const int z0 = p.od * stride - pad;
    const int y0 = p.oh * stride - pad;
    const int x0 = p.ow * stride - pad;
    int zl, zh, yl, yh, xl, xh;
    valid_taps(z0, D, kernel, dilation, zl, zh);
    valid_taps(y0, H, kernel, dilation, yl, yh);
    valid_taps(x0, W, kernel, dilation, xl, xh);
    const float* channel = input + p.channel * D * H * W;
    float largest = -INFINITY;
    for (int z = zl; z < zh; ++z) {
        for (int y = yl; y < yh; ++y) {
            const float* row = channel + ((size_t)(z0 + z * dilation) * H + (y0 + y * dilation)) * W;
            for (int x = xl; x < xh; ++x) {
                largest = fmaxf(largest, __ldg(row + (x0 + x * dilation)));
            }
        }
    }
    output[i] = largest;
}

template <int F, int ZT, int MAXT, int MINB, bool PRE>
void launch_stream(const float* input, float* output, unsigned channels, int D, int H, int W, int OD, int OH, int OW,
                   int pad)
{
    const int P4 = H * W / 4;
    const int threads = ((P4 + F - 1) / F + 31) / 32 * 32;
    const int buffers = OD > ZT ? 2 : 1;
    const size_t bytes = (size_t)buffers * ZT * P4 * sizeof(float4);
    pool_stream<F, ZT, MAXT, MINB, PRE><<<channels, threads, bytes>>>(input, output, D, H, W, OD, OH, OW, pad);
}

}  // namespace

extern "C" void solve(const float* input, float* output, int N, int C, int D, int H, int W, int kernel, int stride,
                      int padding, int dilation)
{
    const int reach = dilation * (kernel - 1) + 1;
    const int OD = (D + 2 * padding - reach) / stride + 1;
    const int OH = (H + 2 * padding - reach) / stride + 1;
    const int OW = (W + 2 * padding - reach) / stride + 1;
    const size_t channels = (size_t)N * C;
    const size_t plane = (size_t)H * W;

    if (kernel == 3 && stride == 2 && dilation == 3 && padding <= 1 && plane % 4 == 0 && plane <= 4 * 576 &&
        channels >= 64 && channels <= 0x7fffffffull) {
        const unsigned c = (unsigned)channels;
        const int P4 = (int)(plane / 4);
        if (P4 <= 64) {
            launch_stream<1, 6, 64, 8, true>(input, output, c, D, H, W, OD, OH, OW, padding);
        } else if (P4 <= 160) {
            launch_stream<1, 5, 160, 4, true>(input, output, c, D, H, W, OD, OH, OW, padding);
        } else if (P4 <= 256) {
            launch_stream<1, 2, 256, 4, true>(input, output, c, D, H, W, OD, OH, OW, padding);
        } else if (P4 <= 448) {
            launch_stream<2, 1, 224, 4, true>(input, output, c, D, H, W, OD, OH, OW, padding);
        } else {
            launch_stream<2, 1, 288, 4, false>(input, output, c, D, H, W, OD, OH, OW, padding);
        }
        return;
    }

    const size_t count = channels * OD * OH * OW;
    const unsigned blocks = (unsigned)((count + 255) / 256);
    if (kernel == 3 && stride == 2 && dilation == 3) {
        pool_three<2, 3><<<blocks, 256>>>(input, output, count, D, H, W, OD, OH, OW, padding);
    } else if (kernel == 3 && stride == 2 && dilation == 1) {
        pool_three<2, 1><<<blocks, 256>>>(input, output, count, D, H, W, OD, OH, OW, padding);
    } else if (kernel == 3 && stride == 1 && dilation == 1) {
        pool_three<1, 1><<<blocks, 256>>>(input, output, count, D, H, W, OD, OH, OW, padding);
    } else {
        pool_any<<<blocks, 256>>>(input, output, count, D, H, W, OD, OH, OW, kernel, stride, padding, dilation);
    }
}
