// Two register tiles in flight; pipeline never drains between passes.

#include <cuda_runtime.h>
#include <cstddef>

namespace {

constexpr unsigned kStage = 512;           // floats of x a warp stages (16 a lane)
constexpr unsigned kPart = 128;            // rows of partial sums a warp keeps
constexpr unsigned kWarp = kStage + kPart; // floats of shared memory of a warp
constexpr unsigned R = 4;                  // rows of a tile

// Loads only if k < n; what was in v stays otherwise.
__device__ __forceinline__ void load_weights(uint4& v, const uint4* p, unsigned k, unsigned n)
{
    asm volatile("{\n\t.reg .pred q;\n\t"
                 "setp.lt.u32 q, %5, %6;\n\t"
                 "@q ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
                 : "l"(p), "r"(k), "r"(n));
}

__device__ __forceinline__ void load_scale(float& v, const float* p, unsigned k, unsigned n)
{
    asm volatile("{\n\t.reg .pred q;\n\t"
                 "setp.lt.u32 q, %2, %3;\n\t"
                 "@q ld.global.nc.L1::no_allocate.f32 %0, [%1];\n\t}"
                 : "+f"(v) : "l"(p), "r"(k), "r"(n));
}

__device__ __forceinline__ void load_word(unsigned& v, const unsigned* p, unsigned k, unsigned n)
{
    asm volatile("{\n\t.reg .pred q;\n\t"
                 "setp.lt.u32 q, %2, %3;\n\t"
                 "@q ld.global.nc.L1::no_allocate.u32 %0, [%1];\n\t}"
                 : "+r"(v) : "l"(p), "r"(k), "r"(n));
}

__device__ __forceinline__ void load_vector(float4& v, const float4* p, unsigned k, unsigned n)
{
    asm volatile("{\n\t.reg .pred q;\n\t"
                 "setp.lt.u32 q, %5, %6;\n\t"
                 "@q ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n\t}"
                 : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w)
                 : "l"(p), "r"(k), "r"(n));
}

// Exact signed bytes to floats: 2^23 + (w + 128), then minus (2^23 + 128).
__device__ __forceinline__ void dot4(unsigned w, float x0, float x1, float x2, float x3, float& a)
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
}

// Little work: a warp a row, every load coalesced and issued before the first use.
__global__ void __launch_bounds__(256)
multiply_small(const unsigned* __restrict__ W, const float* __restrict__ scales,
               const float4* __restrict__ x, float* __restrict__ y,
               unsigned rows, unsigned blocks)
{
    const unsigned lane = threadIdx.x & 31u;
    const unsigned row = blockIdx.x * 8u + (threadIdx.x >> 5);
    if (row >= rows) {
        return; // a whole warp
    }
    const unsigned words = blocks * 8u;
    const unsigned* pw = W + (size_t)row * words;
    const float* ps = scales + (size_t)row * blocks;

    float acc = 0.0f;
#pragma unroll 1
    for (unsigned base = lane; base - lane < words; base += 256u) {
        unsigned w[8];
        float s[8];
        float4 v[8];
#pragma unroll
        for (unsigned k = 0; k < 8; ++k) {
            const unsigned i = base + k * 32u;
            w[k] = 0u;
            load_word(w[k], pw + i, i, words);
        }
#pragma unroll
        for (unsigned k = 0; k < 8; ++k) {
            const unsigned i = base + k * 32u;
            s[k] = 0.0f;
            load_scale(s[k], ps + (i >> 3), i, words);
        }
#pragma unroll
        for (unsigned k = 0; k < 8; ++k) {
            const unsigned i = base + k * 32u;
            v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            load_vector(v[k], x + i, i, words);
        }
#pragma unroll
        for (unsigned k = 0; k < 8; ++k) {
            float a = 0.0f;
            dot4(w[k], v[k].x, v[k].y, v[k].z, v[k].w, a);
            acc = fmaf(a, s[k], acc);
        }
    }
    acc += __shfl_xor_sync(0xFFFFFFFFu, acc, 16);
    acc += __shfl_xor_sync(0xFFFFFFFFu, acc, 8);
    acc += __shfl_xor_sync(0xFFFFFFFFu, acc, 4);
    acc += __shfl_xor_sync(0xFFFFFFFFu, acc, 2);
    acc += __shfl_xor_sync(0xFFFFFFFFu, acc, 1);
    if (lane == 0) {
        y[row] = acc;
    }
}

// blockDim = (32 * slices, groups). A group owns rows that follow each other;
// its warps (slices) share the columns, in passes if there are more pieces.
__global__ void __launch_bounds__(256, 3)
multiply(const uint4* __restrict__ W, const float* __restrict__ scales,
         const float* __restrict__ x, float* __restrict__ y,
         unsigned blocks, unsigned pieces, unsigned slices,
         unsigned share, unsigned extra)
{
    extern __shared__ float4 shared4[];
    float* shared = reinterpret_cast<float*>(shared4);

    const unsigned lane = threadIdx.x & 31u;
    const unsigned slice = threadIdx.x >> 5;
    const unsigned id = blockIdx.x * blockDim.y + threadIdx.y;
    const unsigned first = id * share + (id < extra ? id : extra);
    const unsigned count = share + (id < extra ? 1u : 0u);
    const unsigned most = share + (extra != 0u ? 1u : 0u); // the same for all groups

    float* mine = shared + (threadIdx.y * slices + slice) * kWarp;
    float4* stage = reinterpret_cast<float4*>(mine);
    float* part = mine + kStage;

    const size_t stride = 2 * (size_t)blocks; // uint4s in a row of W
    const size_t stride_s = (size_t)blocks;   // scales in a row

    // x of a piece, coalesced, into the warp's own swizzled stage
    auto stage_x = [&](unsigned piece) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned f = i * 32u + lane;
            const bool ok = piece * 16u + (f >> 3) < blocks;
            const float* from = ok ? x + ((size_t)piece * 512 + (size_t)f * 4) : x;
            const unsigned to =
                (unsigned)__cvta_generic_to_shared(stage + (f ^ ((f >> 3) & 3u)));
            const unsigned bytes = ok ? 16u : 0u;
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
                         :: "r"(to), "l"(from), "r"(bytes) : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };

    for (unsigned chunk = 0; chunk < most; chunk += kPart) {
        if (chunk != 0) {
            __syncthreads(); // the partial sums have been read
        }
        unsigned cnt = 0; // rows of this group in this chunk
        if (chunk < count) {
            cnt = count - chunk < kPart ? count - chunk : kPart;
        }

        if (cnt != 0) { // the same for a whole warp
            const size_t row0 = (size_t)first + chunk;
            unsigned piece = slice; // slices <= pieces: there is always a first one
            unsigned r = 0;         // first row of the current tile, from row0

            const uint4* pw;
            const float* ps;
            // Lanes past the last block read that block again, with x = 0.
            auto aim = [&](unsigned p) {
                unsigned blk = p * 16u + (lane >> 1);
                if (blk >= blocks) {
                    blk = blocks - 1u;
                }
                pw = W + row0 * stride + 2 * (size_t)blk + (lane & 1u);
                ps = scales + row0 * stride_s + blk;
            };
            auto load = [&](uint4 (&w)[R], float (&s)[R], unsigned left) {
#pragma unroll
                for (unsigned k = 0; k < R; ++k) {
                    load_weights(w[k], pw + k * stride, k, left);
                }
#pragma unroll
                for (unsigned k = 0; k < R; ++k) {
                    load_scale(s[k], ps + k * stride_s, k, left);
                }
            };

            uint4 wa[R], wb[R];
            float sa[R], sb[R];
#pragma unroll
            for (unsigned k = 0; k < R; ++k) {
                wa[k] = make_uint4(0u, 0u, 0u, 0u);
                wb[k] = make_uint4(0u, 0u, 0u, 0u);
                sa[k] = 0.0f;
                sb[k] = 0.0f;
            }
            float xv[16];
#pragma unroll
            for (int k = 0; k < 16; ++k) {
                xv[k] = 0.0f;
            }

            aim(piece);
            load(wa, sa, cnt);
            stage_x(piece);

            auto step = [&](uint4 (&w)[R], float (&s)[R], uint4 (&wn)[R], float (&sn)[R]) -> bool {
                // All loads of the next tile, before the first use of this one
                unsigned nr = r + R;
                unsigned np = piece;
                if (nr >= cnt) {
                    nr = 0;
                    np = piece + slices;
                }
                const bool more = np < pieces;
                if (more) {
                    if (nr == 0) {
                        aim(np);
                    } else {
                        pw += R * stride;
                        ps += R * stride_s;
                    }
                    load(wn, sn, cnt - nr);
                }

                if (r == 0) { // a new piece: its x has been on its way for a whole pass
                    asm volatile("cp.async.wait_all;" ::: "memory");
                    __syncwarp();
#pragma unroll
                    for (unsigned k = 0; k < 4; ++k) {
                        const unsigned f = lane * 4u + k;
                        const float4 v = stage[f ^ ((f >> 3) & 3u)];
                        xv[4 * k + 0] = v.x;
                        xv[4 * k + 1] = v.y;
                        xv[4 * k + 2] = v.z;
                        xv[4 * k + 3] = v.w;
                    }
                    __syncwarp();
                    if (piece + slices < pieces) {
                        stage_x(piece + slices);
                    }
                }

                float acc[R];
#pragma unroll
                for (unsigned k = 0; k < R; ++k) {
                    float a = 0.0f;
                    dot4(w[k].x, xv[0], xv[1], xv[2], xv[3], a);
                    dot4(w[k].y, xv[4], xv[5], xv[6], xv[7], a);
                    dot4(w[k].z, xv[8], xv[9], xv[10], xv[11], a);
                    dot4(w[k].w, xv[12], xv[13], xv[14], xv[15], a);
                    acc[k] = a * s[k];
                }

                const bool h16 = (lane & 16u) != 0;
                const bool h8 = (lane & 8u) != 0;
                float a = h16 ? acc[2] : acc[0];
                float b = h16 ? acc[3] : acc[1];
                const float ta = h16 ? acc[0] : acc[2];
                const float tb = h16 ? acc[1] : acc[3];
                a += __shfl_xor_sync(0xFFFFFFFFu, ta, 16);
                b += __shfl_xor_sync(0xFFFFFFFFu, tb, 16);
                float v = h8 ? b : a;
                const float tv = h8 ? a : b;
                v += __shfl_xor_sync(0xFFFFFFFFu, tv, 8);
                v += __shfl_xor_sync(0xFFFFFFFFu, v, 4);
                v += __shfl_xor_sync(0xFFFFFFFFu, v, 2);
                v += __shfl_xor_sync(0xFFFFFFFFu, v, 1);

                // Rows past the last one get a slot too (below kPart), which is not read.
                if ((lane & 7u) == 0) {
                    const unsigned slot = r + (lane >> 3);
                    if (piece >= slices) {
                        v += part[slot]; // written by this same lane
                    }
                    part[slot] = v;
                }

                r = nr;
                piece = np;
                return more;
            };

#pragma unroll 1
            for (;;) {
                if (!step(wa, sa, wb, sb)) {
                    break;
                }
                if (!step(wb, sb, wa, sa)) {
                    break;
                }
            }
        }

        __syncthreads();

        // Sum over the slices of a row
        const float* from = shared + threadIdx.y * slices * kWarp + kStage;
        for (unsigned e = threadIdx.x; e < cnt; e += blockDim.x) {
            float sum = 0.0f;
#pragma unroll 4
            for (unsigned s = 0; s < slices; ++s) {
                sum += from[s * kWarp + e];
            }
            y[(size_t)first + chunk + e] = sum;
        }
    }
}

} // namespace

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    if (rows <= 0 || blocks <= 0) {
        return;
    }
    const unsigned n = (unsigned)rows;
    const unsigned b = (unsigned)blocks;

    if (b <= 128u && (unsigned long long)n * b <= 65536ull) {
        multiply_small<<<(n + 7u) / 8u, 256>>>(
            reinterpret_cast<const unsigned*>(W), scales,
            reinterpret_cast<const float4*>(x), y, n, b);
        return;
    }

    const unsigned pieces = (b + 15u) / 16u; // of 512 weights, 16 a lane
    const unsigned passes = (pieces + 7u) / 8u;
    const unsigned slices = (pieces + passes - 1u) / passes; // at most 8
    unsigned groups = 1;
    while (groups * 2u * slices <= 8u) {
        groups *= 2u;
    }
    const unsigned warps = slices * groups;

    const unsigned resident = 132u * (24u / warps);
    const unsigned wanted = (n + R * groups - 1u) / (R * groups);
    const unsigned grid = wanted < resident ? wanted : resident;
    const unsigned all = grid * groups;
    const size_t bytes = (size_t)warps * kWarp * sizeof(float);
    multiply<<<grid, dim3(32u * slices, groups), bytes>>>(
        reinterpret_cast<const uint4*>(W), scales, x, y, b, pieces, slices, n / all, n % all);
}
