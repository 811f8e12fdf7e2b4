// Vector pieces stay in registers, warps stream row tiles past.

#include <cuda_runtime.h>
#include <cstddef>

namespace {

constexpr unsigned kStage = 512;           // floats of x a warp holds (16 a lane)
constexpr unsigned kPart = 128;            // rows of partial sums a warp keeps
constexpr unsigned kWarp = kStage + kPart; // floats of shared memory of a warp

__device__ __forceinline__ uint4 load_weights(const uint4* p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

__device__ __forceinline__ float load_scale(const float* p)
{
    float v;
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}

// Exact signed bytes to floats: 2^23 + (w + 128), then minus (2^23 + 128).
template <int C>
__device__ __forceinline__ void dot4(unsigned w, float x0, float x1, float x2, float x3,
                                     float& a, float& b)
{
    const unsigned u = w ^ 0x80808080u;
    const float f0 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7440)) - 8388736.0f;
    const float f1 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7441)) - 8388736.0f;
    const float f2 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7442)) - 8388736.0f;
    const float f3 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7443)) - 8388736.0f;
    if (C == 1) {
        a = fmaf(f0, x0, a);
        a = fmaf(f1, x1, a);
        a = fmaf(f2, x2, a);
        a = fmaf(f3, x3, a);
    } else {
        a = fmaf(f0, x0, a);
        b = fmaf(f1, x1, b);
        a = fmaf(f2, x2, a);
        b = fmaf(f3, x3, b);
    }
}

template <int R>
__global__ void __launch_bounds__(1024, 1)
multiply(const uint4* __restrict__ W, const float* __restrict__ scales,
         const float* __restrict__ x, float* __restrict__ y,
         unsigned rows, unsigned blocks, unsigned pieces, unsigned slices,
         unsigned groups, unsigned groups_log, unsigned passes, unsigned tiles)
{
    extern __shared__ float4 shared4[];
    float* shared = reinterpret_cast<float*>(shared4);

    constexpr unsigned kTiles = kPart / R; // tiles of a group between two block sums

    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned group = warp / slices;
    const unsigned slice = warp - group * slices;

    float4* stage = reinterpret_cast<float4*>(shared + warp * kWarp);
    float* part = shared + warp * kWarp + kStage;

    const unsigned all_groups = gridDim.x * groups;
    const unsigned first = blockIdx.x * groups;
    const size_t stride = 2 * (size_t)blocks;  // uint4s in a row of W
    const size_t stride_s = (size_t)blocks;    // scales in a row

    for (unsigned base = 0; base < tiles && first < tiles - base; base += kTiles * all_groups) {
        if (base != 0) {
            __syncthreads(); // the partial sums have been read
        }

        for (unsigned pass = 0; pass < passes; ++pass) {
            const unsigned piece = pass * slices + slice;
            unsigned t = base + first + group;
            if (piece >= pieces || t >= tiles) {
                continue; // the same for a whole warp
            }

            __syncwarp();
            // x of this piece, coalesced, into the warp's own swizzled stage
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

            // Lanes past the last block read that block again, with x = 0.
            unsigned blk = piece * 16u + (lane >> 1);
            if (blk >= blocks) {
                blk = blocks - 1u;
            }
            const uint4* pw = W + (size_t)(t * R) * stride + 2 * (size_t)blk + (lane & 1u);
            const float* ps = scales + (size_t)(t * R) * stride_s + blk;
            const size_t step_w = (size_t)(all_groups * R) * stride;
            const size_t step_s = (size_t)(all_groups * R) * stride_s;

            uint4 w[R];
            float sc[R];

            auto load = [&](unsigned tile) {
                const unsigned last = rows - tile * R - 1u; // last row that exists, from the tile's first
                if (last >= (unsigned)(R - 1)) {
#pragma unroll
                    for (int k = 0; k < R; ++k) {
                        w[k] = load_weights(pw + k * stride);
                    }
#pragma unroll
                    for (int k = 0; k < R; ++k) {
                        sc[k] = load_scale(ps + k * stride_s);
                    }
                } else {
#pragma unroll
                    for (int k = 0; k < R; ++k) {
                        const unsigned kk = (unsigned)k < last ? (unsigned)k : last;
                        w[k] = load_weights(pw + kk * stride);
                        sc[k] = load_scale(ps + kk * stride_s);
                    }
                }
            };

            load(t);

            asm volatile("cp.async.wait_all;" ::: "memory");
            __syncwarp();
            float xv[16];
#pragma unroll
            for (unsigned k = 0; k < 4; ++k) {
                const unsigned f = lane * 4u + k;
                const float4 v = stage[f ^ ((f >> 3) & 3u)];
                xv[4 * k + 0] = v.x;
                xv[4 * k + 1] = v.y;
                xv[4 * k + 2] = v.z;
                xv[4 * k + 3] = v.w;
            }

#pragma unroll 1
            for (unsigned i = 0;; ++i) {
                float acc[R];
#pragma unroll
                for (int k = 0; k < R; ++k) {
                    constexpr int C = R < 4 ? 2 : 1;
                    float a = 0.0f, b = 0.0f;
                    dot4<C>(w[k].x, xv[0], xv[1], xv[2], xv[3], a, b);
                    dot4<C>(w[k].y, xv[4], xv[5], xv[6], xv[7], a, b);
                    dot4<C>(w[k].z, xv[8], xv[9], xv[10], xv[11], a, b);
                    dot4<C>(w[k].w, xv[12], xv[13], xv[14], xv[15], a, b);
                    if (C == 2) {
                        a += b;
                    }
                    acc[k] = a * sc[k];
                }

                // The next tile is on its way while this one is summed over the lanes.
                const unsigned next = t + all_groups;
                const bool more = i + 1u < kTiles && next < tiles;
                if (more) {
                    pw += step_w;
                    ps += step_s;
                    load(next);
                }

                float v;
                if constexpr (R == 4) {
                    const bool h16 = (lane & 16u) != 0;
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
                } else if constexpr (R == 2) {
                    const bool h16 = (lane & 16u) != 0;
                    v = h16 ? acc[1] : acc[0];
                    const float sv = h16 ? acc[0] : acc[1];
                    v += __shfl_xor_sync(0xFFFFFFFFu, sv, 16);
                    v += __shfl_xor_sync(0xFFFFFFFFu, v, 8);
                } else {
                    v = acc[0];
                    v += __shfl_xor_sync(0xFFFFFFFFu, v, 16);
                    v += __shfl_xor_sync(0xFFFFFFFFu, v, 8);
                }
                v += __shfl_xor_sync(0xFFFFFFFFu, v, 4);
                v += __shfl_xor_sync(0xFFFFFFFFu, v, 2);
                v += __shfl_xor_sync(0xFFFFFFFFu, v, 1);

                if ((lane & (32u / R - 1u)) == 0) {
                    const unsigned slot = i * R + lane / (32u / R);
                    if (pass != 0) {
                        v += part[slot]; // written by this same lane
                    }
                    part[slot] = v;
                }

                if (!more) {
                    break;
                }
                t = next;
            }
        }

        __syncthreads();

        // Sum over the slices of a row
        for (unsigned e = threadIdx.x; e < groups * kPart; e += blockDim.x) {
            const unsigned k = e % R;
            const unsigned rest = e / R;
            const unsigned g = rest & (groups - 1u);
            const unsigned i = rest >> groups_log;
            const unsigned tile = base + first + g + i * all_groups;
            if (base + first + i * all_groups >= tiles) {
                break;
            }
            const unsigned row = tile * R + k;
            if (tile < tiles && row < rows) {
                const float* p = shared + g * slices * kWarp + kStage + i * R + k;
                float sum = 0.0f;
#pragma unroll 4
                for (unsigned s = 0; s < slices; ++s) {
                    sum += p[s * kWarp];
                }
                y[row] = sum;
            }
        }
    }
}

template <int R>
void start(const signed char* W, const float* scales, const float* x, float* y,
           unsigned rows, unsigned blocks, unsigned pieces, unsigned slices,
           unsigned groups, unsigned groups_log, unsigned passes)
{
    const unsigned sms = 132;
    const unsigned tiles = (rows + R - 1u) / R;
    const unsigned warps = slices * groups;
    const unsigned resident = sms * (32u / warps);
    const unsigned wanted = (tiles + groups - 1u) / groups;
    const unsigned grid = wanted < resident ? wanted : resident;
    const size_t bytes = (size_t)warps * kWarp * sizeof(float);
    if (bytes > 48 * 1024) {
        cudaFuncSetAttribute(multiply<R>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    }
    multiply<R><<<grid, warps * 32u, bytes>>>(
        reinterpret_cast<const uint4*>(W), scales, x, y, rows, blocks, pieces, slices,
        groups, groups_log, passes, tiles);
}

} // namespace

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    if (rows <= 0 || blocks <= 0) {
        return;
    }
    const unsigned n = (unsigned)rows;
    const unsigned b = (unsigned)blocks;
    const unsigned pieces = (b + 15u) / 16u; // of 512 weights, 16 a lane

    // Warps side by side on a row, so that an SM's 32 warps are well used
    unsigned slices = 1;
    double best = 0.0;
    const unsigned least = (pieces + 31u) / 32u;
    for (unsigned p = least; p < least + 4u; ++p) {
        const unsigned s = (pieces + p - 1u) / p;
        const double use = (double)(32u / s * s) * (double)pieces / ((double)s * (double)p);
        if (use > best * 1.05) {
            best = use;
            slices = s;
        }
    }
    const unsigned passes = (pieces + slices - 1u) / slices;

    unsigned groups_log = 0; // groups of rows in a block of about 8 warps
    while ((2u << groups_log) * slices <= 8u) {
        ++groups_log;
    }
    const unsigned groups = 1u << groups_log;

    const unsigned long long four = ((unsigned long long)n + 3) / 4 * slices;
    const unsigned long long two = ((unsigned long long)n + 1) / 2 * slices;
    if (four >= 132ull * 12) {
        start<4>(W, scales, x, y, n, b, pieces, slices, groups, groups_log, passes);
    } else if (two >= 132ull * 6) {
        start<2>(W, scales, x, y, n, b, pieces, slices, groups, groups_log, passes);
    } else {
        start<1>(W, scales, x, y, n, b, pieces, slices, groups, groups_log, passes);
    }
}
