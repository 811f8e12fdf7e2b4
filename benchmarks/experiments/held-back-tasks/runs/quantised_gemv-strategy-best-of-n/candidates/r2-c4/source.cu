// Vector staged once, persistent blocks walk groups of eight rows

#include <cuda_runtime.h>

// Copies 16 bytes to shared memory, or writes 16 bytes of zero there when bytes is 0.
__device__ __forceinline__ void gather16(float4* to, const float* from, int bytes)
{
    unsigned s = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(s), "l"(from), "r"(bytes) : "memory");
}

// Where float4 g of the vector lies in shared memory: without bank conflicts for lanes 1, 2 or 4 apart.
__device__ __forceinline__ int place(int g)
{
    return g ^ ((g >> 3) & 3);
}

__device__ __forceinline__ void load_words(unsigned (&w)[4], const signed char* p)
{
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "l"(p));
}

__device__ __forceinline__ void load_words(unsigned (&w)[1], const signed char* p)
{
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(w[0]) : "l"(p));
}

__device__ __forceinline__ float load_scale(const float* p)
{
    float s;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(s) : "l"(p));
    return s;
}

// Four weights, each with its upper bit flipped, times four values. The byte becomes the low byte
// of 2^23, from which 2^23 + 128 is taken: exact.
__device__ __forceinline__ float four(unsigned w, float4 x, float sum)
{
    const float zero = 8388736.0f;
    float a = __uint_as_float(__byte_perm(w, 0x4B000000u, 0x7540)) - zero;
    float b = __uint_as_float(__byte_perm(w, 0x4B000000u, 0x7541)) - zero;
    float c = __uint_as_float(__byte_perm(w, 0x4B000000u, 0x7542)) - zero;
    float d = __uint_as_float(__byte_perm(w, 0x4B000000u, 0x7543)) - zero;
    sum = fmaf(a, x.x, sum);
    sum = fmaf(b, x.y, sum);
    sum = fmaf(c, x.z, sum);
    return fmaf(d, x.w, sum);
}

// Eight rows of a unit; what has been used is replaced by the same row of the next unit.
template <int Q, bool LOAD>
__device__ __forceinline__ void use(unsigned (&w)[8][Q], float (&scale)[8], const float4 (&xv)[Q], float (&v)[8],
                                    const signed char* next, const float* next_scale, unsigned last,
                                    unsigned columns, unsigned blocks)
{
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        float even = 0.0f, odd = 0.0f;
        #pragma unroll
        for (int q = 0; q < Q; ++q) {
            unsigned flipped = w[r][q] ^ 0x80808080u;
            if (q & 1) {
                odd = four(flipped, xv[q], odd);
            } else {
                even = four(flipped, xv[q], even);
            }
        }
        v[r] = scale[r] * (even + odd);
        if (LOAD) {
            unsigned down = min((unsigned)r, last);
            load_words(w[r], next + down * columns);
            scale[r] = load_scale(next_scale + down * blocks);
        }
    }
}

// Adds up eight values over the lanes; lane l gets the total of value l / 4.
__device__ __forceinline__ float total8(float (&v)[8], int lane)
{
    #pragma unroll
    for (int half = 4; half > 0; half >>= 1) {
        const int bit = half * 4;
        const bool upper = lane & bit;
        #pragma unroll
        for (int i = 0; i < half; ++i) {
            float send = upper ? v[i] : v[i + half];
            float keep = upper ? v[i + half] : v[i];
            v[i] = keep + __shfl_xor_sync(0xffffffffu, send, bit);
        }
    }
    float t = v[0];
    t += __shfl_xor_sync(0xffffffffu, t, 2);
    t += __shfl_xor_sync(0xffffffffu, t, 1);
    return t;
}

// A unit is 8 rows of 32 * V columns; a lane has V columns and 8 outputs.
// The warps of a block take the units of the block's groups of 8 rows in turn.
template <int V, int NW>
__global__ void __launch_bounds__(NW * 32, 1)
walk(const signed char* __restrict__ W, const float* __restrict__ scales, const float* __restrict__ x,
     float* __restrict__ y, int rows, int columns, int blocks, int steps, int batch)
{
    constexpr int Q = V / 4;
    extern __shared__ float4 xs[];
    float* partial = reinterpret_cast<float*>(xs + steps * 32 * Q);

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int groups = rows / 8 + (rows % 8 != 0);
    const int grid = (int)gridDim.x;
    const int own = (groups - (int)blockIdx.x + grid - 1) / grid;
    const int skip_groups = NW / steps;
    const int skip_steps = NW % steps;

    unsigned w[8][Q];
    float scale[8];

    for (int first = 0; first < own; first += batch) {
        const int here = min(batch, own - first);
        const int units = here * steps;
        int u = warp;
        int group = first + u / steps;
        int step = u % steps;

        if (u < units) {
            const unsigned row = 8u * (unsigned)((int)blockIdx.x + group * grid);
            const unsigned last = min(7u, (unsigned)(rows - 1) - row);
            const int column = min(step * 32 * V + lane * V, columns - V);
            const signed char* p = W + (size_t)row * (unsigned)columns + column;
            const float* ps = scales + (size_t)row * (unsigned)blocks + (column >> 5);
            #pragma unroll
            for (int r = 0; r < 8; ++r) {
                unsigned down = min((unsigned)r, last);
                load_words(w[r], p + down * (unsigned)columns);
                scale[r] = load_scale(ps + down * (unsigned)blocks);
            }
        }

        if (first == 0) {
            const int all = steps * 32 * Q;
            for (int g = tid; g < all; g += NW * 32) {
                bool ok = 4 * g < columns;
                gather16(&xs[place(g)], ok ? x + 4 * g : x, ok ? 16 : 0);
            }
            asm volatile("cp.async.wait_all;\n" ::: "memory");
            __syncthreads();
        }

        while (u < units) {
            float4 xv[Q];
            #pragma unroll
            for (int q = 0; q < Q; ++q) {
                xv[q] = xs[place((step * 32 + lane) * Q + q)];
            }
            float v[8];
            const int next = u + NW;
            if (next < units) {
                group += skip_groups;
                step += skip_steps;
                if (step >= steps) {
                    step -= steps;
                    ++group;
                }
                const unsigned row = 8u * (unsigned)((int)blockIdx.x + group * grid);
                const unsigned last = min(7u, (unsigned)(rows - 1) - row);
                const int column = min(step * 32 * V + lane * V, columns - V);
                const signed char* p = W + (size_t)row * (unsigned)columns + column;
                const float* ps = scales + (size_t)row * (unsigned)blocks + (column >> 5);
                use<Q, true>(w, scale, xv, v, p, ps, last, (unsigned)columns, (unsigned)blocks);
            } else {
                use<Q, false>(w, scale, xv, v, W, scales, 0u, (unsigned)columns, (unsigned)blocks);
            }
            float t = total8(v, lane);
            if ((lane & 3) == 0) {
                partial[u * 8 + (lane >> 2)] = t;
            }
            u = next;
        }
        __syncthreads();

        for (int i = tid; i < here * 8; i += NW * 32) {
            const unsigned row = 8u * (unsigned)((int)blockIdx.x + (first + (i >> 3)) * grid) + (unsigned)(i & 7);
            if (row < (unsigned)rows) {
                const float* from = partial + (i >> 3) * steps * 8 + (i & 7);
                float sum = 0.0f;
                #pragma unroll 4
                for (int s = 0; s < steps; ++s) {
                    sum += from[s * 8];
                }
                y[row] = sum;
            }
        }
        if (first + batch < own) {
            __syncthreads();
        }
    }
}

// Vectors too long for shared memory: a block for a row.
__global__ void __launch_bounds__(256)
rows_any(const signed char* __restrict__ W, const float* __restrict__ scales, const float* __restrict__ x,
         float* __restrict__ y, int rows, int blocks)
{
    __shared__ float sums[8];
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const size_t pieces = (size_t)blocks * 2;
    for (size_t row = blockIdx.x; row < (size_t)rows; row += gridDim.x) {
        const signed char* weights = W + row * (size_t)blocks * 32;
        const float* own = scales + row * (size_t)blocks;
        float sum = 0.0f;
        for (size_t j = threadIdx.x; j < pieces; j += 256) {
            unsigned w[4];
            load_words(w, weights + j * 16);
            const float4* xv = reinterpret_cast<const float4*>(x) + j * 4;
            float even = 0.0f, odd = 0.0f;
            even = four(w[0] ^ 0x80808080u, __ldg(xv + 0), even);
            odd = four(w[1] ^ 0x80808080u, __ldg(xv + 1), odd);
            even = four(w[2] ^ 0x80808080u, __ldg(xv + 2), even);
            odd = four(w[3] ^ 0x80808080u, __ldg(xv + 3), odd);
            sum = fmaf(__ldg(own + (j >> 1)), even + odd, sum);
        }
        #pragma unroll
        for (int o = 16; o > 0; o >>= 1) {
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
        }
        if (lane == 0) {
            sums[warp] = sum;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            float all = 0.0f;
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                all += sums[i];
            }
            y[row] = all;
        }
        __syncthreads();
    }
}

template <int V, int NW>
static bool launch(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks,
                   long long grid, long long most)
{
    const long long limit = 227 * 1024;
    const long long columns = 32ll * blocks;
    const long long steps = (columns + 32 * V - 1) / (32 * V);
    const long long staged = steps * 32 * V * 4;
    const long long group_bytes = steps * 32;
    if (staged + group_bytes > limit) {
        return false;
    }
    long long batch = 32768 / group_bytes;
    if (batch > (limit - staged) / group_bytes) {
        batch = (limit - staged) / group_bytes;
    }
    if (batch > most) {
        batch = most;
    }
    if (batch < 1) {
        batch = 1;
    }
    const long long bytes = staged + batch * group_bytes;
    if (bytes > 48 * 1024) {
        cudaFuncSetAttribute(walk<V, NW>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    }
    walk<V, NW><<<(unsigned)grid, NW * 32, (size_t)bytes>>>(W, scales, x, y, rows, (int)columns, blocks, (int)steps,
                                                           (int)batch);
    return true;
}

extern "C" void solve(const signed char* W, const float* scales, const float* x, float* y, int rows, int blocks)
{
    if (rows <= 0 || blocks <= 0) {
        return;
    }
    const long long groups = ((long long)rows + 7) / 8;
    const long long grid = groups < 132 ? groups : 132;
    const long long most = (groups + grid - 1) / grid;
    const long long wide_steps = (32ll * blocks + 511) / 512;

    bool done;
    if (most * wide_steps >= 16) {
        done = launch<16, 16>(W, scales, x, y, rows, blocks, grid, most);
    } else {
        done = launch<4, 8>(W, scales, x, y, rows, blocks, grid, most);
    }
    if (!done) {
        rows_any<<<(unsigned)rows, 256>>>(W, scales, x, y, rows, blocks);
    }
}
