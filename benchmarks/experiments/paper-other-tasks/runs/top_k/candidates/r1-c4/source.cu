// Sample threshold, candidates exchanged through slots, ranks by counting.

#include <cuda_runtime.h>
#include <cmath>

namespace {

typedef unsigned int u32;

// Keys order as the floats do; 0 is the key of no number.
__device__ __forceinline__ u32 key_of(float f)
{
    const u32 b = __float_as_uint(f);
    return (b & 0x80000000u) != 0u ? ~b : b | 0x80000000u;
}

__device__ __forceinline__ float float_of(u32 key)
{
    return __uint_as_float((key & 0x80000000u) != 0u ? key & 0x7fffffffu : ~key);
}

__device__ __forceinline__ int before(u32 a, int i, u32 m, int c)
{
    return a > m || (a == m && i < c) ? 1 : 0;
}

// ---------------------------------------------------------------- one block, any n, k up to 1024

constexpr int SLOW_K = 1024;

template <int NT>
__device__ void select_slow(const float* input, float* output, int n, int k)
{
    __shared__ u32 hist[256];
    __shared__ u32 list[SLOW_K];
    __shared__ u32 s_bin;
    __shared__ u32 s_want;
    __shared__ u32 s_n;
    const int tid = threadIdx.x;
    u32 prefix = 0u;
    u32 mask = 0u;
    u32 want = (u32)k;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = tid; i < 256; i += NT) hist[i] = 0u;
        __syncthreads();
        for (long long i = tid; i < n; i += NT) {
            const u32 key = key_of(input[i]);
            if ((key & mask) == prefix) atomicAdd(&hist[(key >> shift) & 255u], 1u);
        }
        __syncthreads();
        if (tid == 0) {
            u32 above = 0u;
            int b = 255;
            while (b > 0 && above + hist[b] < want) {
                above += hist[b];
                --b;
            }
            s_bin = (u32)b;
            s_want = want - above;
            s_n = 0u;
        }
        __syncthreads();
        prefix |= s_bin << shift;
        mask |= 255u << shift;
        want = s_want;
    }
    // prefix is the k-th largest key; k - want keys are larger
    for (long long i = tid; i < n; i += NT) {
        const u32 key = key_of(input[i]);
        if (key > prefix) list[atomicAdd(&s_n, 1u)] = key;
    }
    for (int i = k - (int)want + tid; i < k; i += NT) list[i] = prefix;
    __syncthreads();
    for (int c = tid; c < k; c += NT) {
        const u32 m = list[c];
        int rank = 0;
        for (int i = 0; i < k; ++i) rank += before(list[i], i, m, c);
        output[rank] = float_of(m);
    }
}

__global__ void __launch_bounds__(1024) select_block(const float* input, float* output, int n, int k)
{
    select_slow<1024>(input, output, n, k);
}

// ---------------------------------------------------------------- small n: one block

constexpr int SMALL_N = 4096;
constexpr int GROUPS = 128;

// The k-th largest of 128 groups' maxima is exceeded or met by at least k elements.
__global__ void __launch_bounds__(1024)
select_small(const float* __restrict__ input, float* __restrict__ output, int n, int k)
{
    __shared__ __align__(16) u32 maxima[GROUPS];
    __shared__ u32 list[SMALL_N];
    __shared__ u32 s_threshold;
    __shared__ int s_count;
    const int tid = threadIdx.x;

    u32 key[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int i = tid + 1024 * j;
        key[j] = 0u;
        if (i < n) key[j] = key_of(__ldg(input + i));
    }
    const u32 mine = max(max(key[0], key[1]), max(key[2], key[3]));
    u32 top = mine;
#pragma unroll
    for (int w = 1; w < 8; w *= 2) top = max(top, __shfl_xor_sync(0xffffffffu, top, w));
    if ((tid & 7) == 0) maxima[tid >> 3] = top;
    if (tid == 0) s_count = 0;
    __syncthreads();

    const int part = tid & 7;
    {
        int rank = 0;
        const int e = tid >> 3;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int v = part + 8 * i;
            const uint4 a = reinterpret_cast<const uint4*>(maxima)[v];
            rank += before(a.x, 4 * v, top, e) + before(a.y, 4 * v + 1, top, e)
                  + before(a.z, 4 * v + 2, top, e) + before(a.w, 4 * v + 3, top, e);
        }
#pragma unroll
        for (int w = 1; w < 8; w *= 2) rank += __shfl_xor_sync(0xffffffffu, rank, w);
        if (part == 0 && rank == k - 1) s_threshold = max(top, 1u);
    }
    __syncthreads();

    const u32 threshold = s_threshold;
    if (mine >= threshold) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (key[j] >= threshold) list[atomicAdd(&s_count, 1)] = key[j];
        }
    }
    __syncthreads();

    const int m = s_count;
    for (int c0 = 0; c0 < m; c0 += 128) {
        const int c = c0 + (tid >> 3);
        const u32 own = c < m ? list[c] : 0u;
        int rank = 0;
#pragma unroll 4
        for (int i = part; i < m; i += 8) rank += before(list[i], i, own, c);
#pragma unroll
        for (int w = 1; w < 8; w *= 2) rank += __shfl_xor_sync(0xffffffffu, rank, w);
        if (part == 0 && c < m && rank < k) output[rank] = float_of(own);
    }
}

// ---------------------------------------------------------------- several blocks, all resident

constexpr int NT = 512;
constexpr int MAX_GRID = 64;
constexpr int SEGMENT = 64;                  // words of a block: 1 + number of candidates, candidates
constexpr int CAP = SEGMENT - 1;
constexpr int SAMPLE = 4096;

__device__ u32 g_slots[MAX_GRID * SEGMENT];  // zero between calls
__device__ u32 g_done;                       // zero between calls

__device__ __forceinline__ u32 load_slot(const u32* p)
{
    u32 v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void store_slot(u32* p, u32 v)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}

template <int U>
__global__ void __launch_bounds__(NT)
select_grid(const float* __restrict__ input, float* __restrict__ output, int n, int k, int r)
{
    __shared__ __align__(16) u32 maxima[GROUPS];
    __shared__ __align__(16) u32 all[MAX_GRID * SEGMENT + 4];
    __shared__ u32 local[SEGMENT];
    __shared__ int counts[MAX_GRID];
    __shared__ u32 s_threshold;
    __shared__ int s_count;
    __shared__ int s_last;

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int grid = gridDim.x;
    const int block = blockIdx.x;
    const int nv = n >> 2;
    const float4* __restrict__ x = reinterpret_cast<const float4*>(input);

    // The same sample in each block, and the block's own slice.
    const float4 s0 = __ldg(x + tid * nv / (SAMPLE / 4));
    const float4 s1 = __ldg(x + (tid + NT) * nv / (SAMPLE / 4));
    const int per = (nv + grid - 1) / grid;  // at most U * NT
    const int begin = block * per;
    const int end = min(begin + per, nv);
    float4 v[U];
    bool have[U];
#pragma unroll
    for (int j = 0; j < U; ++j) {
        const int i = begin + tid + j * NT;
        have[j] = i < end;
        v[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (have[j]) v[j] = __ldg(x + i);
    }
    u32 extra = 0u;
    if (block == grid - 1 && tid < (n & 3)) extra = key_of(__ldg(input + (n & ~3) + tid));

    // Threshold: the r-th largest of the maxima of 128 groups of the sample.
    u32 top = max(max(max(key_of(s0.x), key_of(s0.y)), max(key_of(s0.z), key_of(s0.w))),
                  max(max(key_of(s1.x), key_of(s1.y)), max(key_of(s1.z), key_of(s1.w))));
    top = max(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = max(top, __shfl_xor_sync(0xffffffffu, top, 2));
    if ((tid & 3) == 0) maxima[tid >> 2] = top;
    if (tid == 0) s_count = 0;
    for (int i = tid; i < MAX_GRID; i += NT) counts[i] = 0;
    __syncthreads();
    {
        const int part = tid & 3;
        const int e = tid >> 2;
        int rank = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int q = part + 4 * i;
            const uint4 a = reinterpret_cast<const uint4*>(maxima)[q];
            rank += before(a.x, 4 * q, top, e) + before(a.y, 4 * q + 1, top, e)
                  + before(a.z, 4 * q + 2, top, e) + before(a.w, 4 * q + 3, top, e);
        }
        rank += __shfl_xor_sync(0xffffffffu, rank, 1);
        rank += __shfl_xor_sync(0xffffffffu, rank, 2);
        if (part == 0 && rank == r - 1) s_threshold = top;
    }
    __syncthreads();

    // Candidates of this block.
    const u32 threshold = s_threshold;
    auto offer = [&](u32 key) {
        if (key >= threshold) {
            const int at = atomicAdd(&s_count, 1);
            if (at < CAP) local[at] = key;
        }
    };
#pragma unroll
    for (int j = 0; j < U; ++j) {
        if (have[j]) {
            offer(key_of(v[j].x));
            offer(key_of(v[j].y));
            offer(key_of(v[j].z));
            offer(key_of(v[j].w));
        }
    }
    offer(extra);
    __syncthreads();

    const int own = s_count;
    if (tid == 0) {
        store_slot(&g_slots[block * SEGMENT], (u32)own + 1u);
    } else if (tid <= own && own <= CAP) {
        store_slot(&g_slots[block * SEGMENT + tid], local[tid - 1]);
    }

    // Everybody's candidates: a warp waits for four segments.
    u32 w[4][2];
    int c[4];
    bool ready;
    do {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int seg = 4 * warp + j;
            w[j][0] = 1u;
            w[j][1] = 0u;
            if (seg < grid) {
                w[j][0] = load_slot(&g_slots[seg * SEGMENT + lane]);
                w[j][1] = load_slot(&g_slots[seg * SEGMENT + 32 + lane]);
            }
        }
        ready = true;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            c[j] = (int)__shfl_sync(0xffffffffu, w[j][0], 0) - 1;
            if (c[j] < 0) ready = false;
            if (c[j] <= CAP) {
                if (lane <= c[j] && w[j][0] == 0u) ready = false;
                if (lane + 32 <= c[j] && w[j][1] == 0u) ready = false;
            }
        }
    } while (__all_sync(0xffffffffu, ready) == 0);
    if (lane == 0) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (4 * warp + j < grid) counts[4 * warp + j] = c[j];
        }
    }
    __syncthreads();

    // All slots have been read here; the last block to say so clears them.
    u32 ticket = 0u;
    if (tid == 0) ticket = atomicAdd(&g_done, 1u);

    const int n0 = counts[lane];
    const int n1 = counts[lane + 32];
    const bool overflow = __any_sync(0xffffffffu, n0 > CAP || n1 > CAP) != 0;
    const int m0 = min(n0, CAP);
    const int m1 = min(n1, CAP);
    const int total = __reduce_add_sync(0xffffffffu, m0 + m1);
    const bool good = !overflow && total >= k;

    if (good) {
        const int first = 4 * warp;
        int at = __reduce_add_sync(0xffffffffu, (lane < first ? m0 : 0) + (lane + 32 < first ? m1 : 0));
        const int mine = __reduce_add_sync(0xffffffffu, (lane < block ? m0 : 0) + (lane + 32 < block ? m1 : 0));
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (first + j < grid) {
                if (lane >= 1 && lane <= c[j]) all[at + lane - 1] = w[j][0];
                if (lane + 32 <= c[j]) all[at + lane + 31] = w[j][1];
                at += c[j];
            }
        }
        if (tid < 4) all[total + tid] = 0u;
        __syncthreads();

        const int vectors = (total + 3) >> 2;
        const int part = tid & 15;
        for (int c0 = 0; c0 < own; c0 += NT / 16) {
            const int cand = c0 + (tid >> 4);
            const u32 m = cand < own ? local[cand] : 0xffffffffu;
            const int pos = mine + cand;
            const int whole = pos >> 2;      // vectors of which all elements precede pos
            int rank = 0;
#pragma unroll 4
            for (int i = part; i < vectors; i += 16) {
                const uint4 a = reinterpret_cast<const uint4*>(all)[i];
                const u32 t = i < whole ? m - 1u : m;   // an equal one counts if it precedes
                rank += (a.x > t ? 1 : 0) + (a.y > t ? 1 : 0) + (a.z > t ? 1 : 0) + (a.w > t ? 1 : 0);
            }
            if (part < (pos & 3) && cand < own) rank += all[4 * whole + part] == m ? 1 : 0;
#pragma unroll
            for (int d = 1; d < 16; d *= 2) rank += __shfl_xor_sync(0xffffffffu, rank, d);
            if (part == 0 && cand < own && rank < k) output[rank] = float_of(m);
        }
    }

    if (tid == 0) s_last = ticket == (u32)grid - 1u ? 1 : 0;
    __syncthreads();
    if (s_last != 0) {
        for (int i = tid; i < grid * SEGMENT; i += NT) store_slot(&g_slots[i], 0u);
        if (tid == 0) store_slot(&g_done, 0u);
    }
    if (!good && block == 0) select_slow<NT>(input, output, n, k);
}

// ---------------------------------------------------------------- anything else: a sorting network

__global__ void make_keys(const float* input, u32* keys, int n)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) keys[i] = key_of(input[i]);
}

__global__ void network_step(u32* keys, long long n, long long distance, bool mirrored)
{
    const long long pair = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long below = pair & (distance - 1);
    const long long base = (pair - below) * 2;
    const long long low = base + below;
    const long long high = mirrored ? base + 2 * distance - 1 - below : low + distance;
    if (high < n) {
        const u32 a = keys[low];
        const u32 b = keys[high];
        if (a < b) {
            keys[low] = b;
            keys[high] = a;
        }
    }
}

__global__ void write_first(const u32* keys, float* output, int k)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < k) output[i] = float_of(keys[i]);
}

} // namespace

extern "C" void solve(const float* input, float* output, int n, int k)
{
    if (n <= 0 || k <= 0) return;

    if (n <= SMALL_N && k <= GROUPS) {
        select_small<<<1, 1024>>>(input, output, n, k);
        return;
    }

    const int nv = n >> 2;
    if (n > SMALL_N && nv <= MAX_GRID * NT * 8 && k <= SLOW_K) {
        const int grid = nv <= 4096 ? 16 : nv <= 16384 ? 32 : MAX_GRID;
        const double expected = (double)k * SAMPLE / n;
        const int r = (int)std::ceil(expected + 4.0 * std::sqrt(expected) + 2.0);
        const double candidates = 1.5 * r * ((double)n / SAMPLE);
        if (r <= 64 && candidates <= 40.0 * grid) {
            if (nv <= grid * NT * 2) select_grid<2><<<grid, NT>>>(input, output, n, k, r);
            else select_grid<8><<<grid, NT>>>(input, output, n, k, r);
            return;
        }
    }

    if (k <= SLOW_K) {
        select_block<<<1, 1024>>>(input, output, n, k);
        return;
    }

    u32* keys = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&keys), (size_t)n * sizeof(u32), 0);
    make_keys<<<(unsigned)(((long long)n + 255) / 256), 256>>>(input, keys, n);
    for (long long half = 1; half < n; half *= 2) {
        for (long long distance = half; distance > 0; distance /= 2) {
            const long long pairs = (((long long)n - 1) / (2 * distance) + 1) * distance;
            network_step<<<(unsigned)((pairs + 255) / 256), 256>>>(keys, n, distance, distance == half);
        }
    }
    write_first<<<(unsigned)(((long long)k + 255) / 256), 256>>>(keys, output, k);
    cudaFreeAsync(keys, 0);
}
