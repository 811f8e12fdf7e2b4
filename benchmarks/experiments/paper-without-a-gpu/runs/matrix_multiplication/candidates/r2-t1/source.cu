// Chooses one of two kernels by the size.
#include <cuda_runtime.h>

namespace small_sizes {
// Split tf32 wgmma, left from registers, right converted meanwhile.



namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = 32;
constexpr int STAGES = 4;
constexpr int PA = 40;                         // floats a row of A's tile: conflict-free 8-byte loads
constexpr int A_FLOATS = BM * PA;
constexpr int STAGE_FLOATS = BM * PA + BK * BN;
constexpr int PART_FLOATS = BN * BK;           // high or low parts of a tile of B, 128 bytes a column
constexpr int CONV_FLOATS = 4 * PART_FLOATS;   // two buffers of high and low parts
constexpr int SMEM_BYTES = (CONV_FLOATS + STAGES * STAGE_FLOATS) * 4 + 1024;
constexpr int PANEL = 16;                      // column tiles that are at work together

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

__device__ __forceinline__ void wgFence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void wgCommit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void wgWait() { asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory"); }

// Values that a wgmma writes are not to be touched before the wait.
__device__ __forceinline__ void pin(float (&d)[64])
{
#pragma unroll
    for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// d (64 x 128 a warpgroup) = a (64 x 8) * b (8 x 128), plus d unless keep is 0.
__device__ __forceinline__ void wgmma(float (&d)[64], const unsigned (&a)[4], unsigned long long b, int keep)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, p, 1, 1;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep)
        : "memory");
}

// Brings the tile of step k0 to a stage; what lies outside is zero. VEC: K and N are multiples of 4.
template <bool VEC>
__device__ __forceinline__ void loadStage(unsigned stage, const float* __restrict__ A, const float* __restrict__ B,
                                          unsigned M, unsigned N, unsigned K, unsigned m0, unsigned n0, unsigned k0,
                                          unsigned tid)
{
    {
        const unsigned row = tid >> 3;
        const unsigned kc = (tid & 7u) * 4u;
        const unsigned k = k0 + kc;
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned m = m0 + row + i * 32u;
            const unsigned dst = stage + ((row + i * 32u) * PA + kc) * 4u;
            if (VEC) {
                const bool ok = m < M && k < K;
                copy16(dst, ok ? A + ((size_t)m * K + k) : A, ok);
            } else {
#pragma unroll
                for (unsigned j = 0; j < 4; ++j) {
                    const bool ok = m < M && k + j < K;
                    copy4(dst + 4u * j, ok ? A + ((size_t)m * K + k + j) : A, ok);
                }
            }
        }
    }
    {
        const unsigned row = tid >> 5;
        const unsigned nc = (tid & 31u) * 4u;
        const unsigned n = n0 + nc;
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned k = k0 + row + i * 8u;
            const unsigned dst = stage + (A_FLOATS + (row + i * 8u) * BN + nc) * 4u;
            if (VEC) {
                const bool ok = k < K && n < N;
                copy16(dst, ok ? B + ((size_t)k * N + n) : B, ok);
            } else {
#pragma unroll
                for (unsigned j = 0; j < 4; ++j) {
                    const bool ok = k < K && n + j < N;
                    copy4(dst + 4u * j, ok ? B + ((size_t)k * N + n + j) : B, ok);
                }
            }
        }
    }
}

// Chunk 2 * j + half of 16 bytes of column n: four values of k, high and low parts, swizzled as wgmma
// wants it. Of the 8 k of a wgmma, place t holds k = 2t and place t + 4 holds k = 2t + 1, as in A.
__device__ __forceinline__ void convert(float* __restrict__ to, const float* __restrict__ tileB, int j, int n, int half)
{
    const float* src = tileB + (8 * j + half) * BN + n;
    uint4 h, l;
    split(src[0], h.x, l.x);
    split(src[2 * BN], h.y, l.y);
    split(src[4 * BN], h.z, l.z);
    split(src[6 * BN], h.w, l.w);
    float* d = to + n * 32 + (((2 * j + half) ^ (n & 7)) << 2);
    *reinterpret_cast<uint4*>(d) = h;
    *reinterpret_cast<uint4*>(d + PART_FLOATS) = l;
}

template <bool VEC>
__global__ void __launch_bounds__(256, 1) multiply(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                                                   unsigned M, unsigned N, unsigned K, unsigned tm, unsigned tn)
{
    extern __shared__ __align__(1024) unsigned char smemRaw[];
    const unsigned rawAddress = (unsigned)__cvta_generic_to_shared(smemRaw);
    const unsigned pad = (1024u - (rawAddress & 1023u)) & 1023u;
    float* const conv = reinterpret_cast<float*>(smemRaw + pad);
    float* const stages = conv + CONV_FLOATS;
    const unsigned convAddress = rawAddress + pad;
    const unsigned stageAddress = convAddress + CONV_FLOATS * 4u;

    // Panels of up to PANEL tiles across; within one, across first, then down: the blocks at work
    // share a few stripes of A and the same columns of B.
    const unsigned perPanel = (unsigned)PANEL * tm;
    const unsigned panel = blockIdx.x / perPanel;
    const unsigned local = blockIdx.x - panel * perPanel;
    const unsigned first = panel * PANEL;
    const unsigned width = min((unsigned)PANEL, tn - first);
    const unsigned tileM = local / width;
    const unsigned tileN = first + (local - tileM * width);
    const unsigned m0 = tileM * BM;
    const unsigned n0 = tileN * BN;

    const unsigned tid = threadIdx.x;
    const int lane = (int)(tid & 31u);
    const int warp = (int)(tid >> 5);
    const int g = lane >> 2;
    const int t = lane & 3;
    const int cn = (int)(tid & 127u);          // column that this thread converts
    const int chalf = (int)(tid >> 7);

    float acc[64];      // high times high
    float cross[64];    // high times low and low times high, times 2048
    float fresh[64];    // high times high of one tile
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        acc[i] = 0.0f;
        cross[i] = 0.0f;
        fresh[i] = 0.0f;
    }

    const unsigned nk = (K + BK - 1u) / BK;
#pragma unroll
    for (unsigned s = 0; s < STAGES - 1; ++s) {
        loadStage<VEC>(stageAddress + s * (STAGE_FLOATS * 4u), A, B, M, N, K, m0, n0, s * BK, tid);
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    }
    asm volatile("cp.async.wait_group 2;\n" ::: "memory");
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; ++j) convert(conv, stages + A_FLOATS, j, cn, chalf);
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");

    // Columns of 128 bytes, swizzled over 128 bytes; eight columns take 1,024 bytes.
    const unsigned long long desc0 = (unsigned long long)((convAddress & 0x3ffffu) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
    const int aOffset = (warp * 16 + g) * PA + 2 * t;

#pragma unroll 1
    for (unsigned kt = 0; kt < nk; ++kt) {
        asm volatile("cp.async.wait_group 1;\n" ::: "memory");
        __syncthreads();

        const float* const as = stages + (kt & 3u) * STAGE_FLOATS + aOffset;
        const float* const nextB = stages + ((kt + 1u) & 3u) * STAGE_FLOATS + A_FLOATS;
        float* const nextConv = conv + ((kt + 1u) & 1u) * (2 * PART_FLOATS);
        const unsigned long long bh = desc0 + (unsigned long long)((kt & 1u) * (2u * PART_FLOATS * 4u / 16u));
        const unsigned long long bl = bh + (unsigned long long)(PART_FLOATS * 4 / 16);

#pragma unroll
        for (int kk = 0; kk < BK / 8; ++kk) {
            unsigned ah[4], al[4];
            const float2 u = *reinterpret_cast<const float2*>(as + kk * 8);
            const float2 v = *reinterpret_cast<const float2*>(as + 8 * PA + kk * 8);
            split(u.x, ah[0], al[0]);
            split(v.x, ah[1], al[1]);
            split(u.y, ah[2], al[2]);
            split(v.y, ah[3], al[3]);

            wgFence();
            if (kk == 0) {
                wgmma(cross, ah, bl, 1);
                wgmma(cross, al, bh, 1);
                wgCommit();
                // the sums of the tile before, while the tensor cores are busy
#pragma unroll
                for (int i = 0; i < 64; ++i) acc[i] += fresh[i];
                pin(fresh);
                wgFence();
                wgmma(fresh, ah, bh, 0);
                wgCommit();
                loadStage<VEC>(stageAddress + ((kt + 3u) & 3u) * (STAGE_FLOATS * 4u), A, B, M, N, K, m0, n0, (kt + 3u) * BK, tid);
                asm volatile("cp.async.commit_group;\n" ::: "memory");
            } else {
                wgmma(fresh, ah, bh + 2 * kk, 1);
                wgmma(cross, ah, bl + 2 * kk, 1);
                wgmma(cross, al, bh + 2 * kk, 1);
                wgCommit();
            }
            convert(nextConv, nextB, kk, cn, chalf);
            wgWait();
        }
        pin(fresh);
        asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    }
    asm volatile("cp.async.wait_all;\n" ::: "memory");
    pin(cross);

    const float down = 1.0f / 2048.0f;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const unsigned m = m0 + (unsigned)(warp * 16 + h * 8 + g);
        if (m < M) {
            float* const row = C + (size_t)m * N;
#pragma unroll
            for (int j = 0; j < 16; ++j) {
                const unsigned n = n0 + (unsigned)(8 * j + 2 * t);
                const int c = 4 * j + 2 * h;
                float2 o;
                o.x = fmaf(cross[c], down, acc[c] + fresh[c]);
                o.y = fmaf(cross[c + 1], down, acc[c + 1] + fresh[c + 1]);
                if (VEC) {
                    if (n < N) {
                        *reinterpret_cast<float2*>(row + n) = o;
                    }
                } else {
                    if (n < N) row[n] = o.x;
                    if (n + 1 < N) row[n + 1] = o.y;
                }
            }
        }
    }
}

}  // namespace

 void solve(const float* A, const float* B, float* C, int M, int N, int K)
{
    const unsigned tm = ((unsigned)M + BM - 1) / BM;
    const unsigned tn = ((unsigned)N + BN - 1) / BN;
    const unsigned tiles = tm * tn;
    if ((K & 3) == 0 && (N & 3) == 0) {
        cudaFuncSetAttribute(multiply<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES);
        multiply<true><<<tiles, 256, SMEM_BYTES>>>(A, B, C, (unsigned)M, (unsigned)N, (unsigned)K, tm, tn);
    } else {
        cudaFuncSetAttribute(multiply<false>, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES);
        multiply<false><<<tiles, 256, SMEM_BYTES>>>(A, B, C, (unsigned)M, (unsigned)N, (unsigned)K, tm, tn);
    }
}
}  // namespace small_sizes

namespace large_sizes {
// Three-part tf32 split mma, fp32 sums, tiles in L2-sharing panels.



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

 void solve(const float* A, const float* B, float* C, int M, int N, int K)
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
}  // namespace large_sizes

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K)
{
    if ((long long)M < 2048LL) {
        ::small_sizes::solve(A, B, C, M, N, K);
    } else {
        ::large_sizes::solve(A, B, C, M, N, K);
    }
}
