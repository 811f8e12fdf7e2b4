// Channels in registers, four neighbouring positions a thread, compensated mean.

#include <cuda_runtime.h>

__device__ __forceinline__ float inverseDeviation(float v)
{
    float r = rsqrtf(v);
    const float e = fmaf(-(v * r), r, 1.0f);
    return fmaf(0.5f * r, e, r);
}

// v[0..C-1] of one position, in registers, becomes the normalised values.
template <int C>
__device__ __forceinline__ void normalise(float (&v)[C], float invC, float eps)
{
    float sum = 0.0f;
    if (C == 4) {
        sum = (v[0] + v[1 % C]) + (v[2 % C] + v[3 % C]);
    } else {
#pragma unroll
        for (int c = 0; c < C; ++c) {
            sum += v[c];
        }
    }
    const float m = sum * invC;
    // what rounding left in the mean is taken out of the small differences
    float rest = 0.0f;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        v[c] -= m;
    }
    if (C == 4) {
        rest = (v[0] + v[1 % C]) + (v[2 % C] + v[3 % C]);
    } else {
#pragma unroll
        for (int c = 0; c < C; ++c) {
            rest += v[c];
        }
    }
    rest *= invC;
    float sq = 0.0f;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        v[c] -= rest;
        sq = fmaf(v[c], v[c], sq);
    }
    const float r = inverseDeviation(fmaf(sq, invC, eps));
#pragma unroll
    for (int c = 0; c < C; ++c) {
        v[c] *= r;
    }
}

// H * W a multiple of four: a thread takes four neighbouring positions, all C channels.
template <int C>
__global__ void __launch_bounds__(256) layerNormVec(const float4* __restrict__ x, float4* __restrict__ y, unsigned hw4, int N, float eps)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= hw4) {
        return;
    }
    const float invC = 1.0f / (float)C;
    for (int n = (int)blockIdx.y; n < N; n += (int)gridDim.y) {
        const size_t base = (size_t)n * C * hw4 + i;
        float4 v[C];
#pragma unroll
        for (int c = 0; c < C; ++c) {
            v[c] = __ldcs(x + base + (size_t)c * hw4);
        }
        float a[C];
#pragma unroll
        for (int c = 0; c < C; ++c) {
            a[c] = v[c].x;
        }
        normalise<C>(a, invC, eps);
#pragma unroll
        for (int c = 0; c < C; ++c) {
            v[c].x = a[c];
            a[c] = v[c].y;
        }
        normalise<C>(a, invC, eps);
#pragma unroll
        for (int c = 0; c < C; ++c) {
            v[c].y = a[c];
            a[c] = v[c].z;
        }
        normalise<C>(a, invC, eps);
#pragma unroll
        for (int c = 0; c < C; ++c) {
            v[c].z = a[c];
            a[c] = v[c].w;
        }
        normalise<C>(a, invC, eps);
#pragma unroll
        for (int c = 0; c < C; ++c) {
            v[c].w = a[c];
            y[base + (size_t)c * hw4] = v[c];
        }
    }
}

// First element of position p.
__device__ __forceinline__ size_t firstOf(size_t p, size_t hw, size_t C)
{
    size_t image;
    if (((p | hw) >> 32) == 0) {
        image = (size_t)((unsigned)p / (unsigned)hw);
    } else {
        image = p / hw;
    }
    return image * hw * C + (p - image * hw);
}

// A thread a position, up to MAXC channels in registers.
template <int MAXC>
__global__ void __launch_bounds__(256) layerNormReg(const float* __restrict__ x, float* __restrict__ y, size_t positions, size_t hw, int C, float eps)
{
    const float invC = 1.0f / (float)C;
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x; p < positions; p += step) {
        const size_t base = firstOf(p, hw, (size_t)C);
        float v[MAXC];
        float sum = 0.0f;
#pragma unroll
        for (int c = 0; c < MAXC; ++c) {
            v[c] = 0.0f;
            if (c < C) {
                v[c] = x[base + (size_t)c * hw];
            }
        }
#pragma unroll
        for (int c = 0; c < MAXC; ++c) {
            sum += v[c];
        }
        const float m = sum * invC;
        float rest = 0.0f;
#pragma unroll
        for (int c = 0; c < MAXC; ++c) {
            if (c < C) {
                v[c] -= m;
                rest += v[c];
            }
        }
        rest *= invC;
        float sq = 0.0f;
#pragma unroll
        for (int c = 0; c < MAXC; ++c) {
            if (c < C) {
                v[c] -= rest;
                sq = fmaf(v[c], v[c], sq);
            }
        }
        const float r = inverseDeviation(fmaf(sq, invC, eps));
#pragma unroll
        for (int c = 0; c < MAXC; ++c) {
            if (c < C) {
                y[base + (size_t)c * hw] = v[c] * r;
            }
        }
    }
}

// A thread a position, any number of channels.
__global__ void __launch_bounds__(128) layerNormLoop(const float* __restrict__ x, float* __restrict__ y, size_t positions, size_t hw, int C, float eps)
{
    const float invC = 1.0f / (float)C;
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x; p < positions; p += step) {
        const size_t base = firstOf(p, hw, (size_t)C);
        const float* px = x + base;
        float* py = y + base;
        const int full = C & ~7;

        float s[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            s[k] = 0.0f;
        }
        for (int c = 0; c < full; c += 8) {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                s[k] += px[(size_t)(c + k) * hw];
            }
        }
        for (int c = full; c < C; ++c) {
            s[0] += px[(size_t)c * hw];
        }
        const float m = (((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))) * invC;

        float q[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            s[k] = 0.0f;
            q[k] = 0.0f;
        }
        for (int c = 0; c < full; c += 8) {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                const float d = px[(size_t)(c + k) * hw] - m;
                s[k] += d;
                q[k] = fmaf(d, d, q[k]);
            }
        }
        for (int c = full; c < C; ++c) {
            const float d = px[(size_t)c * hw] - m;
            s[0] += d;
            q[0] = fmaf(d, d, q[0]);
        }
        const float rest = (((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))) * invC;
        const float sq = ((q[0] + q[1]) + (q[2] + q[3])) + ((q[4] + q[5]) + (q[6] + q[7]));
        const float variance = fmaxf(fmaf(-rest, rest, sq * invC), 0.0f);
        const float r = inverseDeviation(variance + eps);

        for (int c = 0; c < full; c += 8) {
            float d[8];
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                d[k] = px[(size_t)(c + k) * hw];
            }
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                py[(size_t)(c + k) * hw] = ((d[k] - m) - rest) * r;
            }
        }
        for (int c = full; c < C; ++c) {
            py[(size_t)c * hw] = ((px[(size_t)c * hw] - m) - rest) * r;
        }
    }
}

template <int C>
static void launchVec(const float* x, float* y, unsigned hw4, int N, float eps)
{
    const size_t all = (size_t)hw4 * (size_t)N;
    const unsigned threads = all <= (size_t)132 * 1024 ? 128u : 256u;
    const unsigned rows = N < 65535 ? (unsigned)N : 65535u;
    const dim3 grid((hw4 + threads - 1u) / threads, rows);
    layerNormVec<C><<<grid, threads>>>(reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(y), hw4, N, eps);
}

extern "C" void solve(const float* x, float* y, int N, int C, int H, int W, float eps)
{
    const size_t hw = (size_t)H * (size_t)W;
    const size_t positions = hw * (size_t)N;

    if (C <= 8 && (hw & 3) == 0 && hw >= 512 && (hw >> 2) < ((size_t)1 << 30)) {
        const unsigned hw4 = (unsigned)(hw >> 2);
        switch (C) {
        case 1: launchVec<1>(x, y, hw4, N, eps); break;
        case 2: launchVec<2>(x, y, hw4, N, eps); break;
        case 3: launchVec<3>(x, y, hw4, N, eps); break;
        case 4: launchVec<4>(x, y, hw4, N, eps); break;
        case 5: launchVec<5>(x, y, hw4, N, eps); break;
        case 6: launchVec<6>(x, y, hw4, N, eps); break;
        case 7: launchVec<7>(x, y, hw4, N, eps); break;
        default: launchVec<8>(x, y, hw4, N, eps); break;
        }
        return;
    }

    if (C <= 64) {
        size_t blocks = (positions + 255) / 256;
        if (blocks > 1000000) {
            blocks = 1000000;
        }
        if (C <= 8) {
            layerNormReg<8><<<(unsigned)blocks, 256>>>(x, y, positions, hw, C, eps);
        } else if (C <= 16) {
            layerNormReg<16><<<(unsigned)blocks, 256>>>(x, y, positions, hw, C, eps);
        } else if (C <= 32) {
            layerNormReg<32><<<(unsigned)blocks, 256>>>(x, y, positions, hw, C, eps);
        } else {
            layerNormReg<64><<<(unsigned)blocks, 256>>>(x, y, positions, hw, C, eps);
        }
        return;
    }

    size_t blocks = (positions + 127) / 128;
    if (blocks > 1000000) {
        blocks = 1000000;
    }
    layerNormLoop<<<(unsigned)blocks, 128>>>(x, y, positions, hw, C, eps);
}
