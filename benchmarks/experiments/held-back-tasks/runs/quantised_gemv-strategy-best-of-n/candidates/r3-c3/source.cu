// Staying warps, swizzled shared x, rolling register prefetch of row pairs

#include <cuda_runtime.h>
#include <cstddef>

// A chunk: 512 weights of a row, 16 to each lane of a warp. A group: D chunks, one register slot each.

__device__ __forceinline__ void fetchWeights(uint4& w, const uint4* from, int ok)
{
    asm volatile("{\n\t"
                 ".reg .pred p;\n\t"
                 "setp.ne.s32 p, %5, 0;\n\t"
                 "@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n\t"
                 "}"
                 : "+r"(w.x), "+r"(w.y), "+r"(w.z), "+r"(w.w)
                 : "l"(from), "r"(ok));
}

__device__ __forceinline__ void fetchScale(float& s, const float* from, int ok)
{
    asm volatile("{\n\t"
                 ".reg .pred p;\n\t"
                 "setp.ne.s32 p, %2, 0;\n\t"
                 "@p ld.global.nc.L1::no_allocate.f32 %0, [%1];\n\t"
                 "}"
                 : "+f"(s)
                 : "l"(from), "r"(ok));
}

// byte k of word (already with flipped sign bits) as the exact float of the signed weight
template <int K>
__device__ __forceinline__ float weightOf(unsigned flipped)
{
    return __uint_as_float(__byte_perm(flipped, 0x4B000000u, 0x7540 + K)) - 8388736.0f;
}

__device__ __forceinline__ float dot4(unsigned word, const float4& v, float t)
{
    unsigned f = word ^ 0x80808080u;
    t = fmaf(weightOf<0>(f), v.x, t);
    t = fmaf(weightOf<1>(f), v.y, t);
    t = fmaf(weightOf<2>(f), v.z, t);
    t = fmaf(weightOf<3>(f), v.w, t);
    return t;
}

__device__ __forceinline__ float dot16(const uint4& w, const float4& a, const float4& b, const float4& c, const float4& d)
{
    float t0 = dot4(w.x, a, 0.0f);
    float t1 = dot4(w.y, b, 0.0f);
    t0 = dot4(w.z, c, t0);
    t1 = dot4(w.w, d, t1);
    return t0 + t1;
}

// R rows a task (rows >= R), D slots, G groups a row (0: given at run time), GUARD: the last group may be partial
template <int R, int D, int G, bool GUARD>
__global__ void __launch_bounds__(512, 1)
walk(const signed char* __restrict__ W, const float* __restrict__ scales, const float* __restrict__ x,
     float* __restrict__ y, int rows, int blocks, int groupsGiven)
{
    extern __shared__ float4 xs[];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int warps = blockDim.x >> 5;
    const int groups = G ? G : groupsGiven;
    const int nb = G ? D * G * 16 : blocks;
    const int pieces = nb * 2;

    // the vector, padded with zeros, on its way to shared memory
    {
        const int total = groups * D * 128;
        const int real = nb * 8;
        const float4* x4 = reinterpret_cast<const float4*>(x);
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(xs));
        for (int i = threadIdx.x; i < total; i += blockDim.x) {
            const bool in = !GUARD || i < real;
            const unsigned dst = to + static_cast<unsigned>(i ^ ((i >> 3) & 3)) * 16u;
            const float4* src = x4 + (in ? i : 0);
            const int bytes = in ? 16 : 0;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"(dst), "l"(src), "r"(bytes) : "memory");
        }
    }

    const int tasks = rows / R + (rows % R != 0 ? 1 : 0);
    const int step = gridDim.x * warps;
    int task = warp * gridDim.x + blockIdx.x;

    uint4 w[D][R];
    float s[D][R];
    const uint4* wp;
    const float* sp;
    {
        const int t = min(task, tasks - 1);
        const int row = min(t * R, rows - R);
        wp = reinterpret_cast<const uint4*>(W) + static_cast<size_t>(row) * pieces + lane;
        sp = scales + static_cast<size_t>(row) * nb + (lane >> 1);
        const bool any = task < tasks;
#pragma unroll
        for (int d = 0; d < D; ++d) {
            const int ok = any && (!GUARD || d * 32 + lane < pieces);
#pragma unroll
            for (int r = 0; r < R; ++r) {
                w[d][r] = make_uint4(0u, 0u, 0u, 0u);
                s[d][r] = 0.0f;
                fetchWeights(w[d][r], wp + (r * pieces + d * 32), ok);
                fetchScale(s[d][r], sp + (r * nb + d * 16), ok);
            }
        }
    }

    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();

    const int twist = (lane >> 1) & 3;
    const float4* const x0 = xs + lane * 4 + (0 ^ twist);
    const float4* const x1 = xs + lane * 4 + (1 ^ twist);
    const float4* const x2 = xs + lane * 4 + (2 ^ twist);
    const float4* const x3 = xs + lane * 4 + (3 ^ twist);

    while (task < tasks) {
        const int next = task + step;
        float acc[R];
#pragma unroll
        for (int r = 0; r < R; ++r) {
            acc[r] = 0.0f;
        }

#pragma unroll 1
        for (int g = 0; g < groups; ++g) {
            const bool last = g + 1 == groups;
            if (last) {
                const int t = min(next, tasks - 1);
                const int row = min(t * R, rows - R);
                wp = reinterpret_cast<const uint4*>(W) + static_cast<size_t>(row) * pieces + lane;
                sp = scales + static_cast<size_t>(row) * nb + (lane >> 1);
            } else {
                wp += D * 32;
                sp += D * 16;
            }
            const bool more = !last || next < tasks;
            const int first = (last ? 0 : (g + 1) * D * 32) + lane;

#pragma unroll
            for (int d = 0; d < D; ++d) {
                const int at = (g * D + d) * 128;
                const float4 a = x0[at];
                const float4 b = x1[at];
                const float4 c = x2[at];
                const float4 e = x3[at];
                const int ok = more && (!GUARD || first + d * 32 < pieces);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    acc[r] = fmaf(s[d][r], dot16(w[d][r], a, b, c, e), acc[r]);
                    if (GUARD) {
                        w[d][r] = make_uint4(0u, 0u, 0u, 0u);
                        s[d][r] = 0.0f;
                    }
                    fetchWeights(w[d][r], wp + (r * pieces + d * 32), ok);
                    fetchScale(s[d][r], sp + (r * nb + d * 16), ok);
                }
            }
        }

        if (R == 1) {
            float v = acc[0];
#pragma unroll
            for (int o = 16; o > 0; o >>= 1) {
                v += __shfl_xor_sync(0xFFFFFFFFu, v, o);
            }
            if (lane == 0) {
                y[task] = v;
            }
        } else {
            // lower half of the warp keeps the first row, upper half the second
            const bool upper = lane >= 16;
            float v = upper ? acc[R - 1] : acc[0];
            const float give = upper ? acc[0] : acc[R - 1];
            v += __shfl_xor_sync(0xFFFFFFFFu, give, 16);
#pragma unroll
            for (int o = 8; o > 0; o >>= 1) {
                v += __shfl_xor_sync(0xFFFFFFFFu, v, o);
            }
            const int wanted = task * R;
            const int row = min(wanted, rows - R);
            if (lane == 0 && row == wanted) {
                y[row] = v;
            }
            if (lane == 16) {
                y[row + 1] = v;
            }
        }
        task = next;
    }
}

// Few rows, or a vector too long for shared memory: a block for each row.
__global__ void __launch_bounds__(256)
wide(const signed char* __restrict__ W, const float* __restrict__ scales, const float* __restrict__ x,
     float* __restrict__ y, int rows, int blocks)
{
    __shared__ float sums[8];
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const size_t pieces = static_cast<size_t>(blocks) * 2;
    const float4* x4 = reinterpret_cast<const float4*>(x);

    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const uint4* weights = reinterpret_cast<const uint4*>(W) + static_cast<size_t>(row) * pieces;
        const float* own = scales + static_cast<size_t>(row) * static_cast<size_t>(blocks);
        float acc = 0.0f;
#pragma unroll 2
        for (size_t p = threadIdx.x; p < pieces; p += 256) {
            const uint4 w = __ldg(weights + p);
            const float scale = __ldg(own + (p >> 1));
            const float4 a = __ldg(x4 + p * 4);
            const float4 b = __ldg(x4 + p * 4 + 1);
            const float4 c = __ldg(x4 + p * 4 + 2);
            const float4 e = __ldg(x4 + p * 4 + 3);
            acc = fmaf(scale, dot16(w, a, b, c, e), acc);
        }
#pragma unroll
        for (int o = 16; o > 0; o >>= 1) {
            acc += __shfl_xor_sync(0xFFFFFFFFu, acc, o);
        }
        if (lane == 0) {
            sums[warp] = acc;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            float v = 0.0f;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                v += sums[i];
            }
            y[row] = v;
        }
        __syncthreads();
    }
}

template <int R, int D, int G, bool GUARD>
static void start(const signed char* W, const float* scales, const float* x, float* y,
                  int rows, int blocks, int groups, int sms)
{
    const int tasks = rows / R + (rows % R != 0 ? 1 : 0);
    const int grid = tasks < sms ? tasks : sms;
    int warps = tasks / grid + (tasks % grid != 0 ? 1 : 0);
    if (warps > 16) {
        warps = 16;
    }
    if (warps < 4) {
        warps = 4;
    }
    const int bytes = groups * D * 2048;
    if (bytes > 48 * 1024) {
        cudaFuncSetAttribute(walk<R, D, G, GUARD>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    }
    walk<R, D, G, GUARD><<<grid, warps * 32, bytes>>>(W, scales, x, y, rows, blocks, groups);
}

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    int device = 0;
    int sms = 132;
    cudaGetDevice(&device);
    if (cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device) != cudaSuccess || sms < 1) {
        sms = 132;
    }

    if (blocks > 1792 || rows < 2 * sms) {
        const int grid = rows < sms * 8 ? rows : sms * 8;
        wide<<<grid, 256>>>(W, scales, x, y, rows, blocks);
        return;
    }

    const int groups = (blocks + 63) / 64;
    const bool few = rows <= sms * 16;
    if (few) {
        if (blocks == 32) {
            start<1, 2, 1, false>(W, scales, x, y, rows, blocks, 1, sms);
        } else {
            start<1, 4, 0, true>(W, scales, x, y, rows, blocks, groups, sms);
        }
    } else {
        if (blocks == 128) {
            start<2, 4, 2, false>(W, scales, x, y, rows, blocks, 2, sms);
        } else if (blocks == 448) {
            start<2, 4, 7, false>(W, scales, x, y, rows, blocks, 7, sms);
        } else {
            start<2, 4, 0, true>(W, scales, x, y, rows, blocks, groups, sms);
        }
    }
}
