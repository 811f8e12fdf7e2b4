// x stays in registers, rows stream; tiles merge by atomics.

#include <cuda_runtime.h>

// A lane owns 16 columns (one 16-byte load a row) and keeps their x in registers.
// A warp owns 512 columns, a block of `warps` warps owns a tile of columns and a
// contiguous range of rows. Four rows are on their way at any time for each lane.

constexpr int kRows = 4;      // rows in flight per lane
constexpr int kBatch = 64;    // rows between two block-wide reductions
constexpr int kStride = 72;   // floats a warp has in shared memory (72 % 32 == 8)

// Loads 16 weights and their scale if r < left; otherwise leaves the registers alone.
__device__ __forceinline__ void fetch(uint4& w, float& s, const uint4* pw, const float* ps,
                                      int r, int left)
{
    asm volatile(
        "{\n\t"
        ".reg .pred p;\n\t"
        "setp.lt.s32 p, %7, %8;\n\t"
        "@p ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%5];\n\t"
        "@p ld.global.nc.L1::no_allocate.L2::128B.f32 %4, [%6];\n\t"
        "}\n"
        : "+r"(w.x), "+r"(w.y), "+r"(w.z), "+r"(w.w), "+f"(s)
        : "l"(pw), "l"(ps), "r"(r), "r"(left));
}

// c holds four weights with 128 added to each (as unsigned bytes).
__device__ __forceinline__ float dot4(unsigned c, const float4& x, float t)
{
    float f0 = __uint_as_float(__byte_perm(c, 0x4B000000u, 0x7650)) - 8388736.0f;
    float f1 = __uint_as_float(__byte_perm(c, 0x4B000000u, 0x7651)) - 8388736.0f;
    float f2 = __uint_as_float(__byte_perm(c, 0x4B000000u, 0x7652)) - 8388736.0f;
    float f3 = __uint_as_float(__byte_perm(c, 0x4B000000u, 0x7653)) - 8388736.0f;
    t = fmaf(f0, x.x, t);
    t = fmaf(f1, x.y, t);
    t = fmaf(f2, x.z, t);
    t = fmaf(f3, x.w, t);
    return t;
}

template <bool Split>
__global__ void __launch_bounds__(1024, 1)
multiply(const signed char* __restrict__ W, const float* __restrict__ scales,
         const float* __restrict__ x, float* __restrict__ y,
         int blocks, int tiles, int quotient, int remainder)
{
    extern __shared__ float part[];   // [warps][kStride]

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int warps = blockDim.x >> 5;

    int stripe = blockIdx.x;
    int tile = 0;
    if (Split) {
        stripe = blockIdx.x / (unsigned)tiles;
        tile = blockIdx.x - stripe * tiles;
    }

    const int first = stripe * quotient + min(stripe, remainder);
    const int n = quotient + (stripe < remainder ? 1 : 0);

    const int pieces = 2 * blocks;    // 16-byte pieces of a row
    int piece = (tile * warps + warp) * 32 + lane;
    const bool live = piece < pieces;
    if (!live) {
        piece = pieces - 1;
    }

    const uint4* pw = reinterpret_cast<const uint4*>(W) + (size_t)first * (size_t)pieces + piece;
    const float* ps = scales + (size_t)first * (size_t)blocks + (piece >> 1);

    uint4 w[kRows];
    float s[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        w[r] = make_uint4(0u, 0u, 0u, 0u);
        s[r] = 0.0f;
        fetch(w[r], s[r], pw, ps, r, n);
        pw += pieces;
        ps += blocks;
    }

    float4 x0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 x1 = x0, x2 = x0, x3 = x0;
    if (live) {
        const float4* px = reinterpret_cast<const float4*>(x) + (size_t)piece * 4;
        x0 = __ldg(px);
        x1 = __ldg(px + 1);
        x2 = __ldg(px + 2);
        x3 = __ldg(px + 3);
    }

    int left = n - kRows;             // rows not yet asked for
    float* const mine = part + warp * kStride + (lane >> 3);

    for (int base = 0; base < n; base += kBatch) {
        const int limit = min(n - base, kBatch);

#pragma unroll 1
        for (int i = 0; i < limit; i += kRows) {
            float a[kRows];
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const unsigned c0 = w[r].x ^ 0x80808080u;
                const unsigned c1 = w[r].y ^ 0x80808080u;
                const unsigned c2 = w[r].z ^ 0x80808080u;
                const unsigned c3 = w[r].w ^ 0x80808080u;
                const float scale = s[r];
                fetch(w[r], s[r], pw, ps, r, left);
                pw += pieces;
                ps += blocks;
                float t0 = dot4(c0, x0, 0.0f);
                float t1 = dot4(c2, x2, 0.0f);
                t0 = dot4(c1, x1, t0);
                t1 = dot4(c3, x3, t1);
                a[r] = scale * (t0 + t1);
            }
            left -= kRows;

            // Four sums over 32 lanes with six shuffles: lane bit 4 picks rows 2, 3,
            // lane bit 3 picks the odd one.
            const bool high = (lane & 16) != 0;
            float k0 = high ? a[2] : a[0];
            float g0 = high ? a[0] : a[2];
            float k1 = high ? a[3] : a[1];
            float g1 = high ? a[1] : a[3];
            k0 += __shfl_xor_sync(0xffffffffu, g0, 16);
            k1 += __shfl_xor_sync(0xffffffffu, g1, 16);
            const bool odd = (lane & 8) != 0;
            float k = odd ? k1 : k0;
            float g = odd ? k0 : k1;
            k += __shfl_xor_sync(0xffffffffu, g, 8);
            k += __shfl_xor_sync(0xffffffffu, k, 4);
            k += __shfl_xor_sync(0xffffffffu, k, 2);
            k += __shfl_xor_sync(0xffffffffu, k, 1);
            if ((lane & 7) == 0) {
                mine[i] = k;
            }
        }

        __syncthreads();

        // Four lanes add up the warps' sums of a row, eight rows a warp.
        const int sub = lane & 3;
        for (int row0 = warp * 8; row0 < limit; row0 += warps * 8) {
            const int row = row0 + (lane >> 2);
            float sum = 0.0f;
#pragma unroll 4
            for (int v = sub; v < warps; v += 4) {
                sum += part[v * kStride + row];
            }
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            if (sub == 0 && row < limit) {
                if (Split) {
                    atomicAdd(y + ((size_t)first + base + row), sum);
                } else {
                    y[(size_t)first + base + row] = sum;
                }
            }
        }

        if (base + kBatch < n) {
            __syncthreads();
        }
    }
}

__global__ void clear(float* y, int rows)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (size_t)rows) {
        y[i] = 0.0f;
    }
}

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    const int sms = 132;
    const int chunks = (blocks - 1) / 16 + 1;             // 512 columns each, one to a warp
    const int groups = (rows - 1) / kRows + 1;
    int tiles = (chunks - 1) / 32 + 1;                    // column tiles, a block each
    if (tiles > 1 && (long long)groups * tiles < sms) {
        tiles = (chunks - 1) / 8 + 1;                     // few rows: spread columns wider
    }
    const int warps = (chunks - 1) / tiles + 1;

    int stripes = sms * (32 / warps) / tiles;             // row ranges that are resident at once
    if (stripes < 1) {
        stripes = 1;
    }
    if (stripes > groups) {
        stripes = groups;
    }
    const int quotient = rows / stripes;
    const int remainder = rows % stripes;
    const size_t bytes = (size_t)warps * kStride * sizeof(float);

    if (tiles == 1) {
        multiply<false><<<(unsigned)stripes, warps * 32, bytes>>>(
            W, scales, x, y, blocks, 1, quotient, remainder);
    } else {
        clear<<<(rows - 1) / 256 + 1, 256>>>(y, rows);
        multiply<true><<<(unsigned)stripes * (unsigned)tiles, warps * 32, bytes>>>(
            W, scales, x, y, blocks, tiles, quotient, remainder);
    }
}
