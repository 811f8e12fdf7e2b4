// Coarse histogram beside the fine one; short lists ranked by counting
#include <cuda_runtime.h>

namespace {

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

// The block's candidates (0: none) lie in [lo, hi]; the k largest go to output, sorted.
// hist holds T * NB zeros and coarse 32 (behind a barrier); hist has room for one more.
// False, and nothing written, where there are fewer than k candidates.
template <int T, int NB, int LOGB, int VC>
__device__ __forceinline__ bool select_sort(const unsigned (&c)[VC], unsigned lo, unsigned hi, unsigned k,
                                            unsigned* buf, unsigned* hist, unsigned* coarse,
                                            float* __restrict__ output)
{
    constexpr int W = T / 32;
    static_assert(NB == 4, "a warp has 128 bins");
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const unsigned range = hi - lo;
    int shift = 32 - __clz((int)range) - LOGB;
    if (shift < 0) {
        shift = 0;
    }

    // fine and coarse histogram at once: the totals of the warps' bins need no round of their own
    unsigned off[VC];
#pragma unroll
    for (int j = 0; j < VC; ++j) {
        off[j] = 0u;
        if (c[j] != 0u) {
            const unsigned bin = (hi - c[j]) >> shift;
            off[j] = atomicAdd(&hist[bin], 1u);
            atomicAdd(&coarse[bin >> 7], 1u);
        }
    }
    __syncthreads();

    const uint4 v = reinterpret_cast<const uint4*>(hist)[tid];
    const unsigned part = lane < W ? coarse[lane] : 0u;
    const unsigned total = __reduce_add_sync(0xffffffffu, part);
    const unsigned before = __reduce_add_sync(0xffffffffu, lane < warp ? part : 0u);
    const unsigned sum = (v.x + v.y) + (v.z + v.w);
    unsigned inc = sum;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        unsigned u = __shfl_up_sync(0xffffffffu, inc, d);
        if (lane >= d) {
            inc += u;
        }
    }
    if (total < k) {
        return false; // the whole block
    }
    const unsigned start = before + inc - sum;
    reinterpret_cast<uint4*>(hist)[tid] = make_uint4(start, start + v.x, start + v.x + v.y, start + v.x + v.y + v.z);
    if (tid == T - 1) {
        hist[T * NB] = start + sum;
    }
    __syncthreads();

    // alone in its bin: the rank is known
    unsigned from[VC];
    unsigned to[VC];
#pragma unroll
    for (int j = 0; j < VC; ++j) {
        from[j] = 0u;
        to[j] = 0u;
        if (c[j] != 0u) {
            const unsigned bin = (hi - c[j]) >> shift;
            const unsigned s = hist[bin];
            const unsigned e = hist[bin + 1];
            if (s < k) {
                if (e - s == 1u) {
                    output[s] = from_key(c[j]);
                } else {
                    buf[s + off[j]] = c[j];
                    from[j] = s;
                    to[j] = e;
                }
            }
        }
    }
    __syncthreads();

#pragma unroll
    for (int j = 0; j < VC; ++j) {
        if (to[j] != 0u) {
            const unsigned i = from[j] + off[j];
            unsigned rank = from[j];
            for (unsigned q = from[j]; q < to[j]; ++q) {
                const unsigned other = buf[q];
                rank += (other > c[j] || (other == c[j] && q < i)) ? 1u : 0u;
            }
            if (rank < k) {
                output[rank] = from_key(c[j]);
            }
        }
    }
    return true;
}

// One block, n <= T * V, any k. COUNT: up to T candidates are ranked by comparing each with all.
template <int T, int V, int LOGB, bool COUNT>
__global__ void __launch_bounds__(T)
one_block(const float* __restrict__ input, float* __restrict__ output, unsigned n, unsigned k)
{
    constexpr int NB = 4;
    constexpr int W = T / 32;
    static_assert(T * NB == 1 << LOGB, "bins");
    __shared__ __align__(16) unsigned buf[T * V];
    __shared__ __align__(16) unsigned hist[T * NB + 4];
    __shared__ unsigned wlo[32], whi[32], coarse[32];
    __shared__ unsigned found;
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;

    unsigned x[V];
#pragma unroll
    for (int j = 0; j < V / 4; ++j) {
        load_keys(input, 4u * (tid + j * T), n, x + 4 * j);
    }
    reinterpret_cast<uint4*>(hist)[tid] = make_uint4(0u, 0u, 0u, 0u);
    if (COUNT) {
#pragma unroll
        for (int j = 0; j < V / 4; ++j) {
            reinterpret_cast<uint4*>(buf)[tid + j * T] = make_uint4(0u, 0u, 0u, 0u);
        }
    }
    if (tid < 32) {
        coarse[tid] = 0u;
    }
    if (tid == 0) {
        found = 0u;
    }
    __syncwarp();

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

    unsigned c[V];
#pragma unroll
    for (int j = 0; j < V; ++j) {
        c[j] = x[j] >= lo ? x[j] : 0u;
    }

    if (COUNT) {
        unsigned votes[V];
        unsigned all = 0u;
#pragma unroll
        for (int j = 0; j < V; ++j) {
            votes[j] = __ballot_sync(0xffffffffu, c[j] != 0u);
            all += __popc(votes[j]);
        }
        unsigned at = 0u;
        if (lane == 0) {
            at = atomicAdd(&found, all);
        }
        at = __shfl_sync(0xffffffffu, at, 0);
#pragma unroll
        for (int j = 0; j < V; ++j) {
            if (c[j] != 0u) {
                buf[at + __popc(votes[j] & ((1u << lane) - 1u))] = c[j];
            }
            at += __popc(votes[j]);
        }
        __syncthreads();
        const unsigned count = found;
        if (count <= (unsigned)T) { // the same for the whole block
            // two neighbouring lanes a candidate where there are threads enough
            const unsigned two = 2u * count <= (unsigned)T ? 1u : 0u;
            const unsigned i = (unsigned)tid >> two;
            if (((unsigned)(warp * 32) >> two) < count) { // the same for the warp
                const unsigned part = (unsigned)tid & two;
                const unsigned key = i < count ? buf[i] : 0xffffffffu;
                const unsigned own = i >> 2;
                const unsigned chunks = (count + 3u) >> 2;
                unsigned rank = 0u;
#pragma unroll 4
                for (unsigned q = part; q < chunks; q += 1u + two) {
                    const uint4 o = reinterpret_cast<const uint4*>(buf)[q];
                    const unsigned less = q < own ? key - 1u : key; // equal ones before it come first
                    rank += o.x > less ? 1u : 0u;
                    rank += o.y > less ? 1u : 0u;
                    rank += o.z > less ? 1u : 0u;
                    rank += o.w > less ? 1u : 0u;
                }
                if (part == 0u && i < count) {
                    const uint4 o = reinterpret_cast<const uint4*>(buf)[own];
                    rank += ((i & 3u) > 0u && o.x == key) ? 1u : 0u;
                    rank += ((i & 3u) > 1u && o.y == key) ? 1u : 0u;
                    rank += ((i & 3u) > 2u && o.z == key) ? 1u : 0u;
                }
                __syncwarp();
                const unsigned other = __shfl_xor_sync(0xffffffffu, rank, 1);
                if (two != 0u) {
                    rank += other;
                }
                if (part == 0u && i < count && rank < k) {
                    output[rank] = from_key(key);
                }
            }
            return;
        }
    }
    hi = __reduce_max_sync(0xffffffffu, lane < W ? whi[lane] : 0u);
    select_sort<T, NB, LOGB, V>(c, lo, hi, k, buf, hist, coarse, output);
}

constexpr int T = 512;
constexpr int MAX_BLOCKS = 64;
constexpr int QUEUE = 256;  // survivors that a block may hand over
constexpr int SLOTS = 4096; // survivors that the last block looks at

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

// A block's threshold is the m-th of the maxima of its 32 groups; it queues what reaches it.
// Above the largest threshold L of all blocks nothing was dropped: if k keys or more reach L,
// the k largest are among them.
template <int K>
__global__ void __launch_bounds__(T)
many_blocks(const float* __restrict__ input, float* __restrict__ output, int n, int k, int m, int logs)
{
    __shared__ __align__(16) unsigned buf[SLOTS];
    __shared__ __align__(16) unsigned hist[T * 4 + 4];
    __shared__ unsigned gm[32], coarse[32], words[2];
    __shared__ unsigned found, bound, last;
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
    if (t < 32) {
        coarse[t] = 0u;
    }
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
    if (lane + 32 < blocks) {
        h1 = __ldcg(&headers[lane + 32]);
    }
    const unsigned width = 1u << logs; // slots looked at in a queue, 32 or more
    const unsigned slots = (unsigned)blocks << logs;
    unsigned c[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
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
        for (int j = 0; j < 8; ++j) {
            const unsigned i = t + j * T;
            const unsigned q = i >> logs; // the same for the warp, below 64
            const unsigned n0 = __shfl_sync(0xffffffffu, h0.y, (int)(q & 31u));
            const unsigned n1 = __shfl_sync(0xffffffffu, h1.y, (int)(q & 31u));
            const unsigned held = q < 32u ? n0 : n1;
            if ((i & (width - 1u)) >= held || c[j] < lo) {
                c[j] = 0u;
            }
        }
        if (select_sort<T, 4, 11, 8>(c, lo, hi, (unsigned)k, buf, hist, coarse, output)) {
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
        one_block<256, 4, 10, true><<<1, 256>>>(input, output, (unsigned)n, (unsigned)k);
        return;
    }
    if (n <= 4096) {
        one_block<512, 8, 11, false><<<1, 512>>>(input, output, (unsigned)n, (unsigned)k);
        return;
    }
    if (n <= MAX_BLOCKS * 8 * T) {
        const bool small = n <= 32 * 4 * T;
        const int share = small ? 4 * T : 8 * T;
        const int blocks = (n + share - 1) / share;
        if (k <= 16 * blocks) {
            const int m = k <= 8 * blocks ? 20 : 24;
            const int logs = blocks > 32 ? 6 : blocks > 16 ? 7 : 8;
            if (small)
                many_blocks<4><<<blocks, T>>>(input, output, n, k, m, logs);
            else
                many_blocks<8><<<blocks, T>>>(input, output, n, k, m, logs);
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
