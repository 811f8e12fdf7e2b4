// Few rows: warps stream weights into mma; many: wgmma tiles.

#include <cmath>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kSMs = 132;
constexpr size_t kSharedLimit = 227 * 1024;

// ---------------------------------------------------------------- helpers

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        v += __shfl_xor_sync(0xffffffffu, v, d);
    }
    return v;
}

__device__ __forceinline__ float2 pair_of(unsigned v)
{
    return __half22float2(*reinterpret_cast<const half2*>(&v));
}

__device__ __forceinline__ unsigned bits_of(half2 v)
{
    return *reinterpret_cast<unsigned*>(&v);
}

__device__ __forceinline__ float silu(float v)
{
    return v / (1.0f + __expf(-v));
}

__device__ __forceinline__ float squares(const uint4& v)
{
    const float2 a = pair_of(v.x), b = pair_of(v.y), c = pair_of(v.z), d = pair_of(v.w);
    return ((a.x * a.x + a.y * a.y) + (b.x * b.x + b.y * b.y)) +
           ((c.x * c.x + c.y * c.y) + (d.x * d.x + d.y * d.y));
}

__device__ __forceinline__ unsigned scaled(unsigned v, unsigned w, float factor)
{
    const float2 a = pair_of(v), b = pair_of(w);
    return bits_of(__floats2half2_rn(a.x * factor * b.x, a.y * factor * b.y));
}

__device__ __forceinline__ uint4 scaled(const uint4& v, const uint4& w, float factor)
{
    return make_uint4(scaled(v.x, w.x, factor), scaled(v.y, w.y, factor), scaled(v.z, w.z, factor),
                      scaled(v.w, w.w, factor));
}

// ---------------------------------------------------------------- norm

__global__ void __launch_bounds__(256)
normalise(const half* __restrict__ x, const half* __restrict__ weight, half* __restrict__ r, int K, float eps)
{
    __shared__ float parts[8];
    const size_t row = blockIdx.x;
    const half* from = x + row * K;
    half* to = r + row * K;
    const int tid = threadIdx.x;
    const bool vectors = K % 8 == 0;
    float sum = 0.0f;
    if (vectors) {
        for (int i = tid; i < K / 8; i += 256) {
            sum += squares(__ldg(reinterpret_cast<const uint4*>(from) + i));
        }
    } else {
        for (size_t i = tid; i < (size_t)K; i += 256) {
            const float v = __half2float(from[i]);
            sum = fmaf(v, v, sum);
        }
    }
    sum = warp_sum(sum);
    if ((tid & 31) == 0) {
        parts[tid >> 5] = sum;
    }
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (int w = 0; w < 8; ++w) {
        sum += parts[w];
    }
    const float factor = 1.0f / sqrtf(sum / (float)K + eps);
    if (vectors) {
        for (int i = tid; i < K / 8; i += 256) {
            reinterpret_cast<uint4*>(to)[i] = scaled(__ldg(reinterpret_cast<const uint4*>(from) + i),
                                                     __ldg(reinterpret_cast<const uint4*>(weight) + i), factor);
        }
    } else {
        for (size_t i = tid; i < (size_t)K; i += 256) {
            to[i] = __float2half_rn(__half2float(from[i]) * factor * __half2float(weight[i]));
        }
    }
}

// ---------------------------------------------------------------- few rows

__device__ __forceinline__ uint4 load_stream(const half* p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

__device__ __forceinline__ void mma16816(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                         unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

constexpr int kStreamWarps = 16;
constexpr int kStreamThreads = 32 * kStreamWarps;
constexpr int kPartRow = 20;   // 16 weight rows and padding

// 16 rows of the weights a tile, columns shared out to the warps of a block, 8 * NT tokens.
// Within 32 columns, a thread's 8 neighbours feed two mma: the order of the columns is free.
template <int NT, bool GATE>
__global__ void __launch_bounds__(kStreamThreads, 1)
stream(const half* __restrict__ in, const half* __restrict__ norm_weight, const half* __restrict__ W0,
       const half* __restrict__ W1, half* __restrict__ hidden, float* __restrict__ partial, int T, int K, int N,
       float eps, int chunks_per_slice, int slices, int row_stride)
{
    constexpr int MATS = GATE ? 2 : 1;
    constexpr int U = GATE ? 4 : 8;
    constexpr int TOKENS = 8 * NT;
    extern __shared__ uint4 shared[];
    half* rows = reinterpret_cast<half*>(shared);
    float* parts = reinterpret_cast<float*>(rows + (size_t)TOKENS * row_stride);

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int g = lane >> 2;
    const int t = lane & 3;
    const int slice = (int)blockIdx.x % slices;
    const int first = (int)blockIdx.x / slices;
    const int step = (int)gridDim.x / slices;
    const int all_chunks = (K + 31) / 32;
    const int c0 = slice * chunks_per_slice;
    const int c1 = min(c0 + chunks_per_slice, all_chunks);
    const int k0 = c0 * 32;
    const int per_warp = (c1 - c0 + kStreamWarps - 1) / kStreamWarps;
    const int w0 = c0 + warp * per_warp;
    const int w1 = min(w0 + per_warp, c1);
    const int tiles = (N + 15) / 16;

    auto prefetch = [&](int tile) {
        if (tile < tiles && lane < 16 * MATS) {
            const int row = tile * 16 + (lane & 15);
            const int bytes = (min(w1 * 32, K) - w0 * 32) * 2;
            if (row < N && bytes > 0) {
                const half* p = (GATE && lane >= 16 ? W1 : W0) + (size_t)row * K + w0 * 32;
                asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(p), "r"(bytes) : "memory");
            }
        }
    };
    prefetch(first);

    const int vectors = (c1 - c0) * 4;   // of 8 columns, a row
    if (GATE) {
        for (int token = warp; token < TOKENS; token += kStreamWarps) {
            uint4* to = reinterpret_cast<uint4*>(rows + (size_t)token * row_stride);
            if (token < T) {
                const uint4* from = reinterpret_cast<const uint4*>(in + (size_t)token * K);
                float sum = 0.0f;
#pragma unroll 4
                for (int i = lane; i < K / 8; i += 32) {
                    sum += squares(__ldg(from + i));
                }
                sum = warp_sum(sum);
                const float factor = 1.0f / sqrtf(sum / (float)K + eps);
#pragma unroll 4
                for (int i = lane; i < vectors; i += 32) {
                    uint4 v = make_uint4(0, 0, 0, 0);
                    if (i < K / 8) {
                        v = scaled(__ldg(from + i), __ldg(reinterpret_cast<const uint4*>(norm_weight) + i), factor);
                    }
                    to[i] = v;
                }
            } else {
                for (int i = lane; i < vectors; i += 32) {
                    to[i] = make_uint4(0, 0, 0, 0);
                }
            }
        }
    } else {
        for (int token = 0; token < TOKENS; ++token) {
            uint4* to = reinterpret_cast<uint4*>(rows + (size_t)token * row_stride);
            for (int i = tid; i < vectors; i += kStreamThreads) {
                uint4 v = make_uint4(0, 0, 0, 0);
                if (token < T && k0 + 8 * i < K) {
                    v = __ldg(reinterpret_cast<const uint4*>(in + (size_t)token * K + k0) + i);
                }
                to[i] = v;
            }
        }
    }
    __syncthreads();

    for (int tile = first; tile < tiles; tile += step) {
        prefetch(tile + step);
        const int row = tile * 16 + g;
        const bool ok0 = row < N;
        const bool ok1 = row + 8 < N;
        float acc[MATS][NT][4];
#pragma unroll
        for (int m = 0; m < MATS; ++m) {
#pragma unroll
            for (int n = 0; n < NT; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    acc[m][n][i] = 0.0f;
                }
            }
        }
#pragma unroll 1
        for (int c = w0; c < w1; c += U) {
            uint4 a[U][MATS][2];
#pragma unroll
            for (int u = 0; u < U; ++u) {
                const int k = (c + u) * 32 + 8 * t;
                const bool ok = c + u < w1 && k < K;
#pragma unroll
                for (int m = 0; m < MATS; ++m) {
                    const half* w = (m == 0 ? W0 : W1);
                    a[u][m][0] = make_uint4(0, 0, 0, 0);
                    a[u][m][1] = make_uint4(0, 0, 0, 0);
                    if (ok && ok0) {
                        a[u][m][0] = load_stream(w + (size_t)row * K + k);
                    }
                    if (ok && ok1) {
                        a[u][m][1] = load_stream(w + (size_t)(row + 8) * K + k);
                    }
                }
            }
#pragma unroll
            for (int u = 0; u < U; ++u) {
                if (c + u < w1) {
                    const int k = (c + u - c0) * 32 + 8 * t;
#pragma unroll
                    for (int n = 0; n < NT; ++n) {
                        const uint4 b = *reinterpret_cast<const uint4*>(rows + (size_t)(n * 8 + g) * row_stride + k);
#pragma unroll
                        for (int m = 0; m < MATS; ++m) {
                            mma16816(acc[m][n], a[u][m][0].x, a[u][m][1].x, a[u][m][0].y, a[u][m][1].y, b.x, b.y);
                            mma16816(acc[m][n], a[u][m][0].z, a[u][m][1].z, a[u][m][0].w, a[u][m][1].w, b.z, b.w);
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int m = 0; m < MATS; ++m) {
#pragma unroll
            for (int n = 0; n < NT; ++n) {
                float* p = parts + ((warp * MATS + m) * TOKENS + n * 8 + 2 * t) * kPartRow + g;
                p[0] = acc[m][n][0];
                p[kPartRow] = acc[m][n][1];
                p[8] = acc[m][n][2];
                p[kPartRow + 8] = acc[m][n][3];
            }
        }
        __syncthreads();
        if (tid < TOKENS * 16) {
            const int token = tid >> 4;
            const int out = tile * 16 + (tid & 15);
            float sums[MATS];
#pragma unroll
            for (int m = 0; m < MATS; ++m) {
                sums[m] = 0.0f;
#pragma unroll
                for (int w = 0; w < kStreamWarps; ++w) {
                    sums[m] += parts[((w * MATS + m) * TOKENS + token) * kPartRow + (tid & 15)];
                }
            }
            if (token < T && out < N) {
                if (GATE) {
                    hidden[(size_t)token * N + out] = __float2half_rn(silu(sums[0]) * sums[MATS - 1]);
                } else {
                    partial[((size_t)slice * T + token) * N + out] = sums[0];
                }
            }
        }
        __syncthreads();
    }
}

// y = x + sum of the partial sums
__global__ void __launch_bounds__(256)
add_partials(const half* __restrict__ x, const float* __restrict__ partial, half* __restrict__ y, size_t pairs,
             int slices)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= pairs) {
        return;
    }
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 8
    for (int s = 0; s < slices; ++s) {
        const float2 v = __ldg(reinterpret_cast<const float2*>(partial) + (size_t)s * pairs + i);
        sum.x += v.x;
        sum.y += v.y;
    }
    const float2 v = __half22float2(reinterpret_cast<const half2*>(x)[i]);
    reinterpret_cast<half2*>(y)[i] = __floats2half2_rn(v.x + sum.x, v.y + sum.y);
}

// ---------------------------------------------------------------- many rows

constexpr int kBM = 128;
constexpr int kBN = 256;
constexpr int kBK = 64;
constexpr int kStages = 4;
constexpr int kStageA = kBM * kBK * 2;
constexpr int kStageB = kBN * kBK * 2;
constexpr int kStage = kStageA + kStageB;
constexpr int kTileShared = kStages * kStage + 1024;

__device__ __forceinline__ void copy16(unsigned to, const half* from, bool valid)
{
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ unsigned long long descriptor(unsigned address)
{
    return (unsigned long long)((address & 0x3ffffu) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)

__device__ __forceinline__ void wgmma256(float (&d)[128], unsigned long long a, unsigned long long b)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, p, 1, 1, 0, 0;\n"
        "}\n"
        : R16(0), R16(16), R16(32), R16(48), R16(64), R16(80), R16(96), R16(112)
        : "l"(a), "l"(b));
}

// 128 rows of A by 256 rows of the weights: 128 of W_gate and the same of W_up, or 256 of W_down.
template <bool GATE>
__global__ void __launch_bounds__(256, 1)
tiles(const half* __restrict__ A, const half* __restrict__ W0, const half* __restrict__ W1,
      const half* __restrict__ x, half* __restrict__ out, float* __restrict__ partial, int T, int K, int N,
      int m_tiles, int n_tiles, int slices, int steps_per_slice)
{
    extern __shared__ unsigned char raw[];
    const unsigned base = ((unsigned)__cvta_generic_to_shared(raw) + 1023u) & ~1023u;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int group = tid >> 7;
    constexpr int COLUMNS = GATE ? 128 : 256;

    const int bm = (int)(blockIdx.x % (unsigned)m_tiles);
    const int rest = (int)(blockIdx.x / (unsigned)m_tiles);
    const int bn = rest % n_tiles;
    const int slice = rest / n_tiles;
    const long long m0 = (long long)bm * kBM;
    const long long n0 = (long long)bn * COLUMNS;
    const int all_steps = (K + kBK - 1) / kBK;
    const int s0 = slice * steps_per_slice;
    const int steps = min(steps_per_slice, all_steps - s0);

    const int row = tid >> 3;            // and 32, 64, ... more
    const int chunk = tid & 7;
    const unsigned offset = (unsigned)(row * 128 + ((chunk ^ (row & 7)) << 4));

    auto load = [&](int s) {
        if (s < steps) {
            const unsigned to = base + (unsigned)(s % kStages) * kStage + offset;
            const long long k = (long long)(s0 + s) * kBK + chunk * 8;
            const bool ok = k < K;
#pragma unroll
            for (int i = 0; i < kBM / 32; ++i) {
                const long long r = m0 + row + 32 * i;
                const bool valid = ok && r < T;
                copy16(to + i * 4096, valid ? A + (size_t)r * K + k : A, valid);
            }
#pragma unroll
            for (int i = 0; i < kBN / 32; ++i) {
                const half* w = GATE && i >= 4 ? W1 : W0;
                const long long r = n0 + row + 32 * (GATE ? i % 4 : i);
                const bool valid = ok && r < N;
                copy16(to + kStageA + i * 4096, valid ? w + (size_t)r * K + k : w, valid);
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };

    float d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) {
        d[i] = 0.0f;
    }

    load(0);
    load(1);
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        const unsigned at = base + (unsigned)(s % kStages) * kStage;
        const unsigned long long da = descriptor(at + (unsigned)group * 8192u);
        const unsigned long long db = descriptor(at + kStageA);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < kBK / 16; ++k) {
            wgmma256(d, da + 2 * k, db + 2 * k);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        load(s + 2);   // where step s - 2 was: all have waited for it
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 128; ++i) {
        asm volatile("" : "+f"(d[i]) :: "memory");
    }

    const long long r0 = m0 + group * 64 + ((tid >> 5) & 3) * 16 + (lane >> 2);
    const long long col0 = n0 + 2 * (lane & 3);
#pragma unroll
    for (int half_row = 0; half_row < 2; ++half_row) {
        const long long r = r0 + 8 * half_row;
        if (r < T) {
            if (GATE) {
#pragma unroll
                for (int j = 0; j < 16; ++j) {
                    const long long col = col0 + 8 * j;
                    if (col < N) {
                        const float g0 = d[4 * j + 2 * half_row];
                        const float g1 = d[4 * j + 2 * half_row + 1];
                        const float u0 = d[64 + 4 * j + 2 * half_row];
                        const float u1 = d[64 + 4 * j + 2 * half_row + 1];
                        *reinterpret_cast<half2*>(out + (size_t)r * N + col) =
                            __floats2half2_rn(silu(g0) * u0, silu(g1) * u1);
                    }
                }
            } else {
#pragma unroll
                for (int j = 0; j < 32; ++j) {
                    const long long col = col0 + 8 * j;
                    if (col < N) {
                        const float v0 = d[4 * j + 2 * half_row];
                        const float v1 = d[4 * j + 2 * half_row + 1];
                        const size_t i = (size_t)r * N + col;
                        if (slices == 1) {
                            const float2 own = __half22float2(*reinterpret_cast<const half2*>(x + i));
                            *reinterpret_cast<half2*>(out + i) = __floats2half2_rn(own.x + v0, own.y + v1);
                        } else {
                            *reinterpret_cast<float2*>(partial + (size_t)slice * T * N + i) = make_float2(v0, v1);
                        }
                    }
                }
            }
        }
    }
}

// ---------------------------------------------------------------- rows that do not begin at 16 bytes

constexpr int kGroup = 4;   // tokens a warp

template <bool GATE>
__global__ void __launch_bounds__(256)
any_extent(const half* __restrict__ A, const half* __restrict__ W0, const half* __restrict__ W1,
           const half* __restrict__ x, half* __restrict__ out, int T, int K, int N)
{
    const int lane = threadIdx.x & 31;
    const size_t groups = ((size_t)T + kGroup - 1) / kGroup;
    const size_t items = groups * N;
    const size_t step = (size_t)gridDim.x * 8;
    for (size_t item = (size_t)blockIdx.x * 8 + (threadIdx.x >> 5); item < items; item += step) {
        const size_t group = item / N;
        const size_t n = item - group * N;
        const size_t t0 = group * kGroup;
        float s0[kGroup], s1[kGroup];
#pragma unroll
        for (int t = 0; t < kGroup; ++t) {
            s0[t] = 0.0f;
            s1[t] = 0.0f;
        }
        for (size_t k = lane; k < (size_t)K; k += 32) {
            const float a = __half2float(__ldg(W0 + n * K + k));
            const float b = GATE ? __half2float(__ldg(W1 + n * K + k)) : 0.0f;
#pragma unroll
            for (int t = 0; t < kGroup; ++t) {
                if (t0 + t < (size_t)T) {
                    const float v = __half2float(__ldg(A + (t0 + t) * K + k));
                    s0[t] = fmaf(v, a, s0[t]);
                    if (GATE) {
                        s1[t] = fmaf(v, b, s1[t]);
                    }
                }
            }
        }
#pragma unroll
        for (int t = 0; t < kGroup; ++t) {
            const float a = warp_sum(s0[t]);
            const float b = GATE ? warp_sum(s1[t]) : 0.0f;
            if (lane == 0 && t0 + t < (size_t)T) {
                const size_t i = (t0 + t) * N + n;
                if (GATE) {
                    out[i] = __float2half_rn(silu(a) * b);
                } else {
                    out[i] = __float2half_rn(__half2float(x[i]) + a);
                }
            }
        }
    }
}

// ---------------------------------------------------------------- host

size_t round_up(size_t n)
{
    return (n + 255) / 256 * 256;
}

int stride_of(int chunks)
{
    return chunks * 32 + (chunks % 2 == 0 ? 32 : 0);   // 64 bytes over a multiple of 128
}

template <int NT, bool GATE>
size_t stream_bytes(int chunks)
{
    return (size_t)8 * NT * stride_of(chunks) * sizeof(half) +
           (size_t)kStreamWarps * (GATE ? 2 : 1) * 8 * NT * kPartRow * sizeof(float);
}

void add_all(const half* x, const float* partial, half* y, size_t count, int slices)
{
    const size_t pairs = count / 2;
    add_partials<<<(unsigned)((pairs + 255) / 256), 256>>>(x, partial, y, pairs, slices);
}

template <int NT>
bool few_rows(const half* x, const half* norm_weight, const half* W_gate, const half* W_up, const half* W_down, half* y,
              int T, int d_model, int d_ff, float eps)
{
    const int gate_chunks = (d_model + 31) / 32;
    if (d_model > (1 << 20) || stream_bytes<NT, true>(gate_chunks) > kSharedLimit) {
        return false;
    }
    const int down_chunks = (int)(((long long)d_ff + 31) / 32);
    const int most = 131072 / (8 * NT * 64);
    int slices = (down_chunks + most - 1) / most;
    const int per_slice = (down_chunks + slices - 1) / slices;
    slices = (down_chunks + per_slice - 1) / per_slice;
    const size_t hidden_bytes = round_up((size_t)T * d_ff * sizeof(half));
    const size_t bytes = hidden_bytes + (size_t)slices * T * d_model * sizeof(float);
    if (slices > kSMs || d_ff > 0x7ffff000 ||
        bytes > (size_t)4 * T * ((size_t)4 * d_model + (size_t)4 * d_ff) + 65536) {
        return false;
    }
    static bool ready = false;
    if (!ready) {
        cudaFuncSetAttribute(stream<NT, true>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)kSharedLimit);
        cudaFuncSetAttribute(stream<NT, false>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)kSharedLimit);
        ready = true;
    }
    unsigned char* own = nullptr;
    cudaMallocAsync((void**)&own, bytes, 0);
    half* hidden = reinterpret_cast<half*>(own);
    float* partial = reinterpret_cast<float*>(own + hidden_bytes);

    const int gate_tiles = (int)(((long long)d_ff + 15) / 16);
    const int gate_blocks = gate_tiles < kSMs ? gate_tiles : kSMs;
    stream<NT, true><<<gate_blocks, kStreamThreads, stream_bytes<NT, true>(gate_chunks)>>>(
        x, norm_weight, W_gate, W_up, hidden, nullptr, T, d_model, d_ff, eps, gate_chunks, 1, stride_of(gate_chunks));

    const int down_tiles = (d_model + 15) / 16;
    int per = kSMs / slices;
    per = per < down_tiles ? per : down_tiles;
    stream<NT, false><<<per * slices, kStreamThreads, stream_bytes<NT, false>(per_slice)>>>(
        hidden, nullptr, W_down, nullptr, nullptr, partial, T, d_ff, d_model, eps, per_slice, slices,
        stride_of(per_slice));
    add_all(x, partial, y, (size_t)T * d_model, slices);
    cudaFreeAsync(own, 0);
    return true;
}

void many_rows(const half* x, const half* norm_weight, const half* W_gate, const half* W_up, const half* W_down,
               half* y, int T, int d_model, int d_ff, float eps)
{
    static bool ready = false;
    if (!ready) {
        cudaFuncSetAttribute(tiles<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, kTileShared);
        cudaFuncSetAttribute(tiles<false>, cudaFuncAttributeMaxDynamicSharedMemorySize, kTileShared);
        ready = true;
    }
    const int m_tiles = (int)(((long long)T + kBM - 1) / kBM);
    const int gate_tiles = (int)(((long long)d_ff + 127) / 128);
    const int down_tiles = (int)(((long long)d_model + kBN - 1) / kBN);
    const int gate_steps = (int)(((long long)d_model + kBK - 1) / kBK);
    const int down_steps = (int)(((long long)d_ff + kBK - 1) / kBK);

    const size_t r_bytes = round_up((size_t)T * d_model * sizeof(half));
    const size_t hidden_bytes = round_up((size_t)T * d_ff * sizeof(half));
    const size_t limit = (size_t)4 * T * ((size_t)4 * d_model + (size_t)4 * d_ff) + 65536;
    const size_t slice_bytes = (size_t)T * d_model * sizeof(float);
    const long long work = (long long)m_tiles * down_tiles;
    long long slices = kSMs / work;
    const long long room = (long long)((limit - r_bytes - hidden_bytes) / slice_bytes);
    slices = slices < room ? slices : room;
    slices = slices < down_steps / 4 ? slices : down_steps / 4;
    slices = slices > 1 ? slices : 1;
    const int per_slice = (int)((down_steps + slices - 1) / slices);
    slices = (down_steps + per_slice - 1) / per_slice;

    unsigned char* own = nullptr;
    cudaMallocAsync((void**)&own, r_bytes + hidden_bytes + (slices > 1 ? (size_t)slices * slice_bytes : 0), 0);
    half* r = reinterpret_cast<half*>(own);
    half* hidden = reinterpret_cast<half*>(own + r_bytes);
    float* partial = reinterpret_cast<float*>(own + r_bytes + hidden_bytes);

    normalise<<<(unsigned)T, 256>>>(x, norm_weight, r, d_model, eps);
    tiles<true><<<(unsigned)((long long)m_tiles * gate_tiles), 256, kTileShared>>>(
        r, W_gate, W_up, nullptr, hidden, nullptr, T, d_model, d_ff, m_tiles, gate_tiles, 1, gate_steps);
    tiles<false><<<(unsigned)(work * slices), 256, kTileShared>>>(
        hidden, W_down, nullptr, x, y, partial, T, d_ff, d_model, m_tiles, down_tiles, (int)slices, per_slice);
    if (slices > 1) {
        add_all(x, partial, y, (size_t)T * d_model, (int)slices);
    }
    cudaFreeAsync(own, 0);
}

}  // namespace

extern "C" void solve(const half* x, const half* norm_weight, const half* W_gate, const half* W_up, const half* W_down,
                      half* y, int tokens, int d_model, int d_ff, float eps)
{
    if (d_model % 8 == 0 && d_ff % 8 == 0) {
        bool done = false;
        if (tokens <= 8) {
            done = few_rows<1>(x, norm_weight, W_gate, W_up, W_down, y, tokens, d_model, d_ff, eps);
        } else if (tokens <= 16) {
            done = few_rows<2>(x, norm_weight, W_gate, W_up, W_down, y, tokens, d_model, d_ff, eps);
        }
        if (!done) {
            many_rows(x, norm_weight, W_gate, W_up, W_down, y, tokens, d_model, d_ff, eps);
        }
        return;
    }
    const size_t r_bytes = round_up((size_t)tokens * d_model * sizeof(half));
    const size_t hidden_bytes = round_up((size_t)tokens * d_ff * sizeof(half));
    unsigned char* own = nullptr;
    cudaMallocAsync((void**)&own, r_bytes + hidden_bytes, 0);
    half* r = reinterpret_cast<half*>(own);
    half* hidden = reinterpret_cast<half*>(own + r_bytes);
    normalise<<<(unsigned)tokens, 256>>>(x, norm_weight, r, d_model, eps);
    auto blocks = [&](size_t columns) {
        const size_t items = ((size_t)tokens + kGroup - 1) / kGroup * columns;
        const size_t n = (items + 7) / 8;
        return (unsigned)(n < (1u << 20) ? n : (1u << 20));
    };
    any_extent<true><<<blocks(d_ff), 256>>>(r, W_gate, W_up, nullptr, hidden, tokens, d_model, d_ff);
    any_extent<false><<<blocks(d_model), 256>>>(hidden, W_down, nullptr, x, y, tokens, d_ff, d_model);
    cudaFreeAsync(own, 0);
}
