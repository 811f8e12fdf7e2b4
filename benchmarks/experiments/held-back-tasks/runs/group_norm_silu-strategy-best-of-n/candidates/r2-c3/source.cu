// Rows resident in registers and shared memory; warp, block, cluster.

#include <cuda_runtime.h>
#include <cstdint>

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int m = 16; m > 0; m >>= 1) {
        v += __shfl_xor_sync(0xffffffffu, v, m);
    }
    return v;
}

// z / (1 + exp(-z)), the argument of ex2 with its rounding made good.
__device__ __forceinline__ float silu(float z)
{
    const float L = 1.44269502162933349609375f;
    const float LLO = 1.92596299112661746887e-8f;
    float c = fminf(fmaxf(z, -87.0f), 87.0f);
    float t = c * -L;
    float lo = fmaf(c, -LLO, fmaf(c, -L, -t));
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(t));
    e = fmaf(e, lo * 0.693147182464599609375f, e);
    return __fdividef(z, 1.0f + e);
}

__device__ __forceinline__ float4 finish4(float4 v, float mean, float scale, float shift)
{
    float4 r;
    r.x = silu(fmaf(v.x - mean, scale, shift));
    r.y = silu(fmaf(v.y - mean, scale, shift));
    r.z = silu(fmaf(v.z - mean, scale, shift));
    r.w = silu(fmaf(v.w - mean, scale, shift));
    return r;
}

__device__ __forceinline__ int quotient(int i, unsigned magic)
{
    return magic ? (int)__umulhi((unsigned)i, magic) : i;
}

__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Puts an entry (mean, squares, count) into the same place of the shared memory of block `rank` of the cluster.
__device__ __forceinline__ void push(float4* at, unsigned rank, float mean, float squares, float n)
{
    unsigned local = (unsigned)__cvta_generic_to_shared(at);
    unsigned remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank));
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(remote), "f"(mean), "f"(squares), "f"(n),
                 "f"(0.0f)
                 : "memory");
}

// Mean and 1 / sqrt(variance + eps) from the entries of all warps, the same in every warp.
__device__ __forceinline__ void combine(const float4* stats, int entries, float total, float eps, float& mean,
                                        float& rstd)
{
    const int lane = threadIdx.x & 31;
    float s = 0.0f;
    for (int e = lane; e < entries; e += 32) {
        float4 st = stats[e];
        s = fmaf(st.x, st.z, s);
    }
    mean = warp_sum(s) / total;
    float q = 0.0f;
    for (int e = lane; e < entries; e += 32) {
        float4 st = stats[e];
        float d = st.z > 0.0f ? st.x - mean : 0.0f;
        q += fmaf(d * d, st.z, st.y);
    }
    float variance = warp_sum(q) / total;
    rstd = 1.0f / sqrtf(variance + eps);
}

// A row for 2^log_c blocks (a cluster); a thread keeps V vectors in registers and S in shared memory.
template <int T, int V, int S, int MINB>
__global__ void __launch_bounds__(T, MINB)
    resident(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
             float* __restrict__ y, int n4, int chunk4, int log_c, int groups, int width, unsigned magic, float eps)
{
    constexpr int W = T / 32;
    constexpr int NCH = T < 256 ? T : 256;
    extern __shared__ float4 hold[];
    __shared__ float4 stats[8 * W];
    __shared__ float2 affine[NCH];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int c = 1 << log_c;
    const int rank = (int)(blockIdx.x & (unsigned)(c - 1));
    const unsigned row = blockIdx.x >> log_c;
    const int start = rank * chunk4;
    int len = n4 - start;
    len = len < chunk4 ? len : chunk4;
    len = len > 0 ? len : 0;
    const size_t offset = (size_t)row * (size_t)n4 + (size_t)start;
    const float4* from = reinterpret_cast<const float4*>(x) + offset;
    float4* to = reinterpret_cast<float4*>(y) + offset;

    if (c > 1) {
        cluster_arrive();
    }

    if (S > 0) {
#pragma unroll
        for (int k = 0; k < S; ++k) {
            int i = (V + k) * T + tid;
            if (i < len) {
                unsigned dst = (unsigned)__cvta_generic_to_shared(&hold[k * T + tid]);
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst),
                             "l"(__cvta_generic_to_global(from + i))
                             : "memory");
            }
        }
    }
    float4 v[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
        int i = k * T + tid;
        v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i < len) {
            v[k] = __ldcs(from + i);
        }
    }
    // Gains and shifts of the channels of this chunk.
    const size_t base = (size_t)(row % (unsigned)groups) * (size_t)width;
    const int first = quotient(start, magic);
    const int channels = len > 0 ? quotient(start + len - 1, magic) - first + 1 : 0;
    const bool staged = channels <= NCH;
    float2 own = make_float2(0.0f, 0.0f);
    if (staged && tid < channels) {
        own.x = __ldg(gain + base + first + tid);
        own.y = __ldg(shift + base + first + tid);
    }

    // Mean and squared differences of each warp.
    float4 a = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < V; ++k) {
        a.x += v[k].x;
        a.y += v[k].y;
        a.z += v[k].z;
        a.w += v[k].w;
    }
    if (S > 0) {
        asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
        for (int k = 0; k < S; ++k) {
            if ((V + k) * T + tid < len) {
                float4 h = hold[k * T + tid];
                a.x += h.x;
                a.y += h.y;
                a.z += h.z;
                a.w += h.w;
            }
        }
    }
    int mine = len > tid ? (len - tid + T - 1) / T : 0;
    const float n = 4.0f * (float)__reduce_add_sync(0xffffffffu, mine);
    const float sum = warp_sum((a.x + a.y) + (a.z + a.w));
    const float middle = n > 0.0f ? sum / n : 0.0f;
    float4 q = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < V; ++k) {
        if (k * T + tid < len) {
            float d0 = v[k].x - middle, d1 = v[k].y - middle, d2 = v[k].z - middle, d3 = v[k].w - middle;
            q.x = fmaf(d0, d0, q.x);
            q.y = fmaf(d1, d1, q.y);
            q.z = fmaf(d2, d2, q.z);
            q.w = fmaf(d3, d3, q.w);
        }
    }
    if (S > 0) {
#pragma unroll
        for (int k = 0; k < S; ++k) {
            if ((V + k) * T + tid < len) {
                float4 h = hold[k * T + tid];
                float d0 = h.x - middle, d1 = h.y - middle, d2 = h.z - middle, d3 = h.w - middle;
                q.x = fmaf(d0, d0, q.x);
                q.y = fmaf(d1, d1, q.y);
                q.z = fmaf(d2, d2, q.z);
                q.w = fmaf(d3, d3, q.w);
            }
        }
    }
    const float squares = warp_sum((q.x + q.y) + (q.z + q.w));

    if (staged && tid < channels) {
        affine[tid] = own;
    }
    if (c > 1) {
        cluster_wait();  // all blocks of the cluster have started
        if (lane < c) {
            push(&stats[rank * W + warp], (unsigned)lane, middle, squares, n);
        }
        __syncwarp();
        cluster_arrive();
        cluster_wait();
    } else {
        if (lane == 0) {
            stats[warp] = make_float4(middle, squares, n, 0.0f);
        }
        __syncthreads();
    }
    float mean, rstd;
    combine(stats, c * W, 4.0f * (float)n4, eps, mean, rstd);

#pragma unroll
    for (int k = 0; k < V + S; ++k) {
        int i = k * T + tid;
        if (i < len) {
            int channel = quotient(start + i, magic);
            float2 ab;
            if (staged) {
                ab = affine[channel - first];
            } else {
                ab.x = __ldg(gain + base + channel);
                ab.y = __ldg(shift + base + channel);
            }
            float4 value = k < V ? v[k < V ? k : 0] : hold[(k < V ? 0 : k - V) * T + tid];
            __stcs(to + i, finish4(value, mean, rstd * ab.x, ab.y));
        }
    }
}

// A row for each warp, 256 vectors at most.
__global__ void __launch_bounds__(256)
    warp_rows4(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
               float* __restrict__ y, long long rows, int n4, int groups, int width, unsigned magic, float eps)
{
    const int lane = threadIdx.x & 31;
    const long long step = (long long)gridDim.x * 8;
    for (long long row = (long long)blockIdx.x * 8 + (threadIdx.x >> 5); row < rows; row += step) {
        const float4* from = reinterpret_cast<const float4*>(x) + (size_t)row * (size_t)n4;
        float4* to = reinterpret_cast<float4*>(y) + (size_t)row * (size_t)n4;
        float4 v[8];
        float s = 0.0f;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            int i = k * 32 + lane;
            v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < n4) {
                v[k] = __ldcs(from + i);
            }
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            s += (v[k].x + v[k].y) + (v[k].z + v[k].w);
        }
        const float total = 4.0f * (float)n4;
        const float mean = warp_sum(s) / total;
        float q = 0.0f;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (k * 32 + lane < n4) {
                float d0 = v[k].x - mean, d1 = v[k].y - mean, d2 = v[k].z - mean, d3 = v[k].w - mean;
                q += fmaf(d0, d0, d1 * d1) + fmaf(d2, d2, d3 * d3);
            }
        }
        const float rstd = 1.0f / sqrtf(warp_sum(q) / total + eps);
        const size_t base = (size_t)(row % groups) * (size_t)width;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            int i = k * 32 + lane;
            if (i < n4) {
                size_t channel = base + (size_t)quotient(i, magic);
                __stcs(to + i, finish4(v[k], mean, rstd * __ldg(gain + channel), __ldg(shift + channel)));
            }
        }
    }
}

// The same for pixels that are no multiple of 4.
__global__ void __launch_bounds__(256)
    warp_rows(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
              float* __restrict__ y, long long rows, int count, int groups, int width, int pixels, float eps)
{
    const int lane = threadIdx.x & 31;
    const long long step = (long long)gridDim.x * 8;
    for (long long row = (long long)blockIdx.x * 8 + (threadIdx.x >> 5); row < rows; row += step) {
        const float* from = x + (size_t)row * (size_t)count;
        float* to = y + (size_t)row * (size_t)count;
        float s = 0.0f;
        for (int i = lane; i < count; i += 32) {
            s += from[i];
        }
        const float mean = warp_sum(s) / (float)count;
        float q = 0.0f;
        for (int i = lane; i < count; i += 32) {
            float d = from[i] - mean;
            q = fmaf(d, d, q);
        }
        const float rstd = 1.0f / sqrtf(warp_sum(q) / (float)count + eps);
        const size_t base = (size_t)(row % groups) * (size_t)width;
        for (int i = lane; i < count; i += 32) {
            size_t channel = base + (size_t)(i / pixels);
            to[i] = silu(fmaf(from[i] - mean, rstd * gain[channel], shift[channel]));
        }
    }
}

// Any longer row, read three times, by 2^log_c blocks.
__global__ void __launch_bounds__(512)
    streamed(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
             float* __restrict__ y, long long count, int log_c, int groups, int width, int pixels, float eps)
{
    __shared__ float4 stats[8 * 16];
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int c = 1 << log_c;
    const int rank = (int)(blockIdx.x & (unsigned)(c - 1));
    const unsigned row = blockIdx.x >> log_c;
    const long long chunk = (count + c - 1) >> log_c;
    const long long start = rank * chunk;
    const long long end = start + chunk < count ? start + chunk : count;
    const float* from = x + (size_t)row * (size_t)count;
    float* to = y + (size_t)row * (size_t)count;
    if (c > 1) {
        cluster_arrive();
    }
    float s = 0.0f, lost = 0.0f;
    long long mine = 0;
    for (long long i = start + tid; i < end; i += 512) {
        float add = from[i] - lost;
        float next = s + add;
        lost = (next - s) - add;
        s = next;
        ++mine;
    }
    const float n = warp_sum((float)mine);
    const float sum = warp_sum(s);
    const float middle = n > 0.0f ? sum / n : 0.0f;
    float q = 0.0f;
    lost = 0.0f;
    for (long long i = start + tid; i < end; i += 512) {
        float d = from[i] - middle;
        float add = fmaf(d, d, -lost);
        float next = q + add;
        lost = (next - q) - add;
        q = next;
    }
    const float squares = warp_sum(q);
    if (c > 1) {
        cluster_wait();
        if (lane < c) {
            push(&stats[rank * 16 + warp], (unsigned)lane, middle, squares, n);
        }
        __syncwarp();
        cluster_arrive();
        cluster_wait();
    } else {
        if (lane == 0) {
            stats[warp] = make_float4(middle, squares, n, 0.0f);
        }
        __syncthreads();
    }
    float mean, rstd;
    combine(stats, c * 16, (float)count, eps, mean, rstd);
    const size_t base = (size_t)(row % (unsigned)groups) * (size_t)width;
    const bool narrow = count < 4294967296ll;
    for (long long i = start + tid; i < end; i += 512) {
        size_t channel =
            base + (narrow ? (size_t)((unsigned)i / (unsigned)pixels) : (size_t)(i / (long long)pixels));
        to[i] = silu(fmaf(from[i] - mean, rstd * gain[channel], shift[channel]));
    }
}

template <class... P, class... A>
static void launch(void (*kernel)(P...), long long blocks, int threads, int bytes, int c, A... args)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks, 1, 1);
    config.blockDim = dim3((unsigned)threads, 1, 1);
    config.dynamicSmemBytes = (size_t)bytes;
    config.stream = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = (unsigned)c;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = c > 1 ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
}

extern "C" void solve(const float* x, const float* gain, const float* shift, float* y, int images, int groups,
                      int width, int pixels, float eps)
{
    const long long rows = (long long)images * groups;
    const long long count = (long long)width * pixels;
    if (rows <= 0 || count <= 0) {
        return;
    }
    const bool vectors = pixels % 4 == 0;
    const unsigned p4 = vectors ? (unsigned)(pixels / 4) : 1u;
    const unsigned magic = p4 == 1 ? 0u : (unsigned)((4294967296ull + p4 - 1) / p4);

    if (count <= 1024) {
        long long blocks = (rows + 7) / 8;
        if (blocks > 1048576) {
            blocks = 1048576;
        }
        if (vectors) {
            warp_rows4<<<(unsigned)blocks, 256>>>(x, gain, shift, y, rows, (int)(count / 4), groups, width, magic,
                                                  eps);
        } else {
            warp_rows<<<(unsigned)blocks, 256>>>(x, gain, shift, y, rows, (int)count, groups, width, pixels, eps);
        }
        return;
    }
    if (vectors && count <= 262144) {
        const int n4 = (int)(count / 4);
        if (count <= 2560 && rows >= 132) {
            launch(resident<128, 5, 0, 8>, rows, 128, 0, 1, x, gain, shift, y, n4, n4, 0, groups, width, magic, eps);
        } else if (count <= 81920) {
            int log_c = 0;
            while (((n4 + (1 << log_c) - 1) >> log_c) > 2560) {
                ++log_c;
            }
            while (log_c < 3 && (rows << (log_c + 1)) <= 132 && (n4 >> log_c) > 512) {
                ++log_c;
            }
            const int chunk4 = (n4 + (1 << log_c) - 1) >> log_c;
            const long long blocks = rows << log_c;
            if (blocks <= 264) {
                launch(resident<512, 5, 0, 2>, blocks, 512, 0, 1 << log_c, x, gain, shift, y, n4, chunk4, log_c,
                       groups, width, magic, eps);
            } else {
                launch(resident<256, 5, 5, 5>, blocks, 256, 5 * 256 * 16, 1 << log_c, x, gain, shift, y, n4, chunk4,
                       log_c, groups, width, magic, eps);
            }
        } else {
            const int chunk4 = (n4 + 7) / 8;
            const int bytes = 8 * 512 * 16;
            cudaFuncSetAttribute(resident<512, 8, 8, 2>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
            launch(resident<512, 8, 8, 2>, rows * 8, 512, bytes, 8, x, gain, shift, y, n4, chunk4, 3, groups, width,
                   magic, eps);
        }
        return;
    }
    const int log_c = count >= 16384 && rows < 528 ? 3 : 0;
    launch(streamed, rows << log_c, 512, 0, 1 << log_c, x, gain, shift, y, count, log_c, groups, width, pixels, eps);
}
