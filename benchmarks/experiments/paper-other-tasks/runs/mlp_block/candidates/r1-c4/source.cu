// Weights as wgmma's M, pipelined; split down product, last block adds.

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

// blocks of a tile that have stored their partial sums; zero again after each call
__device__ unsigned arrived[256];

__device__ __forceinline__ uint32_t smem_address(const void* p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void cp16(uint32_t to, const void* from, int bytes)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int LEFT>
__device__ __forceinline__ void cp_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

__device__ __forceinline__ void wg_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wg_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int LEFT>
__device__ __forceinline__ void wg_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// rows of 128 bytes along k, 128-byte swizzle, 1,024 bytes from eight rows to the next eight
__device__ __forceinline__ uint64_t descriptor(uint32_t address)
{
    return (uint64_t)((address & 0x3ffffu) >> 4) | ((uint64_t)1 << 16) | ((uint64_t)64 << 32) | ((uint64_t)1 << 62);
}

#define F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define F16(d, i) F4(d, i), F4(d, i + 4), F4(d, i + 8), F4(d, i + 12)

__device__ __forceinline__ void wgmma(float (&d)[8], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;\n}\n"
        : F4(d, 0), F4(d, 4)
        : "l"(a), "l"(b), "r"(1));
}

__device__ __forceinline__ void wgmma(float (&d)[32], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 0;\n}\n"
        : F16(d, 0), F16(d, 16)
        : "l"(a), "l"(b), "r"(1));
}

__device__ __forceinline__ void wgmma(float (&d)[64], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 0;\n}\n"
        : F16(d, 0), F16(d, 16), F16(d, 32), F16(d, 48)
        : "l"(a), "l"(b), "r"(1));
}

__global__ void __launch_bounds__(512)
normalise(const half* __restrict__ x, const half* __restrict__ weight, half* __restrict__ r, int tokens, int d_model,
          float eps)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    __shared__ float sums[16];
    const int tid = threadIdx.x;
    for (int row = blockIdx.x; row < tokens; row += gridDim.x) {
        const half* from = x + (size_t)row * d_model;
        half* to = r + (size_t)row * d_model;
        const bool wide = d_model % 8 == 0;
        float sum = 0.0f;
        if (wide) {
            for (int i = tid; i < d_model / 8; i += 512) {
                uint4 v = reinterpret_cast<const uint4*>(from)[i];
                const half2* h = reinterpret_cast<const half2*>(&v);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    float2 f = __half22float2(h[j]);
                    sum = fmaf(f.x, f.x, sum);
                    sum = fmaf(f.y, f.y, sum);
                }
            }
        } else {
            for (int i = tid; i < d_model; i += 512) {
                float f = __half2float(from[i]);
                sum = fmaf(f, f, sum);
            }
        }
        for (int d = 16; d > 0; d >>= 1) {
            sum += __shfl_xor_sync(0xffffffffu, sum, d);
        }
        if ((tid & 31) == 0) {
            sums[tid >> 5] = sum;
        }
        __syncthreads();
        sum = 0.0f;
#pragma unroll
        for (int w = 0; w < 16; ++w) {
            sum += sums[w];
        }
        __syncthreads();
        const float factor = 1.0f / sqrtf(sum / (float)d_model + eps);
        if (wide) {
            for (int i = tid; i < d_model / 8; i += 512) {
                uint4 v = reinterpret_cast<const uint4*>(from)[i];
                uint4 u = reinterpret_cast<const uint4*>(weight)[i];
                half2* h = reinterpret_cast<half2*>(&v);
                const half2* g = reinterpret_cast<const half2*>(&u);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    float2 f = __half22float2(h[j]);
                    float2 w = __half22float2(g[j]);
                    h[j] = __floats2half2_rn(f.x * factor * w.x, f.y * factor * w.y);
                }
                reinterpret_cast<uint4*>(to)[i] = v;
            }
        } else {
            for (int i = tid; i < d_model; i += 512) {
                to[i] = __float2half_rn(__half2float(from[i]) * factor * __half2float(weight[i]));
            }
        }
    }
}

// D[weight row][token], K long. GATED: 128 rows of each of W0, W1, stores silu(D0) * D1 as halves to `out`.
// Else 256 rows of W0, adds x, stores to `out`; `splits` blocks share the k of a tile.
template <int NT, int S, bool GATED, bool VEC>
__global__ void __launch_bounds__(256, 1)
product(const half* __restrict__ W0, const half* __restrict__ W1, const half* B, const half* __restrict__ x,
        half* out, float* part, int M, int tokens, int K, int row_tiles, int token_tiles, int splits)
{
    constexpr int STAGE = 32768 + NT * 128;
    constexpr int BROWS = NT >= 32 ? NT / 32 : 1;
    constexpr int TILE_ROWS = GATED ? 128 : 256;
    extern __shared__ unsigned char raw_smem[];
    __shared__ unsigned last_flag;
    unsigned char* smem = raw_smem + ((1024u - (smem_address(raw_smem) & 1023u)) & 1023u);
    const uint32_t base = smem_address(smem);

    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    const int tid = threadIdx.x;
    const int split = blockIdx.x % splits;
    const int tile = blockIdx.x / splits;
    const int per_group = 16 * row_tiles;
    const int group = tile / per_group;
    const int group_first = group * 16;
    const int group_size = min(16, token_tiles - group_first);
    const int in_group = tile - group * per_group;
    const int n0 = (group_first + in_group % group_size) * NT;
    const int m0 = (in_group / group_size) * TILE_ROWS;

    const int all_steps = (K - 1) / 64 + 1;
    const int per_split = (all_steps + splits - 1) / splits;
    const int first_step = split * per_split;
    const int steps = min(per_split, all_steps - first_step);

    const int chunk = tid & 7;
    const int r0 = tid >> 3;
    const uint32_t place = r0 * 128 + ((chunk ^ (r0 & 7)) << 4);
    const half* ap[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int row = r0 + 32 * i;
        if (GATED) {
            const half* W = i < 4 ? W0 : W1;
            ap[i] = W + (size_t)min(m0 + (row & 127), M - 1) * K;
        } else {
            ap[i] = W0 + (size_t)min(m0 + row, M - 1) * K;
        }
    }
    const half* bp[BROWS];
#pragma unroll
    for (int i = 0; i < BROWS; ++i) {
        bp[i] = B + (size_t)min(n0 + r0 + 32 * i, tokens - 1) * K;
    }

    auto put = [&](uint32_t to, const half* row, int k) {
        if constexpr (VEC) {
            bool inside = k < K;
            cp16(to, inside ? row + k : row, inside ? 16 : 0);
        } else {
            uint32_t word[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                uint32_t low = k + 2 * j < K ? (uint32_t)__half_as_ushort(row[k + 2 * j]) : 0u;
                uint32_t high = k + 2 * j + 1 < K ? (uint32_t)__half_as_ushort(row[k + 2 * j + 1]) : 0u;
                word[j] = low | (high << 16);
            }
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(word[0]), "r"(word[1]),
                         "r"(word[2]), "r"(word[3])
                         : "memory");
        }
    };
    auto load_a = [&](int step) {
        uint32_t to = base + (step % S) * STAGE + place;
        int k = (first_step + step) * 64 + chunk * 8;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            put(to + i * 4096, ap[i], k);
        }
    };
    auto load_b = [&](int step) {
        uint32_t to = base + (step % S) * STAGE + 32768 + place;
        int k = (first_step + step) * 64 + chunk * 8;
        if (NT >= 32 || r0 < NT) {
#pragma unroll
            for (int i = 0; i < BROWS; ++i) {
                put(to + i * 4096, bp[i], k);
            }
        }
    };

    float acc0[NT / 2];
    float acc1[NT / 2];
#pragma unroll
    for (int i = 0; i < NT / 2; ++i) {
        acc0[i] = 0.0f;
        acc1[i] = 0.0f;
    }

    // weights do not depend on the kernel before
#pragma unroll 1
    for (int s = 0; s < S - 2; ++s) {
        if (s < steps) {
            load_a(s);
        }
    }
    asm volatile("griddepcontrol.wait;" ::: "memory");
#pragma unroll 1
    for (int s = 0; s < S - 2; ++s) {
        if (s < steps) {
            load_b(s);
        }
        cp_commit();
    }

    const int wg = tid >> 7;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        cp_wait<S - 3>();
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        uint32_t stage = base + (step % S) * STAGE;
        uint64_t a0 = descriptor(stage + wg * 8192);
        uint64_t a1 = descriptor(stage + 16384 + wg * 8192);
        uint64_t b = descriptor(stage + 32768);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < 4; ++kk) {
            wgmma(acc0, a0 + 2 * kk, b + 2 * kk);
            wgmma(acc1, a1 + 2 * kk, b + 2 * kk);
        }
        wg_commit();
        // its slot was read two steps ago, and all warps have waited for that
        int next = step + S - 2;
        if (next < steps) {
            load_a(next);
            load_b(next);
        }
        cp_commit();
        wg_wait<1>();
    }
    wg_wait<0>();
    cp_wait<0>();

    const int lane = tid & 31;
    const int g = lane >> 2;
    const int t = lane & 3;
    const int own_row = wg * 64 + ((tid >> 5) & 3) * 16 + g;

    if constexpr (GATED) {
        __syncthreads();
        half* staged = reinterpret_cast<half*>(smem);  // [NT][136]
#pragma unroll
        for (int j = 0; j < NT / 8; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                float gate = acc0[j * 4 + e];
                float up = acc1[j * 4 + e];
                float value = gate / (1.0f + __expf(-gate)) * up;
                staged[(j * 8 + 2 * t + (e & 1)) * 136 + own_row + 8 * (e >> 1)] = __float2half_rn(value);
            }
        }
        __syncthreads();
        for (int i = tid; i < NT * 16; i += 256) {
            int token = i >> 4;
            int column = (i & 15) * 8;
            if (n0 + token < tokens) {
                half* to = out + (size_t)(n0 + token) * M;
                const half* from = staged + token * 136 + column;
                if (VEC) {
                    if (m0 + column < M) {
                        *reinterpret_cast<uint4*>(to + m0 + column) = *reinterpret_cast<const uint4*>(from);
                    }
                } else {
                    for (int e = 0; e < 8; ++e) {
                        if (m0 + column + e < M) {
                            to[m0 + column + e] = from[e];
                        }
                    }
                }
            }
        }
    } else {
        if (splits > 1) {
            float* own = part + (size_t)split * tokens * M;
#pragma unroll
            for (int j = 0; j < NT / 8; ++j) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    int token = n0 + j * 8 + 2 * t + (e & 1);
                    int row = m0 + own_row + 8 * (e >> 1);
                    if (token < tokens) {
                        float* to = own + (size_t)token * M;
                        if (row < M) {
                            __stcg(to + row, acc0[j * 4 + e]);
                        }
                        if (row + 128 < M) {
                            __stcg(to + row + 128, acc1[j * 4 + e]);
                        }
                    }
                }
            }
            __threadfence();
            __syncthreads();
            if (tid == 0) {
                unsigned before = atomicAdd(&arrived[tile], 1u);
                last_flag = before == (unsigned)splits - 1u;
                if (before == (unsigned)splits - 1u) {
                    arrived[tile] = 0u;
                }
            }
            __syncthreads();
            if (!last_flag) {
                return;
            }
            __threadfence();
#pragma unroll 1
            for (int s = 0; s < splits; ++s) {
                if (s == split) {
                    continue;
                }
                const float* other = part + (size_t)s * tokens * M;
#pragma unroll
                for (int j = 0; j < NT / 8; ++j) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        int token = min(n0 + j * 8 + 2 * t + (e & 1), tokens - 1);
                        int row = m0 + own_row + 8 * (e >> 1);
                        const float* from = other + (size_t)token * M;
                        acc0[j * 4 + e] += __ldcg(from + min(row, M - 1));
                        acc1[j * 4 + e] += __ldcg(from + min(row + 128, M - 1));
                    }
                }
            }
        }
#pragma unroll
        for (int j = 0; j < NT / 8; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int token = n0 + j * 8 + 2 * t + (e & 1);
                int row = m0 + own_row + 8 * (e >> 1);
                if (token < tokens) {
                    size_t at = (size_t)token * M + row;
                    if (row < M) {
                        out[at] = __float2half_rn(__half2float(x[at]) + acc0[j * 4 + e]);
                    }
                    if (row + 128 < M) {
                        out[at + 128] = __float2half_rn(__half2float(x[at + 128]) + acc1[j * 4 + e]);
                    }
                }
            }
        }
    }
}

template <int NT, int S, bool GATED, bool VEC>
static void launch(const half* W0, const half* W1, const half* B, const half* x, half* out, float* part, int M,
                   int tokens, int K, int splits)
{
    constexpr int bytes = S * (32768 + NT * 128) + 1024;
    constexpr int rows = GATED ? 128 : 256;
    auto kernel = product<NT, S, GATED, VEC>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    int row_tiles = (M - 1) / rows + 1;
    int token_tiles = (tokens - 1) / NT + 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)((size_t)row_tiles * token_tiles * splits));
    config.blockDim = dim3(256);
    config.dynamicSmemBytes = bytes;
    config.stream = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, W0, W1, B, x, out, part, M, tokens, K, row_tiles, token_tiles, splits);
}

template <int NT, int S, bool VEC>
static void both(const half* x, const half* W_gate, const half* W_up, const half* W_down, half* y, const half* r,
                 half* hidden, float* part, int tokens, int d_model, int d_ff, int splits)
{
    launch<NT, S, true, VEC>(W_gate, W_up, r, x, hidden, part, d_ff, tokens, d_model, 1);
    launch<NT, S, false, VEC>(W_down, W_down, hidden, x, y, part, d_model, tokens, d_ff, splits);
}

extern "C" void solve(const half* x, const half* norm_weight, const half* W_gate, const half* W_up, const half* W_down,
                      half* y, int tokens, int d_model, int d_ff, float eps)
{
    const bool vec = d_model % 8 == 0 && d_ff % 8 == 0;
    const int nt = !vec ? 64 : tokens <= 16 ? 16 : tokens <= 64 ? 64 : 128;

    const size_t r_bytes = ((size_t)tokens * d_model * 2 + 255) / 256 * 256;
    const size_t h_bytes = ((size_t)tokens * d_ff * 2 + 255) / 256 * 256;
    const size_t layer = (size_t)tokens * d_model * 4;
    const size_t budget = (size_t)16 * tokens * ((size_t)d_model + d_ff) + 65536;

    // few tiles of the down product: share the k of each
    const size_t tiles = (size_t)((d_model - 1) / 256 + 1) * ((tokens - 1) / nt + 1);
    const int steps = (d_ff - 1) / 64 + 1;
    int splits = 1;
    if (tiles <= 66) {
        splits = (int)(132 / tiles);
        splits = splits > 16 ? 16 : splits;
        splits = splits > steps / 4 ? steps / 4 : splits;
        size_t most = (budget - r_bytes - h_bytes) / layer;
        if ((size_t)splits > most) {
            splits = (int)most;
        }
        if (splits < 1) {
            splits = 1;
        }
    }

    unsigned char* memory = nullptr;
    cudaMallocAsync((void**)&memory, r_bytes + h_bytes + (splits > 1 ? layer * splits : 0), 0);
    half* r = reinterpret_cast<half*>(memory);
    half* hidden = reinterpret_cast<half*>(memory + r_bytes);
    float* part = reinterpret_cast<float*>(memory + r_bytes + h_bytes);

    normalise<<<tokens < 65535 ? tokens : 65535, 512>>>(x, norm_weight, r, tokens, d_model, eps);
    if (!vec) {
        both<64, 5, false>(x, W_gate, W_up, W_down, y, r, hidden, part, tokens, d_model, d_ff, splits);
    } else if (nt == 16) {
        both<16, 6, true>(x, W_gate, W_up, W_down, y, r, hidden, part, tokens, d_model, d_ff, splits);
    } else if (nt == 64) {
        both<64, 5, true>(x, W_gate, W_up, W_down, y, r, hidden, part, tokens, d_model, d_ff, splits);
    } else {
        both<128, 4, true>(x, W_gate, W_up, W_down, y, r, hidden, part, tokens, d_model, d_ff, splits);
    }
    cudaFreeAsync(memory, 0);
}
