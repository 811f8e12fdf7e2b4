// Staged x, resident warps, rolling register ring of weight loads.

#include <cuda_runtime.h>
#include <stdint.h>

namespace {

constexpr int SMS = 132;
constexpr int TILE = 1792;   // blocks of 32 weights whose x fits in shared memory (224 KiB)

__device__ __forceinline__ void load16(unsigned (&v)[4], const char* p, int valid)
{
    v[0] = 0u; v[1] = 0u; v[2] = 0u; v[3] = 0u;
    asm volatile("{\n\t"
                 ".reg .pred q;\n\t"
                 "setp.ne.s32 q, %5, 0;\n\t"
                 "@q ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n\t"
                 "}"
                 : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3])
                 : "l"(p), "r"(valid));
}

__device__ __forceinline__ void load4(float& v, const char* p, int valid)
{
    v = 0.0f;
    asm volatile("{\n\t"
                 ".reg .pred q;\n\t"
                 "setp.ne.s32 q, %2, 0;\n\t"
                 "@q ld.global.nc.L1::no_allocate.f32 %0, [%1];\n\t"
                 "}"
                 : "+f"(v)
                 : "l"(p), "r"(valid));
}

template <int J>
__device__ __forceinline__ float weight(unsigned v)
{
    // v holds weight + 128 in each byte; 2^23 + byte as a float, then the exact weight
    return __uint_as_float(__byte_perm(v, 0x4B000000u, 0x7650 + J)) - 8388736.0f;
}

// R rows at once by a warp, U chunks of 512 weights of each on their way
template <int R, int U>
__global__ void __launch_bounds__(1024, 1)
multiply(const signed char* W, const float* scales, const float* x, float* y,
         int rows, int blocks, int first, int count, long long jumpW, long long jumpS)
{
    extern __shared__ float4 xs[];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int n = 2 * count;               // slices of 16 weights in a row of this tile
    const int K = (n + 31) >> 5;           // chunks of 32 slices

    // stage x, swizzled so that both the writes and the later reads are free of conflicts
    {
        const int vectors = count * 8;
        const float4* xv = reinterpret_cast<const float4*>(x) + (size_t)first * 8;
        const uint32_t base = (uint32_t)__cvta_generic_to_shared(xs);
        for (int i = tid; i < vectors; i += blockDim.x) {
            const uint32_t dst = base + ((uint32_t)(i ^ ((i >> 3) & 3)) << 4);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(dst), "l"(xv + i) : "memory");
        }
        for (int i = vectors + tid; i < K * 128; i += blockDim.x) {
            xs[i ^ ((i >> 3) & 3)] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
    }

    const int warps = blockDim.x >> 5;
    const int units = rows / R;            // R divides rows
    const int stride = gridDim.x * warps;
    const int unit = blockIdx.x + gridDim.x * (tid >> 5);
    const int m = unit < units ? (units - 1 - unit) / stride + 1 : 0;

    // state of the loads
    const char* wp = reinterpret_cast<const char*>(W) + ((size_t)unit * R * blocks + first) * 32 + lane * 16;
    const char* sp = reinterpret_cast<const char*>(scales) + ((size_t)unit * R * blocks + first) * 4 + (lane >> 1) * 4;
    int mp = m;
    int rem = m > 0 ? n : 0;

    unsigned w[U][R][4];
    float s[U][R];

    auto fetch = [&](unsigned (&wv)[R][4], float (&sv)[R]) {
        const int valid = lane < rem;
#pragma unroll
        for (int r = 0; r < R; r++) {
            load16(wv[r], wp + (size_t)r * ((size_t)blocks * 32), valid);
            load4(sv[r], sp + (size_t)r * ((size_t)blocks * 4), valid);
        }
        const bool last = rem <= 32;
        wp += last ? jumpW : 512ll;
        sp += last ? jumpS : 64ll;
        mp -= last ? 1 : 0;
        rem = last ? (mp > 0 ? n : 0) : rem - 32;
    };

#pragma unroll
    for (int u = 0; u < U; u++) {
        fetch(w[u], s[u]);
    }

    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();

    // state of the arithmetic
    const int start = lane * 64 + ((lane >> 1) & 3) * 16;
    int at = start;
    int k = 0;
    int row = unit * R;
    int left = m * K;
    float acc[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        acc[r] = 0.0f;
    }

    while (left > 0) {
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (left <= 0) {
                break;
            }
            left--;

            float d[R];
#pragma unroll
            for (int r = 0; r < R; r++) {
                d[r] = 0.0f;
            }
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const float4 v = *reinterpret_cast<const float4*>(reinterpret_cast<const char*>(xs) + (at ^ (p * 16)));
#pragma unroll
                for (int r = 0; r < R; r++) {
                    const unsigned b = w[u][r][p] ^ 0x80808080u;
                    d[r] = fmaf(weight<0>(b), v.x, d[r]);
                    d[r] = fmaf(weight<1>(b), v.y, d[r]);
                    d[r] = fmaf(weight<2>(b), v.z, d[r]);
                    d[r] = fmaf(weight<3>(b), v.w, d[r]);
                }
            }
#pragma unroll
            for (int r = 0; r < R; r++) {
                acc[r] = fmaf(s[u][r], d[r], acc[r]);
            }

            fetch(w[u], s[u]);

            at += 2048;
            k++;
            if (k == K) {
                float sum;
                if (R == 1) {
                    sum = acc[0];
                    sum += __shfl_xor_sync(0xffffffffu, sum, 16);
                } else {
                    const bool high = (lane & 16) != 0;
                    const float keep = high ? acc[R - 1] : acc[0];
                    const float give = high ? acc[0] : acc[R - 1];
                    sum = keep + __shfl_xor_sync(0xffffffffu, give, 16);
                }
#pragma unroll
                for (int h = 8; h > 0; h >>= 1) {
                    sum += __shfl_xor_sync(0xffffffffu, sum, h);
                }
                const bool writer = R == 1 ? lane == 0 : (lane & 15) == 0;
                if (writer) {
                    float* out = y + row + (R == 1 ? 0 : (lane >> 4));
                    if (first > 0) {
                        sum += *out;
                    }
                    *out = sum;
                }
#pragma unroll
                for (int r = 0; r < R; r++) {
                    acc[r] = 0.0f;
                }
                at = start;
                k = 0;
                row += stride * R;
            }
        }
    }
}

template <int R, int U>
void launch(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    const int units = rows / R;
    const int grid = units < SMS ? units : SMS;
    const int each = (units + SMS - 1) / SMS;      // units of an SM
    const int rounds = (each + 31) / 32;
    int warps = (each + rounds - 1) / rounds;
    if (warps < 4) {
        warps = 4;
    }
    if (warps > 32) {
        warps = 32;
    }
    const long long stride = (long long)grid * warps;

    for (int first = 0; first < blocks; first += TILE) {
        const int count = blocks - first < TILE ? blocks - first : TILE;
        const int K = (2 * count + 31) / 32;
        const int bytes = K * 2048;
        if (bytes > 48 * 1024) {
            cudaFuncSetAttribute(multiply<R, U>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        }
        const long long jumpW = stride * R * blocks * 32 - (long long)(K - 1) * 512;
        const long long jumpS = stride * R * blocks * 4 - (long long)(K - 1) * 64;
        multiply<R, U><<<grid, warps * 32, bytes>>>(W, scales, x, y, rows, blocks, first, count, jumpW, jumpS);
        if (blocks - first <= TILE) {
            break;
        }
    }
}

}  // namespace

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    if (rows % 2 == 0 && rows >= 2 * SMS * 32) {
        launch<2, 3>(W, scales, x, y, rows, blocks);
    } else {
        launch<1, 4>(W, scales, x, y, rows, blocks);
    }
}
