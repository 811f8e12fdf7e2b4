// Staged x, persistent warps, thread-private cp.async rings over row groups.

#include <cuda_runtime.h>

// A warp walks over groups of R rows. A lane takes 16 weights of each of the R rows a step; the
// steps of all of a warp's groups form one stream, which a ring of S stages in shared memory runs
// ahead of. A thread reads only what it has copied itself, so the ring needs no barrier. x lies in
// shared memory as [step][quarter][lane] float4, so that lanes read it without bank conflicts.

__device__ __forceinline__ void copy16(unsigned to, const void* from)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void copy4(unsigned to, const void* from)
{
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4;" :: "r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N>
__device__ __forceinline__ void wait()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}

// Byte k of v, which holds weight + 128, as an exact float.
template <int K>
__device__ __forceinline__ float weight(unsigned v)
{
    return __uint_as_float(__byte_perm(v, 0x4B000000u, 0x7440u | K)) - 8388736.0f;
}

__device__ __forceinline__ float dot4(unsigned word, float4 x, float sum)
{
    unsigned v = word ^ 0x80808080u;
    sum = fmaf(weight<0>(v), x.x, sum);
    sum = fmaf(weight<1>(v), x.y, sum);
    sum = fmaf(weight<2>(v), x.z, sum);
    sum = fmaf(weight<3>(v), x.w, sum);
    return sum;
}

template <int R, int S, int T, bool STAGED>
__global__ void __launch_bounds__(T) multiply(const signed char* __restrict__ W,
    const float* __restrict__ scales, const float* __restrict__ x, float* __restrict__ y,
    unsigned rows, int blocks)
{
    extern __shared__ __align__(128) unsigned char memory[];
    const uint4* ringW = reinterpret_cast<const uint4*>(memory);
    const float* ringS = reinterpret_cast<const float*>(memory + S * R * T * 16);
    const float4* xs = reinterpret_cast<const float4*>(memory + S * R * T * 20);
    const unsigned base = (unsigned)__cvta_generic_to_shared(memory);

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int chunks = 2 * blocks;
    const int steps = (chunks + 31) / 32;
    const unsigned groups = (rows + (R - 1)) / R;
    const unsigned stride = gridDim.x * (T / 32);
    const unsigned first = (unsigned)(tid >> 5) * gridDim.x + blockIdx.x;
    const size_t rowBytes = (size_t)blocks * 32;

    if (STAGED) {
        const float4* x4 = reinterpret_cast<const float4*>(x);
        const unsigned to = base + S * R * T * 20;
        for (int f = tid; f < 8 * blocks; f += T) {
            int c = f >> 2;
            int place = (c >> 5) * 128 + (f & 3) * 32 + (c & 31);
            copy16(to + place * 16, x4 + f);
        }
        commit();
    }

    // The stream of copies.
    unsigned ahead = first;
    int aheadStep = 0;
    const signed char* fromW[R];
    const float* fromS[R];

    auto setup = [&]() {
#pragma unroll
        for (int i = 0; i < R; i++) {
            unsigned row = ahead * R + i;
            row = row < rows ? row : rows - 1;
            fromW[i] = W + (size_t)row * rowBytes + lane * 16;
            fromS[i] = scales + (size_t)row * (size_t)blocks + (lane >> 1);
        }
    };

    auto issue = [&](int slot) {
        if (ahead < groups) {
            if (aheadStep * 32 + lane < chunks) {
                const unsigned toW = base + (unsigned)(slot * R * T + tid) * 16;
                const unsigned toS = base + S * R * T * 16 + (unsigned)(slot * R * T + tid) * 4;
#pragma unroll
                for (int i = 0; i < R; i++) {
                    copy16(toW + i * T * 16, fromW[i]);
                }
#pragma unroll
                for (int i = 0; i < R; i++) {
                    copy4(toS + i * T * 4, fromS[i]);
                }
            }
#pragma unroll
            for (int i = 0; i < R; i++) {
                fromW[i] += 512;
                fromS[i] += 16;
            }
            if (++aheadStep == steps) {
                aheadStep = 0;
                ahead += stride;
                if (ahead < groups) {
                    setup();
                }
            }
        }
        commit();
    };

    if (ahead < groups) {
        setup();
    } else {
#pragma unroll
        for (int i = 0; i < R; i++) {
            fromW[i] = W;
            fromS[i] = scales;
        }
    }
#pragma unroll 1
    for (int s = 0; s < S - 1; s++) {
        issue(s);
    }

    if (STAGED) {
        wait<S - 1>();
        __syncthreads();
    }

    int slot = 0;
#pragma unroll 1
    for (unsigned g = first; g < groups; g += stride) {
        float acc[R];
#pragma unroll
        for (int i = 0; i < R; i++) {
            acc[i] = 0.0f;
        }
#pragma unroll 1
        for (int k = 0; k < steps; k++) {
            wait<S - 2>();
            issue((slot + S - 1) & (S - 1));
            const int c = k * 32 + lane;
            if (c < chunks) {
                float4 v[4];
                if (STAGED) {
#pragma unroll
                    for (int q = 0; q < 4; q++) {
                        v[q] = xs[k * 128 + q * 32 + lane];
                    }
                } else {
                    const float4* x4 = reinterpret_cast<const float4*>(x) + (size_t)c * 4;
#pragma unroll
                    for (int q = 0; q < 4; q++) {
                        v[q] = __ldg(x4 + q);
                    }
                }
                const int at = slot * R * T + tid;
#pragma unroll
                for (int i = 0; i < R; i++) {
                    const uint4 w = ringW[at + i * T];
                    const float scale = ringS[at + i * T];
                    float p = dot4(w.x, v[0], 0.0f);
                    float q = dot4(w.z, v[2], 0.0f);
                    p = dot4(w.y, v[1], p);
                    q = dot4(w.w, v[3], q);
                    acc[i] = fmaf(scale, p + q, acc[i]);
                }
            }
            slot = (slot + 1) & (S - 1);
        }
        __syncwarp();

        // Halve the rows a lane holds while there are several, then add up.
        int offset = 16;
#pragma unroll
        for (int n = R / 2; n >= 1; n /= 2) {
            const bool upper = (lane & offset) != 0;
#pragma unroll
            for (int i = 0; i < n; i++) {
                const float keep = upper ? acc[i + n] : acc[i];
                const float send = upper ? acc[i] : acc[i + n];
                acc[i] = keep + __shfl_xor_sync(0xffffffffu, send, offset);
            }
            offset /= 2;
        }
        float sum = acc[0];
#pragma unroll
        for (int o = 16 / R; o >= 1; o /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
        }
        const unsigned row = g * R + (unsigned)(lane / (32 / R));
        if (lane % (32 / R) == 0 && row < rows) {
            y[row] = sum;
        }
    }
    wait<0>();
}

template <int R, int S, int T, bool STAGED>
static void launch(const signed char* W, const float* scales, const float* x, float* y,
    unsigned rows, int blocks, unsigned most)
{
    static const cudaError_t ready = cudaFuncSetAttribute(multiply<R, S, T, STAGED>,
        cudaFuncAttributeMaxDynamicSharedMemorySize, 232448);
    (void)ready;
    const unsigned groups = (rows + (R - 1)) / R;
    const unsigned grid = groups < most ? groups : most;
    size_t bytes = (size_t)S * R * T * 20;
    if (STAGED) {
        bytes += (size_t)((2 * blocks + 31) / 32) * 2048;
    }
    multiply<R, S, T, STAGED><<<grid, T, bytes>>>(W, scales, x, y, rows, blocks);
}

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    const unsigned n = (unsigned)rows;
    if (blocks > 528) {
        // x does not fit beside the ring: it is read through L1.
        launch<2, 8, 512, false>(W, scales, x, y, n, blocks, 132);
    } else if (n > 8448) {
        launch<4, 4, 512, true>(W, scales, x, y, n, blocks, 132);
    } else if (n > 2112) {
        launch<2, 8, 512, true>(W, scales, x, y, n, blocks, 132);
    } else {
        launch<1, 4, 256, true>(W, scales, x, y, n, blocks, n > 1056 ? 264 : 132);
    }
}
