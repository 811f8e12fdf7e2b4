// Unchecked full tiles, three-part tf32 mma, swizzled 16-byte fragments.

#include <cuda_runtime.h>

namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = 32;
constexpr int STAGES = 4;
constexpr int A_FLOATS = BM * BK;            // 16-byte groups of odd rows are exchanged: group ^ 4
constexpr int B_FLOATS = BK * BN;            // 16-byte groups of row k: group ^ 2 * ((k / 4) % 4)
constexpr int STAGE_FLOATS = A_FLOATS + B_FLOATS;
constexpr int SMEM_BYTES = STAGES * STAGE_FLOATS * 4;
constexpr int PANEL = 16;                    // column tiles that are at work together

constexpr int SCALAR = 0;                    // checks every number
constexpr int VECTOR = 1;                    // K and N are multiples of 4: checks four at a time
constexpr int FULL = 2;                      // whole tiles, K a multiple of BK: checks nothing

__device__ __forceinline__ void copyFull(unsigned dst, const float* src)
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

// What a thread copies: rows tid / 8 + 32 i of A's tile, rows tid / 32 + 8 i of B's.
__device__ __forceinline__ void loadFull(unsigned dstA, unsigned dstB0, unsigned dstB1, const float* a, const float* b,
                                         size_t stepA, size_t stepB)
{
    copyFull(dstA, a);
    a += stepA;
    copyFull(dstA + 32 * BK * 4, a);
    a += stepA;
    copyFull(dstA + 64 * BK * 4, a);
    a += stepA;
    copyFull(dstA + 96 * BK * 4, a);
    copyFull(dstB0, b);
    b += stepB;
    copyFull(dstB1 + 8 * BN * 4, b);
    b += stepB;
    copyFull(dstB0 + 16 * BN * 4, b);
    b += stepB;
    copyFull(dstB1 + 24 * BN * 4, b);
}

template <int MODE>
__device__ __forceinline__ void loadChecked(unsigned dstA, unsigned dstB0, unsigned dstB1, const float* __restrict__ A,
                                            const float* __restrict__ B, int M, int N, int K, long long m0, long long n0,
                                            long long k0, int tid)
{
    {
        const long long k = k0 + (tid & 7) * 4;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const long long m = m0 + (tid >> 3) + i * 32;
            const unsigned dst = dstA + i * (32 * BK * 4);
            if (MODE == VECTOR) {
                const bool ok = m < M && k < K;
                copy16(dst, ok ? A + (size_t)m * K + k : A, ok);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const bool ok = m < M && k + j < K;
                    copy4(dst + 4 * j, ok ? A + (size_t)m * K + k + j : A, ok);
                }
            }
        }
    }
    {
        const long long n = n0 + (tid & 31) * 4;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const long long k = k0 + (tid >> 5) + i * 8;
            const unsigned dst = ((i & 1) ? dstB1 : dstB0) + i * (8 * BN * 4);
            if (MODE == VECTOR) {
                const bool ok = k < K && n < N;
                copy16(dst, ok ? B + (size_t)k * N + n : B, ok);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const bool ok = k < K && n + j < N;
                    copy4(dst + 4 * j, ok ? B + (size_t)k * N + n + j : B, ok);
                }
            }
        }
    }
}

// tm x tn tiles in panels; or, with edges, what lies right of and below tm x tn full tiles.
template <int MODE>
__global__ void __launch_bounds__(256, 1) multiply(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                                                   int M, int N, int K, unsigned tm, unsigned tn, unsigned right, bool edges)
{
    extern __shared__ __align__(16) float sm[];

    unsigned tileM, tileN;
    if (MODE == FULL || !edges) {
        // Panels of up to PANEL tiles across; within one, across first, then down: the blocks at
        // work share a few stripes of A and the same columns of B.
        const unsigned perPanel = (unsigned)PANEL * tm;
        const unsigned panel = blockIdx.x / perPanel;
        const unsigned local = blockIdx.x - panel * perPanel;
        const unsigned first = panel * PANEL;
        const unsigned width = min((unsigned)PANEL, tn - first);
        tileM = local / width;
        tileN = first + (local - tileM * width);
    } else if (blockIdx.x < right) {
        tileM = blockIdx.x;
        tileN = tn;
    } else {
        tileM = tm;
        tileN = blockIdx.x - right;
    }
    const long long m0 = (long long)tileM * BM;
    const long long n0 = (long long)tileN * BN;

    const int tid = (int)threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int g = lane >> 2;
    const int t = lane & 3;
    const int wm = (warp >> 2) * 64;
    const int wn = (warp & 3) * 32;

    // Copies: where they come from and go to.
    const unsigned base = (unsigned)__cvta_generic_to_shared(sm);
    const unsigned dstA = base + 4u * (unsigned)((tid >> 3) * BK + 4 * ((tid & 7) ^ (4 * ((tid >> 3) & 1))));
    const unsigned dstB0 = base + 4u * (unsigned)(A_FLOATS + warp * BN + 4 * (lane ^ (2 * (warp >> 2))));
    const unsigned dstB1 = base + 4u * (unsigned)(A_FLOATS + warp * BN + 4 * (lane ^ (2 * (warp >> 2)) ^ 4));
    const size_t stepA = (size_t)32 * (size_t)K;
    const size_t stepB = (size_t)8 * (size_t)N;
    const float* srcA = A;
    const float* srcB = B;
    if (MODE == FULL) {
        srcA = A + (size_t)(m0 + (tid >> 3)) * (size_t)K + (tid & 7) * 4;
        srcB = B + (size_t)warp * (size_t)N + (size_t)(n0 + lane * 4);
    }

    // Fragments: slots t and t + 4 of the two products over 16 values of k are 4t, 4t + 1 and
    // 4t + 2, 4t + 3, in A and in B. Column g of tile j is 4g + j.
    const int readA = (wm + g) * BK + 4 * (t ^ (4 * (g & 1)));
    const int readB = A_FLOATS + 4 * t * BN + 4 * ((wn / 4 + g) ^ (2 * t));

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
            const unsigned o = (unsigned)(s * STAGE_FLOATS * 4);
            if (MODE == FULL) {
                loadFull(dstA + o, dstB0 + o, dstB1 + o, srcA, srcB, stepA, stepB);
                srcA += BK;
                srcB += 4 * stepB;
            } else {
                loadChecked<MODE>(dstA + o, dstB0 + o, dstB1 + o, A, B, M, N, K, m0, n0, (long long)s * BK, tid);
            }
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    }

#pragma unroll 1
    for (int kt = 0; kt < nk; ++kt) {
        asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        if (kt + STAGES - 1 < nk) {
            const unsigned o = (unsigned)((kt + STAGES - 1) & (STAGES - 1)) * (unsigned)(STAGE_FLOATS * 4);
            if (MODE == FULL) {
                loadFull(dstA + o, dstB0 + o, dstB1 + o, srcA, srcB, stepA, stepB);
                srcA += BK;
                srcB += 4 * stepB;
            } else {
                loadChecked<MODE>(dstA + o, dstB0 + o, dstB1 + o, A, B, M, N, K, m0, n0,
                                  (long long)(kt + STAGES - 1) * BK, tid);
            }
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");

        const float* const stage = sm + (kt & (STAGES - 1)) * STAGE_FLOATS;
        const float* const bs = stage + readB;
#pragma unroll
        for (int kq = 0; kq < BK / 16; ++kq) {
            const float* const as = stage + (readA ^ (16 * kq));

            unsigned bh[4][4], bl[4][4];     // [row of k][tile]
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const float4 p = *reinterpret_cast<const float4*>(bs + (kq * 16 + e) * BN);
                split(p.x, bh[e][0], bl[e][0]);
                split(p.y, bh[e][1], bl[e][1]);
                split(p.z, bh[e][2], bl[e][2]);
                split(p.w, bh[e][3], bl[e][3]);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float4 u = *reinterpret_cast<const float4*>(as + (i * 16) * BK);
                const float4 v = *reinterpret_cast<const float4*>(as + (i * 16 + 8) * BK);
                unsigned ah[2][4], al[2][4];
                split(u.x, ah[0][0], al[0][0]);
                split(v.x, ah[0][1], al[0][1]);
                split(u.y, ah[0][2], al[0][2]);
                split(v.y, ah[0][3], al[0][3]);
                split(u.z, ah[1][0], al[1][0]);
                split(v.z, ah[1][1], al[1][1]);
                split(u.w, ah[1][2], al[1][2]);
                split(v.w, ah[1][3], al[1][3]);
                float fresh[4][4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    mmaFresh(fresh[j], ah[0], bh[0][j], bh[1][j]);
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    mmaInto(cross[i][j], ah[0], bl[0][j], bl[1][j]);
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    mmaInto(fresh[j], ah[1], bh[2][j], bh[3][j]);
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    mmaInto(cross[i][j], al[0], bh[0][j], bh[1][j]);
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    mmaInto(cross[i][j], ah[1], bl[2][j], bl[3][j]);
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    mmaInto(cross[i][j], al[1], bh[2][j], bh[3][j]);
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
    }
    asm volatile("cp.async.wait_all;\n" ::: "memory");

    const float down = 1.0f / 2048.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const long long m = m0 + wm + i * 16 + h * 8 + g;
            if (MODE == FULL || m < M) {
                float* const row = C + (size_t)m * (size_t)N;
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const long long n = n0 + wn + 8 * t + 4 * e;
                    const int c = 2 * h + e;
                    float4 o;
                    o.x = fmaf(cross[i][0][c], down, acc[i][0][c]);
                    o.y = fmaf(cross[i][1][c], down, acc[i][1][c]);
                    o.z = fmaf(cross[i][2][c], down, acc[i][2][c]);
                    o.w = fmaf(cross[i][3][c], down, acc[i][3][c]);
                    if (MODE == FULL) {
                        *reinterpret_cast<float4*>(row + n) = o;
                    } else if (MODE == VECTOR) {
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

template <int MODE>
void launch(const float* A, const float* B, float* C, int M, int N, int K, unsigned blocks, unsigned tm, unsigned tn,
            unsigned right, bool edges)
{
    cudaFuncSetAttribute(multiply<MODE>, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES);
    multiply<MODE><<<blocks, 256, SMEM_BYTES>>>(A, B, C, M, N, K, tm, tn, right, edges);
}

}  // namespace

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K)
{
    const unsigned tm = ((unsigned)M + BM - 1) / BM;
    const unsigned tn = ((unsigned)N + BN - 1) / BN;
    if ((K & 3) != 0 || (N & 3) != 0) {
        launch<SCALAR>(A, B, C, M, N, K, tm * tn, tm, tn, 0u, false);
        return;
    }
    const unsigned fm = (unsigned)M / BM;     // full tiles down
    const unsigned fn = (unsigned)N / BN;     // and across
    if (K % BK != 0 || fm == 0u || fn == 0u) {
        launch<VECTOR>(A, B, C, M, N, K, tm * tn, tm, tn, 0u, false);
        return;
    }
    launch<FULL>(A, B, C, M, N, K, fm * fn, fm, fn, 0u, false);
    const unsigned right = tn > fn ? fm : 0u;
    const unsigned below = tm > fm ? tn : 0u;
    if (right + below != 0u) {
        launch<VECTOR>(A, B, C, M, N, K, right + below, fm, fn, right, true);
    }
}
