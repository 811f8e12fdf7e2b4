// 128 blocks queue zero-padded survivors; last block histograms registers.
#include <cuda_runtime.h>
#include <math.h>

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
// Sets *bad if the k-th is below `lost` (CHECK only).
template <int T, int NB, int LOGB, int VC, bool CHECK>
__device__ __forceinline__ void select_sort(const unsigned (&c)[VC], unsigned lo, unsigned hi, unsigned k,
                                            unsigned* buf, unsigned* hist, unsigned* wtot, unsigned* placed,
                                            float* __restrict__ output, unsigned lost, unsigned* bad)
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
        if (CHECK && rank == k - 1u && key < lost) {
            *bad = 1u;
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
    select_sort<T, NB, LOGB, V, false>(c, lo, hi, k, buf, hist, wtot, &placed, output, 0u, nullptr);
}

constexpr int MT = 1024;            // threads
constexpr int MCHUNK = 2048;        // keys a block at most
constexpr int MBLOCKS = 128;        // blocks at most
constexpr int MSLOTS = 4096;        // words of all queues
constexpr int MROUNDS = MSLOTS / MT;

__device__ __align__(16) unsigned queue_keys[MSLOTS];
__device__ uint4 queue_heads[MBLOCKS];   // threshold, bound, high, 0
__device__ unsigned ticket = 0u;         // wraps

// One block, any input: radix selection from memory, where the thresholds fail.
__device__ __noinline__ void select_slowly(const float* __restrict__ input, float* __restrict__ output, unsigned n,
                                           unsigned k, unsigned* histogram, unsigned* list, unsigned* words)
{
    const unsigned t = threadIdx.x;
    unsigned prefix = 0u, mask = 0u, remaining = k;
    for (int shift = 24; shift >= 0; shift -= 8) {
        __syncthreads();
        if (t < 256u) {
            histogram[t] = 0u;
        }
        __syncthreads();
#pragma unroll 4
        for (unsigned i = t; i < n; i += MT) {
            const unsigned key = to_key(__ldg(input + i));
            if ((key & mask) == prefix) {
                atomicAdd(&histogram[(key >> shift) & 255u], 1u);
            }
        }
        __syncthreads();
        if (t == 0u) {
            unsigned left = remaining;
            int digit = 255;
            while (digit > 0 && histogram[digit] < left) {
                left -= histogram[digit];
                --digit;
            }
            words[0] = (unsigned)digit;
            words[1] = left;
        }
        __syncthreads();
        prefix |= words[0] << shift;
        mask |= 255u << shift;
        remaining = words[1];
    }
    __syncthreads();
    if (t == 0u) {
        words[0] = 0u;
    }
    __syncthreads();
    for (unsigned i = t; i < n; i += MT) {
        const unsigned key = to_key(__ldg(input + i));
        if (key > prefix) {
            list[atomicAdd(&words[0], 1u)] = key;
        }
    }
    __syncthreads();
    const unsigned greater = k - remaining;
    for (unsigned i = t; i < k; i += MT) {
        if (i < greater) {
            const unsigned key = list[i];
            unsigned rank = 0u;
            for (unsigned j = 0u; j < greater; ++j) {
                const unsigned other = list[j];
                rank += (other > key || (other == key && j < i)) ? 1u : 0u;
            }
            output[rank] = from_key(key);
        } else {
            output[i] = from_key(prefix);
        }
    }
}

// Every block hands over, in `slots` words, all its keys from a threshold on: the `tight`-th of its warps' maxima,
// or a higher one where these are too many. m of its keys at least reach its bound. The last block selects.
__global__ void __launch_bounds__(MT)
many_blocks(const float* __restrict__ input, float* __restrict__ output, unsigned n, unsigned k, unsigned chunk,
            unsigned m, unsigned tight, unsigned slots)
{
    __shared__ __align__(16) unsigned buf[MSLOTS];
    __shared__ __align__(16) unsigned hist[MT * 2 + 4];
    __shared__ uint4 part[4];
    __shared__ unsigned gm[32], wtot[32];
    __shared__ unsigned words[2];
    __shared__ unsigned found, placed, threshold, bound, high, last, bad;
    const unsigned tid = threadIdx.x;
    const unsigned lane = tid & 31u;
    const unsigned warp = tid >> 5;
    const unsigned first = blockIdx.x * chunk;
    const unsigned end = min(n, first + chunk);

    unsigned x0 = 0u, x1 = 0u;
    if (first + tid < end) {
        x0 = to_key(__ldg(input + first + tid));
    }
    if (first + tid + MT < end) {
        x1 = to_key(__ldg(input + first + tid + MT));
    }
    buf[tid] = 0u;
    hist[tid] = 0u;
    hist[tid + MT] = 0u;
    if (tid == 0u) {
        found = 0u;
        bad = 0u;
    }
    const unsigned g = __reduce_max_sync(0xffffffffu, max(x0, x1));
    if (lane == 0u) {
        gm[warp] = g;
    }
    __syncthreads();

    // rank of this warp's maximum among the 32
    const unsigned mine = gm[lane];
    const unsigned rank =
        __popc(__ballot_sync(0xffffffffu, mine > g || (mine == g && lane < warp)));
    if (lane == 0u) {
        if (rank == 0u) {
            high = g;
        }
        if (rank == m - 1u) {
            bound = g;
        }
    }
    unsigned want = tight;
    for (;;) {
        if (lane == 0u && rank == want - 1u) {
            threshold = g;
        }
        __syncthreads();
        const unsigned least = max(threshold, 1u);
        if (x0 >= least) {
            unsigned p = atomicAdd(&found, 1u);
            if (p < slots) {
                buf[p] = x0;
            }
        }
        if (x1 >= least) {
            unsigned p = atomicAdd(&found, 1u);
            if (p < slots) {
                buf[p] = x1;
            }
        }
        __syncthreads();
        if (found <= slots || want <= m) {
            break;
        }
        want = want > m + 4u ? want - 4u : m;
        __syncthreads();
        buf[tid] = 0u;
        if (tid == 0u) {
            found = 0u;
        }
    }

    if (warp == 0u) {
        uint4* to = reinterpret_cast<uint4*>(queue_keys + blockIdx.x * slots);
        for (unsigned i = lane; i < slots / 4u; i += 32u) {
            to[i] = reinterpret_cast<const uint4*>(buf)[i];
        }
        if (lane == 0u) {
            queue_heads[blockIdx.x] = make_uint4(threshold, found <= slots ? bound : 0u, high, 0u);
        }
        __syncwarp();
        if (lane == 0u) {
            __threadfence();
            last = atomicInc(&ticket, gridDim.x - 1u) == gridDim.x - 1u ? 1u : 0u;
        }
    }
    __syncthreads();
    if (last == 0u) {
        return;
    }

    // The last block: all queues into registers, their heads into four parts.
    const unsigned all_slots = gridDim.x * slots;
    unsigned c[MROUNDS];
#pragma unroll
    for (int r = 0; r < MROUNDS; ++r) {
        c[r] = 0u;
        if (tid + r * MT < all_slots) {
            c[r] = __ldcg(&queue_keys[tid + r * MT]);
        }
    }
    if (warp < 4u) {
        uint4 h = make_uint4(0u, 0xffffffffu, 0u, 0u);
        if (tid < gridDim.x) {
            h = __ldcg(&queue_heads[tid]);
        }
        h.x = __reduce_max_sync(0xffffffffu, h.x);
        h.y = __reduce_min_sync(0xffffffffu, h.y);
        h.z = __reduce_max_sync(0xffffffffu, h.z);
        if (lane == 0u) {
            part[warp] = h;
        }
    }
    __syncthreads();
    const uint4 p0 = part[0], p1 = part[1], p2 = part[2], p3 = part[3];
    const unsigned lost = max(max(p0.x, p1.x), max(p2.x, p3.x));
    const unsigned lo = min(min(p0.y, p1.y), min(p2.y, p3.y));
    const unsigned hi = max(max(p0.z, p1.z), max(p2.z, p3.z));

    bool failed = lo == 0u;   // some queue was too short, or some block had too few keys
    if (!failed) {
        // k keys at least reach lo
#pragma unroll
        for (int r = 0; r < MROUNDS; ++r) {
            c[r] = c[r] >= lo ? c[r] : 0u;
        }
        select_sort<MT, 2, 11, MROUNDS, true>(c, lo, hi, k, buf, hist, wtot, &placed, output, lost, &bad);
        __syncthreads();
        failed = bad != 0u;   // some block may have kept back one of the k largest
    }
    if (failed) {
        select_slowly(input, output, n, k, hist, buf, words);
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

extern "C" void solve(const float* input, float* output, int n, int k)
{
    if (n <= 1024) {
        one_block<256, 4, 4, 10><<<1, 256, 1024 * 4>>>(input, output, n, k);
        return;
    }
    if (n <= 4096) {
        one_block<1024, 4, 2, 11><<<1, 1024, 4096 * 4>>>(input, output, n, k);
        return;
    }
    if (n <= MBLOCKS * MCHUNK) {
        const int blocks = (n + MCHUNK - 1) / MCHUNK;
        const int m = (k + blocks - 1) / blocks;
        if (m <= 32) {
            const int chunk = (n + blocks - 1) / blocks;
            int slots = 1024;
            while (slots * blocks > MSLOTS) {
                slots /= 2;
            }
            // so many of a block's 32 groups hold one of the k largest, at most, but for one call in thousands
            const double hit = 1.0 - exp(-(double)k / blocks / 32.0);
            int tight = (int)(32.0 * hit + 5.4 * sqrt(32.0 * hit * (1.0 - hit)) + 1.5);
            if (tight < m) {
                tight = m;
            }
            if (tight > 32) {
                tight = 32;
            }
            many_blocks<<<blocks, MT>>>(input, output, n, k, chunk, m, tight, slots);
            return;
        }
    }
    if (n <= 16384) {
        static const cudaError_t once = cudaFuncSetAttribute(
            one_block<1024, 16, 2, 11>, cudaFuncAttributeMaxDynamicSharedMemorySize, 16384 * 4);
        (void)once;
        one_block<1024, 16, 2, 11><<<1, 1024, 16384 * 4>>>(input, output, n, k);
        return;
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
