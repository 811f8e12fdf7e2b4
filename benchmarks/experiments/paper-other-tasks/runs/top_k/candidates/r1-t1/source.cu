// Chooses one of two kernels by the size.
#include <cuda_runtime.h>

namespace small_sizes {
// Bounded range, one fine histogram selects and sorts; last block finishes.



__device__ __forceinline__ unsigned to_key(float f)
{
    unsigned u = __float_as_uint(f);
    return u ^ ((unsigned)((int)u >> 31) | 0x80000000u);
}

__device__ __forceinline__ float from_key(unsigned v)
{
    return __uint_as_float((v & 0x80000000u) ? (v ^ 0x80000000u) : ~v);
}

// Keys of numbers are above 0; 0 stands for none.
__device__ __forceinline__ void load_keys(const float* __restrict__ input, unsigned first, unsigned end,
                                          unsigned* x)
{
    if (first + 4u <= end) {
        float4 f = __ldg(reinterpret_cast<const float4*>(input + first));
        x[0] = to_key(f.x);
        x[1] = to_key(f.y);
        x[2] = to_key(f.z);
        x[3] = to_key(f.w);
    } else {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            x[c] = 0u;
            if (first + c < end) {
                x[c] = to_key(__ldg(input + first + c));
            }
        }
    }
}

// The block's candidates (0: none) lie in [lo, hi] and are k at least; the k largest go to output, sorted.
// hist holds T * NB zeros (behind a barrier) and room for one more.
template <int T, int NB, int LOGB, int VC>
__device__ __forceinline__ void select_sort(const unsigned (&c)[VC], unsigned lo, unsigned hi, unsigned k,
                                            unsigned* buf, unsigned* hist, unsigned* wtot, unsigned* placed,
                                            float* __restrict__ output)
{
    constexpr int W = T / 32;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned range = hi - lo;
    int shift = 32 - __clz((int)range) - LOGB;
    if (shift < 0) {
        shift = 0;
    }

    unsigned off[VC];
#pragma unroll
    for (int j = 0; j < VC; ++j) {
        off[j] = 0u;
        if (c[j] != 0u) {
            off[j] = atomicAdd(&hist[(hi - c[j]) >> shift], 1u);
        }
    }
    __syncthreads();

    unsigned v[NB];
    unsigned sum = 0u;
#pragma unroll
    for (int b = 0; b < NB; ++b) {
        v[b] = hist[tid * NB + b];
        sum += v[b];
    }
    unsigned inc = sum;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        unsigned u = __shfl_up_sync(0xffffffffu, inc, d);
        if (lane >= d) {
            inc += u;
        }
    }
    if (lane == 31) {
        wtot[warp] = inc;
    }
    __syncthreads();
    unsigned before = (lane < warp && lane < W) ? wtot[lane] : 0u;
    before = __reduce_add_sync(0xffffffffu, before);
    unsigned start = before + inc - sum;
#pragma unroll
    for (int b = 0; b < NB; ++b) {
        hist[tid * NB + b] = start;
        unsigned end = start + v[b];
        if (start < k && end >= k) {
            *placed = end;
        }
        start = end;
    }
    if (tid == T - 1) {
        hist[T * NB] = start;
    }
    __syncthreads();

#pragma unroll
    for (int j = 0; j < VC; ++j) {
        if (c[j] != 0u) {
            unsigned s = hist[(hi - c[j]) >> shift];
            if (s < k) {
                buf[s + off[j]] = c[j];
            }
        }
    }
    __syncthreads();

    const unsigned count = *placed;
    for (unsigned i = tid; i < count; i += T) {
        unsigned key = buf[i];
        unsigned bin = (hi - key) >> shift;
        unsigned s = hist[bin];
        unsigned e = hist[bin + 1];
        unsigned rank = s;
        for (unsigned j = s; j < e; ++j) {
            unsigned other = buf[j];
            rank += (other > key || (other == key && j < i)) ? 1u : 0u;
        }
        if (rank < k) {
            output[rank] = from_key(key);
        }
    }
}

// One block, n <= T * V.
template <int T, int V, int NB, int LOGB>
__global__ void __launch_bounds__(T)
one_block(const float* __restrict__ input, float* __restrict__ output, unsigned n, unsigned k)
{
    extern __shared__ __align__(16) unsigned buf[];
    __shared__ __align__(16) unsigned hist[T * NB + 4];
    __shared__ unsigned wlo[32], whi[32], wtot[32];
    __shared__ unsigned found, placed;
    constexpr int W = T / 32;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;

    unsigned x[V];
#pragma unroll
    for (int j = 0; j < V / 4; ++j) {
        load_keys(input, 4u * (tid + j * T), n, x + 4 * j);
    }
#pragma unroll
    for (int b = 0; b < NB; ++b) {
        hist[tid + b * T] = 0u;
    }
    if (tid == 0) {
        found = 0u;
    }

    // k groups or more: the least of their maxima is no more than the k-th key.
    unsigned y[V];
#pragma unroll
    for (int j = 0; j < V; ++j) {
        y[j] = x[j];
    }
    int groups = V;
#pragma unroll
    for (int h = V / 2; h >= 1; h >>= 1) {
        if ((unsigned)(h * W) >= k) {
#pragma unroll
            for (int j = 0; j < h; ++j) {
                y[j] = max(y[j], y[j + h]);
            }
            groups = h;
        }
    }
    unsigned lo = 0xffffffffu;
    unsigned hi = 0u;
#pragma unroll
    for (int j = 0; j < V; ++j) {
        if (j < groups) {
            unsigned m = __reduce_max_sync(0xffffffffu, y[j]);
            lo = min(lo, m);
            hi = max(hi, m);
        }
    }
    if (n < (unsigned)(T * V) || k > (unsigned)(V * W)) {
        lo = 0xffffffffu;
#pragma unroll
        for (int j = 0; j < V; ++j) {
            lo = min(lo, x[j] != 0u ? x[j] : 0xffffffffu);
        }
        lo = __reduce_min_sync(0xffffffffu, lo);
    }
    if (lane == 0) {
        wlo[warp] = lo;
        whi[warp] = hi;
    }
    __syncthreads();
    lo = __reduce_min_sync(0xffffffffu, lane < W ? wlo[lane] : 0xffffffffu);
    hi = __reduce_max_sync(0xffffffffu, lane < W ? whi[lane] : 0u);

    unsigned c[V];
    if (V <= 4) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            c[j] = x[j] >= lo ? x[j] : 0u;
        }
    } else {
        const unsigned below = (1u << lane) - 1u;
        unsigned total = 0u;
#pragma unroll
        for (int j = 0; j < V; ++j) {
            total += __popc(__ballot_sync(0xffffffffu, x[j] >= lo));
        }
        unsigned at = 0u;
        if (lane == 0) {
            at = atomicAdd(&found, total);
        }
        at = __shfl_sync(0xffffffffu, at, 0);
#pragma unroll
        for (int j = 0; j < V; ++j) {
            unsigned mask = __ballot_sync(0xffffffffu, x[j] >= lo);
            if (x[j] >= lo) {
                buf[at + __popc(mask & below)] = x[j];
            }
            at += __popc(mask);
        }
        __syncthreads();
        const unsigned m = found;
#pragma unroll
        for (int j = 0; j < V; ++j) {
            c[j] = 0u;
            if ((unsigned)(tid + j * T) < m) {
                c[j] = buf[tid + j * T];
            }
        }
    }
    // buf is read before the first barrier in there and written behind the third
    select_sort<T, NB, LOGB, V>(c, lo, hi, k, buf, hist, wtot, &placed, output);
}

constexpr int MT = 512;        // threads
constexpr int MCHUNK = 4096;   // keys a block
constexpr int MBLOCKS = 64;    // blocks at most
constexpr int MSPEC = 6;       // rounds of 32 keys of a list read at once

__device__ unsigned list_keys[MBLOCKS * MCHUNK];
__device__ uint4 list_heads[MBLOCKS];  // bound, low, count, high
__device__ unsigned ticket = 0u;       // the last block sets it back

// Blocks keep what may count, the last one selects. Each block has at least m of the keys above its bound.
__global__ void __launch_bounds__(MT)
many_blocks(const float* __restrict__ input, float* __restrict__ output, unsigned n, unsigned k, unsigned chunk,
            unsigned m)
{
    __shared__ __align__(16) unsigned buf[MCHUNK];
    __shared__ __align__(16) unsigned hist[MT * 4 + 4];
    __shared__ __align__(16) unsigned gm[32];
    __shared__ unsigned wtot[32];
    __shared__ unsigned found, found2, placed, bound, last;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned below = (1u << lane) - 1u;
    const unsigned first = blockIdx.x * chunk;
    const unsigned end = min(n, first + chunk);

    unsigned x[8];
    load_keys(input, first + 4u * tid, end, x);
    load_keys(input, first + 4u * (tid + MT), end, x + 4);
    if (tid == 0) {
        found = 0u;
        found2 = 0u;
    }
    unsigned g0 = __reduce_max_sync(0xffffffffu, max(max(x[0], x[1]), max(x[2], x[3])));
    unsigned g1 = __reduce_max_sync(0xffffffffu, max(max(x[4], x[5]), max(x[6], x[7])));
    if (lane == 0) {
        gm[warp * 2] = g0;
        gm[warp * 2 + 1] = g1;
    }
    __syncthreads();
    const unsigned mine = gm[lane];
    const unsigned low = __reduce_min_sync(0xffffffffu, mine != 0u ? mine : 0xffffffffu);
    const unsigned high = __reduce_max_sync(0xffffffffu, mine);
    if (warp == MT / 32 - 1) {
        unsigned rank = 0u;
#pragma unroll
        for (int j = 0; j < 32; ++j) {
            unsigned other = gm[j];
            rank += (other > mine || (other == mine && j < lane)) ? 1u : 0u;
        }
        if (rank == m - 1u) {
            bound = mine;
        }
    }
    {
        unsigned total = 0u;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            total += __popc(__ballot_sync(0xffffffffu, x[j] >= low));
        }
        unsigned at = 0u;
        if (lane == 0) {
            at = atomicAdd(&found, total);
        }
        at = __shfl_sync(0xffffffffu, at, 0) + blockIdx.x * MCHUNK;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            unsigned mask = __ballot_sync(0xffffffffu, x[j] >= low);
            if (x[j] >= low) {
                list_keys[at + __popc(mask & below)] = x[j];
            }
            at += __popc(mask);
        }
    }
    __syncthreads();
    if (tid == 0) {
        list_heads[blockIdx.x] = make_uint4(bound, low, found, high);
        __threadfence();
        unsigned t = atomicAdd(&ticket, 1u);
        last = t == gridDim.x - 1u ? 1u : 0u;
        __threadfence();
    }
#pragma unroll
    for (int b = 0; b < 4; ++b) {
        hist[tid + b * MT] = 0u;
    }
    __syncthreads();
    if (last == 0u) {
        return;
    }
    if (tid == 0) {
        ticket = 0u;
    }

    const int G = gridDim.x;
    uint4 h0 = make_uint4(0xffffffffu, 0u, 0u, 0u);
    uint4 h1 = h0;
    if (lane < G) {
        h0 = __ldcg(&list_heads[lane]);
    }
    if (lane + 32 < G) {
        h1 = __ldcg(&list_heads[lane + 32]);
    }
    unsigned y[4][MSPEC];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        int b = warp + 16 * r;
#pragma unroll
        for (int i = 0; i < MSPEC; ++i) {
            y[r][i] = 0u;
            if (b < G) {
                y[r][i] = __ldcg(&list_keys[b * MCHUNK + lane + 32 * i]);
            }
        }
    }
    const unsigned lo = __reduce_min_sync(0xffffffffu, min(h0.x, h1.x));
    const unsigned lost = __reduce_max_sync(0xffffffffu, max(h0.y, h1.y));
    const unsigned hi = __reduce_max_sync(0xffffffffu, max(h0.w, h1.w));
    // every list reaches down to lo: nothing above lo was dropped
    bool good = lo != 0u && lost <= lo;
    unsigned cand = 0u;
    if (good) {
        unsigned cnt[4];
        cnt[0] = __shfl_sync(0xffffffffu, h0.z, warp);
        cnt[1] = __shfl_sync(0xffffffffu, h0.z, warp + 16);
        cnt[2] = __shfl_sync(0xffffffffu, h1.z, warp);
        cnt[3] = __shfl_sync(0xffffffffu, h1.z, warp + 16);
        unsigned total = 0u;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
            for (int i = 0; i < MSPEC; ++i) {
                if ((unsigned)(lane + 32 * i) >= cnt[r] || y[r][i] < lo) {
                    y[r][i] = 0u;
                }
                total += __popc(__ballot_sync(0xffffffffu, y[r][i] != 0u));
            }
        }
        unsigned at = 0u;
        if (lane == 0) {
            at = atomicAdd(&found2, total);
        }
        at = __shfl_sync(0xffffffffu, at, 0);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
            for (int i = 0; i < MSPEC; ++i) {
                unsigned mask = __ballot_sync(0xffffffffu, y[r][i] != 0u);
                unsigned to = at + __popc(mask & below);
                if (y[r][i] != 0u && to < MCHUNK) {
                    buf[to] = y[r][i];
                }
                at += __popc(mask);
            }
        }
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            int b = warp + 16 * r;
            for (unsigned i = lane + 32 * MSPEC; i < cnt[r]; i += 32) {
                unsigned key = __ldcg(&list_keys[b * MCHUNK + i]);
                if (key >= lo) {
                    unsigned to = atomicAdd(&found2, 1u);
                    if (to < MCHUNK) {
                        buf[to] = key;
                    }
                }
            }
        }
        __syncthreads();
        cand = found2;
        good = cand <= MCHUNK;
    }

    if (good) {
        unsigned c[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            c[j] = 0u;
            if ((unsigned)(tid + j * MT) < cand) {
                c[j] = buf[tid + j * MT];
            }
        }
        select_sort<MT, 4, 11, 8>(c, lo, hi, k, buf, hist, wtot, &placed, output);
        return;
    }

    // Rare: this block finds the k-th key bit by bit over the whole input.
    __syncthreads();
    unsigned kth = 0u;
    for (int bit = 31; bit >= 0; --bit) {
        if (tid == 0) {
            found = 0u;
        }
        __syncthreads();
        unsigned t = kth | (1u << bit);
        unsigned count = 0u;
#pragma unroll 8
        for (unsigned i = tid; i < n; i += MT) {
            count += to_key(__ldg(input + i)) >= t ? 1u : 0u;
        }
        count = __reduce_add_sync(0xffffffffu, count);
        if (lane == 0) {
            atomicAdd(&found, count);
        }
        __syncthreads();
        if (found >= k) {
            kth = t;
        }
        __syncthreads();
    }
    if (tid == 0) {
        found = 0u;
    }
    __syncthreads();
    for (unsigned i = tid; i < n; i += MT) {
        unsigned key = to_key(__ldg(input + i));
        if (key > kth) {
            buf[atomicAdd(&found, 1u)] = key;
        }
    }
    __syncthreads();
    for (unsigned i = found + tid; i < k; i += MT) {
        buf[i] = kth;
    }
    __syncthreads();
    for (unsigned i = tid; i < k; i += MT) {
        unsigned key = buf[i];
        unsigned rank = 0u;
        for (unsigned j = 0; j < k; ++j) {
            unsigned other = buf[j];
            rank += (other > key || (other == key && j < i)) ? 1u : 0u;
        }
        output[rank] = from_key(key);
    }
}

// Everything else: all keys are sorted, bitonically, in memory of our own.

__global__ void sort_fill(const float* __restrict__ input, unsigned* __restrict__ keys, unsigned n, unsigned size)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        keys[i] = i < n ? to_key(input[i]) : 0u;
    }
}

// Tiles of 2,048 keys: whole sorts up to 2,048 (span 0), or the last merges of a span.
__global__ void __launch_bounds__(1024) sort_tile(unsigned* keys, unsigned span)
{
    __shared__ unsigned s[2048];
    const unsigned tid = threadIdx.x;
    const unsigned base = blockIdx.x * 2048u;
    s[tid] = keys[(size_t)base + tid];
    s[tid + 1024] = keys[(size_t)base + tid + 1024];
    const unsigned from = span == 0u ? 2u : span;
    const unsigned to = span == 0u ? 2048u : span;
    for (unsigned size = from;; size <<= 1) {
        unsigned stride = size / 2u < 1024u ? size / 2u : 1024u;
        for (; stride > 0u; stride >>= 1) {
            __syncthreads();
            unsigned at = 2u * tid - (tid & (stride - 1u));
            unsigned a = s[at];
            unsigned b = s[at + stride];
            bool descending = ((base + at) & size) == 0u;
            if (descending ? a < b : a > b) {
                s[at] = b;
                s[at + stride] = a;
            }
        }
        if (size == to) {
            break;
        }
    }
    __syncthreads();
    keys[(size_t)base + tid] = s[tid];
    keys[(size_t)base + tid + 1024] = s[tid + 1024];
}

__global__ void sort_step(unsigned* keys, unsigned size, unsigned stride)
{
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned at = 2u * t - (t & (stride - 1u));
    unsigned a = keys[at];
    unsigned b = keys[(size_t)at + stride];
    bool descending = (at & size) == 0u;
    if (descending ? a < b : a > b) {
        keys[at] = b;
        keys[(size_t)at + stride] = a;
    }
}

__global__ void sort_store(const unsigned* __restrict__ keys, float* __restrict__ output, unsigned k)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < k) {
        output[i] = from_key(keys[i]);
    }
}

 void solve(const float* input, float* output, int n, int k)
{
    if (n <= 1024) {
        one_block<256, 4, 4, 10><<<1, 256, 1024 * 4>>>(input, output, n, k);
        return;
    }
    if (n <= 4096) {
        one_block<512, 8, 4, 11><<<1, 512, 4096 * 4>>>(input, output, n, k);
        return;
    }
    if (n <= 16384) {
        static const cudaError_t once = cudaFuncSetAttribute(
            one_block<1024, 16, 2, 11>, cudaFuncAttributeMaxDynamicSharedMemorySize, 16384 * 4);
        (void)once;
        one_block<1024, 16, 2, 11><<<1, 1024, 16384 * 4>>>(input, output, n, k);
        return;
    }
    if (n <= MBLOCKS * MCHUNK) {
        int blocks = (n + MCHUNK - 1) / MCHUNK;
        int chunk = ((n + blocks - 1) / blocks + 3) / 4 * 4;
        int m = (k + blocks - 1) / blocks;
        if (m <= 32) {
            many_blocks<<<blocks, MT>>>(input, output, n, k, chunk, m);
            return;
        }
    }
    unsigned size = 2048u;
    while (size < (unsigned)n) {
        size <<= 1;
    }
    unsigned* keys = nullptr;
    cudaMallocAsync((void**)&keys, (size_t)size * sizeof(unsigned), 0);
    sort_fill<<<(unsigned)(((size_t)size + 255) / 256), 256>>>(input, keys, n, size);
    sort_tile<<<size / 2048u, 1024>>>(keys, 0u);
    for (unsigned span = 4096u; span != 0u && span <= size; span <<= 1) {
        for (unsigned stride = span / 2u; stride >= 2048u; stride >>= 1) {
            sort_step<<<size / 2u / 256u, 256>>>(keys, span, stride);
        }
        sort_tile<<<size / 2048u, 1024>>>(keys, span);
    }
    sort_store<<<(unsigned)(((size_t)k + 255) / 256), 256>>>(keys, output, k);
    cudaFreeAsync(keys, 0);
}
}  // namespace small_sizes

namespace large_sizes {
// Blocks queue survivors of thresholds; last block bucket-sorts them



constexpr int T = 512;
constexpr int WARPS = T / 32;
constexpr int MAX_BLOCKS = 64;
constexpr int QUEUE = 256;    // survivors that a block may hand over
constexpr int CAPACITY = 4864; // survivors that the last block can take
constexpr int BINS = 4 * T;

// All 0 between calls: the last block clears what it has read; the ticket wraps.
__device__ unsigned queues[MAX_BLOCKS * QUEUE];
__device__ uint2 headers[MAX_BLOCKS]; // survivors, threshold
__device__ unsigned ticket;

// Keys order like the numbers; no number has key 0.
__device__ __forceinline__ unsigned to_key(float f)
{
    const unsigned u = __float_as_uint(f);
    return u ^ ((unsigned)((int)u >> 31) | 0x80000000u);
}

__device__ __forceinline__ float from_key(unsigned k)
{
    return __uint_as_float((k & 0x80000000u) ? (k ^ 0x80000000u) : ~k);
}

__device__ __forceinline__ bool is_finite(unsigned k)
{
    return k > 0x007fffffu && k < 0xff800000u;
}

struct Range {
    float low, high, top, scale;
};

// Bin 0 has the largest; monotone for any values.
__device__ __forceinline__ int bin_of(unsigned key, const Range& r)
{
    const float c = fminf(fmaxf(from_key(key), r.low), r.high);
    const float x = __fmul_rn(__fsub_rn(r.top, __fmul_rn(c, 0.25f)), r.scale);
    int s = __float2int_rz(x);
    s = s < 0 ? 0 : (s > BINS - 1 ? BINS - 1 : s);
    return r.scale == 0.0f ? 0 : s;
}

// One block, any input: radix selection from memory. For inputs on which the thresholds fail.
__device__ __noinline__ void select_slowly(const float* __restrict__ input, float* __restrict__ output, int n,
                                           int k, unsigned* histogram, unsigned* list, unsigned* shared_words)
{
    const int t = threadIdx.x;
    unsigned prefix = 0, mask = 0, remaining = (unsigned)k;
    for (int shift = 24; shift >= 0; shift -= 8) {
        __syncthreads();
        if (t < 256)
            histogram[t] = 0;
        __syncthreads();
        for (int i = t; i < n; i += T) {
            const unsigned key = to_key(input[i]);
            if ((key & mask) == prefix)
                atomicAdd(&histogram[(key >> shift) & 255u], 1u);
        }
        __syncthreads();
        if (t == 0) {
            unsigned left = remaining;
            int digit = 255;
            while (digit > 0 && histogram[digit] < left) {
                left -= histogram[digit];
                --digit;
            }
            shared_words[0] = (unsigned)digit;
            shared_words[1] = left;
        }
        __syncthreads();
        prefix |= shared_words[0] << shift;
        mask |= 255u << shift;
        remaining = shared_words[1];
    }
    __syncthreads();
    if (t == 0)
        shared_words[0] = 0;
    __syncthreads();
    for (int i = t; i < n; i += T) {
        const unsigned key = to_key(input[i]);
        if (key > prefix)
            list[atomicAdd(&shared_words[0], 1u)] = key;
    }
    __syncthreads();
    const int greater = k - (int)remaining;
    for (int i = t; i < k; i += T) {
        if (i < greater) {
            const unsigned key = list[i];
            int rank = 0;
            for (int j = 0; j < greater; ++j) {
                const unsigned other = list[j];
                rank += other > key || (other == key && j < i);
            }
            output[rank] = from_key(key);
        } else {
            output[i] = from_key(prefix);
        }
    }
}

template <int K>
__global__ void __launch_bounds__(T)
top_k(const float* __restrict__ input, float* __restrict__ output, int n, int k, int rounds)
{
    __shared__ __align__(16) unsigned start[BINS];
    __shared__ unsigned candidates[CAPACITY];
    __shared__ unsigned sorted[CAPACITY];
    __shared__ unsigned per_warp[32];
    __shared__ unsigned words[2];
    __shared__ unsigned count, low, high, largest_threshold, cut, needed, bad;

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int blocks = (int)gridDim.x;
    const int block = (int)blockIdx.x;

    // the block's share
    float f[K];
    unsigned present = 0;
#pragma unroll
    for (int j = 0; j < K / 4; ++j) {
        const int v = (j * blocks + block) * T + t;
        const int base = v * 4;
        if (base + 3 < n) {
            const float4 q = __ldg(reinterpret_cast<const float4*>(input) + v);
            f[4 * j] = q.x;
            f[4 * j + 1] = q.y;
            f[4 * j + 2] = q.z;
            f[4 * j + 3] = q.w;
            present |= 15u << (4 * j);
        } else {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                f[4 * j + c] = 0.0f;
                if (base + c < n) {
                    f[4 * j + c] = __ldg(input + base + c);
                    present |= 1u << (4 * j + c);
                }
            }
        }
    }

    reinterpret_cast<uint4*>(start)[t] = make_uint4(0, 0, 0, 0);
    if (t == 0) {
        count = 0;
        low = 0xffffffffu;
        high = 0;
        largest_threshold = 0;
        bad = 0;
    }

    unsigned key[K];
    unsigned best = 0;
#pragma unroll
    for (int j = 0; j < K; ++j) {
        key[j] = (present >> j & 1u) ? to_key(f[j]) : 0u;
        best = max(best, key[j]);
    }

    // Each warp has at least `rounds` elements that are no smaller than its threshold.
    unsigned threshold = 0;
    for (int r = 0; r < rounds; ++r) {
        threshold = __reduce_max_sync(0xffffffffu, best);
        if (best == threshold)
            best = 0;
    }
    if (lane == 0)
        per_warp[warp] = threshold;
    __syncthreads();
    threshold = __reduce_min_sync(0xffffffffu, lane < WARPS ? per_warp[lane] : 0xffffffffu);

    unsigned kept = 0;
#pragma unroll
    for (int j = 0; j < K; ++j)
        kept += key[j] >= threshold && key[j] != 0;

    int total;
    if (blocks == 1) {
        unsigned smallest = 0xffffffffu, greatest = 0;
        if (kept) {
            unsigned place = atomicAdd(&count, kept);
#pragma unroll
            for (int j = 0; j < K; ++j) {
                if (key[j] >= threshold && key[j] != 0) {
                    candidates[place++] = key[j];
                    if (is_finite(key[j])) {
                        smallest = min(smallest, key[j]);
                        greatest = max(greatest, key[j]);
                    }
                }
            }
        }
        __syncwarp();
        smallest = __reduce_min_sync(0xffffffffu, smallest);
        greatest = __reduce_max_sync(0xffffffffu, greatest);
        if (lane == 0) {
            atomicMin(&low, smallest);
            atomicMax(&high, greatest);
        }
        __syncthreads();
        total = (int)count;
    } else {
        if (kept) {
            unsigned place = atomicAdd(&count, kept);
#pragma unroll
            for (int j = 0; j < K; ++j) {
                if (key[j] >= threshold && key[j] != 0) {
                    if (place < QUEUE)
                        queues[block * QUEUE + place] = key[j];
                    ++place;
                }
            }
        }
        __syncthreads();
        if (t == 0) {
            headers[block] = make_uint2(count, threshold);
            __threadfence();
            words[0] = atomicInc(&ticket, gridDim.x - 1);
        }
        __syncthreads();
        if (words[0] != gridDim.x - 1)
            return;
        if (t == 0)
            count = 0;
        __threadfence();
        __syncthreads();

        // the last block gathers the queues: warp w those of blocks w, w + 16, ...
        constexpr int EACH = MAX_BLOCKS / WARPS;
        uint2 head[EACH];
        unsigned first[EACH], second[EACH];
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            const int b = warp + e * WARPS;
            head[e] = make_uint2(0, 0);
            first[e] = second[e] = 0;
            if (b < blocks) {
                head[e] = __ldcg(&headers[b]);
                first[e] = __ldcg(&queues[b * QUEUE + lane]);
                second[e] = __ldcg(&queues[b * QUEUE + 32 + lane]);
            }
        }
        unsigned sum = 0, above = 0;
        bool overflow = false;
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            overflow = overflow || head[e].x > QUEUE;
            head[e].x = min(head[e].x, (unsigned)QUEUE);
            sum += head[e].x;
            above = max(above, head[e].y);
        }
        unsigned place = 0;
        if (lane == 0) {
            place = atomicAdd(&count, sum);
            atomicMax(&largest_threshold, above);
            if (overflow || place + sum > CAPACITY)
                atomicOr(&bad, 1u);
        }
        place = __shfl_sync(0xffffffffu, place, 0);
        unsigned smallest = 0xffffffffu, greatest = 0;
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            const int b = warp + e * WARPS;
            for (unsigned i = lane; i < head[e].x; i += 32) {
                const unsigned value = i < 32 ? first[e] : i < 64 ? second[e] : __ldcg(&queues[b * QUEUE + i]);
                queues[b * QUEUE + i] = 0;
                if (place + i < CAPACITY)
                    candidates[place + i] = value;
                if (is_finite(value)) {
                    smallest = min(smallest, value);
                    greatest = max(greatest, value);
                }
            }
            place += head[e].x;
        }
        __syncwarp();
        smallest = __reduce_min_sync(0xffffffffu, smallest);
        greatest = __reduce_max_sync(0xffffffffu, greatest);
        if (lane == 0) {
            atomicMin(&low, smallest);
            atomicMax(&high, greatest);
        }
        __syncthreads();
        if (t < blocks)
            headers[t] = make_uint2(0, 0);
        total = (int)count;
        if (bad != 0 || total < k) {
            select_slowly(input, output, n, k, start, candidates, words);
            return;
        }
    }

    // Sort the candidates by bins of their value, then by comparison within a bin.
    Range range;
    range.low = from_key(low);
    range.high = from_key(high);
    range.top = range.high * 0.25f;
    const float extent = range.top - range.low * 0.25f;
    range.scale = extent > 1e-30f ? (float)BINS / extent : 0.0f;

    for (int i = t; i < total; i += T)
        atomicAdd(&start[bin_of(candidates[i], range)], 1u);
    __syncthreads();

    const uint4 c = reinterpret_cast<uint4*>(start)[t];
    const unsigned own = c.x + c.y + c.z + c.w;
    unsigned inclusive = own;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        const unsigned other = __shfl_up_sync(0xffffffffu, inclusive, o);
        if (lane >= o)
            inclusive += other;
    }
    if (lane == 31)
        per_warp[warp] = inclusive;
    __syncthreads();
    const unsigned before = __reduce_add_sync(0xffffffffu, lane < warp ? per_warp[lane] : 0u);
    uint4 s;
    s.x = before + inclusive - own;
    s.y = s.x + c.x;
    s.z = s.y + c.y;
    s.w = s.z + c.z;
    reinterpret_cast<uint4*>(start)[t] = s;
    const unsigned wanted = (unsigned)k;
    if (s.x < wanted && s.w + c.w >= wanted) {
        const unsigned begins[4] = {s.x, s.y, s.z, s.w};
        const unsigned ends[4] = {s.y, s.z, s.w, s.w + c.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (begins[j] < wanted && ends[j] >= wanted) {
                cut = (unsigned)(4 * t + j);
                needed = ends[j];
            }
        }
    }
    __syncthreads();

    const int last_bin = (int)cut;
    for (int i = t; i < total; i += T) {
        const unsigned value = candidates[i];
        const int bin = bin_of(value, range);
        if (bin <= last_bin)
            sorted[atomicAdd(&start[bin], 1u)] = value;
    }
    __syncthreads();

    // start[bin] is the end of the bin now
    const int limit = (int)needed;
    for (int p = t; p < limit; p += T) {
        const unsigned value = sorted[p];
        const int bin = bin_of(value, range);
        const int end = (int)start[bin];
        const int begin = bin > 0 ? (int)start[bin - 1] : 0;
        int rank = begin;
        for (int q = begin; q < end; ++q) {
            const unsigned other = sorted[q];
            rank += other > value || (other == value && q < p);
        }
        if (rank < k)
            output[rank] = from_key(value);
        if (rank == k - 1 && value < largest_threshold)
            bad = 1; // some block may have rejected one of the k largest
    }
    if (blocks > 1) {
        __syncthreads();
        if (bad != 0)
            select_slowly(input, output, n, k, start, candidates, words);
    }
}

// ---- any n and k: a network of exchanges sorts a copy, the largest first ----

#define TILE 4096

__device__ __forceinline__ void tile_step(float* s, unsigned distance, bool mirrored)
{
    for (unsigned pair = threadIdx.x; pair < TILE / 2; pair += T) {
        const unsigned below = pair & (distance - 1);
        const unsigned lower = (pair - below) * 2 + below;
        const unsigned upper = mirrored ? lower + 2 * (distance - below) - 1 : lower + distance;
        const float left = s[lower];
        const float right = s[upper];
        if (left < right) {
            s[lower] = right;
            s[upper] = left;
        }
    }
    __syncthreads();
}

template <bool FULL>
__global__ void __launch_bounds__(T) tile_kernel(const float* source, float* target, unsigned n)
{
    __shared__ float s[TILE];
    const unsigned begin = blockIdx.x * (unsigned)TILE;
    for (unsigned i = threadIdx.x; i < TILE; i += T)
        s[i] = begin + i < n ? source[begin + i] : __uint_as_float(0xff800000u);
    __syncthreads();
    if (FULL) {
        for (unsigned half = 1; half < TILE; half *= 2)
            for (unsigned distance = half; distance > 0; distance /= 2)
                tile_step(s, distance, distance == half);
    } else {
        for (unsigned distance = TILE / 2; distance > 0; distance /= 2)
            tile_step(s, distance, false);
    }
    for (unsigned i = threadIdx.x; i < TILE; i += T)
        if (begin + i < n)
            target[begin + i] = s[i];
}

__global__ void __launch_bounds__(256) global_step(float* data, unsigned n, unsigned distance, bool mirrored)
{
    const unsigned pair = blockIdx.x * 256u + threadIdx.x;
    const unsigned below = pair & (distance - 1);
    const unsigned lower = (pair - below) * 2 + below;
    const unsigned upper = mirrored ? lower + 2 * (distance - below) - 1 : lower + distance;
    if (lower < n && upper < n) {
        const float left = data[lower];
        const float right = data[upper];
        if (left < right) {
            data[lower] = right;
            data[upper] = left;
        }
    }
}

__global__ void __launch_bounds__(256) copy_out(const float* source, float* target, unsigned count)
{
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i < count)
        target[i] = source[i];
}

 void solve(const float* input, float* output, int n, int k)
{
    if (n <= 4 * T * 2) {
        // one block; 16 warps with `rounds` elements each must be k at least
        int rounds = (k + WARPS - 1) / WARPS;
        if (rounds > 8)
            rounds = 0; // keep all
        if (n <= 4 * T)
            top_k<4><<<1, T>>>(input, output, n, k, rounds);
        else
            top_k<8><<<1, T>>>(input, output, n, k, rounds);
        return;
    }
    if (n <= MAX_BLOCKS * 8 * T) {
        const bool small = n <= 32 * 4 * T;
        const int share = small ? 4 * T : 8 * T;
        const int blocks = (n + share - 1) / share;
        const int rounds = (k + 8 * blocks - 1) / (8 * blocks);
        if (rounds <= 8 && blocks * rounds <= 64) {
            if (small)
                top_k<4><<<blocks, T>>>(input, output, n, k, rounds);
            else
                top_k<8><<<blocks, T>>>(input, output, n, k, rounds);
            return;
        }
    }

    float* copy = nullptr;
    if (cudaMallocAsync((void**)&copy, sizeof(float) * (size_t)n, 0) != cudaSuccess)
        return;
    const unsigned size = (unsigned)n;
    const unsigned tiles = (size - 1) / TILE + 1;
    tile_kernel<true><<<tiles, T>>>(input, copy, size);
    for (unsigned half = TILE; half < size; half *= 2) {
        for (unsigned distance = half; distance >= TILE; distance /= 2) {
            const unsigned pairs = (size / (2 * distance) + 1) * distance;
            global_step<<<(pairs + 255) / 256, 256>>>(copy, size, distance, distance == half);
        }
        tile_kernel<false><<<tiles, T>>>(copy, copy, size);
    }
    copy_out<<<((unsigned)k + 255) / 256, 256>>>(copy, output, (unsigned)k);
    cudaFreeAsync(copy, 0);
}
#undef TILE
}  // namespace large_sizes

extern "C" void solve(const float* input, float* output, int n, int k)
{
    if ((long long)n * k < 92681LL) {
        ::small_sizes::solve(input, output, n, k);
    } else {
        ::large_sizes::solve(input, output, n, k);
    }
}
