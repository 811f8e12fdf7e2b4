// Blocks queue survivors of thresholds; last block bucket-sorts them

#include <cuda_runtime.h>

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

extern "C" void solve(const float* input, float* output, int n, int k)
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
