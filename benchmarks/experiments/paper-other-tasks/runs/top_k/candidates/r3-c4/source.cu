// Counting ranks for small n; narrow queues for the last block
#include <cuda_runtime.h>

namespace {

constexpr unsigned ALL = 0xffffffffu;

// Keys order like the numbers; no number has key 0, which stands for none.
__device__ __forceinline__ unsigned to_key(float f)
{
    unsigned u = __float_as_uint(f);
    return u ^ ((unsigned)((int)u >> 31) | 0x80000000u);
}

__device__ __forceinline__ float from_key(unsigned v)
{
    return __uint_as_float((v & 0x80000000u) ? (v ^ 0x80000000u) : ~v);
}

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

// ---- n <= 1024, any k: each block sees all numbers and ranks eight of them ----

__global__ void __launch_bounds__(256)
rank_tiny(const float* __restrict__ input, float* __restrict__ output, unsigned n, unsigned k)
{
    __shared__ unsigned part[16];
    const unsigned tid = threadIdx.x;
    const unsigned lane = tid & 31u;
    const unsigned warp = tid >> 5;
    const unsigned s0 = blockIdx.x * 8u;

    unsigned x[4], c[8];
    load_keys(input, 4u * tid, n, x);
    load_keys(input, s0, n, c);
    load_keys(input, s0 + 4u, n, c + 4);
    unsigned mine = 0u;
    if (lane < 8u && s0 + lane < n)
        mine = to_key(__ldg(input + s0 + lane));

    // Equal numbers before the share count as greater.
    const unsigned before = 4u * tid < s0 ? 1u : 0u;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        x[i] += before;

    // Four counts of a warp, 128 at most each, in one word.
    unsigned sums[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        unsigned s = 0u;
#pragma unroll
        for (int q = 0; q < 4; ++q) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s += x[i] > c[4 * h + q] ? 1u << (8 * q) : 0u;
        }
        sums[h] = __reduce_add_sync(ALL, s);
    }
    if (lane == 0u) {
        part[warp * 2u] = sums[0];
        part[warp * 2u + 1u] = sums[1];
    }
    __syncthreads();
    if (warp == 0u) {
        // equal numbers earlier in the share
        unsigned rank = __popc(__match_any_sync(ALL, mine) & ((1u << lane) - 1u));
        const unsigned word = (lane >> 2) & 1u;
        const unsigned shift = 8u * (lane & 3u);
#pragma unroll
        for (unsigned w = 0; w < 8u; ++w)
            rank += (part[w * 2u + word] >> shift) & 255u;
        if (mine != 0u && rank < k)
            output[rank] = from_key(mine);
    }
}

// The block's candidates (0: none) lie in [lo, hi]; the k largest go to output, sorted.
// hist holds T * NB zeros (behind a barrier) and room for one more.
// False, and nothing written, where there are fewer than k candidates.
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
    {
        const uint4 q = reinterpret_cast<const uint4*>(hist)[tid];
        v[0] = q.x;
        v[1] = q.y;
        v[2] = q.z;
        v[3] = q.w;
    }
#pragma unroll
    for (int b = 0; b < NB; ++b) {
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
    unsigned begins[NB];
#pragma unroll
    for (int b = 0; b < NB; ++b) {
        begins[b] = start;
        unsigned end = start + v[b];
        if (start < k && end >= k) {
            *placed = end;
        }
        start = end;
    }
    reinterpret_cast<uint4*>(hist)[tid] = make_uint4(begins[0], begins[1], begins[2], begins[3]);
    if (tid == T - 1) {
        hist[T * NB] = start;
    }
    __syncthreads();
    if (hist[T * NB] < k) {
        return false; // the whole block
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
        if (e - s > 1u) {
            for (unsigned j = s; j < e; ++j) {
                unsigned other = buf[j];
                rank += (other > key || (other == key && j < i)) ? 1u : 0u;
            }
        }
        if (rank < k) {
            output[rank] = from_key(key);
        }
    }
    return true;
}

// One block, n <= T * V, any k.
template <int T, int V, int LOGB>
__global__ void __launch_bounds__(T)
one_block(const float* __restrict__ input, float* __restrict__ output, unsigned n, unsigned k)
{
    constexpr int NB = 4;
    constexpr int W = T / 32;
    static_assert(T * NB == 1 << LOGB, "bins");
    __shared__ __align__(16) unsigned buf[T * V];
    __shared__ __align__(16) unsigned hist[T * NB + 4];
    __shared__ unsigned wlo[32], whi[32], wtot[32];
    __shared__ unsigned placed;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;

    unsigned x[V];
#pragma unroll
    for (int j = 0; j < V / 4; ++j) {
        load_keys(input, 4u * (tid + j * T), n, x + 4 * j);
    }
    reinterpret_cast<uint4*>(hist)[tid] = make_uint4(0u, 0u, 0u, 0u);

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
#pragma unroll
    for (int j = 0; j < V; ++j) {
        c[j] = x[j] >= lo ? x[j] : 0u;
    }
    select_sort<T, NB, LOGB, V>(c, lo, hi, k, buf, hist, wtot, &placed, output);
}

constexpr int T = 512;
constexpr int MAX_BLOCKS = 64;
constexpr int QUEUE = 256;  // survivors that a block may hand over

__device__ unsigned queues[MAX_BLOCKS * QUEUE];
__device__ uint4 headers[MAX_BLOCKS]; // threshold, survivors, largest
__device__ unsigned ticket;           // 0 between calls: it wraps

// One block, any input: radix selection from memory. For inputs on which the thresholds fail.
__device__ __noinline__ void select_slowly(const float* __restrict__ input, float* __restrict__ output, int n,
                                           int k, unsigned* histogram, unsigned* list, unsigned* words)
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
            words[0] = (unsigned)digit;
            words[1] = left;
        }
        __syncthreads();
        prefix |= words[0] << shift;
        mask |= 255u << shift;
        remaining = words[1];
    }
    __syncthreads();
    if (t == 0)
        words[0] = 0;
    __syncthreads();
    for (int i = t; i < n; i += T) {
        const unsigned key = to_key(input[i]);
        if (key > prefix)
            list[atomicAdd(&words[0], 1u)] = key;
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

// ---- n <= 4096, k <= 64: 32 blocks see all numbers and build the same lists; a warp ranks one entry ----

constexpr unsigned ROWS = 64; // entries of a warp's list

__global__ void __launch_bounds__(T)
rank_small(const float* __restrict__ input, float* __restrict__ output, unsigned n, unsigned k)
{
    __shared__ __align__(16) unsigned slots[ROWS * 16]; // entry e of list w: slots[16 * e + w]
    __shared__ __align__(16) unsigned gm[128];
    __shared__ unsigned counts[16];
    __shared__ unsigned words[2];
    const unsigned tid = threadIdx.x;
    const unsigned lane = tid & 31u;
    const unsigned warp = tid >> 5;

    unsigned x[8];
    load_keys(input, 4u * tid, n, x);
    load_keys(input, 2048u + 4u * tid, n, x + 4);
    reinterpret_cast<uint2*>(slots)[tid] = make_uint2(0u, 0u);

    // 128 groups: four lanes each.
    unsigned best = max(max(max(x[0], x[1]), max(x[2], x[3])), max(max(x[4], x[5]), max(x[6], x[7])));
    best = max(best, __shfl_xor_sync(ALL, best, 16));
    best = max(best, __shfl_xor_sync(ALL, best, 8));
    if (lane < 8u)
        gm[warp * 8u + lane] = best;
    __syncthreads();

    // The second of each four maxima: 64 numbers or more are no less than the least of these.
    unsigned low;
    {
        const uint4 g = reinterpret_cast<const uint4*>(gm)[lane];
        const unsigned a = max(g.x, g.y);
        const unsigned b = min(g.x, g.y);
        const unsigned c = max(g.z, g.w);
        const unsigned d = min(g.z, g.w);
        low = k <= 32u ? max(a, c) : max(min(a, c), max(b, d));
    }
    low = max(__reduce_min_sync(ALL, low), 1u);

    // The warp's list, in the same order in every block.
    const unsigned below = (1u << lane) - 1u;
    unsigned count = 0u;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        const bool keep = x[j] >= low;
        const unsigned m = __ballot_sync(ALL, keep);
        const unsigned e = count + __popc(m & below);
        if (keep && e < ROWS)
            slots[16u * e + warp] = x[j];
        count += __popc(m);
    }
    if (lane == 0u)
        counts[warp] = count;
    __syncthreads();

    const unsigned cn = lane < 16u ? counts[lane] : 0u;
    const unsigned most = __reduce_max_sync(ALL, cn);
    if (most > ROWS) { // the same for all blocks
        if (blockIdx.x == 0u)
            select_slowly(input, output, (int)n, (int)k, slots, slots + 512, words);
        return;
    }

    const unsigned b = blockIdx.x & 15u;
    const unsigned own = __shfl_sync(ALL, cn, (int)b);
    const unsigned row = lane >> 2;
    const unsigned list = 4u * (lane & 3u);
    const uint4* slots4 = reinterpret_cast<const uint4*>(slots);
    for (unsigned e = (blockIdx.x >> 4) + 2u * warp; e < own; e += 32u) {
        const unsigned v = slots[16u * e + b];
        // Equal numbers: earlier lists first, then earlier entries.
        unsigned early[4], late[4];
#pragma unroll
        for (unsigned c = 0; c < 4u; ++c) {
            early[c] = v - (list + c <= b ? 1u : 0u);
            late[c] = v - (list + c < b ? 1u : 0u);
        }
        unsigned rank = 0u;
        uint4 w[3];
#pragma unroll
        for (unsigned q = 0; q < 3u; ++q)
            w[q] = slots4[lane + 32u * q];
#pragma unroll
        for (unsigned q = 0; q < 3u; ++q) {
            const bool first = 8u * q + row < e;
            rank += w[q].x > (first ? early[0] : late[0]) ? 1u : 0u;
            rank += w[q].y > (first ? early[1] : late[1]) ? 1u : 0u;
            rank += w[q].z > (first ? early[2] : late[2]) ? 1u : 0u;
            rank += w[q].w > (first ? early[3] : late[3]) ? 1u : 0u;
        }
#pragma unroll 1
        for (unsigned q = 3; 8u * q < most; ++q) {
            const uint4 u = slots4[lane + 32u * q];
            const bool first = 8u * q + row < e;
            rank += u.x > (first ? early[0] : late[0]) ? 1u : 0u;
            rank += u.y > (first ? early[1] : late[1]) ? 1u : 0u;
            rank += u.z > (first ? early[2] : late[2]) ? 1u : 0u;
            rank += u.w > (first ? early[3] : late[3]) ? 1u : 0u;
        }
        rank = __reduce_add_sync(ALL, rank);
        if (lane == 0u && rank < k)
            output[rank] = from_key(v);
    }
}

// A block's threshold is the m-th of the maxima of its 32 groups; it queues what reaches it.
// Above the largest threshold L of all blocks nothing was dropped: if k keys or more reach L,
// the k largest are among them. The last block looks at VC * T slots at most; below 8 * T there are
// no more than 32 blocks.
template <int K, int VC>
__global__ void __launch_bounds__(T)
many_blocks(const float* __restrict__ input, float* __restrict__ output, int n, int k, int m, int logs)
{
    __shared__ __align__(16) unsigned buf[VC * T];
    __shared__ __align__(16) unsigned hist[T * 4 + 4];
    __shared__ unsigned gm[32], wtot[32], words[2];
    __shared__ unsigned found, placed, bound, last;
    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int blocks = (int)gridDim.x;
    const int block = (int)blockIdx.x;

    unsigned x[K];
#pragma unroll
    for (int j = 0; j < K / 4; ++j) {
        load_keys(input, 4u * (unsigned)((j * blocks + block) * T + t), (unsigned)n, x + 4 * j);
    }
    reinterpret_cast<uint4*>(hist)[t] = make_uint4(0u, 0u, 0u, 0u);
    if (t == 0) {
        found = 0u;
    }

    // two groups a warp
    unsigned a = max(x[0], x[1]);
    unsigned b = max(x[2], x[3]);
    if (K == 8) {
        a = max(a, max(x[K - 4], x[K - 3]));
        b = max(b, max(x[K - 2], x[K - 1]));
    }
    const unsigned best = max(a, b);
    a = __reduce_max_sync(0xffffffffu, a);
    b = __reduce_max_sync(0xffffffffu, b);
    if (lane == 0) {
        gm[2 * warp] = a;
        gm[2 * warp + 1] = b;
    }
    __syncthreads();

    // each warp ranks its own two among the 32
    const unsigned mine = gm[lane];
    {
        const int some = __popc(__ballot_sync(0xffffffffu, mine != 0u));
        const int target = min(m, some) - 1;
        const int ra = __popc(__ballot_sync(0xffffffffu, mine > a || (mine == a && lane < 2 * warp)));
        const int rb = __popc(__ballot_sync(0xffffffffu, mine > b || (mine == b && lane < 2 * warp + 1)));
        if (lane == 0) {
            if (ra == target)
                bound = a;
            if (rb == target)
                bound = b;
        }
    }
    __syncthreads();
    const unsigned threshold = bound; // above 0, as each block has an element

    if (best >= threshold) {
#pragma unroll
        for (int j = 0; j < K; ++j) {
            if (x[j] >= threshold) {
                const unsigned p = atomicAdd(&found, 1u);
                if (p < (unsigned)QUEUE)
                    queues[block * QUEUE + p] = x[j];
            }
        }
    }
    __syncwarp();
    const unsigned largest = __reduce_max_sync(0xffffffffu, mine);
    __syncthreads();
    if (t == 0) {
        headers[block] = make_uint4(threshold, found, largest, 0u);
        const size_t p = __cvta_generic_to_global(&ticket);
        unsigned before;
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                     : "=r"(before)
                     : "l"(p), "r"((unsigned)blocks - 1u)
                     : "memory");
        last = before == (unsigned)blocks - 1u ? 1u : 0u;
    }
    __syncthreads();
    if (last == 0u) {
        return;
    }

    uint4 h0 = make_uint4(0u, 0u, 0u, 0u);
    uint4 h1 = h0;
    if (lane < blocks) {
        h0 = __ldcg(&headers[lane]);
    }
    if (VC == 8) {
        if (lane + 32 < blocks) {
            h1 = __ldcg(&headers[lane + 32]);
        }
    }
    const unsigned width = 1u << logs; // slots looked at in a queue, 32 or more
    const unsigned slots = (unsigned)blocks << logs;
    unsigned c[VC];
#pragma unroll
    for (int j = 0; j < VC; ++j) {
        const unsigned i = t + j * T;
        c[j] = 0u;
        if (i < slots) {
            c[j] = __ldcg(&queues[(i >> logs) * QUEUE + (i & (width - 1u))]);
        }
    }
    const unsigned lo = __reduce_max_sync(0xffffffffu, max(h0.x, h1.x));
    const unsigned most = __reduce_max_sync(0xffffffffu, max(h0.y, h1.y));
    const unsigned hi = __reduce_max_sync(0xffffffffu, max(h0.z, h1.z));
    if (most <= width) { // the same for the whole block
#pragma unroll
        for (int j = 0; j < VC; ++j) {
            const unsigned i = t + j * T;
            const unsigned q = i >> logs; // the same for the warp, below 64
            unsigned held = __shfl_sync(0xffffffffu, h0.y, (int)(q & 31u));
            if (VC == 8) {
                const unsigned n1 = __shfl_sync(0xffffffffu, h1.y, (int)(q & 31u));
                held = q < 32u ? held : n1;
            }
            if (i >= slots || (i & (width - 1u)) >= held || c[j] < lo) {
                c[j] = 0u;
            }
        }
        if (select_sort<T, 4, 11, VC>(c, lo, hi, (unsigned)k, buf, hist, wtot, &placed, output)) {
            return;
        }
    }
    select_slowly(input, output, n, k, hist, buf, words);
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

} // namespace

extern "C" void solve(const float* input, float* output, int n, int k)
{
    if (n <= 0 || k <= 0)
        return;
    if (n <= 1024) {
        rank_tiny<<<(n + 7) / 8, 256>>>(input, output, (unsigned)n, (unsigned)k);
        return;
    }
    if (n <= 4096) {
        if (n >= 2048 && k <= 64)
            rank_small<<<32, T>>>(input, output, (unsigned)n, (unsigned)k);
        else
            one_block<512, 8, 11><<<1, 512>>>(input, output, (unsigned)n, (unsigned)k);
        return;
    }
    if (n <= MAX_BLOCKS * 8 * T) {
        const bool small = n <= 32 * 4 * T;
        const int share = small ? 4 * T : 8 * T;
        const int blocks = (n + share - 1) / share;
        if (k <= 16 * blocks) {
            const bool few = k <= 8 * blocks;
            const int m = few ? 20 : 24;
            const int logs = few || blocks > 32 ? 6 : 7;
            const int slots = blocks << logs;
            if (!small)
                many_blocks<8, 8><<<blocks, T>>>(input, output, n, k, m, logs);
            else if (slots <= 2 * T)
                many_blocks<4, 2><<<blocks, T>>>(input, output, n, k, m, logs);
            else if (slots <= 4 * T)
                many_blocks<4, 4><<<blocks, T>>>(input, output, n, k, m, logs);
            else
                many_blocks<4, 8><<<blocks, T>>>(input, output, n, k, m, logs);
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
