// 128-thread split-tf32 mma, unchecked full-tile loads, pairwise flushed sums.

#include <cuda_runtime.h>

namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = 32;
constexpr int THREADS = 128;                 // four warps, each 128 x 32 outputs
constexpr int STAGES = 3;
constexpr int A_FLOATS = BM * BK;            // rows of 32 floats, 16-byte pieces swizzled
constexpr int B_FLOATS = BK * BN;            // rows of 128 floats, 16-byte pieces swizzled
constexpr int STAGE_FLOATS = A_FLOATS + B_FLOATS;
constexpr int SMEM_BYTES = STAGES * STAGE_FLOATS * 4;   // 96 KiB: two blocks an SM
constexpr int PANEL = 16;                    // column tiles that are at work together

__device__ __forceinline__ void copy16Fast(unsigned dst, const float* src)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(dst), "l"(src) : "memory");
}

__device__ __forceinline__ void copy16(unsigned dst, const float* src, bool ok)
{
    const int bytes = ok ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy4(unsigned dst, const float* src, bool ok)
{
    const int bytes = ok ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}

// x = high + low / 2048, high with the 11 significant bits of tf32.
__device__ __forceinline__ void split(float x, unsigned& high, unsigned& low)
{
    high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    low = __float_as_uint((x - __uint_as_float(high)) * 2048.0f);
}

__device__ __forceinline__ void mmaInto(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mmaFresh(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};\n"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

// A tile that lies wholly inside: pointers, no checks.
__device__ __forceinline__ void loadFull(unsigned dstA, unsigned dstB0, unsigned dstB1, unsigned dstB2, unsigned dstB3,
                                         const float* pa, const float* pb, size_t strideA, size_t strideB)
{
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        copy16Fast(dstA + (unsigned)(i * 16 * BK * 4), pa);
        pa += strideA;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const unsigned d = (i & 3) == 0 ? dstB0 : ((i & 3) == 1 ? dstB1 : ((i & 3) == 2 ? dstB2 : dstB3));
        copy16Fast(d + (unsigned)(i * 4 * BN * 4), pb);
        pb += strideB;
    }
}

// A tile at an edge: what lies outside is zero. VEC: K and N are multiples of 4.
template <bool VEC>
__device__ __forceinline__ void loadChecked(unsigned stage, const float* __restrict__ A, const float* __restrict__ B,
                                         int M, int N, int K, long long m0, long long n0, long long k0)
{
    const int tid = (int)threadIdx.x;
    {
        const int row = tid >> 3;
        const int chunk = tid & 7;
        const long long k = k0 + chunk * 4;
        const unsigned dst = stage + (unsigned)(row * BK + ((chunk ^ ((row & 1) * 4)) * 4)) * 4u;
#pragma unroll 1
        for (int i = 0; i < 8; ++i) {
            const long long m = m0 + row + i * 16;
            const unsigned d = dst + (unsigned)(i * 16 * BK * 4);
            if (VEC) {
                const bool ok = m < M && k < K;
                copy16(d, ok ? A + (size_t)m * K + k : A, ok);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const bool ok = m < M && k + j < K;
                    copy4(d + 4u * j, ok ? A + (size_t)m * K + k + j : A, ok);
                }
            }
        }
    }
    {
        const int row = tid >> 5;
        const int chunk = tid & 31;
        const long long n = n0 + chunk * 4;
#pragma unroll 1
        for (int i = 0; i < 8; ++i) {
            const long long k = k0 + row + i * 4;
            const unsigned d = stage + (unsigned)(A_FLOATS + (row + i * 4) * BN + ((chunk ^ (2 * (i & 3))) * 4)) * 4u;
            if (VEC) {
                const bool ok = k < K && n < N;
                copy16(d, ok ? B + (size_t)k * N + n : B, ok);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const bool ok = k < K && n + j < N;
                    copy4(d + 4u * j, ok ? B + (size_t)k * N + n + j : B, ok);
                }
            }
        }
    }
}

template <bool VEC>
__global__ void __launch_bounds__(THREADS, 2) multiply(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
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

    const unsigned smem = (unsigned)__cvta_generic_to_shared(sm);
    const bool inside = VEC && m0 + BM <= M && n0 + BN <= N;

    // Where this thread's pieces come from and go to.
    const float* pa = A + (size_t)(m0 + (tid >> 3)) * K + 4 * (tid & 7);
    const float* pb = B + (size_t)(tid >> 5) * N + n0 + 4 * (tid & 31);
    const size_t strideA = (size_t)16 * K;
    const size_t strideB = (size_t)4 * N;
    const size_t stepB = (size_t)BK * N;
    const unsigned offA = (unsigned)((tid >> 3) * BK + (((tid & 7) ^ (((tid >> 3) & 1) * 4)) * 4)) * 4u;
    const unsigned offB = (unsigned)(A_FLOATS + (tid >> 5) * BN) * 4u;
    const unsigned chunkB = (unsigned)(tid & 31);

    const int nk = (int)(((long long)K + BK - 1) / BK);
    const int nkFull = inside ? K / BK : 0;          // steps without checks

    float acc[8][4][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                acc[i][j][c] = 0.0f;
            }
        }
    }

#pragma unroll 1
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < nk) {
            const unsigned stage = smem + (unsigned)(s * STAGE_FLOATS * 4);
            if (s < nkFull) {
                const unsigned b = stage + offB;
                loadFull(stage + offA, b + chunkB * 16u, b + (chunkB ^ 2u) * 16u, b + (chunkB ^ 4u) * 16u,
                         b + (chunkB ^ 6u) * 16u, pa, pb, strideA, strideB);
                pa += BK;
                pb += stepB;
            } else {
                loadChecked<VEC>(stage, A, B, M, N, K, m0, n0, (long long)s * BK);
            }
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    }

    // Fragments: k of slot t is 4t, of slot t + 4 is 4t + 1 in the first mma of a pair, 4t + 2 and
    // 4t + 3 in the second. Column g of tile j is 4g + j.
    const int fragA0 = g * BK + ((t ^ ((g & 1) * 4)) * 4);           // pair 0 of a stage
    const int fragA1 = g * BK + (((t + 4) ^ ((g & 1) * 4)) * 4);     // pair 1
    const int fragB = A_FLOATS + 4 * t * BN + (((warp * 8 + g) ^ (2 * t)) * 4);
    const float down = 1.0f / 2048.0f;

    int slot = 0;
    int fill = STAGES - 1;
#pragma unroll 1
    for (int kt = 0; kt < nk; ++kt) {
        asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = kt + STAGES - 1;
        if (next < nk) {
            const unsigned stage = smem + (unsigned)(fill * STAGE_FLOATS * 4);
            if (next < nkFull) {
                const unsigned b = stage + offB;
                loadFull(stage + offA, b + chunkB * 16u, b + (chunkB ^ 2u) * 16u, b + (chunkB ^ 4u) * 16u,
                         b + (chunkB ^ 6u) * 16u, pa, pb, strideA, strideB);
                pa += BK;
                pb += stepB;
            } else {
                loadChecked<VEC>(stage, A, B, M, N, K, m0, n0, (long long)next * BK);
            }
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");

        const float* const st = sm + slot * STAGE_FLOATS;
#pragma unroll
        for (int p = 0; p < BK / 16; ++p) {
            const float* const as = st + (p == 0 ? fragA0 : fragA1);
            const float* const bs = st + fragB + p * 16 * BN;

            // [r][j]: row 4t + r of the pair's 16, tile j
            unsigned bh[4][4], bl[4][4];
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const float4 q = *reinterpret_cast<const float4*>(bs + r * BN);
                split(q.x, bh[r][0], bl[r][0]);
                split(q.y, bh[r][1], bl[r][1]);
                split(q.z, bh[r][2], bl[r][2]);
                split(q.w, bh[r][3], bl[r][3]);
            }

#pragma unroll
            for (int i = 0; i < 8; ++i) {
                unsigned ah0[4], al0[4], ah1[4], al1[4];
                const float4 u = *reinterpret_cast<const float4*>(as + (i * 16) * BK);
                const float4 v = *reinterpret_cast<const float4*>(as + (i * 16 + 8) * BK);
                split(u.x, ah0[0], al0[0]);
                split(v.x, ah0[1], al0[1]);
                split(u.y, ah0[2], al0[2]);
                split(v.y, ah0[3], al0[3]);
                split(u.z, ah1[0], al1[0]);
                split(v.z, ah1[1], al1[1]);
                split(u.w, ah1[2], al1[2]);
                split(v.w, ah1[3], al1[3]);

                float main_[4][4];     // high times high
                float cross[4][4];     // high times low and low times high, times 2048
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaFresh(cross[j], ah0, bl[0][j], bl[1][j]);
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaFresh(main_[j], ah0, bh[0][j], bh[1][j]);
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaInto(cross[j], al0, bh[0][j], bh[1][j]);
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaInto(main_[j], ah1, bh[2][j], bh[3][j]);
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaInto(cross[j], ah1, bl[2][j], bl[3][j]);
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaInto(cross[j], al1, bh[2][j], bh[3][j]);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
#pragma unroll
                    for (int c = 0; c < 4; ++c) {
                        acc[i][j][c] += fmaf(cross[j][c], down, main_[j][c]);
                    }
                }
            }
        }
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        fill = fill + 1 == STAGES ? 0 : fill + 1;
    }
    asm volatile("cp.async.wait_all;\n" ::: "memory");

    const long long nb = n0 + warp * 32 + 8 * t;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const long long m = m0 + i * 16 + h * 8 + g;
            if (m < M) {
                float* const row = C + (size_t)m * N;
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const long long n = nb + 4 * e;
                    const int c = 2 * h + e;
                    if (VEC) {
                        if (n < N) {
                            *reinterpret_cast<float4*>(row + n) =
                                make_float4(acc[i][0][c], acc[i][1][c], acc[i][2][c], acc[i][3][c]);
                        }
                    } else {
                        if (n < N) row[n] = acc[i][0][c];
                        if (n + 1 < N) row[n + 1] = acc[i][1][c];
                        if (n + 2 < N) row[n + 2] = acc[i][2][c];
                        if (n + 3 < N) row[n + 3] = acc[i][3][c];
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
        multiply<true><<<tiles, THREADS, SMEM_BYTES>>>(A, B, C, M, N, K, tm, tn);
    } else {
        cudaFuncSetAttribute(multiply<false>, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES);
        multiply<false><<<tiles, THREADS, SMEM_BYTES>>>(A, B, C, M, N, K, tm, tn);
    }
}
