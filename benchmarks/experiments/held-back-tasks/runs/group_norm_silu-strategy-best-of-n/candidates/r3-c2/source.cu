// Rows in registers, one cluster a row, one read, one write.

#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

namespace {

constexpr unsigned kStaged = 512;      // channels whose gain and shift are kept in shared memory
constexpr unsigned kChunk = 16384;     // values of a block where rows are too long for a cluster
constexpr unsigned kLongest = 327680;  // values of a row that 8 blocks hold

template <int T, int V, bool VEC>
__device__ __forceinline__ void load(float (&v)[4 * V], const float* p, unsigned n)
{
    if constexpr (VEC) {
        const float4* p4 = reinterpret_cast<const float4*>(p) + threadIdx.x;
#pragma unroll
        for (int k = 0; k < V; ++k) {
            float4 f = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (threadIdx.x + k * T < n) {
                f = __ldcs(p4 + k * T);
            }
            v[4 * k + 0] = f.x;
            v[4 * k + 1] = f.y;
            v[4 * k + 2] = f.z;
            v[4 * k + 3] = f.w;
        }
    } else {
        const float* p1 = p + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 4 * V; ++k) {
            v[k] = threadIdx.x + k * T < n ? __ldcs(p1 + k * T) : 0.0f;
        }
    }
}

// Mean and sum of squared differences from it, of the n units of a block, known to all its threads
template <int T, int V, bool VEC>
__device__ __forceinline__ float2 block_stats(const float (&v)[4 * V], unsigned n, float* s1, float2* s2)
{
    constexpr int NW = T / 32;
    const unsigned lane = threadIdx.x & 31u;
    const unsigned warp = threadIdx.x >> 5;
    const float count = (float)(VEC ? 4u * n : n);

    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < V; ++k) {
        sum += (v[4 * k] + v[4 * k + 1]) + (v[4 * k + 2] + v[4 * k + 3]);
    }
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, d);
    }
    if (lane == 0) {
        s1[warp] = sum;
    }
    __syncthreads();
    sum = s1[lane & (NW - 1)];
#pragma unroll
    for (int d = NW / 2; d > 0; d >>= 1) {
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, d);
    }
    float mean = n != 0 ? sum / count : 0.0f;

    float r = 0.0f, q = 0.0f;
#pragma unroll
    for (int k = 0; k < V; ++k) {
        if constexpr (VEC) {
            if (threadIdx.x + k * T < n) {
                const float a = v[4 * k] - mean;
                const float b = v[4 * k + 1] - mean;
                const float c = v[4 * k + 2] - mean;
                const float d = v[4 * k + 3] - mean;
                r += (a + b) + (c + d);
                q += fmaf(a, a, b * b) + fmaf(c, c, d * d);
            }
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (threadIdx.x + (4 * k + e) * T < n) {
                    const float a = v[4 * k + e] - mean;
                    r += a;
                    q = fmaf(a, a, q);
                }
            }
        }
    }
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        r += __shfl_xor_sync(0xFFFFFFFFu, r, d);
        q += __shfl_xor_sync(0xFFFFFFFFu, q, d);
    }
    if (lane == 0) {
        s2[warp] = make_float2(r, q);
    }
    __syncthreads();
    const float2 own = s2[lane & (NW - 1)];
    r = own.x;
    q = own.y;
#pragma unroll
    for (int d = NW / 2; d > 0; d >>= 1) {
        r += __shfl_xor_sync(0xFFFFFFFFu, r, d);
        q += __shfl_xor_sync(0xFFFFFFFFu, q, d);
    }
    // What rounding of the mean left over
    const float delta = n != 0 ? r / count : 0.0f;
    return make_float2(mean + delta, fmaxf(q - r * delta, 0.0f));
}

__device__ __forceinline__ float result(float x, float mean, float a, float b)
{
    const float z = fmaf(x - mean, a, b);
    return __fdividef(z, 1.0f + expf(-z));
}

template <int T, int V, bool VEC>
__global__ void __launch_bounds__(T, T <= 128 ? 8 : 1024 / T)
normalise(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
          float* __restrict__ y, unsigned groups, unsigned first_group, unsigned width,
          unsigned count, unsigned units, unsigned part, unsigned parts,
          unsigned long long magic, float eps)
{
    __shared__ float s1[32];
    __shared__ float2 s2[32];
    __shared__ float2 slots[8];
    __shared__ float gains[kStaged];
    __shared__ float shifts[kStaged];

    if (parts > 1u) {
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    }

    const unsigned row = blockIdx.x / parts;
    const unsigned rank = blockIdx.x - row * parts;
    const unsigned group = (first_group + row) % groups;
    const unsigned begin = rank * part;
    const unsigned left = units > begin ? units - begin : 0u;
    const unsigned n = left < part ? left : part;
    const size_t at = (size_t)row * count + (size_t)begin * (VEC ? 4u : 1u);

    float v[4 * V];
    load<T, V, VEC>(v, x + at, n);

    const float* own_gain = gain + (size_t)group * width;
    const float* own_shift = shift + (size_t)group * width;
    const bool staged = width <= kStaged;
    if (staged) {
        for (unsigned c = threadIdx.x; c < width; c += T) {
            gains[c] = __ldg(own_gain + c);
            shifts[c] = __ldg(own_shift + c);
        }
    }

    const float2 stats = block_stats<T, V, VEC>(v, n, s1, s2);
    float mean = stats.x;
    float squares = stats.y;

    if (parts > 1u) {
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); // all blocks have started
        if (threadIdx.x < parts) {
            const unsigned slot = (unsigned)__cvta_generic_to_shared(slots + rank);
            unsigned remote;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(slot), "r"(threadIdx.x));
            asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};"
                         :: "r"(remote), "f"(mean), "f"(squares) : "memory");
        }
        __syncwarp();
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");

        const float base = slots[0].x;
        float d = 0.0f;
        for (unsigned c = 1; c < parts; ++c) {
            const unsigned b = c * part;
            const unsigned l = units > b ? units - b : 0u;
            const float m = (float)((l < part ? l : part) * (VEC ? 4u : 1u));
            d = fmaf(m, slots[c].x - base, d);
        }
        mean = base + d / (float)count;
        squares = 0.0f;
        for (unsigned c = 0; c < parts; ++c) {
            const unsigned b = c * part;
            const unsigned l = units > b ? units - b : 0u;
            const float m = (float)((l < part ? l : part) * (VEC ? 4u : 1u));
            const float e = slots[c].x - mean;
            squares += fmaf(m * e, e, slots[c].y);
        }
    }

    const float scale = 1.0f / sqrtf(squares / (float)count + eps);

    if constexpr (VEC) {
        float4* to = reinterpret_cast<float4*>(y + at) + threadIdx.x;
#pragma unroll
        for (int k = 0; k < V; ++k) {
            const unsigned i = threadIdx.x + k * T;
            if (i < n) {
                const unsigned c = (unsigned)(((unsigned long long)(begin + i) * magic) >> 40);
                const float a = scale * (staged ? gains[c] : __ldg(own_gain + c));
                const float b = staged ? shifts[c] : __ldg(own_shift + c);
                float4 f;
                f.x = result(v[4 * k + 0], mean, a, b);
                f.y = result(v[4 * k + 1], mean, a, b);
                f.z = result(v[4 * k + 2], mean, a, b);
                f.w = result(v[4 * k + 3], mean, a, b);
                __stcs(to + k * T, f);
            }
        }
    } else {
        float* to = y + at + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 4 * V; ++k) {
            const unsigned i = threadIdx.x + k * T;
            if (i < n) {
                const unsigned c = (unsigned)(((unsigned long long)(begin + i) * magic) >> 40);
                const float a = scale * (staged ? gains[c] : __ldg(own_gain + c));
                const float b = staged ? shifts[c] : __ldg(own_shift + c);
                __stcs(to + k * T, result(v[k], mean, a, b));
            }
        }
    }
}

// Rows too long for the registers of a cluster: statistics of chunks, of rows, then the results.

template <bool VEC>
__global__ void __launch_bounds__(512)
chunk_stats(const float* __restrict__ x, float2* __restrict__ stats, size_t count, unsigned chunks)
{
    __shared__ float s1[32];
    __shared__ float2 s2[32];
    const unsigned row = blockIdx.x / chunks;
    const unsigned chunk = blockIdx.x - row * chunks;
    const size_t begin = (size_t)chunk * kChunk;
    const size_t left = count - begin;
    const unsigned n = left < kChunk ? (unsigned)left : kChunk;
    const unsigned units = VEC ? n / 4u : n;
    float v[32];
    load<512, 8, VEC>(v, x + (size_t)row * count + begin, units);
    const float2 s = block_stats<512, 8, VEC>(v, units, s1, s2);
    if (threadIdx.x == 0) {
        stats[blockIdx.x] = s;
    }
}

__device__ double sum_256(double own, double* sums)
{
    sums[threadIdx.x] = own;
    for (unsigned half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
    }
    __syncthreads();
    const double total = sums[0];
    __syncthreads();
    return total;
}

__global__ void __launch_bounds__(256)
row_stats(const float2* __restrict__ stats, float2* __restrict__ of_rows, size_t count, unsigned chunks, float eps)
{
    __shared__ double sums[256];
    const float2* own = stats + (size_t)blockIdx.x * chunks;
    double sum = 0.0;
    for (unsigned c = threadIdx.x; c < chunks; c += 256) {
        const size_t left = count - (size_t)c * kChunk;
        sum += (double)(left < kChunk ? left : kChunk) * (double)own[c].x;
    }
    const double mean = sum_256(sum, sums) / (double)count;
    double squares = 0.0;
    for (unsigned c = threadIdx.x; c < chunks; c += 256) {
        const size_t left = count - (size_t)c * kChunk;
        const double d = (double)own[c].x - mean;
        squares += (double)own[c].y + (double)(left < kChunk ? left : kChunk) * d * d;
    }
    squares = sum_256(squares, sums);
    if (threadIdx.x == 0) {
        of_rows[blockIdx.x] =
            make_float2((float)mean, (float)(1.0 / sqrt(squares / (double)count + (double)eps)));
    }
}

template <bool VEC>
__global__ void __launch_bounds__(256)
chunk_results(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift,
              const float2* __restrict__ of_rows, float* __restrict__ y,
              unsigned groups, unsigned width, unsigned pixels, size_t count, unsigned chunks)
{
    const unsigned row = blockIdx.x / chunks;
    const unsigned chunk = blockIdx.x - row * chunks;
    const size_t begin = (size_t)chunk * kChunk;
    const size_t left = count - begin;
    const unsigned n = left < kChunk ? (unsigned)left : kChunk;
    const float2 s = of_rows[row];
    const size_t channel0 = (size_t)(row % groups) * width + begin / pixels;
    const unsigned rest = (unsigned)(begin % pixels);
    const float* from = x + (size_t)row * count + begin;
    float* to = y + (size_t)row * count + begin;

    if constexpr (VEC) {
#pragma unroll 4
        for (unsigned i = threadIdx.x; i < n / 4u; i += 256) {
            const float4 f = __ldcs(reinterpret_cast<const float4*>(from) + i);
            const size_t c = channel0 + (rest + 4u * i) / pixels;
            const float a = s.y * __ldg(gain + c);
            const float b = __ldg(shift + c);
            float4 o;
            o.x = result(f.x, s.x, a, b);
            o.y = result(f.y, s.x, a, b);
            o.z = result(f.z, s.x, a, b);
            o.w = result(f.w, s.x, a, b);
            __stcs(reinterpret_cast<float4*>(to) + i, o);
        }
    } else {
#pragma unroll 4
        for (unsigned i = threadIdx.x; i < n; i += 256) {
            const float f = __ldcs(from + i);
            const size_t c = channel0 + (rest + i) / pixels;
            __stcs(to + i, result(f, s.x, s.y * __ldg(gain + c), __ldg(shift + c)));
        }
    }
}

template <int T, int V, bool VEC>
void start(const float* x, const float* gain, const float* shift, float* y, unsigned long long rows,
           unsigned groups, unsigned width, unsigned pixels, unsigned count, unsigned parts, float eps)
{
    const unsigned units = VEC ? count / 4u : count;
    const unsigned part = (units + parts - 1u) / parts;
    const unsigned long long per = VEC ? pixels / 4u : pixels; // units of a channel
    // i * magic >> 40 is i / per: i and per are below 2^19
    const unsigned long long magic = ((1ull << 40) + per - 1ull) / per;

    const unsigned long long most = 1ull << 27;
    for (unsigned long long r = 0; r < rows; r += most) {
        const unsigned long long now = rows - r < most ? rows - r : most;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3((unsigned)now * parts);
        config.blockDim = dim3(T);
        config.dynamicSmemBytes = 0;
        config.stream = 0;
        cudaLaunchAttribute attribute[1];
        attribute[0].id = cudaLaunchAttributeClusterDimension;
        attribute[0].val.clusterDim.x = parts;
        attribute[0].val.clusterDim.y = 1;
        attribute[0].val.clusterDim.z = 1;
        config.attrs = attribute;
        config.numAttrs = parts > 1u ? 1 : 0;
        const float* from = x + (size_t)r * count;
        float* to = y + (size_t)r * count;
        const unsigned first_group = (unsigned)(r % groups);
        cudaLaunchKernelEx(&config, normalise<T, V, VEC>, from, gain, shift, to, groups, first_group, width,
                           count, units, part, parts, magic, eps);
    }
}

template <bool VEC>
void start_long(const float* x, const float* gain, const float* shift, float* y, unsigned rows,
                unsigned groups, unsigned width, unsigned pixels, size_t count, float eps)
{
    const unsigned chunks = (unsigned)((count + kChunk - 1) / kChunk);
    const size_t all = (size_t)rows * chunks;
    float2* stats = nullptr;
    cudaMallocAsync((void**)&stats, (all + rows) * sizeof(float2), 0);
    float2* of_rows = stats + all;
    chunk_stats<VEC><<<(unsigned)all, 512>>>(x, stats, count, chunks);
    row_stats<<<rows, 256>>>(stats, of_rows, count, chunks, eps);
    chunk_results<VEC><<<(unsigned)all, 256>>>(x, gain, shift, of_rows, y, groups, width, pixels, count, chunks);
    cudaFreeAsync(stats, 0);
}

} // namespace

extern "C" void solve(const float* x, const float* gain, const float* shift, float* y, int images, int groups,
                      int width, int pixels, float eps)
{
    if (images <= 0 || groups <= 0 || width <= 0 || pixels <= 0) {
        return;
    }
    const unsigned long long rows = (unsigned long long)images * (unsigned long long)groups;
    const unsigned long long values = (unsigned long long)width * (unsigned long long)pixels;
    const unsigned g = (unsigned)groups;
    const unsigned w = (unsigned)width;
    const unsigned p = (unsigned)pixels;
    const bool vec = p % 4u == 0; // then rows and channels begin at 16-byte vectors

    if (values > kLongest) {
        if (vec) {
            start_long<true>(x, gain, shift, y, (unsigned)rows, g, w, p, (size_t)values, eps);
        } else {
            start_long<false>(x, gain, shift, y, (unsigned)rows, g, w, p, (size_t)values, eps);
        }
        return;
    }
    const unsigned count = (unsigned)values;

    // Blocks of a row: what its registers need, more where there are few rows
    unsigned parts = 1;
    while (parts < 8u && (count + parts - 1u) / parts > 10240u) {
        parts *= 2u;
    }
    while (parts < 8u && rows * parts * 2u <= 132u && count / (2u * parts) >= 2048u) {
        parts *= 2u;
    }

    if (vec) {
        const unsigned each = (count / 4u + parts - 1u) / parts; // vectors a block
        if (each <= 128u) {
            start<128, 1, true>(x, gain, shift, y, rows, g, w, p, count, parts, eps);
        } else if (each <= 1024u) {
            start<256, 4, true>(x, gain, shift, y, rows, g, w, p, count, parts, eps);
        } else if (each <= 2560u) {
            if (rows * parts <= 264u) {
                start<512, 5, true>(x, gain, shift, y, rows, g, w, p, count, parts, eps);
            } else {
                start<256, 10, true>(x, gain, shift, y, rows, g, w, p, count, parts, eps);
            }
        } else if (each <= 8192u) {
            start<1024, 8, true>(x, gain, shift, y, rows, g, w, p, count, parts, eps);
        } else {
            start<1024, 10, true>(x, gain, shift, y, rows, g, w, p, count, parts, eps);
        }
    } else {
        const unsigned each = (count + parts - 1u) / parts; // values a block
        if (each <= 512u) {
            start<128, 1, false>(x, gain, shift, y, rows, g, w, p, count, parts, eps);
        } else if (each <= 10240u) {
            start<256, 10, false>(x, gain, shift, y, rows, g, w, p, count, parts, eps);
        } else {
            start<1024, 10, false>(x, gain, shift, y, rows, g, w, p, count, parts, eps);
        }
    }
}
