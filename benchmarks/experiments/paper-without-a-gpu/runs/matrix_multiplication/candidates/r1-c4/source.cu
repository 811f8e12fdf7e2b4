// Three-part tf32 split mma, fp32 sums, tiles in L2-sharing panels.

#include <cuda_runtime.h>

namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = 32;
constexpr int STAGES = 4;
constexpr int PA = 40;                       // floats a row of A's tile: conflict-free 8-byte fragment loads
constexpr int PB = 132;                      // floats a row of B's tile: conflict-free 16-byte fragment loads
constexpr int A_FLOATS = BM * PA;
constexpr int STAGE_FLOATS = BM * PA + BK * PB;
constexpr int SMEM_BYTES = STAGES * STAGE_FLOATS * 4;
constexpr int PANEL = 16;                    // column tiles that are at work together

__device__ __forceinline__ void copy16(float* dst, const float* src, bool ok)
{
    const unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    const int bytes = ok ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(d), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy4(float* dst, const float* src, bool ok)
{
    const unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    const int bytes = ok ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(d), "l"(src), "r"(bytes) : "memory");
}

// x = high + low / 2048, high with the 11 significant bits of tf32.
__device__ __forceinline__ void split(float x, unsigned& high, unsigned& low)
{
    high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    low = __float_as_uint((x - __uint_as_float(high)) * 2048.0f);
}

__device__ __forceinline__ void mmaInto(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mmaFresh(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};\n"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

// VEC: K and N are multiples of 4
template <bool VEC>
__device__ __forceinline__ void loadStage(float* stage, const float* __restrict__ A, const float* __restrict__ B,
                                          int M, int N, int K, long long m0, long long n0, long long k0, int tid)
{
    {
        const int row = tid >> 3;
        const int kc = (tid & 7) * 4;
        const long long k = k0 + kc;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const long long m = m0 + row + i * 32;
            float* dst = stage + (row + i * 32) * PA + kc;
            if (VEC) {
                const bool ok = m < M && k < K;
                copy16(dst, ok ? A + (size_t)m * K + k : A, ok);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const bool ok = m < M && k + j < K;
                    copy4(dst + j, ok ? A + (size_t)m * K + k + j : A, ok);
                }
            }
        }
    }
    {
        const int row = tid >> 5;
        const int nc = (tid & 31) * 4;
        const long long n = n0 + nc;
        float* const tileB = stage + A_FLOATS;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const long long k = k0 + row + i * 8;
            float* dst = tileB + (row + i * 8) * PB + nc;
            if (VEC) {
                const bool ok = k < K && n < N;
                copy16(dst, ok ? B + (size_t)k * N + n : B, ok);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const bool ok = k < K && n + j < N;
                    copy4(dst + j, ok ? B + (size_t)k * N + n + j : B, ok);
                }
            }
        }
    }
}

template <bool VEC>
__global__ void __launch_bounds__(256, 1) multiply(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                                                   int M, int N, int K, unsigned tm, unsigned tn)
{
    extern __shared__ __align__(16) float sm[];

    // Panels of up to PANEL tiles across; within one, across first, then down: the blocks at work
    // share a few stripes of A and the same columns of B.
    const unsigned perPanel = (unsigned)PANEL * tm;
    const unsigned panel = blockIdx.x / perPanel;
    const unsigned local = blockIdx.x - panel * perPanel;
    const unsigned first = panel * PANEL;
    const unsigned width = min((unsigned)PANEL, tn - first);
    const unsigned tileM = local / width;
    const unsigned tileN = first + (local - tileM * width);
    const long long m0 = (long long)tileM * BM;
    const long long n0 = (long long)tileN * BN;

    const int tid = (int)threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int g = lane >> 2;
    const int t = lane & 3;
    const int wm = (warp >> 2) * 64;
    const int wn = (warp & 3) * 32;

    float acc[4][4][4];      // high times high
    float cross[4][4][4];    // high times low and low times high, times 2048
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                acc[i][j][c] = 0.0f;
                cross[i][j][c] = 0.0f;
            }
        }
    }

    const int nk = (int)(((long long)K + BK - 1) / BK);
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < nk) {
            loadStage<VEC>(sm + s * STAGE_FLOATS, A, B, M, N, K, m0, n0, (long long)s * BK, tid);
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    }

    int slot = 0;
    int fill = STAGES - 1;
#pragma unroll 1
    for (int kt = 0; kt < nk; ++kt) {
        asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        if (kt + STAGES - 1 < nk) {
            loadStage<VEC>(sm + fill * STAGE_FLOATS, A, B, M, N, K, m0, n0, (long long)(kt + STAGES - 1) * BK, tid);
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");

        const float* const as = sm + slot * STAGE_FLOATS + (wm + g) * PA + 2 * t;
        const float* const bs = sm + slot * STAGE_FLOATS + A_FLOATS + 2 * t * PB + wn + 4 * g;
#pragma unroll
        for (int kk = 0; kk < BK / 8; ++kk) {
            // k of the fragments: slot t is 2t, slot t + 4 is 2t + 1, in A and in B.
            // column of the fragments: column g of tile j is 4g + j.
            unsigned bh[4][2], bl[4][2];
            {
                const float4 p = *reinterpret_cast<const float4*>(bs + (kk * 8) * PB);
                const float4 q = *reinterpret_cast<const float4*>(bs + (kk * 8 + 1) * PB);
                split(p.x, bh[0][0], bl[0][0]);
                split(p.y, bh[1][0], bl[1][0]);
                split(p.z, bh[2][0], bl[2][0]);
                split(p.w, bh[3][0], bl[3][0]);
                split(q.x, bh[0][1], bl[0][1]);
                split(q.y, bh[1][1], bl[1][1]);
                split(q.z, bh[2][1], bl[2][1]);
                split(q.w, bh[3][1], bl[3][1]);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                unsigned ah[4], al[4];
                const float2 u = *reinterpret_cast<const float2*>(as + (i * 16) * PA + kk * 8);
                const float2 v = *reinterpret_cast<const float2*>(as + (i * 16 + 8) * PA + kk * 8);
                split(u.x, ah[0], al[0]);
                split(v.x, ah[1], al[1]);
                split(u.y, ah[2], al[2]);
                split(v.y, ah[3], al[3]);
                float fresh[4][4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    mmaFresh(fresh[j], ah, bh[j][0], bh[j][1]);
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    mmaInto(cross[i][j], ah, bl[j][0], bl[j][1]);
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    mmaInto(cross[i][j], al, bh[j][0], bh[j][1]);
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) {
#pragma unroll
                    for (int c = 0; c < 4; ++c) {
                        acc[i][j][c] += fresh[j][c];
                    }
                }
            }
        }
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        fill = fill + 1 == STAGES ? 0 : fill + 1;
    }
    asm volatile("cp.async.wait_all;\n" ::: "memory");

    const float down = 1.0f / 2048.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const long long m = m0 + wm + i * 16 + h * 8 + g;
            if (m < M) {
                float* const row = C + (size_t)m * N;
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const long long n = n0 + wn + 8 * t + 4 * e;
                    const int c = 2 * h + e;
                    float4 o;
                    o.x = fmaf(cross[i][0][c], down, acc[i][0][c]);
                    o.y = fmaf(cross[i][1][c], down, acc[i][1][c]);
                    o.z = fmaf(cross[i][2][c], down, acc[i][2][c]);
                    o.w = fmaf(cross[i][3][c], down, acc[i][3][c]);
                    if (VEC) {
                        if (n < N) {
                            *reinterpret_cast<float4*>(row + n) = o;
                        }
                    } else {
                        if (n < N) row[n] = o.x;
                        if (n + 1 < N) row[n + 1] = o.y;
                        if (n + 2 < N) row[n + 2] = o.z;
                        if (n + 3 < N) row[n + 3] = o.w;
                    }
                }
            }
        }
    }
}

}  // namespace

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K)
{
    const unsigned tm = ((unsigned)M + BM - 1) / BM;
    const unsigned tn = ((unsigned)N + BN - 1) / BN;
    const unsigned tiles = tm * tn;
    if ((K & 3) == 0 && (N & 3) == 0) {
        cudaFuncSetAttribute(multiply<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES);
        multiply<true><<<tiles, 256, SMEM_BYTES>>>(A, B, C, M, N, K, tm, tn);
    } else {
        cudaFuncSetAttribute(multiply<false>, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES);
        multiply<false><<<tiles, 256, SMEM_BYTES>>>(A, B, C, M, N, K, tm, tn);
    }
}
