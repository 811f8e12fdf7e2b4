// Panel-ordered tf32 split mma, 16-deep chains, 16-byte fragments, fewer instructions.

#include <cuda_runtime.h>

namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = 32;
constexpr int STAGES = 4;
constexpr int PA = 48;                       // floats a row of A's tile: conflict-free 16-byte fragment loads
constexpr int PB = 128;                      // floats a row of B's tile: groups of four are swizzled by the row
constexpr int A_FLOATS = BM * PA;
constexpr int STAGE_FLOATS = BM * PA + BK * PB;
constexpr int SMEM_BYTES = STAGES * STAGE_FLOATS * 4;
constexpr int PANEL = 16;                    // column tiles that are at work together

constexpr int SCALAR = 0;                    // any extents
constexpr int VEC = 1;                       // K and N are multiples of 4
constexpr int FULL = 2;                      // M, N and K are multiples of the tile's extents

__device__ __forceinline__ void copy16(unsigned dst, const float* src)
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

// What a thread needs to bring its share of a stage.
struct Loader {
    const float* a;       // FULL: its next element of A, of B
    const float* b;
    size_t stepA;         // 32 rows of A
    size_t stepB;         // 8 rows of B
    unsigned dstA;        // places in stage 0, in bytes
    unsigned dstB0;       // rows 0, 16 further
    unsigned dstB1;       // rows 8, 24 further
};

template <int MODE>
__device__ __forceinline__ void loadStage(Loader& ld, unsigned stage, const float* __restrict__ A,
                                          const float* __restrict__ B, int M, int N, int K, long long m0,
                                          long long n0, long long k0, int tid)
{
    if (MODE == FULL) {
        const float* p = ld.a;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            copy16(ld.dstA + stage + (unsigned)(i * 32 * PA * 4), p);
            p += ld.stepA;
        }
        const float* q = ld.b;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            copy16(((i & 1) ? ld.dstB1 : ld.dstB0) + stage + (unsigned)(i * 8 * PB * 4), q);
            q += ld.stepB;
        }
        ld.a += BK;
        ld.b = q;
    } else {
        const long long ka = k0 + (tid & 7) * 4;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const long long m = m0 + (tid >> 3) + i * 32;
            const unsigned dst = ld.dstA + stage + (unsigned)(i * 32 * PA * 4);
            if (MODE == VEC) {
                const bool ok = m < M && ka < K;
                copy16(dst, ok ? A + (size_t)m * K + ka : A, ok);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const bool ok = m < M && ka + j < K;
                    copy4(dst + 4 * j, ok ? A + (size_t)m * K + ka + j : A, ok);
                }
            }
        }
        const long long n = n0 + (tid & 31) * 4;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const long long k = k0 + (tid >> 5) + i * 8;
            const unsigned dst = ((i & 1) ? ld.dstB1 : ld.dstB0) + stage + (unsigned)(i * 8 * PB * 4);
            if (MODE == VEC) {
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

template <int MODE>
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

    Loader ld;
    {
        const unsigned base = (unsigned)__cvta_generic_to_shared(sm);
        const int rowA = tid >> 3, kc = (tid & 7) * 4;
        const int rowB = tid >> 5, chunk = tid & 31;
        // Group c of row r of B lies at c ^ 2 * ((r >> 2) & 3).
        const int c0 = chunk ^ (2 * (rowB >> 2));
        ld.dstA = base + (unsigned)(rowA * PA + kc) * 4u;
        ld.dstB0 = base + (unsigned)(A_FLOATS + rowB * PB + c0 * 4) * 4u;
        ld.dstB1 = base + (unsigned)(A_FLOATS + rowB * PB + (c0 ^ 4) * 4) * 4u;
        ld.stepA = (size_t)32 * (size_t)K;
        ld.stepB = (size_t)8 * (size_t)N;
        ld.a = A;
        ld.b = B;
        if (MODE == FULL) {
            ld.a = A + (size_t)(m0 + rowA) * K + kc;
            ld.b = B + (size_t)rowB * N + n0 + chunk * 4;
        }
    }

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
            loadStage<MODE>(ld, (unsigned)(s * STAGE_FLOATS * 4), A, B, M, N, K, m0, n0, (long long)s * BK, tid);
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    }

    const float* const as0 = sm + (wm + g) * PA + 4 * t;
    const float* const bs0 = sm + A_FLOATS + 4 * t * PB + ((((wn >> 2) + g) ^ (2 * t)) << 2);

    int slot = 0;
    int fill = STAGES - 1;
#pragma unroll 1
    for (int kt = 0; kt < nk; ++kt) {
        asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        if (kt + STAGES - 1 < nk) {
            loadStage<MODE>(ld, (unsigned)(fill * (STAGE_FLOATS * 4)), A, B, M, N, K, m0, n0,
                            (long long)(kt + STAGES - 1) * BK, tid);
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");

        const float* const as = as0 + slot * STAGE_FLOATS;
        const float* const bs = bs0 + slot * STAGE_FLOATS;
#pragma unroll
        for (int kp = 0; kp < BK / 16; ++kp) {
            // Two mma deep. k of the fragments, of 16: in mma h, slot t is 4t + 2h and slot t + 4 is
            // 4t + 2h + 1, in A and in B. Column of the fragments: column g of tile j is 4g + j.
            unsigned bh[2][4][2], bl[2][4][2];
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const float4 p = *reinterpret_cast<const float4*>(bs + (kp * 16 + 2 * h) * PB);
                const float4 q = *reinterpret_cast<const float4*>(bs + (kp * 16 + 2 * h + 1) * PB);
                split(p.x, bh[h][0][0], bl[h][0][0]);
                split(p.y, bh[h][1][0], bl[h][1][0]);
                split(p.z, bh[h][2][0], bl[h][2][0]);
                split(p.w, bh[h][3][0], bl[h][3][0]);
                split(q.x, bh[h][0][1], bl[h][0][1]);
                split(q.y, bh[h][1][1], bl[h][1][1]);
                split(q.z, bh[h][2][1], bl[h][2][1]);
                split(q.w, bh[h][3][1], bl[h][3][1]);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float4 u = *reinterpret_cast<const float4*>(as + (i * 16) * PA + kp * 16);
                const float4 v = *reinterpret_cast<const float4*>(as + (i * 16 + 8) * PA + kp * 16);
                unsigned ah[4], al[4];
                float fresh[4][4];

                split(u.x, ah[0], al[0]);
                split(v.x, ah[1], al[1]);
                split(u.y, ah[2], al[2]);
                split(v.y, ah[3], al[3]);
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaFresh(fresh[j], ah, bh[0][j][0], bh[0][j][1]);
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaInto(cross[i][j], ah, bl[0][j][0], bl[0][j][1]);
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaInto(cross[i][j], al, bh[0][j][0], bh[0][j][1]);

                split(u.z, ah[0], al[0]);
                split(v.z, ah[1], al[1]);
                split(u.w, ah[2], al[2]);
                split(v.w, ah[3], al[3]);
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaInto(fresh[j], ah, bh[1][j][0], bh[1][j][1]);
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaInto(cross[i][j], ah, bl[1][j][0], bl[1][j][1]);
#pragma unroll
                for (int j = 0; j < 4; ++j) mmaInto(cross[i][j], al, bh[1][j][0], bh[1][j][1]);

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
            if (MODE == FULL || m < M) {
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
                    if (MODE != SCALAR) {
                        if (MODE == FULL || n < N) {
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
void launch(const float* A, const float* B, float* C, int M, int N, int K)
{
    const unsigned tm = ((unsigned)M + BM - 1) / BM;
    const unsigned tn = ((unsigned)N + BN - 1) / BN;
    cudaFuncSetAttribute(multiply<MODE>, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES);
    multiply<MODE><<<tm * tn, 256, SMEM_BYTES>>>(A, B, C, M, N, K, tm, tn);
}

}  // namespace

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K)
{
    if (M % BM == 0 && N % BN == 0 && K % BK == 0) {
        launch<FULL>(A, B, C, M, N, K);
    } else if ((K & 3) == 0 && (N & 3) == 0) {
        launch<VEC>(A, B, C, M, N, K);
    } else {
        launch<SCALAR>(A, B, C, M, N, K);
    }
}
