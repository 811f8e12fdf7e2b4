// Vector in registers, double-buffered row tiles, streaming loads, balanced ranges

#include <cuda_runtime.h>
#include <cstddef>

namespace {

constexpr unsigned kPart = 128; // rows of partial sums a warp keeps

// Read once: first to leave the caches.
__device__ __forceinline__ uint4 stream16(const uint4* p)
{
    uint4 v;
    asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

__device__ __forceinline__ unsigned stream4(const unsigned* p)
{
    unsigned v;
    asm volatile("ld.global.cs.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

__device__ __forceinline__ float stream_scale(const float* p)
{
    float v;
    asm volatile("ld.global.cs.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}

// Exact signed bytes to floats: 2^23 + (w + 128), then minus (2^23 + 128).
__device__ __forceinline__ float dot4(unsigned w, float x0, float x1, float x2, float x3, float a)
{
    const unsigned u = w ^ 0x80808080u;
    const float f0 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7440)) - 8388736.0f;
    const float f1 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7441)) - 8388736.0f;
    const float f2 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7442)) - 8388736.0f;
    const float f3 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7443)) - 8388736.0f;
    a = fmaf(f0, x0, a);
    a = fmaf(f1, x1, a);
    a = fmaf(f2, x2, a);
    a = fmaf(f3, x3, a);
    return a;
}

__device__ __forceinline__ float dot16(const uint4& w, const float* xv)
{
    float a = dot4(w.x, xv[0], xv[1], xv[2], xv[3], 0.0f);
    a = dot4(w.y, xv[4], xv[5], xv[6], xv[7], a);
    a = dot4(w.z, xv[8], xv[9], xv[10], xv[11], a);
    a = dot4(w.w, xv[12], xv[13], xv[14], xv[15], a);
    return a;
}

// Sums R values over the lanes; lane l ends with the sum of value l / (32 / R).
template <int R>
__device__ __forceinline__ float over_lanes(const float (&acc)[R], unsigned lane)
{
    float v;
    const bool h16 = (lane & 16u) != 0;
    if constexpr (R == 4) {
        const bool h8 = (lane & 8u) != 0;
        float a = h16 ? acc[2] : acc[0];
        float b = h16 ? acc[3] : acc[1];
        const float sa = h16 ? acc[0] : acc[2];
        const float sb = h16 ? acc[1] : acc[3];
        a += __shfl_xor_sync(0xFFFFFFFFu, sa, 16);
        b += __shfl_xor_sync(0xFFFFFFFFu, sb, 16);
        v = h8 ? b : a;
        const float sv = h8 ? a : b;
        v += __shfl_xor_sync(0xFFFFFFFFu, sv, 8);
    } else {
        static_assert(R == 2, "two or four rows");
        v = h16 ? acc[1] : acc[0];
        const float sv = h16 ? acc[0] : acc[1];
        v += __shfl_xor_sync(0xFFFFFFFFu, sv, 16);
        v += __shfl_xor_sync(0xFFFFFFFFu, v, 8);
    }
    v += __shfl_xor_sync(0xFFFFFFFFu, v, 4);
    v += __shfl_xor_sync(0xFFFFFFFFu, v, 2);
    v += __shfl_xor_sync(0xFFFFFFFFu, v, 1);
    return v;
}

// A warp keeps P pieces (512 floats each, 16 a lane) of x in registers. Slices of warps lie side by side
// on a row, each group of slices walks down its own range of rows, R at a time, two tiles on their way.
template <int P, int R>
__global__ void __launch_bounds__(512, 1)
stream(const uint4* __restrict__ W, const float* __restrict__ scales,
       const float* __restrict__ x, float* __restrict__ y,
       unsigned blocks, unsigned slices, unsigned groups, unsigned passes,
       unsigned q, unsigned rem, unsigned rounds)
{
    extern __shared__ float4 shared4[];
    float* shared = reinterpret_cast<float*>(shared4);

    constexpr unsigned kStage = P * 512u;
    constexpr unsigned kWarp = kStage + kPart;

    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned group = warp / slices;
    const unsigned slice = warp - group * slices;

    float4* stage = reinterpret_cast<float4*>(shared + warp * kWarp);
    float* part = shared + warp * kWarp + kStage;

    // Rows of this group: q, and one more in the first rem groups.
    const unsigned gi = blockIdx.x * groups + group;
    const unsigned r0 = gi * q + (gi < rem ? gi : rem);
    const unsigned cnt = q + (gi < rem ? 1u : 0u);

    const size_t stride = 2 * (size_t)blocks; // uint4s in a row of W
    const size_t stride_s = (size_t)blocks;   // scales in a row

    for (unsigned round = 0; round < rounds; ++round) {
        if (round != 0) {
            __syncthreads(); // the partial sums have been read
        }
        const unsigned done = round * kPart;
        unsigned n = cnt > done ? cnt - done : 0u;
        if (n > kPart) {
            n = kPart;
        }

        for (unsigned pass = 0; n != 0 && pass < passes; ++pass) {
            const unsigned piece0 = (pass * slices + slice) * (unsigned)P;
            if (piece0 * 16u >= blocks) {
                break; // the same for a whole warp
            }

            __syncwarp();
            // x of these pieces, coalesced, into the warp's own swizzled stage
#pragma unroll
            for (unsigned p = 0; p < (unsigned)P; ++p) {
#pragma unroll
                for (unsigned i = 0; i < 4; ++i) {
                    const unsigned f = i * 32u + lane;
                    const bool ok = (piece0 + p) * 16u + (f >> 3) < blocks;
                    const float* from = ok ? x + ((size_t)(piece0 + p) * 512 + (size_t)f * 4) : x;
                    const unsigned to =
                        (unsigned)__cvta_generic_to_shared(stage + p * 128u + (f ^ ((f >> 3) & 3u)));
                    const unsigned bytes = ok ? 16u : 0u;
                    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
                                 :: "r"(to), "l"(from), "r"(bytes) : "memory");
                }
            }
            asm volatile("cp.async.commit_group;" ::: "memory");

            // Lanes past the last block read that block again, with x = 0.
            unsigned blk = piece0 * 16u + (lane >> 1);
            unsigned off = 0; // blocks from the first piece's to the second's
            if constexpr (P == 2) {
                unsigned other = blk + 16u;
                if (other >= blocks) {
                    other = blocks - 1u;
                }
                if (blk >= blocks) {
                    blk = blocks - 1u;
                }
                off = other - blk;
            } else {
                if (blk >= blocks) {
                    blk = blocks - 1u;
                }
            }
            const uint4* pw = W + (size_t)(r0 + done) * stride + 2 * (size_t)blk + (lane & 1u);
            const float* ps = scales + (size_t)(r0 + done) * stride_s + blk;
            const unsigned tiles = (n + (unsigned)R - 1u) / (unsigned)R;
            unsigned left = n; // rows not yet asked for

            // Asks for the next tile; rows past the last one repeat it, their sums are never read.
            auto load = [&](uint4 (&w)[R][P], float (&sc)[R][P]) {
                if (left >= (unsigned)R) {
#pragma unroll
                    for (int k = 0; k < R; ++k) {
#pragma unroll
                        for (int p = 0; p < P; ++p) {
                            w[k][p] = stream16(pw + k * stride + (p ? 2u * off : 0u));
                        }
                    }
#pragma unroll
                    for (int k = 0; k < R; ++k) {
#pragma unroll
                        for (int p = 0; p < P; ++p) {
                            sc[k][p] = stream_scale(ps + k * stride_s + (p ? off : 0u));
                        }
                    }
                    left -= (unsigned)R;
                    pw += (size_t)R * stride;
                    ps += (size_t)R * stride_s;
                } else {
                    const unsigned last = left - 1u;
#pragma unroll
                    for (int k = 0; k < R; ++k) {
                        const unsigned kk = (unsigned)k < last ? (unsigned)k : last;
#pragma unroll
                        for (int p = 0; p < P; ++p) {
                            w[k][p] = stream16(pw + kk * stride + (p ? 2u * off : 0u));
                            sc[k][p] = stream_scale(ps + kk * stride_s + (p ? off : 0u));
                        }
                    }
                    left = 0;
                }
            };

            uint4 wa[R][P], wb[R][P];
            float sa[R][P], sb[R][P];

            load(wa, sa);
            if (tiles > 1u) {
                load(wb, sb);
            }

            asm volatile("cp.async.wait_all;" ::: "memory");
            __syncwarp();
            float xv[P * 16];
#pragma unroll
            for (unsigned p = 0; p < (unsigned)P; ++p) {
#pragma unroll
                for (unsigned k = 0; k < 4; ++k) {
                    const unsigned f = lane * 4u + k;
                    const float4 v = stage[p * 128u + (f ^ ((f >> 3) & 3u))];
                    xv[16 * p + 4 * k + 0] = v.x;
                    xv[16 * p + 4 * k + 1] = v.y;
                    xv[16 * p + 4 * k + 2] = v.z;
                    xv[16 * p + 4 * k + 3] = v.w;
                }
            }

            auto dots = [&](const uint4 (&w)[R][P], const float (&sc)[R][P], float (&acc)[R]) {
#pragma unroll
                for (int k = 0; k < R; ++k) {
                    acc[k] = dot16(w[k][0], xv) * sc[k][0];
                    if constexpr (P == 2) {
                        acc[k] = fmaf(dot16(w[k][P - 1], xv + 16 * (P - 1)), sc[k][P - 1], acc[k]);
                    }
                }
            };

            auto keep = [&](const float (&acc)[R], unsigned tile) {
                float v = over_lanes<R>(acc, lane);
                if ((lane & (32u / R - 1u)) == 0) {
                    const unsigned slot = tile * (unsigned)R + lane / (32u / R);
                    if (pass != 0) {
                        v += part[slot]; // written by this same lane
                    }
                    part[slot] = v;
                }
            };

#pragma unroll 1
            for (unsigned t = 0;; t += 2u) {
                float acc[R];
                dots(wa, sa, acc);
                if (t + 2u < tiles) {
                    load(wa, sa);
                }
                keep(acc, t);
                if (t + 1u >= tiles) {
                    break;
                }
                dots(wb, sb, acc);
                if (t + 3u < tiles) {
                    load(wb, sb);
                }
                keep(acc, t + 1u);
                if (t + 2u >= tiles) {
                    break;
                }
            }
        }

        __syncthreads();

        // Sum over the slices of a row
        for (unsigned e = threadIdx.x; e < groups * kPart; e += blockDim.x) {
            const unsigned g = e / kPart;
            const unsigned i = e % kPart;
            const unsigned gj = blockIdx.x * groups + g;
            const unsigned c = q + (gj < rem ? 1u : 0u);
            if (done + i < c) {
                const float* p = shared + g * slices * kWarp + kStage + i;
                float sum = 0.0f;
#pragma unroll 4
                for (unsigned s = 0; s < slices; ++s) {
                    sum += p[s * kWarp];
                }
                y[(size_t)gj * q + (gj < rem ? gj : rem) + done + i] = sum;
            }
        }
    }
}

// Little work: two whole rows a warp, four weights a lane and load, nothing shared.
template <bool FULL>
__device__ __forceinline__ void chunk(const unsigned* pw0, const unsigned* pw1, const float* ps0, const float* ps1,
                                      const float4* px, unsigned here, float& acc0, float& acc1)
{
    float4 v[8];
    unsigned w0[8], w1[8];
    float s0[8], s1[8];
#pragma unroll
    for (unsigned i = 0; i < 8; ++i) {
        if (FULL || i * 4u < here) {
            w0[i] = stream4(pw0 + i * 32u);
            w1[i] = stream4(pw1 + i * 32u);
        } else {
            w0[i] = 0u;
            w1[i] = 0u;
        }
    }
#pragma unroll
    for (unsigned i = 0; i < 8; ++i) {
        if (FULL || i * 4u < here) {
            v[i] = __ldg(px + i * 32u);
            s0[i] = stream_scale(ps0 + i * 4u);
            s1[i] = stream_scale(ps1 + i * 4u);
        } else {
            v[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            s0[i] = 0.0f;
            s1[i] = 0.0f;
        }
    }
#pragma unroll
    for (unsigned i = 0; i < 8; ++i) {
        acc0 = fmaf(dot4(w0[i], v[i].x, v[i].y, v[i].z, v[i].w, 0.0f), s0[i], acc0);
        acc1 = fmaf(dot4(w1[i], v[i].x, v[i].y, v[i].z, v[i].w, 0.0f), s1[i], acc1);
    }
}

__global__ void __launch_bounds__(128)
direct(const unsigned* __restrict__ W, const float* __restrict__ scales,
       const float4* __restrict__ x, float* __restrict__ y, unsigned rows, unsigned blocks)
{
    const unsigned lane = threadIdx.x & 31u;
    const unsigned row0 = (blockIdx.x * 4u + (threadIdx.x >> 5)) * 2u;
    if (row0 >= rows) {
        return; // the same for a whole warp
    }
    const unsigned row1 = row0 + 1u < rows ? row0 + 1u : row0;
    const unsigned sub = lane >> 3; // eight lanes share a block
    const unsigned* pw0 = W + (size_t)row0 * blocks * 8 + lane;
    const unsigned* pw1 = W + (size_t)row1 * blocks * 8 + lane;
    const float* ps0 = scales + (size_t)row0 * blocks + sub;
    const float* ps1 = scales + (size_t)row1 * blocks + sub;
    const float4* px = x + lane;

    float acc[2] = {0.0f, 0.0f};
    for (unsigned base = 0; base < blocks; base += 32u) {
        const unsigned rest = blocks - base;
        if (rest >= 32u) {
            chunk<true>(pw0, pw1, ps0, ps1, px, 32u, acc[0], acc[1]);
        } else {
            // Blocks that exist from this lane's first on
            chunk<false>(pw0, pw1, ps0, ps1, px, rest > sub ? rest - sub : 0u, acc[0], acc[1]);
        }
        pw0 += 256;
        pw1 += 256;
        ps0 += 32;
        ps1 += 32;
        px += 256;
    }
    __syncwarp();
    const float v = over_lanes<2>(acc, lane);
    if ((lane & 15u) == 0) {
        const unsigned row = row0 + (lane >> 4);
        if (row < rows) {
            y[row] = v;
        }
    }
}

template <int P, int R>
void start(const signed char* W, const float* scales, const float* x, float* y, unsigned rows, unsigned blocks,
           unsigned pieces)
{
    const unsigned units = (pieces + P - 1u) / P;
    const unsigned passes = (units + 15u) / 16u;
    const unsigned slices = (units + passes - 1u) / passes; // 16 at most
    const unsigned groups = slices <= 8u ? 8u / slices : 1u;
    const unsigned warps = slices * groups;
    const unsigned resident = 132u * (16u / warps);
    const unsigned wanted = (rows + groups - 1u) / groups;
    const unsigned grid = wanted < resident ? wanted : resident;
    const unsigned all = grid * groups;
    const unsigned q = rows / all;
    const unsigned rem = rows % all;
    const unsigned most = q + (rem != 0 ? 1u : 0u);
    const unsigned rounds = (most + kPart - 1u) / kPart;
    const size_t bytes = (size_t)warps * (P * 512u + kPart) * sizeof(float);
    if (bytes > 48 * 1024) {
        cudaFuncSetAttribute(stream<P, R>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    }
    stream<P, R><<<grid, warps * 32u, bytes>>>(reinterpret_cast<const uint4*>(W), scales, x, y, blocks, slices,
                                               groups, passes, q, rem, rounds);
}

} // namespace

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    if (rows <= 0 || blocks <= 0) {
        return;
    }
    const unsigned n = (unsigned)rows;
    const unsigned b = (unsigned)blocks;

    if (b <= 128u && (unsigned long long)n * b <= 110000ull) {
        direct<<<(n + 7u) / 8u, 128>>>(reinterpret_cast<const unsigned*>(W), scales,
                                       reinterpret_cast<const float4*>(x), y, n, b);
        return;
    }

    const unsigned pieces = (b + 15u) / 16u; // of 512 weights, 16 a lane
    if (pieces <= 16u) {
        start<1, 4>(W, scales, x, y, n, b, pieces);
    } else {
        start<2, 2>(W, scales, x, y, n, b, pieces);
    }
}
