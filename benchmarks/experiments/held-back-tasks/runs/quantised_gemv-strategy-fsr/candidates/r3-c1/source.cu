// x in registers, rows stream through per-warp cp.async rings.

#include <cuda_runtime.h>
#include <cstddef>

namespace {

constexpr unsigned kPart = 128;      // rows of partial sums a warp keeps
constexpr unsigned kMaxWarps = 28;   // warps of a block, and of an SM at 72 registers

template <int R>
struct Layout {                      // bytes of shared memory of a warp
    static constexpr unsigned kScale = R * 512u;           // scales of a slot begin here
    static constexpr unsigned kSlot = R * 640u;            // weights and scales of a tile
    static constexpr unsigned kThird = kSlot > 2048u ? kSlot : 2048u; // slot 2, also x
    static constexpr unsigned kSums = 2u * kSlot + kThird;
    static constexpr unsigned kWarp = kSums + kPart * 4u;
};

__device__ __forceinline__ void copy16(unsigned to, const void* from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void copy4(unsigned to, const void* from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N>
__device__ __forceinline__ void wait_group()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}

// Exact signed bytes to floats: 2^23 + (w + 128), then minus (2^23 + 128).
__device__ __forceinline__ void dot4(unsigned w, float x0, float x1, float x2, float x3,
                                     float& a, float& b)
{
    const unsigned u = w ^ 0x80808080u;
    const float f0 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7440)) - 8388736.0f;
    const float f1 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7441)) - 8388736.0f;
    const float f2 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7442)) - 8388736.0f;
    const float f3 = __uint_as_float(__byte_perm(u, 0x4B000000u, 0x7443)) - 8388736.0f;
    a = fmaf(f0, x0, a);
    b = fmaf(f1, x1, b);
    a = fmaf(f2, x2, a);
    b = fmaf(f3, x3, b);
}

template <int R>
__global__ void __launch_bounds__(kMaxWarps * 32, 1)
multiply(const uint4* __restrict__ W, const float* __restrict__ scales,
         const float* __restrict__ x, float* __restrict__ y,
         unsigned rows, unsigned blocks, unsigned pieces, unsigned slices,
         unsigned groups, unsigned groups_log, unsigned passes, unsigned tiles)
{
    extern __shared__ float4 shared4[];
    char* shared = reinterpret_cast<char*>(shared4);

    using L = Layout<R>;
    constexpr unsigned kTiles = kPart / R; // tiles of a group between two block sums

    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned group = warp / slices;
    const unsigned slice = warp - group * slices;

    char* ring = shared + warp * L::kWarp;
    const float4* stage = reinterpret_cast<const float4*>(ring + 2u * L::kSlot);
    float* part = reinterpret_cast<float*>(ring + L::kSums);
    const unsigned ring_at = (unsigned)__cvta_generic_to_shared(ring);
    const unsigned stage_at = ring_at + 2u * L::kSlot;

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

            __syncwarp(); // nobody still reads slot 2
            // x of this piece, coalesced, swizzled, into the place of slot 2
#pragma unroll
            for (unsigned i = 0; i < 4; ++i) {
                const unsigned f = i * 32u + lane;
                const bool ok = piece * 16u + (f >> 3) < blocks;
                const float* from = ok ? x + ((size_t)piece * 512 + (size_t)f * 4) : x;
                const unsigned to = stage_at + (f ^ ((f >> 3) & 3u)) * 16u;
                const unsigned bytes = ok ? 16u : 0u;
                asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
                             :: "r"(to), "l"(from), "r"(bytes) : "memory");
            }
            commit();

            // Lanes past the last block read that block again, with x = 0.
            unsigned blk = piece * 16u + (lane >> 1);
            if (blk >= blocks) {
                blk = blocks - 1u;
            }
            const uint4* pw = W + (size_t)t * R * stride + 2 * (size_t)blk + (lane & 1u);
            const float* ps = scales + (size_t)t * R * stride_s + blk;
            const size_t step_w = (size_t)all_groups * R * stride;
            const size_t step_s = (size_t)all_groups * R * stride_s;

            // Every lane copies exactly what it will read itself.
            auto fetch = [&](unsigned tile, unsigned slot) {
                const unsigned last = rows - tile * R - 1u; // last row there is, from the tile's first
                const unsigned to_w = ring_at + slot + lane * 16u;
                const unsigned to_s = ring_at + slot + L::kScale + lane * 4u;
                if (last >= (unsigned)(R - 1)) {
#pragma unroll
                    for (int k = 0; k < R; ++k) {
                        copy16(to_w + k * 512u, pw + k * stride);
                    }
#pragma unroll
                    for (int k = 0; k < R; ++k) {
                        copy4(to_s + k * 128u, ps + k * stride_s);
                    }
                } else {
#pragma unroll
                    for (int k = 0; k < R; ++k) {
                        const unsigned kk = (unsigned)k < last ? (unsigned)k : last;
                        copy16(to_w + k * 512u, pw + kk * stride);
                        copy4(to_s + k * 128u, ps + kk * stride_s);
                    }
                }
                pw += step_w;
                ps += step_s;
            };

            fetch(t, 0u);
            commit();
            if (kTiles > 1u && t + all_groups < tiles) {
                fetch(t + all_groups, L::kSlot);
            }
            commit();

            wait_group<2>(); // x is here
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
            __syncwarp(); // from here on slot 2 takes tiles

            unsigned cur = 0; // bytes from the ring to the slot of this tile
#pragma unroll 1
            for (unsigned i = 0;; ++i) {
                wait_group<1>(); // this tile is here, the next may be on its way

                // The slot of the tile before takes the tile two ahead.
                const unsigned ahead = t + 2u * all_groups;
                if (i + 2u < kTiles && ahead < tiles) {
                    fetch(ahead, cur == 0u ? 2u * L::kSlot : cur - L::kSlot);
                }
                commit();

                const uint4* from_w = reinterpret_cast<const uint4*>(ring + cur) + lane;
                const float* from_s = reinterpret_cast<const float*>(ring + cur + L::kScale) + lane;
                float acc[R];
#pragma unroll
                for (int k = 0; k < R; ++k) {
                    const uint4 w = from_w[k * 32];
                    const float sc = from_s[k * 32];
                    float a = 0.0f, b = 0.0f;
                    dot4(w.x, xv[0], xv[1], xv[2], xv[3], a, b);
                    dot4(w.y, xv[4], xv[5], xv[6], xv[7], a, b);
                    dot4(w.z, xv[8], xv[9], xv[10], xv[11], a, b);
                    dot4(w.w, xv[12], xv[13], xv[14], xv[15], a, b);
                    acc[k] = (a + b) * sc;
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

                t += all_groups;
                if (i + 1u >= kTiles || t >= tiles) {
                    break;
                }
                cur = cur == 2u * L::kSlot ? 0u : cur + L::kSlot;
            }
            asm volatile("cp.async.wait_all;" ::: "memory");
        }

        __syncthreads();

        // Sum over the slices of a row
        for (unsigned e = threadIdx.x; e < groups * kPart; e += blockDim.x) {
            const unsigned k = e % R;
            const unsigned rest = e / R;
            const unsigned g = rest & (groups - 1u);
            const unsigned i = rest >> groups_log;
            if (base + first + i * all_groups >= tiles) {
                break;
            }
            const unsigned tile = base + first + g + i * all_groups;
            const unsigned row = tile * R + k;
            if (tile < tiles && row < rows) {
                const char* p = shared + g * slices * L::kWarp + L::kSums + (i * R + k) * 4u;
                float sum = 0.0f;
#pragma unroll 4
                for (unsigned s = 0; s < slices; ++s) {
                    sum += *reinterpret_cast<const float*>(p + s * L::kWarp);
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
    const unsigned bytes = warps * Layout<R>::kWarp;
    unsigned fit = kMaxWarps / warps;                       // by registers
    const unsigned fit_shared = 233472u / (bytes + 1024u);  // by shared memory
    if (fit_shared < fit) {
        fit = fit_shared;
    }
    if (fit == 0) {
        fit = 1;
    }
    const unsigned resident = sms * fit;
    const unsigned wanted = (tiles + groups - 1u) / groups;
    const unsigned grid = wanted < resident ? wanted : resident;
    if (bytes > 48u * 1024u) {
        cudaFuncSetAttribute(multiply<R>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        cudaFuncSetAttribute(multiply<R>, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
    }
    multiply<R><<<grid, warps * 32u, bytes>>>(
        reinterpret_cast<const uint4*>(W), scales, x, y, rows, blocks, pieces, slices,
        groups, groups_log, passes, tiles);
}

// Groups of rows in a block of about 8 warps
unsigned log_of_groups(unsigned slices)
{
    unsigned g = 0;
    while ((2u << g) * slices <= 8u) {
        ++g;
    }
    return g;
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

    // Warps side by side on a row, so that an SM's warps are well used
    unsigned slices = 1;
    double best = 0.0;
    const unsigned least = (pieces + kMaxWarps - 1u) / kMaxWarps;
    for (unsigned p = least; p < least + 4u; ++p) {
        const unsigned s = (pieces + p - 1u) / p;
        const unsigned w = s << log_of_groups(s);
        const double use = (double)(kMaxWarps / w * w) * (double)pieces / ((double)s * (double)p);
        if (use > best * 1.05) {
            best = use;
            slices = s;
        }
    }
    const unsigned passes = (pieces + slices - 1u) / slices;
    const unsigned groups_log = log_of_groups(slices);
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
