// Looping blocks stream tiles through three cp.async stages

#include <cuda_runtime.h>

// ---------------------------------------------------------------- vector access

template <int V>
__device__ __forceinline__ void loadv(float (&d)[V], const float* p)
{
    if constexpr (V == 4) {
        const float4 t = __ldg(reinterpret_cast<const float4*>(p));
        d[0] = t.x;
        d[1] = t.y;
        d[2] = t.z;
        d[3] = t.w;
    } else if constexpr (V == 2) {
        const float2 t = __ldg(reinterpret_cast<const float2*>(p));
        d[0] = t.x;
        d[1] = t.y;
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            d[v] = __ldg(p + v);
        }
    }
}

template <int V>
__device__ __forceinline__ void storev(float* p, const float (&s)[V])
{
    if constexpr (V == 4) {
        __stcs(reinterpret_cast<float4*>(p), make_float4(s[0], s[1], s[2], s[3]));
    } else if constexpr (V == 2) {
        __stcs(reinterpret_cast<float2*>(p), make_float2(s[0], s[1]));
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            p[v] = s[v];
        }
    }
}

// ---------------------------------------------------------------- large sizes: looping blocks

__device__ __forceinline__ void copy16(void* to, const float* from, int bytes)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

template <int N>
__device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

constexpr int SW = 4;              // warps of a block
constexpr int SQ = 7;              // rows a warp puts out from a tile
constexpr int SH = SW * SQ;        // rows of a tile at most
constexpr int SROWS = SH + 3;      // with the halo
constexpr int SSTAGES = 3;

// blockIdx.x: 128 channels, the same for all tiles of the block.
// Tiles (sequence, piece of time) are taken with stride gridDim.y.
__global__ void __launch_bounds__(32 * SW, 4)
stream4(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
        float* __restrict__ y, unsigned batch, unsigned length, unsigned channels, unsigned pieces,
        unsigned height)
{
    __shared__ float4 tile[SSTAGES][SROWS][32];

    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned c = (blockIdx.x * 32u + lane) * 4u;
    const bool live = c < channels;
    const size_t stride = (size_t)channels;

    const unsigned stepB = gridDim.y / pieces;
    const unsigned stepP = gridDim.y - stepB * pieces;

    // cursor of the copies and cursor of the outputs
    unsigned lb = blockIdx.y / pieces;
    unsigned lp = blockIdx.y - lb * pieces;
    unsigned cb = lb;
    unsigned cp = lp;

    auto issue = [&](int slot) {
        if (lb < batch) {
            const unsigned first = lp * height - 3u;  // wraps before row 0, then no row is valid
            const float* base = x + ((size_t)lb * (size_t)length * stride + (size_t)c);
#pragma unroll
            for (int i = 0; i < (SROWS + SW - 1) / SW; ++i) {
                const unsigned lr = warp + (unsigned)(i * SW);
                if (lr < (unsigned)SROWS) {
                    const unsigned row = first + lr;
                    const bool ok = live && row < length && lr < height + 3u;
                    const float* src = ok ? base + (size_t)row * stride : x;
                    copy16(&tile[slot][lr][lane], src, ok ? 16 : 0);
                }
            }
            lb += stepB;
            lp += stepP;
            if (lp >= pieces) {
                lp -= pieces;
                ++lb;
            }
        }
        copy_commit();
    };

    issue(0);
    issue(1);

    float f[4][4];
    float b[4];
    if (live) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            const float4 t = __ldg(reinterpret_cast<const float4*>(filter + (size_t)c * 4) + v);
            f[v][0] = t.x;
            f[v][1] = t.y;
            f[v][2] = t.z;
            f[v][3] = t.w;
        }
        loadv<4>(b, bias + c);
    } else {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            b[v] = 0.0f;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                f[v][j] = 0.0f;
            }
        }
    }

    int slot = 0;
    while (cb < batch) {
        copy_wait<1>();
        __syncthreads();  // this tile is there for all, and all have left the one before it
        issue(slot == 0 ? 2 : slot - 1);

        const unsigned t0 = cp * height;
        const unsigned rest = length - t0;
        const unsigned rows = rest < height ? rest : height;
        const int left = (int)rows - (int)(warp * (unsigned)SQ);
        if (left > 0 && live) {
            const float4* s = &tile[slot][warp * (unsigned)SQ][lane];
            float* py = y + (((size_t)cb * (size_t)length + (size_t)t0 + (size_t)(warp * (unsigned)SQ)) * stride +
                             (size_t)c);
            float4 a0 = s[0];
            float4 a1 = s[32];
            float4 a2 = s[64];
#pragma unroll
            for (int r = 0; r < SQ; ++r) {
                const float4 a3 = s[(r + 3) * 32];
                float4 o;
                o.x = fmaf(f[0][0], a0.x, b[0]);
                o.y = fmaf(f[1][0], a0.y, b[1]);
                o.z = fmaf(f[2][0], a0.z, b[2]);
                o.w = fmaf(f[3][0], a0.w, b[3]);
                o.x = fmaf(f[0][1], a1.x, o.x);
                o.y = fmaf(f[1][1], a1.y, o.y);
                o.z = fmaf(f[2][1], a1.z, o.z);
                o.w = fmaf(f[3][1], a1.w, o.w);
                o.x = fmaf(f[0][2], a2.x, o.x);
                o.y = fmaf(f[1][2], a2.y, o.y);
                o.z = fmaf(f[2][2], a2.z, o.z);
                o.w = fmaf(f[3][2], a2.w, o.w);
                o.x = fmaf(f[0][3], a3.x, o.x);
                o.y = fmaf(f[1][3], a3.y, o.y);
                o.z = fmaf(f[2][3], a3.z, o.z);
                o.w = fmaf(f[3][3], a3.w, o.w);
                if (r < left) {
                    __stcs(reinterpret_cast<float4*>(py + (size_t)r * stride), o);
                }
                a0 = a1;
                a1 = a2;
                a2 = a3;
            }
        }

        cb += stepB;
        cp += stepP;
        if (cp >= pieces) {
            cp -= pieces;
            ++cb;
        }
        slot = slot == SSTAGES - 1 ? 0 : slot + 1;
    }
}

// ---------------------------------------------------------------- small sizes: one wave from registers

// Four taps. px and py point at this thread's first output row; n rows are left in the sequence.
template <int V, int R, bool FULL>
__device__ __forceinline__ void window4(const float* __restrict__ px, const float* __restrict__ pf,
                                        const float* __restrict__ pb, float* __restrict__ py, size_t stride,
                                        bool head, int n)
{
    float in[R + 3][V];
    if (head) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                in[i][v] = 0.0f;
            }
        }
    } else {
        const float* p = px - 3 * stride;
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            loadv<V>(in[i], p + (size_t)i * stride);
        }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
        if (FULL || r < n) {
            loadv<V>(in[r + 3], px + (size_t)r * stride);
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                in[r + 3][v] = 0.0f;
            }
        }
    }

    float f[V][4];
    float b[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
        const float4 t = __ldg(reinterpret_cast<const float4*>(pf) + v);
        f[v][0] = t.x;
        f[v][1] = t.y;
        f[v][2] = t.z;
        f[v][3] = t.w;
    }
    loadv<V>(b, pb);

#pragma unroll
    for (int r = 0; r < R; ++r) {
        float acc[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            acc[v] = b[v];
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                acc[v] = fmaf(f[v][j], in[r + j][v], acc[v]);
            }
        }
        if (FULL || r < n) {
            storev<V>(py + (size_t)r * stride, acc);
        }
    }
}

// A warp: 32 * V channels, R rows. The W warps of a block lie below each other, so halo rows meet in L1.
template <int V, int R, int W, int MINB>
__global__ void __launch_bounds__(32 * W, MINB)
slide4(const float* __restrict__ x, const float* __restrict__ filter, const float* __restrict__ bias,
       float* __restrict__ y, int length, int channels)
{
    static_assert(R >= 3, "the halo must lie within one chunk");
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned c = (blockIdx.x * 32u + lane) * (unsigned)V;
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
        window4<V, R, true>(px, pf, pb, py, stride, t0 == 0, n);
    } else {
        window4<V, R, false>(px, pf, pb, py, stride, t0 == 0, n);
    }
}

// ---------------------------------------------------------------- any extents, any number of taps

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

template <int V, int R, int W, int MINB>
static bool launch_slide(const float* x, const float* filter, const float* bias, float* y, int batch, int length,
                         int channels)
{
    const long long gx = ((long long)channels + 32 * V - 1) / (32 * V);
    const long long gy = ((long long)length + R * W - 1) / (R * W);
    if (gy > 65535 || batch > 65535) {
        return false;
    }
    slide4<V, R, W, MINB><<<dim3((unsigned)gx, (unsigned)gy, (unsigned)batch), 32 * W>>>(x, filter, bias, y, length,
                                                                                        channels);
    return true;
}

extern "C" void solve(const float* x, const float* filter, const float* bias, float* y, int batch, int length,
                      int channels, int taps)
{
    if (batch <= 0 || length <= 0 || channels <= 0 || taps <= 0) {
        return;
    }
    const size_t count = (size_t)batch * (size_t)length * (size_t)channels;

    if (taps == 4) {
        if (count < 1500000) {
            if (channels % 2 == 0) {
                if (launch_slide<2, 4, 4, 1>(x, filter, bias, y, batch, length, channels)) {
                    return;
                }
            } else if (launch_slide<1, 8, 4, 1>(x, filter, bias, y, batch, length, channels)) {
                return;
            }
        } else if (channels % 4 == 0) {
            const long long groups = ((long long)channels + 127) / 128;

            // What fits the GPU at once goes straight through registers.
            const long long once = groups * (((long long)length + 31) / 32);
            if (once <= 792 && once * batch <= 792) {
                if (launch_slide<4, 8, 4, 6>(x, filter, bias, y, batch, length, channels)) {
                    return;
                }
            }

            const long long pieces = ((long long)length + SH - 1) / SH;
            const long long height = ((long long)length + pieces - 1) / pieces;
            const long long tiles = pieces * (long long)batch;
            long long across = 528 / groups;  // 132 SMs, four blocks each
            if (across < 1) {
                across = 1;
            }
            if (across > tiles) {
                across = tiles;
            }
            stream4<<<dim3((unsigned)groups, (unsigned)across, 1), 32 * SW>>>(
                x, filter, bias, y, (unsigned)batch, (unsigned)length, (unsigned)channels, (unsigned)pieces,
                (unsigned)height);
            return;
        } else if (channels % 2 == 0) {
            if (launch_slide<2, 8, 4, 6>(x, filter, bias, y, batch, length, channels)) {
                return;
            }
        } else if (launch_slide<1, 8, 4, 1>(x, filter, bias, y, batch, length, channels)) {
            return;
        }
    }

    size_t blocks = (count + 255) / 256;
    if (blocks > ((size_t)1 << 22)) {
        blocks = (size_t)1 << 22;
    }
    general<<<(unsigned)blocks, 256>>>(x, filter, bias, y, length, channels, taps, count);
}
