// Warps pipeline row tiles by cp.async; one packed atomic finishes.

#include <cuda_runtime.h>
#include <math.h>

// bits 53..63: blocks done; bit 52: something is in ce_rest; bits 0..51: fixed-point sum.
// The last block of each call sets both back to zero.
__device__ unsigned long long ce_word = 0ull;
__device__ double ce_rest = 0.0;

__device__ __forceinline__ float exp_diff(float d)
{
    float r;
    float a = d * 1.4426950408889634f;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

__device__ __forceinline__ double warp_sum(double v)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        v += __shfl_xor_sync(0xffffffffu, v, o);
    }
    return v;
}

__device__ __forceinline__ float warp_max(float v)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    }
    return v;
}

// All threads of the block call this once, at the end.
__device__ __forceinline__ void finish(double acc, float* loss, double toq, double fromq, double invN)
{
    __shared__ double part[32];
    acc = warp_sum(acc);
    if ((threadIdx.x & 31) == 0) {
        part[threadIdx.x >> 5] = acc;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double v = acc;
        int warps = blockDim.x >> 5;
        for (int i = 1; i < warps; ++i) {
            v += part[i];
        }
        const unsigned long long one = 1ull << 53;
        const unsigned long long flag = 1ull << 52;
        const unsigned long long mask = flag - 1ull;
        unsigned long long add = one;
        double q = v * toq;
        if (q >= 134217728.0 && q < 2199023255552.0) {
            add += (unsigned long long)__double2ll_rn(q);
        } else {
            // out of the range of the fixed point: a double beside it
            atomicAdd(&ce_rest, v);
            __threadfence();
            atomicOr(&ce_word, flag);
        }
        unsigned long long old = atomicAdd(&ce_word, add);
        if ((old >> 53) == (unsigned long long)(gridDim.x - 1)) {
            unsigned long long total = old + add;
            double r = (double)(total & mask) * fromq;
            if (total & flag) {
                __threadfence();
                r += __ldcg(&ce_rest) * invN;
                ce_rest = 0.0;
            }
            *loss = (float)r;
            ce_word = 0ull;
        }
    }
}

__device__ __forceinline__ void copy16(unsigned to, const char* from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// C even, C / 2 odd: 8-byte reads of rows meet no bank twice without padding.
template <int C>
__global__ void __launch_bounds__(256, 4)
ce_tiles(const float* __restrict__ logits, const int* __restrict__ labels, float* loss, int N,
         double toq, double fromq, double invN)
{
    constexpr int S = 4;
    constexpr int RowChunks = 8 * C;
    constexpr int Chunks = RowChunks + 8;
    constexpr int Stage = 32 * C + 32;  // words: 32 rows and their labels

    extern __shared__ __align__(16) float sm[];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int wpb = blockDim.x >> 5;
    const int full = N >> 5;
    const int step = gridDim.x * wpb;
    const int w = blockIdx.x * wpb + warp;

    float* mine = sm + warp * (S * Stage);
    const unsigned base = (unsigned)__cvta_generic_to_shared(mine);

    auto load = [&](int t, int s) {
        const char* rows = (const char*)logits + (size_t)t * (128 * C);
        const char* labs = (const char*)labels + (size_t)t * 128;
        unsigned to = base + (unsigned)(s * (Stage * 4));
#pragma unroll
        for (int i = 0; i < (Chunks + 31) / 32; ++i) {
            int c = lane + 32 * i;
            if (c < Chunks) {
                const char* from = c < RowChunks ? rows + c * 16 : labs + (c - RowChunks) * 16;
                copy16(to + c * 16, from);
            }
        }
    };

    int next = w;
#pragma unroll
    for (int s = 0; s < S; ++s) {
        if (next < full) {
            load(next, s);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        next += step;
    }

    double acc = 0.0;
    int t = w;
    int s = 0;
    for (; t < full; t += step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(S - 1) : "memory");
        __syncwarp();
        const float* st = mine + s * Stage;
        int label = __float_as_int(st[32 * C + lane]);
        const float* row = st + lane * C;
        float x[C];
#pragma unroll
        for (int c = 0; c < C; c += 2) {
            float2 two = *reinterpret_cast<const float2*>(row + c);
            x[c] = two.x;
            x[c + 1] = two.y;
        }
        float picked = row[label];
        __syncwarp();
        if (next < full) {
            load(next, s);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        next += step;
        s = (s + 1) & (S - 1);

        float m0 = x[0], m1 = x[1];
#pragma unroll
        for (int c = 2; c < C; c += 2) {
            m0 = fmaxf(m0, x[c]);
            m1 = fmaxf(m1, x[c + 1]);
        }
        float m = fmaxf(m0, m1);
        float s0 = 0.0f, s1 = 0.0f;
#pragma unroll
        for (int c = 0; c < C; c += 2) {
            s0 += exp_diff(x[c] - m);
            s1 += exp_diff(x[c + 1] - m);
        }
        acc += (double)((m - picked) + logf(s0 + s1));
    }

    // The rows behind the last full tile: exactly one warp comes out with t == full.
    if (t == full) {
        int r = full * 32 + lane;
        if (lane < (N & 31)) {
            const float* row = logits + (size_t)r * C;
            float m = row[0];
#pragma unroll
            for (int c = 1; c < C; ++c) {
                m = fmaxf(m, row[c]);
            }
            float sum = 0.0f;
#pragma unroll
            for (int c = 0; c < C; ++c) {
                sum += exp_diff(row[c] - m);
            }
            acc += (double)((m - row[labels[r]]) + logf(sum));
        }
    }

    finish(acc, loss, toq, fromq, invN);
}

// Few classes: a thread a row.
__global__ void __launch_bounds__(256)
ce_threads(const float* __restrict__ logits, const int* __restrict__ labels, float* loss, int N, int C,
           double toq, double fromq, double invN)
{
    double acc = 0.0;
    const unsigned rows = (unsigned)N;
    for (unsigned r = blockIdx.x * blockDim.x + threadIdx.x; r < rows; r += gridDim.x * blockDim.x) {
        const float* row = logits + (size_t)r * C;
        float m = row[0];
        for (int c = 1; c < C; ++c) {
            m = fmaxf(m, row[c]);
        }
        float sum = 0.0f;
        for (int c = 0; c < C; ++c) {
            sum += exp_diff(row[c] - m);
        }
        acc += (double)((m - row[labels[r]]) + logf(sum));
    }
    finish(acc, loss, toq, fromq, invN);
}

// Many classes: a warp or a whole block a row.
template <bool Block, int T>
__global__ void __launch_bounds__(T)
ce_groups(const float* __restrict__ logits, const int* __restrict__ labels, float* loss, int N, int C,
          double toq, double fromq, double invN)
{
    __shared__ float bm[32];
    __shared__ double bs[32];
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    constexpr int Warps = T / 32;
    const unsigned first = Block ? threadIdx.x : (unsigned)lane;
    const unsigned hop = Block ? T : 32;
    const unsigned cs = (unsigned)C;
    const unsigned rows = (unsigned)N;
    const unsigned start = Block ? blockIdx.x : blockIdx.x * Warps + warp;
    const unsigned step = Block ? gridDim.x : gridDim.x * Warps;

    double acc = 0.0;
    for (unsigned r = start; r < rows; r += step) {
        const float* row = logits + (size_t)r * cs;
        float m = -INFINITY;
#pragma unroll 8
        for (unsigned c = first; c < cs; c += hop) {
            m = fmaxf(m, row[c]);
        }
        m = warp_max(m);
        if (Block) {
            if (lane == 0) {
                bm[warp] = m;
            }
            __syncthreads();
            m = bm[0];
            for (int i = 1; i < Warps; ++i) {
                m = fmaxf(m, bm[i]);
            }
        }
        double sum = 0.0;
#pragma unroll 8
        for (unsigned c = first; c < cs; c += hop) {
            sum += (double)exp_diff(row[c] - m);
        }
        sum = warp_sum(sum);
        if (Block) {
            if (lane == 0) {
                bs[warp] = sum;
            }
            __syncthreads();
            sum = bs[0];
            for (int i = 1; i < Warps; ++i) {
                sum += bs[i];
            }
        }
        if (first == 0) {
            acc += (double)((m - row[labels[r]]) + logf((float)sum));
        }
    }
    finish(acc, loss, toq, fromq, invN);
}

extern "C" void solve(const float* logits, const int* labels, float* loss, int N, int C)
{
    const double unit = 34359738368.0;  // 2^35: a mean loss of 1 in a block
    const double invN = 1.0 / (double)N;
    if (C == 10) {
        static const cudaError_t once = cudaFuncSetAttribute(
            ce_tiles<10>, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
        (void)once;
        int tiles = N / 32 + (N % 32 != 0);
        int wpb = tiles <= 1056 ? 4 : 8;
        int grid = (tiles + wpb - 1) / wpb;
        if (grid > 528) {
            grid = 528;
        }
        size_t bytes = (size_t)wpb * 4 * (32 * 10 + 32) * sizeof(float);
        ce_tiles<10><<<grid, wpb * 32, bytes>>>(logits, labels, loss, N, unit * grid / N,
                                                1.0 / (unit * grid), invN);
    } else if (C <= 32) {
        int grid = N / 256 + (N % 256 != 0);
        if (grid > 1056) {
            grid = 1056;
        }
        ce_threads<<<grid, 256>>>(logits, labels, loss, N, C, unit * grid / N, 1.0 / (unit * grid), invN);
    } else if (C <= 4096) {
        int grid = N / 8 + (N % 8 != 0);
        if (grid > 1056) {
            grid = 1056;
        }
        ce_groups<false, 256><<<grid, 256>>>(logits, labels, loss, N, C, unit * grid / N,
                                             1.0 / (unit * grid), invN);
    } else {
        int grid = N < 264 ? N : 264;
        ce_groups<true, 1024><<<grid, 1024>>>(logits, labels, loss, N, C, unit * grid / N,
                                              1.0 / (unit * grid), invN);
    }
}
