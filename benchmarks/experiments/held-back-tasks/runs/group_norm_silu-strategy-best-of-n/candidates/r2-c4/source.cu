// Running merged statistics over clusters, then cached write pass

#include <cuda_runtime.h>

constexpr int TABLE = 512;

__device__ __forceinline__ unsigned shared_address(const void* p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

// Read once, leave L1 to those that are read again.
__device__ __forceinline__ float4 load_once(const float4* p)
{
    float4 v;
    asm("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
        : "l"(p));
    return v;
}

__device__ __forceinline__ void store_stream(float4* p, float4 v)
{
    asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w));
}

__device__ __forceinline__ void copy4(void* to, const float* from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

__device__ __forceinline__ float silu(float z)
{
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(z * -1.4426950408889634f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
    return z * r;
}

__device__ __forceinline__ void merge(float& n, float& m, float& q, float n2, float m2, float q2)
{
    float all = n + n2;
    float part = all > 0.0f ? __fdividef(n2, all) : 0.0f;
    float d = m2 - m;
    m = fmaf(d, part, m);
    q += fmaf(d * d, n * part, q2);
    n = all;
}

// Mean and squares about it of the first `mine` vectors; the others are zero.
template <int K>
__device__ __forceinline__ void look(const float4 (&v)[K], int mine, float& m, float& q)
{
    float4 s = v[0];
    #pragma unroll
    for (int k = 1; k < K; ++k) {
        s.x += v[k].x;
        s.y += v[k].y;
        s.z += v[k].z;
        s.w += v[k].w;
    }
    float r = mine == K ? 1.0f / (4 * K) : __fdividef(0.25f, (float)max(mine, 1));
    m = ((s.x + s.y) + (s.z + s.w)) * r;
    float4 t = make_float4(0.f, 0.f, 0.f, 0.f);
    #pragma unroll
    for (int k = 0; k < K; ++k) {
        if (k < mine) {
            float a = v[k].x - m, b = v[k].y - m, c = v[k].z - m, d = v[k].w - m;
            t.x = fmaf(a, a, t.x);
            t.y = fmaf(b, b, t.y);
            t.z = fmaf(c, c, t.z);
            t.w = fmaf(d, d, t.w);
        }
    }
    q = (t.x + t.y) + (t.z + t.w);
}

// A group for each 1 << log_c blocks (a cluster). The last K vectors of a thread stay in registers,
// the ones before are read again from the cache.
template <int T, int K, int BLOCKS, bool CLUSTER>
__global__ void __launch_bounds__(T, BLOCKS)
norm4(const float4* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
      float4* __restrict__ y, unsigned groups, int width, unsigned vectors, unsigned chunk, int log_c,
      unsigned magic, int magic_shift, float inv_count, float eps)
{
    constexpr int W = T / 32;
    __shared__ float4 parts[CLUSTER ? W * 8 : W];
    __shared__ float2 table[TABLE];

    if (CLUSTER) {
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    }

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned item = CLUSTER ? blockIdx.x >> log_c : blockIdx.x;
    const unsigned rank = CLUSTER ? blockIdx.x & ((1u << log_c) - 1u) : 0u;
    const unsigned group = item % groups;

    x += (size_t)item * vectors;
    y += (size_t)item * vectors;
    const unsigned begin = min(rank * chunk, vectors);
    const unsigned end = min(begin + chunk, vectors);
    const unsigned held = end - begin > (unsigned)(K * T) ? end - (unsigned)(K * T) : begin;

    {
        const float* own_gain = gain + (size_t)group * width;
        const float* own_shift = shift + (size_t)group * width;
        for (int w = tid; w < width; w += T) {
            copy4(&table[w].x, own_gain + w);
            copy4(&table[w].y, own_shift + w);
        }
    }

    // First pass: running statistics of this thread.
    unsigned seen = 0;
    float m = 0.0f, q = 0.0f;
    float4 v[K];
    for (unsigned at = begin + tid; at < held; at += (unsigned)(K * T)) {
        const int mine = (int)min((unsigned)K, (held - at + T - 1) / T);
        #pragma unroll
        for (int k = 0; k < K; ++k) {
            v[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            if (k < mine) {
                v[k] = __ldg(x + at + k * T);
            }
        }
        float m2, q2;
        look<K>(v, mine, m2, q2);
        float n = 4.0f * (float)seen;
        merge(n, m, q, 4.0f * (float)mine, m2, q2);
        seen += mine;
    }

    const unsigned own = held + tid;
    const int mine = own < end ? (int)min((unsigned)K, (end - own + T - 1) / T) : 0;
    #pragma unroll
    for (int k = 0; k < K; ++k) {
        v[k] = make_float4(0.f, 0.f, 0.f, 0.f);
        if (k < mine) {
            v[k] = load_once(x + own + k * T);
        }
    }
    {
        float m2, q2;
        look<K>(v, mine, m2, q2);
        if (seen == 0) {
            m = m2;
            q = q2;
        } else {
            float n = 4.0f * (float)seen;
            merge(n, m, q, 4.0f * (float)mine, m2, q2);
        }
        seen += mine;
    }

    // The warp's statistics, about the mean of its first lane.
    float4 entry;
    {
        float pivot = __shfl_sync(0xffffffffu, m, 0);
        float d = m - pivot;
        float sum = 4.0f * (float)seen * d;
        if (seen == 0) {
            sum = 0.0f;
        }
        float squares = fmaf(sum, d, q);
        float n = 4.0f * (float)__reduce_add_sync(0xffffffffu, seen);
        #pragma unroll
        for (int o = 16; o > 0; o >>= 1) {
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
            squares += __shfl_xor_sync(0xffffffffu, squares, o);
        }
        float off = n > 0.0f ? __fdividef(sum, n) : 0.0f;
        entry = make_float4(n, pivot + off, fmaxf(fmaf(-sum, off, squares), 0.0f), 0.0f);
    }

    asm volatile("cp.async.wait_all;" ::: "memory");
    if (CLUSTER) {
        __syncwarp();
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        if (lane < (1 << log_c)) {
            unsigned local = shared_address(&parts[rank * W + warp]);
            unsigned remote;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(lane));
            asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(remote), "f"(entry.x),
                         "f"(entry.y), "f"(entry.z), "f"(entry.w)
                         : "memory");
        }
        __syncwarp();
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    } else {
        if (lane == 0) {
            parts[warp] = entry;
        }
        __syncthreads();
    }

    // The group's statistics; every warp merges all parts in the same order.
    float mean, root;
    {
        const int entries = CLUSTER ? W << log_c : W;
        float pivot = parts[0].y;
        float sum = 0.0f, squares = 0.0f;
        for (int e = lane; e < entries; e += 32) {
            float4 p = parts[e];
            float d = p.y - pivot;
            float s = p.x > 0.0f ? p.x * d : 0.0f;
            sum += s;
            squares += fmaf(s, d, p.z);
        }
        #pragma unroll
        for (int o = 16; o > 0; o >>= 1) {
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
            squares += __shfl_xor_sync(0xffffffffu, squares, o);
        }
        float off = sum * inv_count;
        mean = pivot + off;
        float a = fmaxf(fmaf(-sum, off, squares), 0.0f) * inv_count + eps;
        float r = rsqrtf(a);
        float wrong = fmaf(-a * r, r, 1.0f);
        root = fmaf(0.5f * r, wrong, r);
    }

    // Second pass: results, what is in registers first, then the latest of what is in the cache.
    auto put = [&](unsigned i, float4 u) {
        unsigned channel = (__umulhi(i, magic) + i) >> magic_shift;
        float2 gs = table[channel];
        float a = gs.x * root;
        float4 r;
        r.x = silu(fmaf(u.x - mean, a, gs.y));
        r.y = silu(fmaf(u.y - mean, a, gs.y));
        r.z = silu(fmaf(u.z - mean, a, gs.y));
        r.w = silu(fmaf(u.w - mean, a, gs.y));
        store_stream(y + i, r);
    };
    #pragma unroll
    for (int k = 0; k < K; ++k) {
        if (k < mine) {
            put(own + k * T, v[k]);
        }
    }
    if (begin + tid < held) {
        int rounds = (int)((held - begin - tid + T - 1) / T);
        for (; rounds > 0; rounds -= 4) {
            float4 u[4];
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                int r = rounds - 1 - k;
                u[k] = make_float4(0.f, 0.f, 0.f, 0.f);
                if (r >= 0) {
                    u[k] = __ldg(x + (begin + tid + (unsigned)r * T));
                }
            }
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                int r = rounds - 1 - k;
                if (r >= 0) {
                    put(begin + tid + (unsigned)r * T, u[k]);
                }
            }
        }
    }
}

// Any extents: a block for a group.
__global__ void __launch_bounds__(512)
norm_any(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
         float* __restrict__ y, int groups, int width, int pixels, size_t items, float eps)
{
    __shared__ float pn[16], pm[16], pq[16];
    const size_t count = (size_t)width * (size_t)pixels;
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    for (size_t item = blockIdx.x; item < items; item += gridDim.x) {
        const float* from = x + item * count;
        float* to = y + item * count;
        const size_t first = (item % (size_t)groups) * (size_t)width;

        float n = 0.0f, m = 0.0f, q = 0.0f;
        for (size_t at = threadIdx.x; at < count; at += 8 * 512) {
            float v[8];
            int mine = 0;
            float s = 0.0f;
            #pragma unroll
            for (int k = 0; k < 8; ++k) {
                size_t i = at + (size_t)k * 512;
                v[k] = 0.0f;
                if (i < count) {
                    v[k] = from[i];
                    ++mine;
                }
            }
            #pragma unroll
            for (int k = 0; k < 8; ++k) {
                s += v[k];
            }
            float m2 = s / (float)mine, q2 = 0.0f;
            #pragma unroll
            for (int k = 0; k < 8; ++k) {
                if (k < mine) {
                    float d = v[k] - m2;
                    q2 = fmaf(d, d, q2);
                }
            }
            merge(n, m, q, (float)mine, m2, q2);
        }
        #pragma unroll
        for (int o = 16; o > 0; o >>= 1) {
            float n2 = __shfl_xor_sync(0xffffffffu, n, o);
            float m2 = __shfl_xor_sync(0xffffffffu, m, o);
            float q2 = __shfl_xor_sync(0xffffffffu, q, o);
            merge(n, m, q, n2, m2, q2);
        }
        if (lane == 0) {
            pn[warp] = n;
            pm[warp] = m;
            pq[warp] = q;
        }
        __syncthreads();
        n = pn[0];
        m = pm[0];
        q = pq[0];
        for (int w = 1; w < 16; ++w) {
            merge(n, m, q, pn[w], pm[w], pq[w]);
        }
        const float root = 1.0f / sqrtf(q / (float)count + eps);
        for (size_t i = threadIdx.x; i < count; i += 512) {
            size_t channel = count <= 0xffffffffull ? (size_t)((unsigned)i / (unsigned)pixels) : i / (size_t)pixels;
            float a = __ldg(gain + first + channel) * root;
            to[i] = silu(fmaf(from[i] - m, a, __ldg(shift + first + channel)));
        }
        __syncthreads();
    }
}

template <int T, int K, int BLOCKS, bool CLUSTER>
static void launch4(const float* x, const float* gain, const float* shift, float* y, int groups, int width,
                    int pixels, unsigned blocks, unsigned vectors, int log_c, float eps)
{
    const unsigned c = 1u << log_c;
    const unsigned chunk = (vectors + c - 1) / c;
    const unsigned d = (unsigned)pixels / 4;
    int l = 0;
    while ((1ull << l) < d) {
        ++l;
    }
    const unsigned magic = (unsigned)(((1ull << 32) * ((1ull << l) - d)) / d + 1);
    const float inv_count = (float)(1.0 / (4.0 * (double)vectors));

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(T);
    config.dynamicSmemBytes = 0;
    config.stream = 0;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = c;
    attribute[0].val.clusterDim.y = 1;
    attribute[0].val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = CLUSTER ? 1 : 0;
    cudaLaunchKernelEx(&config, norm4<T, K, BLOCKS, CLUSTER>, (const float4*)x, gain, shift, (float4*)y,
                       (unsigned)groups, width, vectors, chunk, log_c, magic, l, inv_count, eps);
}

extern "C" void solve(const float* x, const float* gain, const float* shift, float* y, int images, int groups,
                      int width, int pixels, float eps)
{
    if (images <= 0 || groups <= 0 || width <= 0 || pixels <= 0) {
        return;
    }
    const long long items = (long long)images * groups;
    const long long count = (long long)width * pixels;

    if (pixels % 4 == 0 && width <= TABLE && count <= 0x7fffffffll) {
        const long long vectors = count / 4;
        int log_c = 0;
        while (log_c < 3 && ((vectors + (1 << log_c) - 1) >> log_c) > 2560) {
            ++log_c;
        }
        while (log_c < 3 && (items << (log_c + 1)) <= 132 && (vectors >> log_c) > 512) {
            ++log_c;
        }
        const long long blocks = items << log_c;
        const long long chunk = (vectors + (1 << log_c) - 1) >> log_c;
        if (blocks <= 0x7fffffffll) {
            const unsigned b = (unsigned)blocks, n = (unsigned)vectors;
            if (chunk > 2560) {
                launch4<512, 8, 2, true>(x, gain, shift, y, groups, width, pixels, b, n, log_c, eps);
            } else if (blocks <= 264) {
                if (log_c > 0) {
                    launch4<512, 5, 2, true>(x, gain, shift, y, groups, width, pixels, b, n, log_c, eps);
                } else {
                    launch4<512, 5, 2, false>(x, gain, shift, y, groups, width, pixels, b, n, log_c, eps);
                }
            } else {
                if (log_c > 0) {
                    launch4<256, 10, 4, true>(x, gain, shift, y, groups, width, pixels, b, n, log_c, eps);
                } else {
                    launch4<256, 10, 4, false>(x, gain, shift, y, groups, width, pixels, b, n, log_c, eps);
                }
            }
            return;
        }
    }

    const unsigned grid = (unsigned)(items < 0x7fffffffll ? items : 0x7fffffffll);
    norm_any<<<grid, 512>>>(x, gain, shift, y, groups, width, pixels, (size_t)items, eps);
}
