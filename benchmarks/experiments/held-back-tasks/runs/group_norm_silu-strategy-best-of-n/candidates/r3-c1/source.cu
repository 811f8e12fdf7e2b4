// Split rows, scratch statistics; overlapped second kernel combines from L2.

#include <cuda_runtime.h>
#include <cstddef>

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kSlots = 131072; // parts of all rows, 1 MiB

__device__ float2 partial[kSlots];  // mean and sum of squared differences of a part

// Loads only if q < n, zeros otherwise.
__device__ __forceinline__ float4 load_keep(const float4* p, unsigned q, unsigned n)
{
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    asm volatile("{\n\t.reg .pred t;\n\t"
                 "setp.lt.u32 t, %5, %6;\n\t"
                 "@t ld.global.v4.f32 {%0, %1, %2, %3}, [%4];\n\t}"
                 : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w)
                 : "l"(p), "r"(q), "r"(n));
    return v;
}

__device__ __forceinline__ float4 load_last(const float4* p, unsigned q, unsigned n)
{
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    asm volatile("{\n\t.reg .pred t;\n\t"
                 "setp.lt.u32 t, %5, %6;\n\t"
                 "@t ld.global.cs.v4.f32 {%0, %1, %2, %3}, [%4];\n\t}"
                 : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w)
                 : "l"(p), "r"(q), "r"(n));
    return v;
}

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        v += __shfl_xor_sync(0xFFFFFFFFu, v, d);
    }
    return v;
}

// Sum over 256 threads, for all of them; room of 8 floats used once.
__device__ __forceinline__ float block_sum(float v, float* room)
{
    v = warp_sum(v);
    if ((threadIdx.x & 31u) == 0) {
        room[threadIdx.x >> 5] = v;
    }
    __syncthreads();
    v = room[threadIdx.x & 7u];
    v += __shfl_xor_sync(0xFFFFFFFFu, v, 4);
    v += __shfl_xor_sync(0xFFFFFFFFu, v, 2);
    v += __shfl_xor_sync(0xFFFFFFFFu, v, 1);
    return v;
}

__device__ __forceinline__ float silu(float z)
{
    const float e = expf(-fabsf(z));
    const float top = z >= 0.0f ? z : z * e;
    return __fdividef(top, 1.0f + e); // the divisor is between 1 and 2
}

// Mean and squares of the values that a block holds in registers
template <int V>
__device__ __forceinline__ void block_statistics(const float4 (&v)[V], unsigned q0, unsigned count4,
                                                 float n, float* room, float& mean, float& squares)
{
    float s = 0.0f;
#pragma unroll
    for (int k = 0; k < V; ++k) {
        s += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    }
    mean = block_sum(s, room) / n;
    float a = 0.0f, b = 0.0f;
#pragma unroll
    for (int k = 0; k < V; ++k) {
        if (q0 + k * kThreads < count4) {
            const float dx = v[k].x - mean, dy = v[k].y - mean;
            const float dz = v[k].z - mean, dw = v[k].w - mean;
            a = fmaf(dx, dx, a);
            b = fmaf(dy, dy, b);
            a = fmaf(dz, dz, a);
            b = fmaf(dw, dw, b);
        }
    }
    squares = block_sum(a + b, room + 8);
}

template <int V>
__device__ __forceinline__ void write_values(const float4 (&v)[V], float4* to, const float* gain,
                                             const float* shift, unsigned q0, unsigned count4,
                                             unsigned channel, unsigned rest, unsigned p4,
                                             unsigned dq, unsigned dr, float mean, float scale)
{
#pragma unroll
    for (int k = 0; k < V; ++k) {
        if (q0 + k * kThreads < count4) {
            const float g = __ldg(gain + channel) * scale;
            const float s = __ldg(shift + channel);
            float4 o;
            o.x = silu(fmaf(v[k].x - mean, g, s));
            o.y = silu(fmaf(v[k].y - mean, g, s));
            o.z = silu(fmaf(v[k].z - mean, g, s));
            o.w = silu(fmaf(v[k].w - mean, g, s));
            __stcs(to + k * kThreads, o);
        }
        channel += dq;
        rest += dr;
        if (rest >= p4) {
            rest -= p4;
            ++channel;
        }
    }
}

__device__ __forceinline__ void prefetch(const float* p)
{
    asm volatile("prefetch.global.L2 [%0];" :: "l"(p));
}

// Short rows: a block each, which keeps its row in registers. p4 = pixels / 4,
// dq = 256 / p4, dr = 256 % p4.
template <int V>
__global__ void __launch_bounds__(256, 4)
whole_rows(const float4* __restrict__ x, const float* __restrict__ gain,
           const float* __restrict__ shift, float4* __restrict__ y,
           unsigned groups, unsigned width, unsigned count4,
           unsigned p4, unsigned dq, unsigned dr, float eps)
{
    __shared__ float room[16];
    const unsigned row = blockIdx.x;
    const unsigned q0 = threadIdx.x;
    const float4* from = x + (size_t)row * count4 + q0;

    float4 v[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
        v[k] = load_last(from + k * kThreads, q0 + k * kThreads, count4);
    }
    const size_t base = (size_t)(row % groups) * width;
    const unsigned channel = q0 / p4;
    const unsigned rest = q0 - channel * p4;
    if (channel < width) {
        prefetch(gain + base + channel);
        prefetch(shift + base + channel);
    }

    const float n = (float)count4 * 4.0f;
    float mean, squares;
    block_statistics<V>(v, q0, count4, n, room, mean, squares);
    const float scale = 1.0f / sqrtf(squares / n + eps);
    write_values<V>(v, y + (size_t)row * count4 + q0, gain + base, shift + base, q0, count4,
                    channel, rest, p4, dq, dr, mean, scale);
}

// Long rows in parts of 1024 * V values. Blocks of two kinds, alternating: results
// of rows whose statistics the launch before made, and statistics of further rows.
template <int V>
__global__ void __launch_bounds__(256, (V > 4 ? 4 : 5))
split_rows(const float4* __restrict__ x, const float* __restrict__ gain,
           const float* __restrict__ shift, float4* __restrict__ y,
           unsigned groups, unsigned width, unsigned count4, unsigned parts,
           unsigned p4, unsigned dq, unsigned dr, float eps,
           unsigned write_row, unsigned writes, unsigned read_row, unsigned reads)
{
    __shared__ float room[16];
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    constexpr unsigned kPart4 = V * kThreads; // float4s of a part
    const unsigned both = writes < reads ? writes : reads;
    bool write;
    unsigned index;
    if (blockIdx.x < 2u * both) {
        write = (blockIdx.x & 1u) != 0;
        index = blockIdx.x >> 1;
    } else {
        write = writes > reads;
        index = blockIdx.x - both;
    }
    const unsigned in = index / parts;
    const unsigned part = index - in * parts;
    const unsigned row = (write ? write_row : read_row) + in;
    const unsigned q0 = part * kPart4 + threadIdx.x;
    const float4* from = x + (size_t)row * count4 + q0;

    float4 v[V];
    if (!write) {
#pragma unroll
        for (int k = 0; k < V; ++k) {
            v[k] = load_keep(from + k * kThreads, q0 + k * kThreads, count4);
        }
        const unsigned left = count4 - part * kPart4;
        const float n = (float)((left < kPart4 ? left : kPart4) * 4u);
        float mean, squares;
        block_statistics<V>(v, q0, count4, n, room, mean, squares);
        if (threadIdx.x == 0) {
            partial[row * parts + part] = make_float2(mean, squares);
        }
        return;
    }

#pragma unroll
    for (int k = 0; k < V; ++k) {
        v[k] = load_last(from + k * kThreads, q0 + k * kThreads, count4);
    }
    const size_t base = (size_t)(row % groups) * width;
    const unsigned channel = q0 / p4;
    const unsigned rest = q0 - channel * p4;
    if (channel < width) {
        prefetch(gain + base + channel);
        prefetch(shift + base + channel);
    }

    asm volatile("griddepcontrol.wait;" ::: "memory");

    // Every warp combines the parts of the row, all in the same way.
    const float2* own = partial + (size_t)row * parts;
    const unsigned lane = threadIdx.x & 31u;
    const float whole = (float)(kPart4 * 4u);
    const float last = (float)((count4 - (parts - 1u) * kPart4) * 4u);
    const float n = (float)count4 * 4.0f;
    const float first = __ldcg(own).x;
    float sum = 0.0f;
    for (unsigned p = lane; p < parts; p += 32u) {
        const float2 s = __ldcg(own + p);
        sum = fmaf(s.x - first, p + 1u < parts ? whole : last, sum);
    }
    const float off = warp_sum(sum) / n; // the mean, from that of the first part
    float squares = 0.0f;
    for (unsigned p = lane; p < parts; p += 32u) {
        const float2 s = __ldcg(own + p);
        const float d = (s.x - first) - off;
        squares += fmaf(d * d, p + 1u < parts ? whole : last, s.y);
    }
    squares = warp_sum(squares);
    const float mean = first + off;
    const float scale = 1.0f / sqrtf(squares / n + eps);
    write_values<V>(v, y + (size_t)row * count4 + q0, gain + base, shift + base, q0, count4,
                    channel, rest, p4, dq, dr, mean, scale);
}

// Anything else: a block a row, one value at a time.
__device__ __forceinline__ double block_sum_double(double v, double* room)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        v += __shfl_xor_sync(0xFFFFFFFFu, v, d);
    }
    if ((threadIdx.x & 31u) == 0) {
        room[threadIdx.x >> 5] = v;
    }
    __syncthreads();
    double total = 0.0;
    for (unsigned w = 0; w < blockDim.x / 32u; ++w) {
        total += room[w];
    }
    return total;
}

__global__ void __launch_bounds__(512)
any_rows(const float* __restrict__ x, const float* __restrict__ gain,
         const float* __restrict__ shift, float* __restrict__ y,
         unsigned groups, unsigned width, unsigned pixels, float eps)
{
    __shared__ double room[2][16];
    const size_t count = (size_t)width * pixels;
    const size_t row = blockIdx.x;
    const float* from = x + row * count;
    float* to = y + row * count;
    const size_t base = (size_t)(blockIdx.x % groups) * width;

    double sum = 0.0;
#pragma unroll 4
    for (size_t i = threadIdx.x; i < count; i += 512) {
        sum += (double)from[i];
    }
    const double exact = block_sum_double(sum, room[0]) / (double)count;
    const float mean = (float)exact;
    double squares = 0.0;
#pragma unroll 4
    for (size_t i = threadIdx.x; i < count; i += 512) {
        const double d = (double)from[i] - exact;
        squares += d * d;
    }
    const double variance = block_sum_double(squares, room[1]) / (double)count;
    const float scale = (float)(1.0 / sqrt(variance + (double)eps));

    const unsigned dq = 512u / pixels;
    const unsigned dr = 512u - dq * pixels;
    size_t channel = threadIdx.x / pixels;
    unsigned long long rest = threadIdx.x % pixels;
#pragma unroll 2
    for (size_t i = threadIdx.x; i < count; i += 512) {
        const float g = __ldg(gain + base + channel) * scale;
        const float s = __ldg(shift + base + channel);
        to[i] = silu(fmaf(from[i] - mean, g, s));
        channel += dq;
        rest += dr;
        if (rest >= pixels) {
            rest -= pixels;
            ++channel;
        }
    }
}

template <int V>
void start_whole(const float* x, const float* gain, const float* shift, float* y, unsigned rows,
                 unsigned groups, unsigned width, unsigned count4, unsigned p4, float eps)
{
    whole_rows<V><<<rows, kThreads>>>(reinterpret_cast<const float4*>(x), gain, shift,
                                      reinterpret_cast<float4*>(y), groups, width, count4,
                                      p4, kThreads / p4, kThreads % p4, eps);
}

template <int V>
void start_split(const float* x, const float* gain, const float* shift, float* y, unsigned rows,
                 unsigned groups, unsigned width, unsigned count4, unsigned p4, float eps)
{
    const unsigned parts = (count4 + V * kThreads - 1u) / (V * kThreads);

    // Chunks of rows that stay in L2 until their results are written
    const unsigned long long row_bytes = (unsigned long long)count4 * 16;
    unsigned chunks = 1;
    if (row_bytes * rows > (24ull << 20)) {
        unsigned long long each = (16ull << 20) / row_bytes;
        if (each == 0) {
            each = 1;
        }
        chunks = (unsigned)((rows + each - 1) / each);
    }
    const unsigned size = (rows + chunks - 1u) / chunks;
    chunks = (rows + size - 1u) / size;

    for (unsigned c = 0; c <= chunks; ++c) {
        unsigned write_row = 0, writes = 0, read_row = 0, reads = 0;
        if (c > 0) {
            write_row = (c - 1u) * size;
            writes = (rows - write_row < size ? rows - write_row : size) * parts;
        }
        if (c < chunks) {
            read_row = c * size;
            reads = (rows - read_row < size ? rows - read_row : size) * parts;
        }
        cudaLaunchAttribute attribute[1];
        attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute[0].val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(writes + reads);
        config.blockDim = dim3(kThreads);
        config.dynamicSmemBytes = 0;
        config.stream = 0;
        config.attrs = attribute;
        config.numAttrs = c > 0 ? 1 : 0; // the first one waits for whatever came before
        cudaLaunchKernelEx(&config, split_rows<V>, reinterpret_cast<const float4*>(x), gain, shift,
                           reinterpret_cast<float4*>(y), groups, width, count4, parts,
                           p4, kThreads / p4, kThreads % p4, eps,
                           write_row, writes, read_row, reads);
    }
}

} // namespace

extern "C" void solve(const float* x, const float* gain, const float* shift, float* y, int images, int groups, int width, int pixels, float eps)
{
    if (images <= 0 || groups <= 0 || width <= 0 || pixels <= 0) {
        return;
    }
    const unsigned rows = (unsigned)images * (unsigned)groups;
    const unsigned g = (unsigned)groups;
    const unsigned w = (unsigned)width;
    const unsigned p4 = (unsigned)pixels / 4u;
    const unsigned long long count = (unsigned long long)w * (unsigned)pixels;

    if (pixels % 4 == 0) {
        if (count <= 10240) {
            const unsigned count4 = (unsigned)(count / 4);
            if (count4 <= 1 * kThreads) {
                start_whole<1>(x, gain, shift, y, rows, g, w, count4, p4, eps);
            } else if (count4 <= 2 * kThreads) {
                start_whole<2>(x, gain, shift, y, rows, g, w, count4, p4, eps);
            } else if (count4 <= 4 * kThreads) {
                start_whole<4>(x, gain, shift, y, rows, g, w, count4, p4, eps);
            } else if (count4 <= 7 * kThreads) {
                start_whole<7>(x, gain, shift, y, rows, g, w, count4, p4, eps);
            } else {
                start_whole<10>(x, gain, shift, y, rows, g, w, count4, p4, eps);
            }
            return;
        }
        const unsigned long long large = (count + 8191) / 8192 * rows;
        if (large < 132 * 4) { // then twice as many are far fewer than there are slots
            start_split<4>(x, gain, shift, y, rows, g, w, (unsigned)(count / 4), p4, eps);
            return;
        }
        if (large <= kSlots) {
            start_split<8>(x, gain, shift, y, rows, g, w, (unsigned)(count / 4), p4, eps);
            return;
        }
    }
    any_rows<<<rows, 512>>>(x, gain, shift, y, g, w, (unsigned)pixels, eps);
}
