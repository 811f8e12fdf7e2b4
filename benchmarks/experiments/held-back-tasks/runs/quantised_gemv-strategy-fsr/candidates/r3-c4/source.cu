// Bulk-copied row tiles in an mbarrier ring, x in registers.

#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

namespace {

constexpr unsigned kSms = 132;
constexpr unsigned kRows = 4;       // rows of a tile that a warp multiplies
constexpr unsigned kMaxStages = 8;
constexpr unsigned kHead = 128;     // bytes of barriers: 2 * kMaxStages * 8

__device__ __forceinline__ void bar_init(unsigned bar, unsigned count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ void bar_expect(unsigned bar, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void bar_arrive(unsigned bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
}

__device__ __forceinline__ void bar_wait(unsigned bar, unsigned parity)
{
    unsigned done;
    do {
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done) : "r"(bar), "r"(parity) : "memory");
    } while (done == 0);
}

__device__ __forceinline__ void bulk_copy(unsigned to, const void* from, unsigned bytes, unsigned bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
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

// Warps 0 .. slices * groups - 1 multiply; the last warp fills the ring and sums over slices.
__global__ void __launch_bounds__(1024, 1)
stream(const signed char* __restrict__ W, const float* __restrict__ scales,
       const float* __restrict__ x, float* __restrict__ y,
       unsigned rows, unsigned blocks, unsigned slices, unsigned groups,
       unsigned stages, unsigned stage_bytes, unsigned tiles)
{
    extern __shared__ __align__(128) unsigned char smem[];

    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned workers = slices * groups;
    const unsigned tile_rows = groups * kRows;
    const unsigned row_bytes = blocks * 32u;
    const unsigned scale_at = tile_rows * row_bytes; // scales within a stage
    const unsigned bars = (unsigned)__cvta_generic_to_shared(smem);
    unsigned char* ring = smem + kHead;
    const unsigned ring_at = bars + kHead;
    float* parts = reinterpret_cast<float*>(ring + stages * stage_bytes);
    const unsigned part_size = slices * tile_rows;
    const unsigned step = gridDim.x;

    if (warp == workers) {
        auto fill = [&](unsigned t, unsigned s) {
            const unsigned first = t * tile_rows;
            const unsigned left = rows - first;
            const unsigned n = left < tile_rows ? left : tile_rows;
            const unsigned bytes = n * row_bytes;
            const unsigned bytes_s = n == tile_rows ? tile_rows * blocks * 4u : 0u;
            const unsigned full = bars + s * 8u;
            const unsigned to = ring_at + s * stage_bytes;
            bar_expect(full, bytes + bytes_s);
            bulk_copy(to, W + (size_t)first * row_bytes, bytes, full);
            if (bytes_s != 0) {
                bulk_copy(to + scale_at, scales + (size_t)first * blocks, bytes_s, full);
            }
        };

        if (lane == 0) {
            for (unsigned s = 0; s < stages; ++s) {
                bar_init(bars + s * 8u, 1u);
                bar_init(bars + (kMaxStages + s) * 8u, workers);
            }
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            unsigned t = blockIdx.x;
            for (unsigned s = 0; s < stages && t < tiles; ++s) {
                fill(t, s);
                t += step;
            }
        }
        __syncthreads();

        unsigned s = 0, slot = 0, parity = 0;
        unsigned ahead = blockIdx.x + stages * step;
        for (unsigned t = blockIdx.x; t < tiles; t += step) {
            bar_wait(bars + (kMaxStages + s) * 8u, parity);
            __syncwarp(); // the sums of the tile before have been read by all lanes
            if (lane == 0 && ahead < tiles) {
                fill(ahead, s);
            }
            ahead += step;

            const unsigned left = rows - t * tile_rows;
            if (lane < tile_rows && lane < left) {
                const float* p = parts + slot * part_size + lane;
                float sum = 0.0f;
#pragma unroll 4
                for (unsigned k = 0; k < slices; ++k) {
                    sum += p[k * tile_rows];
                }
                y[(size_t)t * tile_rows + lane] = sum;
            }

            if (++s == stages) {
                s = 0;
                parity ^= 1u;
            }
            if (++slot == stages + 1u) {
                slot = 0;
            }
        }
    } else {
        const unsigned group = warp / slices;
        const unsigned slice = warp - group * slices;

        // Lanes past the last block read that block again, with x = 0.
        unsigned blk = slice * 16u + (lane >> 1);
        const bool ok = blk < blocks;
        if (!ok) {
            blk = blocks - 1u;
        }
        float xv[16];
        {
            const float4* from = reinterpret_cast<const float4*>(x) + blk * 8u + (lane & 1u) * 4u;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const float4 v = __ldg(from + k);
                xv[4 * k + 0] = ok ? v.x : 0.0f;
                xv[4 * k + 1] = ok ? v.y : 0.0f;
                xv[4 * k + 2] = ok ? v.z : 0.0f;
                xv[4 * k + 3] = ok ? v.w : 0.0f;
            }
        }
        __syncthreads();

        const unsigned row0 = group * kRows;
        const unsigned at = blk * 32u + (lane & 1u) * 16u;
        const bool h16 = (lane & 16u) != 0;
        const bool h8 = (lane & 8u) != 0;

        unsigned s = 0, slot = 0, parity = 0;
#pragma unroll 1
        for (unsigned t = blockIdx.x; t < tiles; t += step) {
            bar_wait(bars + s * 8u, parity);

            const unsigned char* stage = ring + s * stage_bytes;
            const unsigned left = rows - t * tile_rows;
            uint4 w[kRows];
            float sc[kRows];
            if (left >= tile_rows) {
                const unsigned char* pw = stage + row0 * row_bytes + at;
                const float* ps = reinterpret_cast<const float*>(stage + scale_at) + row0 * blocks + blk;
#pragma unroll
                for (unsigned k = 0; k < kRows; ++k) {
                    w[k] = *reinterpret_cast<const uint4*>(pw + k * row_bytes);
                    sc[k] = ps[k * blocks];
                }
            } else {
                // The last tile: rows that do not exist repeat the last one.
#pragma unroll
                for (unsigned k = 0; k < kRows; ++k) {
                    const unsigned r = row0 + k < left ? row0 + k : left - 1u;
                    w[k] = *reinterpret_cast<const uint4*>(stage + r * row_bytes + at);
                    sc[k] = __ldg(scales + ((size_t)t * tile_rows + r) * blocks + blk);
                }
            }

            float acc[kRows];
#pragma unroll
            for (unsigned k = 0; k < kRows; ++k) {
                float a = 0.0f;
                a = dot4(w[k].x, xv[0], xv[1], xv[2], xv[3], a);
                a = dot4(w[k].y, xv[4], xv[5], xv[6], xv[7], a);
                a = dot4(w[k].z, xv[8], xv[9], xv[10], xv[11], a);
                a = dot4(w[k].w, xv[12], xv[13], xv[14], xv[15], a);
                acc[k] = a * sc[k];
            }

            float a = h16 ? acc[2] : acc[0];
            float b = h16 ? acc[3] : acc[1];
            const float sa = h16 ? acc[0] : acc[2];
            const float sb = h16 ? acc[1] : acc[3];
            a += __shfl_xor_sync(0xFFFFFFFFu, sa, 16);
            b += __shfl_xor_sync(0xFFFFFFFFu, sb, 16);
            float v = h8 ? b : a;
            const float sv = h8 ? a : b;
            v += __shfl_xor_sync(0xFFFFFFFFu, sv, 8);
            v += __shfl_xor_sync(0xFFFFFFFFu, v, 4);
            v += __shfl_xor_sync(0xFFFFFFFFu, v, 2);
            v += __shfl_xor_sync(0xFFFFFFFFu, v, 1);

            if ((lane & 7u) == 0) {
                parts[slot * part_size + slice * tile_rows + row0 + (lane >> 3)] = v;
            }
            __syncwarp();
            if (lane == 0) {
                bar_arrive(bars + (kMaxStages + s) * 8u);
            }

            if (++s == stages) {
                s = 0;
                parity ^= 1u;
            }
            if (++slot == stages + 1u) {
                slot = 0;
            }
        }
    }
}

// S warps side by side on R rows, four weights a lane, x from the caches.
template <int R, int S>
__global__ void __launch_bounds__(256)
direct(const unsigned* __restrict__ W, const float* __restrict__ scales,
       const float4* __restrict__ x, float* __restrict__ y, unsigned rows, unsigned blocks)
{
    constexpr int U = 8 / R;
    constexpr unsigned kGroups = 8u / S;
    __shared__ float sums[8 * R];

    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const unsigned group = warp / S;
    const unsigned part = warp % S;
    const unsigned row0 = (blockIdx.x * kGroups + group) * R;
    if (S == 1 && row0 >= rows) {
        return; // no barrier follows when S is 1
    }
    const size_t words = (size_t)blocks * 8;

    const unsigned* pw[R];
    const float* ps[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const unsigned row = (unsigned)r < rows - row0 ? row0 + r : rows - 1u;
        pw[r] = W + (size_t)row * words;
        ps[r] = scales + (size_t)row * blocks;
    }

    float acc[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        acc[r] = 0.0f;
    }

    for (size_t j = part * 32u + lane; j < words; j += 32u * S * U) {
        unsigned w[U][R];
        float sc[U][R];
        float4 v[U];
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const size_t q = j + (size_t)u * (32u * S);
            const bool ok = q < words;
#pragma unroll
            for (int r = 0; r < R; ++r) {
                w[u][r] = ok ? __ldg(pw[r] + q) : 0u;
                sc[u][r] = ok ? __ldg(ps[r] + (q >> 3)) : 0.0f;
            }
            v[u] = ok ? __ldg(x + q) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
#pragma unroll
            for (int r = 0; r < R; ++r) {
                acc[r] = fmaf(sc[u][r], dot4(w[u][r], v[u].x, v[u].y, v[u].z, v[u].w, 0.0f), acc[r]);
            }
        }
    }

    __syncwarp();
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int d = 16; d > 0; d >>= 1) {
            acc[r] += __shfl_xor_sync(0xFFFFFFFFu, acc[r], d);
        }
    }

    if constexpr (S == 1) {
        if (lane == 0) {
#pragma unroll
            for (int r = 0; r < R; ++r) {
                if ((unsigned)r < rows - row0) {
                    y[row0 + r] = acc[r];
                }
            }
        }
    } else {
        if (lane == 0) {
#pragma unroll
            for (int r = 0; r < R; ++r) {
                sums[warp * R + r] = acc[r];
            }
        }
        __syncthreads();
        if (threadIdx.x < kGroups * R) {
            const unsigned g = threadIdx.x / R;
            const unsigned r = threadIdx.x % R;
            const unsigned row = (blockIdx.x * kGroups + g) * R + r;
            if (row < rows) {
                float sum = 0.0f;
#pragma unroll
                for (int k = 0; k < S; ++k) {
                    sum += sums[(g * S + k) * R + r];
                }
                y[row] = sum;
            }
        }
    }
}

template <int R, int S>
void start_direct(const signed char* W, const float* scales, const float* x, float* y,
                  unsigned rows, unsigned blocks)
{
    const unsigned per = R * (8u / S);
    direct<R, S><<<(rows + per - 1u) / per, 256>>>(
        reinterpret_cast<const unsigned*>(W), scales, reinterpret_cast<const float4*>(x), y, rows, blocks);
}

} // namespace

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    if (rows <= 0 || blocks <= 0) {
        return;
    }
    const unsigned n = (unsigned)rows;
    const unsigned b = (unsigned)blocks;

    // Little work: latency counts, everything is loaded at once.
    if (n <= kSms * 16u && (unsigned long long)n * b <= 65536ull) {
        if (b <= 64u) {
            start_direct<1, 1>(W, scales, x, y, n, b);
        } else {
            start_direct<1, 8>(W, scales, x, y, n, b);
        }
        return;
    }
    // Rows too long for one piece of 512 weights a warp
    if (b > 31u * 16u) {
        if (n < kSms * 16u) {
            start_direct<1, 8>(W, scales, x, y, n, b);
        } else {
            start_direct<4, 8>(W, scales, x, y, n, b);
        }
        return;
    }

    const unsigned slices = (b + 15u) / 16u; // 1 to 31
    unsigned groups = 1;
    while (2u * groups * slices <= 8u && n / (2u * groups * kRows) >= kSms * 6u) {
        groups *= 2u;
    }
    const unsigned tile_rows = groups * kRows;
    const unsigned tiles = (unsigned)(((unsigned long long)n + tile_rows - 1u) / tile_rows);
    const unsigned threads = (slices * groups + 1u) * 32u;

    unsigned per_sm = 1024u / threads; // at 64 registers a thread
    if (per_sm > 8u) {
        per_sm = 8u;
    }
    const unsigned stage_bytes = (tile_rows * 36u * b + 127u) / 128u * 128u;
    const unsigned part_bytes = slices * tile_rows * 4u;
    const unsigned room = 228u * 1024u / per_sm - 1024u - kHead - part_bytes - 128u;
    unsigned stages = room / (stage_bytes + part_bytes);
    if (stages > kMaxStages) {
        stages = kMaxStages;
    }
    if (stages < 2u) {
        stages = 2u;
    }
    const unsigned bytes = kHead + stages * stage_bytes + (stages + 1u) * part_bytes;
    if (bytes > 48u * 1024u) {
        cudaFuncSetAttribute(stream, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    }
    const unsigned resident = kSms * per_sm;
    const unsigned grid = tiles < resident ? tiles : resident;
    stream<<<grid, threads, bytes>>>(W, scales, x, y, n, b, slices, groups, stages, stage_bytes, tiles);
}
