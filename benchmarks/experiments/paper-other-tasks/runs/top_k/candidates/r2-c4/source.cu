// Ranked group maxima; the greatest block threshold rejects for all blocks
#include <cuda_runtime.h>
#include <math.h>

namespace {

constexpr int T = 512;
constexpr int WARPS = T / 32;
constexpr int MAX_BLOCKS = 64;
constexpr int SLOTS = 8192;    // survivors that all blocks together may hand over
constexpr int CAPACITY = 4864; // survivors that a block alone can take
constexpr int BINS = 4 * T;

__device__ unsigned queues[SLOTS];
__device__ uint4 headers[MAX_BLOCKS]; // survivors, threshold, largest
__device__ unsigned ticket;           // wraps to 0 with the last block

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

// One block, n <= K * T.
template <int K>
__global__ void __launch_bounds__(T)
single_block(const float* __restrict__ input, float* __restrict__ output, int n, int k, int rounds)
{
    __shared__ __align__(16) unsigned start[BINS];
    __shared__ unsigned candidates[CAPACITY];
    __shared__ unsigned sorted[CAPACITY];
    __shared__ unsigned per_warp[32];
    __shared__ unsigned count, low, high, cut, needed;

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
    {
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
    }
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
__device__ __forceinline__ bool select_sort(const unsigned (&c)[VC], unsigned lo, unsigned hi, unsigned k,
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
    if (hist[T * NB] < k) {
        return false;  // for the whole block
    }

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
    return true;
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


// Many blocks. Each ranks the maxima of 32 groups of its keys and queues what is no less than the cut-th of them.
// The greatest of these thresholds holds for all: whoever is no less was queued, whichever block had it.
// When k are no less, the last block sorts them; else (never for shuffled input) it selects slowly.
template <int K>
__global__ void __launch_bounds__(T)
many_blocks(const float* __restrict__ input, float* __restrict__ output, int n, int k, int cut, int wshift)
{
    __shared__ __align__(16) unsigned hist[BINS + 4];
    __shared__ unsigned buf[SLOTS];
    __shared__ unsigned gm[32];
    __shared__ unsigned wtot[32];
    __shared__ unsigned words[2];
    __shared__ unsigned found, placed, s_cut, s_high, last;

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int blocks = (int)gridDim.x;
    const int block = (int)blockIdx.x;
    const unsigned width = 1u << wshift;
    const unsigned cap = 2u << wshift;

    unsigned key[K];
#pragma unroll
    for (int j = 0; j < K / 4; ++j) {
        const int v = (j * blocks + block) * T + t;
        load_keys(input, 4u * (unsigned)v, (unsigned)n, key + 4 * j);
    }
    reinterpret_cast<uint4*>(hist)[t] = make_uint4(0, 0, 0, 0);
    if (t == 0) {
        found = 0;
    }

    unsigned g0 = key[0];
    unsigned g1 = key[K / 2];
#pragma unroll
    for (int j = 1; j < K / 2; ++j) {
        g0 = max(g0, key[j]);
        g1 = max(g1, key[K / 2 + j]);
    }
    g0 = __reduce_max_sync(0xffffffffu, g0);
    g1 = __reduce_max_sync(0xffffffffu, g1);
    if (lane == 0) {
        gm[2 * warp] = g0;
        gm[2 * warp + 1] = g1;
    }
    __syncthreads();
    const unsigned other = gm[lane];
    const int r0 = __popc(__ballot_sync(0xffffffffu, other > g0 || (other == g0 && lane < 2 * warp)));
    const int r1 = __popc(__ballot_sync(0xffffffffu, other > g1 || (other == g1 && lane < 2 * warp + 1)));
    if (lane == 0) {
        if (r0 == cut - 1) {
            s_cut = g0;
        }
        if (r1 == cut - 1) {
            s_cut = g1;
        }
        if (r0 == 0) {
            s_high = g0;
        }
        if (r1 == 0) {
            s_high = g1;
        }
    }
    __syncthreads();
    const unsigned threshold = s_cut;

    unsigned kept = 0;
#pragma unroll
    for (int j = 0; j < K; ++j) {
        kept += key[j] >= threshold && key[j] != 0u ? 1u : 0u;
    }
    if (kept != 0u) {
        unsigned place = atomicAdd(&found, kept);
#pragma unroll
        for (int j = 0; j < K; ++j) {
            if (key[j] >= threshold && key[j] != 0u) {
                if (place < cap) {
                    queues[block * cap + place] = key[j];
                }
                ++place;
            }
        }
    }
    __syncthreads();
    if (t == 0) {
        headers[block] = make_uint4(found, threshold, s_high, 0u);
        __threadfence();
        last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1 ? 1u : 0u;
    }
    __syncthreads();
    if (last == 0u) {
        return;
    }

    // All from L2 at once: every header, and the first half of every queue.
    uint4 h0 = make_uint4(0, 0, 0, 0);
    uint4 h1 = h0;
    if (lane < blocks) {
        h0 = __ldcg(&headers[lane]);
    }
    if (lane + 32 < blocks) {
        h1 = __ldcg(&headers[lane + 32]);
    }
    unsigned y[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const unsigned s = t + T * i;
        const unsigned b = s >> wshift;
        y[i] = 0u;
        if (b < (unsigned)blocks) {
            y[i] = __ldcg(&queues[b * cap + (s & (width - 1u))]);
        }
    }
    const unsigned most = __reduce_max_sync(0xffffffffu, max(h0.x, h1.x));
    const unsigned lo = __reduce_max_sync(0xffffffffu, max(h0.y, h1.y));
    const unsigned hi = __reduce_max_sync(0xffffffffu, max(h0.z, h1.z));

    unsigned count[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const unsigned s = t + T * i;
        const unsigned b = s >> wshift;      // one for the whole warp
        count[i] = __shfl_sync(0xffffffffu, b < 32u ? h0.x : h1.x, (int)(b & 31u));
        if ((s & (width - 1u)) >= count[i] || y[i] < lo) {
            y[i] = 0u;
        }
    }

    bool good = false;
    if (most <= width) {
        good = select_sort<T, 4, 11, 8>(y, lo, hi, (unsigned)k, buf, hist, wtot, &placed, output);
    } else if (most <= cap) {
        unsigned z[16];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const unsigned s = t + T * i;
            const unsigned b = s >> wshift;
            const unsigned at = (s & (width - 1u)) + width;
            z[i] = y[i];
            z[i + 8] = 0u;
            if (at < count[i]) {
                const unsigned value = __ldcg(&queues[b * cap + at]);
                z[i + 8] = value >= lo ? value : 0u;
            }
        }
        good = select_sort<T, 4, 11, 16>(z, lo, hi, (unsigned)k, buf, hist, wtot, &placed, output);
    }
    if (!good) {
        select_slowly(input, output, n, k, hist, buf, words);
    }
}

// ---- any n and k: a network of exchanges sorts a copy, the largest first ----

constexpr unsigned TILE_KEYS = 4096;


__device__ __forceinline__ void tile_step(float* s, unsigned distance, bool mirrored)
{
    for (unsigned pair = threadIdx.x; pair < TILE_KEYS / 2; pair += T) {
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
    __shared__ float s[TILE_KEYS];
    const unsigned begin = blockIdx.x * (unsigned)TILE_KEYS;
    for (unsigned i = threadIdx.x; i < TILE_KEYS; i += T)
        s[i] = begin + i < n ? source[begin + i] : __uint_as_float(0xff800000u);
    __syncthreads();
    if (FULL) {
        for (unsigned half = 1; half < TILE_KEYS; half *= 2)
            for (unsigned distance = half; distance > 0; distance /= 2)
                tile_step(s, distance, distance == half);
    } else {
        for (unsigned distance = TILE_KEYS / 2; distance > 0; distance /= 2)
            tile_step(s, distance, false);
    }
    for (unsigned i = threadIdx.x; i < TILE_KEYS; i += T)
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


}  // namespace

extern "C" void solve(const float* input, float* output, int n, int k)
{
    if (n <= 1024) {
        one_block<256, 4, 4, 10><<<1, 256, 1024 * 4>>>(input, output, n, k);
        return;
    }
    if (n <= 8 * T) {
        // 16 warps with `rounds` elements each must be k at least
        int rounds = (k + WARPS - 1) / WARPS;
        if (rounds > 8)
            rounds = 0; // keep all
        single_block<8><<<1, T>>>(input, output, n, k, rounds);
        return;
    }
    if (n <= MAX_BLOCKS * 8 * T) {
        const bool small = n <= 32 * 4 * T;
        const int share = small ? 4 * T : 8 * T;
        const int blocks = (n + share - 1) / share;
        // of a block's 32 groups, so many hold one of the k largest at most, but for bad luck
        const double q = 1.0 - exp(-(double)k / (32.0 * blocks));
        const int cut = (int)ceil(32.0 * q + 4.4 * sqrt(32.0 * q * (1.0 - q)) + 2.0);
        if (cut <= 32) {
            const int wshift = blocks <= 16 ? 8 : blocks <= 32 ? 7 : 6;
            if (small)
                many_blocks<4><<<blocks, T>>>(input, output, n, k, cut, wshift);
            else
                many_blocks<8><<<blocks, T>>>(input, output, n, k, cut, wshift);
            return;
        }
    }

    float* copy = nullptr;
    if (cudaMallocAsync((void**)&copy, sizeof(float) * (size_t)n, 0) != cudaSuccess)
        return;
    const unsigned size = (unsigned)n;
    const unsigned tiles = (size - 1) / TILE_KEYS + 1;
    tile_kernel<true><<<tiles, T>>>(input, copy, size);
    for (unsigned half = TILE_KEYS; half < size; half *= 2) {
        for (unsigned distance = half; distance >= TILE_KEYS; distance /= 2) {
            const unsigned pairs = (size / (2 * distance) + 1) * distance;
            global_step<<<(pairs + 255) / 256, 256>>>(copy, size, distance, distance == half);
        }
        tile_kernel<false><<<tiles, T>>>(copy, copy, size);
    }
    copy_out<<<((unsigned)k + 255) / 256, 256>>>(copy, output, (unsigned)k);
    cudaFreeAsync(copy, 0);
}
