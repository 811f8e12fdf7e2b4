// Register strips of 12 by TY outputs, filter rows split, balanced tiles.

#include <cuda_runtime.h>

static const int TX = 12;          // outputs along a row; an odd number of 16-byte words: no bank conflicts
static const int MAX_T = 256;

__device__ __forceinline__ void copy16(float* dst, const float* src)
{
    const unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(d), "l"(src) : "memory");
}

__device__ __forceinline__ void copy4(float* dst, const float* src)
{
    const unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(d), "l"(src) : "memory");
}

__device__ __forceinline__ void copyWait()
{
    asm volatile("cp.async.wait_all;\n" ::: "memory");
}

// A block: bx strips by (by * TY) rows of outputs; its threads also split the filter's rows into q parts of rs.
template <int TY, int NG>
__global__ void __launch_bounds__(MAX_T, 2) convStrips(const float* __restrict__ input, const float* __restrict__ filter, float* __restrict__ output,
                                                       int H, int W, int R, int S, int bx, int by, int q, int rs, int nsc, int nbx)
{
    extern __shared__ __align__(16) float sm[];
    constexpr int CH = 4 * NG;        // taps of a filter row at a time
    constexpr int NV = TX + CH;       // strip of input values in registers

    const int spad = nsc * CH;
    const int pw = bx * TX;
    const int pitch = pw + spad;
    const int rowsOut = by * TY;
    const int th = rowsOut + R - 1;
    float* const tile = sm;
    float* const filt = sm + (size_t)th * pitch;

    const int tid = (int)threadIdx.x;
    const int nt = (int)blockDim.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int nw = nt >> 5;
    const int OH = H - R + 1;
    const int OW = W - S + 1;
    const int tileY = (int)(blockIdx.x / (unsigned)nbx);
    const int tileX = (int)(blockIdx.x - (unsigned)tileY * (unsigned)nbx);
    const long long y0 = (long long)tileY * rowsOut;
    const long long x0 = (long long)tileX * pw;

    if ((W & 3) == 0) {
        const int p4 = pitch >> 2;
        for (int row = warp; row < th; row += nw) {
            const bool rowIn = y0 + row < H;
            const float* src = input + (size_t)(y0 + row) * W + x0;
            float* dst = tile + row * pitch;
            for (int c = lane; c < p4; c += 32) {
                if (rowIn && x0 + 4 * c < W) {
                    copy16(dst + 4 * c, src + 4 * c);
                } else {
                    *reinterpret_cast<float4*>(dst + 4 * c) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                }
            }
        }
    } else {
        for (int row = warp; row < th; row += nw) {
            const bool rowIn = y0 + row < H;
            const float* src = input + (size_t)(y0 + row) * W + x0;
            float* dst = tile + row * pitch;
            for (int c = lane; c < pitch; c += 32) {
                if (rowIn && x0 + c < W) {
                    copy4(dst + c, src + c);
                } else {
                    dst[c] = 0.0f;
                }
            }
        }
    }
    for (int i = tid; i < R * spad; i += nt) {
        const int r = i / spad;
        const int s = i - r * spad;
        if (s < S) {
            copy4(filt + i, filter + (size_t)r * S + s);
        } else {
            filt[i] = 0.0f;
        }
    }
    copyWait();
    __syncthreads();

    const int perPart = bx * by;
    const bool active = tid < perPart * q;
    const int qi = tid / perPart;
    const int pos = tid - qi * perPart;
    const int sy = pos / bx;
    const int sx = pos - sy * bx;

    float acc[TY][TX];
#pragma unroll
    for (int ty = 0; ty < TY; ++ty) {
#pragma unroll
        for (int x = 0; x < TX; ++x) {
            acc[ty][x] = 0.0f;
        }
    }

    if (active) {
        const int r0 = qi * rs;
        const int cnt = min(rs, R - r0);
        const float* const ip = tile + (sy * TY + r0) * pitch + sx * TX;
        const float* const fp = filt + r0 * spad;
        for (int sc = 0; sc < nsc; ++sc) {
            const float* row = ip + sc * CH;
            const float* frow = fp + sc * CH;
#pragma unroll 1
            for (int i = 0; i < cnt + TY - 1; ++i) {
                float v[NV];
#pragma unroll
                for (int k = 0; k < NV / 4; ++k) {
                    const float4 u = *reinterpret_cast<const float4*>(row + 4 * k);
                    v[4 * k] = u.x;
                    v[4 * k + 1] = u.y;
                    v[4 * k + 2] = u.z;
                    v[4 * k + 3] = u.w;
                }
#pragma unroll
                for (int ty = 0; ty < TY; ++ty) {
                    if (TY == 1 || (unsigned)(i - ty) < (unsigned)cnt) {
                        const float* const fr = frow - ty * spad;
#pragma unroll
                        for (int g = 0; g < NG; ++g) {
                            const float4 f = *reinterpret_cast<const float4*>(fr + 4 * g);
#pragma unroll
                            for (int x = 0; x < TX; ++x) {
                                acc[ty][x] = fmaf(f.x, v[4 * g + x], acc[ty][x]);
                            }
#pragma unroll
                            for (int x = 0; x < TX; ++x) {
                                acc[ty][x] = fmaf(f.y, v[4 * g + 1 + x], acc[ty][x]);
                            }
#pragma unroll
                            for (int x = 0; x < TX; ++x) {
                                acc[ty][x] = fmaf(f.z, v[4 * g + 2 + x], acc[ty][x]);
                            }
#pragma unroll
                            for (int x = 0; x < TX; ++x) {
                                acc[ty][x] = fmaf(f.w, v[4 * g + 3 + x], acc[ty][x]);
                            }
                        }
                    }
                }
                row += pitch;
                frow += spad;
            }
        }
    }
    __syncthreads();

    // The parts meet in shared memory, over the tile; then rows are written coalesced.
    if (active) {
        float* const part = sm + (size_t)(qi * rowsOut + sy * TY) * pw + sx * TX;
#pragma unroll
        for (int ty = 0; ty < TY; ++ty) {
#pragma unroll
            for (int k = 0; k < TX / 4; ++k) {
                *reinterpret_cast<float4*>(part + ty * pw + 4 * k) =
                    make_float4(acc[ty][4 * k], acc[ty][4 * k + 1], acc[ty][4 * k + 2], acc[ty][4 * k + 3]);
            }
        }
    }
    __syncthreads();

    const int area = rowsOut * pw;
    for (int i = tid; i < area; i += nt) {
        const int row = i / pw;
        const int x = i - row * pw;
        if (y0 + row < OH && x0 + x < OW) {
            float s0 = 0.0f;
            float s1 = 0.0f;
            int k = 0;
            for (; k + 1 < q; k += 2) {
                s0 += sm[k * area + i];
                s1 += sm[(k + 1) * area + i];
            }
            if (k < q) {
                s0 += sm[k * area + i];
            }
            output[(size_t)(y0 + row) * OW + (size_t)(x0 + x)] = s0 + s1;
        }
    }
}

// Filters too large for shared memory: a warp an output, lanes along the filter's rows.
__global__ void __launch_bounds__(256) convWarp(const float* __restrict__ input, const float* __restrict__ filter, float* __restrict__ output,
                                                int H, int W, int R, int S)
{
    const size_t OH = (size_t)(H - R + 1);
    const size_t OW = (size_t)(W - S + 1);
    const size_t total = OH * OW;
    const int lane = (int)(threadIdx.x & 31u);
    const size_t step = (size_t)gridDim.x * 8;
    for (size_t o = (size_t)blockIdx.x * 8 + (threadIdx.x >> 5); o < total; o += step) {
        const size_t i = o / OW;
        const size_t j = o - i * OW;
        float sum = 0.0f;
        for (int r = 0; r < R; ++r) {
            const float* in = input + (i + r) * (size_t)W + j;
            const float* f = filter + (size_t)r * S;
            float part = 0.0f;
#pragma unroll 4
            for (int s = lane; s < S; s += 32) {
                part = fmaf(in[s], f[s], part);
            }
            sum += part;
        }
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) {
            sum += __shfl_xor_sync(0xffffffffu, sum, d);
        }
        if (lane == 0) {
            output[o] = sum;
        }
    }
}

struct Plan {
    double cost;
    int ty, bx, by, q, rs;
    long long nbx, nby, smem;
};

template <int TY, int NG>
static void launchStrips(const Plan& p, int nsc, const float* input, const float* filter, float* output, int H, int W, int R, int S)
{
    const int items = p.bx * p.by * p.q;
    const int threads = (items + 31) / 32 * 32;
    cudaFuncSetAttribute(convStrips<TY, NG>, cudaFuncAttributeMaxDynamicSharedMemorySize, 112 * 1024);
    convStrips<TY, NG><<<(unsigned)(p.nbx * p.nby), threads, (size_t)p.smem>>>(input, filter, output, H, W, R, S, p.bx, p.by, p.q, p.rs, nsc, (int)p.nbx);
}

template <int NG>
static void launchAny(const Plan& p, int nsc, const float* input, const float* filter, float* output, int H, int W, int R, int S)
{
    switch (p.ty) {
    case 1: launchStrips<1, NG>(p, nsc, input, filter, output, H, W, R, S); break;
    case 2: launchStrips<2, NG>(p, nsc, input, filter, output, H, W, R, S); break;
    case 3: launchStrips<3, NG>(p, nsc, input, filter, output, H, W, R, S); break;
    default: launchStrips<4, NG>(p, nsc, input, filter, output, H, W, R, S); break;
    }
}

extern "C" void solve(const float* input, const float* filter, float* output, int H, int W, int R, int S)
{
    const long long OH = (long long)H - R + 1;
    const long long OW = (long long)W - S + 1;
    const long long pad2 = ((long long)S + 7) / 8 * 8;
    const long long pad6 = ((long long)S + 23) / 24 * 24;
    const int NG = pad6 * 5 <= pad2 * 6 ? 6 : 2;
    const long long spad = NG == 6 ? pad6 : pad2;
    const int nsc = (int)(spad / (4 * NG));
    const long long SX = (OW + TX - 1) / TX;
    const long long LIMIT = 112 * 1024;

    // The shape of the tiles that loads the 132 SMs most evenly.
    Plan best;
    best.cost = -1.0;
    best.ty = 0;
    if (R <= 8192 && spad <= 28672) {
        for (int ty = 4; ty >= 1; --ty) {
            const long long SY = (OH + ty - 1) / ty;
            int last = 0;
            const long long first = (SX + 127) / 128;
            for (long long c = first; c < first + 64; ++c) {
                const int bx = (int)((SX + c - 1) / c);
                if (bx == last) {
                    continue;
                }
                last = bx;
                const long long nbx = (SX + bx - 1) / bx;
                const int maxBy = MAX_T / bx;
                for (int by = 1; by <= maxBy && by <= SY; ++by) {
                    int q = MAX_T / (bx * by);
                    if (q > R) {
                        q = R;
                    }
                    const int rs = (R + q - 1) / q;
                    q = (R + rs - 1) / rs;
                    const long long pw = (long long)bx * TX;
                    const long long in = (pw + spad) * ((long long)by * ty + R - 1);
                    const long long part = (long long)q * by * ty * pw;
                    long long smem = (in + (long long)R * spad) * 4;
                    if (part * 4 > smem) {
                        smem = part * 4;
                    }
                    if (smem > LIMIT) {
                        continue;
                    }
                    const long long nby = (SY + by - 1) / by;
                    const long long B = nbx * nby;
                    if (B > 2147483647LL) {
                        continue;
                    }
                    const long long k = (B + 131) / 132;
                    const int w = (bx * by * q + 31) / 32;
                    const double fma = (double)((w + 3) / 4) * rs * ty * TX * (double)spad;
                    const double lds = (double)w * ((double)(rs + ty - 1) * (TX + 4 * NG) * nsc + 0.375 * rs * ty * (double)spad);
                    double work = fma > lds ? fma : lds;
                    if (k == 1) {
                        work *= w > 4 ? 1.1 : 1.3;
                    }
                    const double load = (double)in * 4.0 / 20.0;
                    const double cost = (double)k * (work + (double)part / 16.0 + 150.0 + load * (k > 1 ? 0.35 : 1.0));
                    if (best.ty == 0 || cost < best.cost) {
                        best.cost = cost;
                        best.ty = ty;
                        best.bx = bx;
                        best.by = by;
                        best.q = q;
                        best.rs = rs;
                        best.nbx = nbx;
                        best.nby = nby;
                        best.smem = smem;
                    }
                }
            }
        }
    }

    if (best.ty == 0) {
        long long blocks = (OH * OW + 7) / 8;
        if (blocks > 132 * 64) {
            blocks = 132 * 64;
        }
        convWarp<<<(unsigned)blocks, 256>>>(input, filter, output, H, W, R, S);
    } else if (NG == 6) {
        launchAny<6>(best, nsc, input, filter, output, H, W, R, S);
    } else {
        launchAny<2>(best, nsc, input, filter, output, H, W, R, S);
    }
}
