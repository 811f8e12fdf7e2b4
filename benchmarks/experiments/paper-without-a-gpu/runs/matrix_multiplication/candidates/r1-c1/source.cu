// 128x128 tiles, 8x8 a thread, double-buffered, transposed left tile.

#include <cuda_runtime.h>

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = 16;
constexpr int LDA = BM + 4;       // rows stay 16-byte aligned, transposed stores do not collide

__device__ __forceinline__ void copy16(unsigned dst, const float* src, bool ok)
{
    const int bytes = ok ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(dst), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy4(unsigned dst, const float* src, bool ok)
{
    const int bytes = ok ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(dst), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

// VEC: K and N are multiples of 4.
template <bool VEC>
__global__ void __launch_bounds__(256, 2)
gemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
     int M, int N, int K, int tilesN)
{
    __shared__ __align__(16) float As[2][BK][LDA];
    __shared__ __align__(16) float Bs[2][BK][BN];

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int by = (int)blockIdx.x / tilesN;
    const int bx = (int)blockIdx.x - by * tilesN;
    const int m0 = by * BM;
    const int n0 = bx * BN;
    const int mleft = M - m0;
    const int nleft = N - n0;

    // A: a warp takes 16 rows, two lanes a row, k = ak and ak + 8
    const int ar = warp * 16 + (lane >> 1);
    const int ak = (lane & 1) * 4;
    const float* pa = A + (size_t)(m0 + min(ar, mleft - 1)) * K + ak;

    // B: a warp takes rows bk and bk + 8
    const int bk = warp;
    const int bc = lane * 4;
    const float* pb = B + (size_t)bk * N + (n0 + (VEC ? min(bc, nleft - 4) : bc));
    const size_t bhalf = (size_t)N * 8;
    const unsigned bs0 = (unsigned)__cvta_generic_to_shared(&Bs[0][bk][bc]);

    // 4 warps down, 2 across; a warp has 32 x 64 outputs, 4 x 8 lanes
    const int row = (warp >> 1) * 32 + (lane >> 3) * 4;      // and + 16
    const int col = (warp & 1) * 64 + (lane & 7) * 4;        // and + 32

    float4 ra[2];
    float acc[8][8];
    float fa[2][8], fb[2][8];

    auto load_a = [&](int kleft) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            ra[h] = make_float4(0.f, 0.f, 0.f, 0.f);
            const int k = ak + 8 * h;
            if (VEC) {
                if (k < kleft) ra[h] = __ldg(reinterpret_cast<const float4*>(pa + 8 * h));
            } else {
                if (k < kleft) ra[h].x = __ldg(pa + 8 * h);
                if (k + 1 < kleft) ra[h].y = __ldg(pa + 8 * h + 1);
                if (k + 2 < kleft) ra[h].z = __ldg(pa + 8 * h + 2);
                if (k + 3 < kleft) ra[h].w = __ldg(pa + 8 * h + 3);
            }
        }
    };
    auto store_a = [&](int buf) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            As[buf][ak + 8 * h + 0][ar] = ra[h].x;
            As[buf][ak + 8 * h + 1][ar] = ra[h].y;
            As[buf][ak + 8 * h + 2][ar] = ra[h].z;
            As[buf][ak + 8 * h + 3][ar] = ra[h].w;
        }
    };
    auto load_b = [&](int buf, int kleft) {
        const unsigned dst = bs0 + (unsigned)(buf * BK * BN * 4);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const bool in = bk + 8 * h < kleft;
            const float* src = pb + (h ? bhalf : (size_t)0);
            const unsigned d = dst + (unsigned)(h * 8 * BN * 4);
            if (VEC) {
                copy16(d, in ? src : B, in);
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const bool ok = in && bc + j < nleft;
                    copy4(d + 4 * j, ok ? src + j : B, ok);
                }
            }
        }
        copies_commit();
    };
    auto load_frag = [&](int f, int buf, int k) {
        const float4 a0 = *reinterpret_cast<const float4*>(&As[buf][k][row]);
        const float4 a1 = *reinterpret_cast<const float4*>(&As[buf][k][row + 16]);
        const float4 b0 = *reinterpret_cast<const float4*>(&Bs[buf][k][col]);
        const float4 b1 = *reinterpret_cast<const float4*>(&Bs[buf][k][col + 32]);
        fa[f][0] = a0.x; fa[f][1] = a0.y; fa[f][2] = a0.z; fa[f][3] = a0.w;
        fa[f][4] = a1.x; fa[f][5] = a1.y; fa[f][6] = a1.z; fa[f][7] = a1.w;
        fb[f][0] = b0.x; fb[f][1] = b0.y; fb[f][2] = b0.z; fb[f][3] = b0.w;
        fb[f][4] = b1.x; fb[f][5] = b1.y; fb[f][6] = b1.z; fb[f][7] = b1.w;
    };

#pragma unroll
    for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) acc[i][j] = 0.f;
    }

    int kleft = K;                       // from the first k of the tile that is loaded
    load_b(0, kleft);
    load_a(kleft);
    store_a(0);
    copies_wait();
    __syncthreads();
    load_frag(0, 0, 0);

    int buf = 0;
    while (true) {
        kleft -= BK;
        const bool more = kleft > 0;     // the same for the whole block
        if (more) {
            pa += BK;
            pb += 2 * bhalf;
            load_b(buf ^ 1, kleft);
            load_a(kleft);
        }

#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k == BK - 3 && more) store_a(buf ^ 1);
            if (k < BK - 1) {
                load_frag((k + 1) & 1, buf, k + 1);
            } else if (more) {
                copies_wait();
                __syncthreads();
                load_frag(0, buf ^ 1, 0);
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    acc[i][j] = fmaf(fa[k & 1][i], fb[k & 1][j], acc[i][j]);
                }
            }
        }
        if (!more) break;
        buf ^= 1;
    }

#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int r = row + (i & 3) + (i >> 2) * 16;
        if (r < mleft) {
            float* pc = C + (size_t)(m0 + r) * N + n0;
#pragma unroll
            for (int g = 0; g < 2; g++) {
                const int c = col + g * 32;
                if (VEC) {
                    if (c < nleft) {
                        *reinterpret_cast<float4*>(pc + c) =
                            make_float4(acc[i][4 * g], acc[i][4 * g + 1], acc[i][4 * g + 2], acc[i][4 * g + 3]);
                    }
                } else {
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        if (c + j < nleft) pc[c + j] = acc[i][4 * g + j];
                    }
                }
            }
        }
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K)
{
    if (M <= 0 || N <= 0 || K <= 0) return;
    const int tilesM = (M - 1) / BM + 1;
    const int tilesN = (N - 1) / BN + 1;
    const unsigned blocks = (unsigned)tilesM * (unsigned)tilesN;
    if (K % 4 == 0 && N % 4 == 0) {
        gemm<true><<<blocks, 256>>>(A, B, C, M, N, K, tilesN);
    } else {
        gemm<false><<<blocks, 256>>>(A, B, C, M, N, K, tilesN);
    }
}
