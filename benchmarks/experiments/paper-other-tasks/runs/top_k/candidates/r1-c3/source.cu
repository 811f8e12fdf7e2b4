// Group maxima bound the k-th; survivors bucketed and ranked.

#include <cuda_runtime.h>

constexpr unsigned ALL = 0xffffffffu;
constexpr int BUCKETS = 2048;
constexpr unsigned CAPACITY = 4096; // keys in shared memory
constexpr int MAX_K = 1024;         // of the fast paths
constexpr int MAX_BLOCKS = 128;     // all resident
constexpr int SEGMENT = 128;        // keys a block publishes at most

// Written before they are read in each call.
__device__ unsigned g_keys[MAX_BLOCKS * SEGMENT];
// Zero means not there yet; each call leaves them zero.
__device__ unsigned long long g_heads[MAX_BLOCKS];

struct Shared {
    unsigned hist[BUCKETS + 4];
    unsigned keys[CAPACITY];
    unsigned sums[32];
    unsigned low[32];
    unsigned high[32];
    unsigned counts[MAX_BLOCKS];
    unsigned reach;
    unsigned digit;
    unsigned rest;
    unsigned count;
    unsigned top;
};

// Unsigned integers in the order of the floats; 0 is none of them.
__device__ __forceinline__ unsigned encode(float f)
{
    unsigned b = __float_as_uint(f);
    return b ^ ((unsigned)((int)b >> 31) | 0x80000000u);
}

__device__ __forceinline__ float decode(unsigned u)
{
    return __uint_as_float(u ^ ((u >> 31) ? 0x80000000u : 0xffffffffu));
}

// Bucket of a value: 0 for the highest, never falling as the value falls.
__device__ __forceinline__ unsigned bucket_of(unsigned key, float high, float scale)
{
    float v = __fmul_rn(__fsub_rn(high, decode(key)), scale);
    return min(__float2uint_rz(v), (unsigned)(BUCKETS - 1));
}

__device__ __forceinline__ unsigned warp_inclusive(unsigned v, int lane)
{
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
        unsigned w = __shfl_up_sync(ALL, v, o);
        if (lane >= o)
            v += w;
    }
    return v;
}

// Writes the k largest of the keys u >= bound (bound > 0), of which hi is the largest.
// sh.hist is zero and a barrier has passed. False, for all threads, if there are fewer
// than k or too many in one bucket.
template <int T, int R>
__device__ __forceinline__ bool finish(const unsigned (&u)[R], unsigned bound, unsigned hi, unsigned k,
                                       float* out, Shared& sh)
{
    constexpr int W = T / 32;
    constexpr int Q = BUCKETS / T;
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const float high = decode(hi);
    const float scale = fminf(__fdividef((float)BUCKETS, __fsub_rn(high, decode(bound))), 3.402823466e+38f);

    unsigned r[R];
#pragma unroll
    for (int j = 0; j < R; ++j) {
        r[j] = 0;
        if (u[j] >= bound)
            r[j] = atomicAdd(&sh.hist[bucket_of(u[j], high, scale)], 1u);
    }
    __syncthreads();
    unsigned c[Q];
    unsigned sum = 0;
#pragma unroll
    for (int j = 0; j < Q; ++j) {
        c[j] = sh.hist[t * Q + j];
        sum += c[j];
    }
    const unsigned inclusive = warp_inclusive(sum, lane);
    if (lane == 31)
        sh.sums[warp] = inclusive;
    __syncthreads();
    const unsigned part = lane < W ? sh.sums[lane] : 0u;
    const unsigned before = __reduce_add_sync(ALL, lane < warp ? part : 0u);
    const unsigned total = __reduce_add_sync(ALL, part);
    if (total < k)
        return false;
    unsigned at = before + inclusive - sum;
#pragma unroll
    for (int j = 0; j < Q; ++j) {
        unsigned end = at + c[j];
        sh.hist[t * Q + j] = at;
        if (at < k && end >= k)
            sh.reach = end; // one thread, one bucket
        at = end;
    }
    if (t == T - 1)
        sh.hist[BUCKETS] = at;
    __syncthreads();
    const unsigned reach = sh.reach;
    if (reach > CAPACITY)
        return false;
#pragma unroll
    for (int j = 0; j < R; ++j) {
        if (u[j] >= bound) {
            unsigned begin = sh.hist[bucket_of(u[j], high, scale)];
            if (begin < k)
                sh.keys[begin + r[j]] = u[j];
        }
    }
    __syncthreads();
    for (unsigned p = t; p < reach; p += T) {
        unsigned key = sh.keys[p];
        unsigned b = bucket_of(key, high, scale);
        unsigned begin = sh.hist[b];
        unsigned end = sh.hist[b + 1];
        unsigned place = begin;
        if (end - begin > 1) {
            for (unsigned j = begin; j < end; ++j) {
                unsigned other = sh.keys[j];
                place += (other > key || (other == key && j < p)) ? 1u : 0u;
            }
        }
        if (place < k)
            out[place] = decode(key);
    }
    return true;
}

// One block, any values, k <= MAX_K: the k-th largest by radix selection, then the larger ones.
template <int T>
__device__ __noinline__ void exact(const float* in, float* out, int n, unsigned k, Shared& sh)
{
    const int t = threadIdx.x;
    unsigned prefix = 0, rest = k;
    __syncthreads();
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = t; i < 256; i += T)
            sh.hist[i] = 0;
        __syncthreads();
        for (int i = t; i < n; i += T) {
            unsigned u = encode(in[i]);
            if (shift == 24 || (u >> (shift + 8)) == prefix)
                atomicAdd(&sh.hist[(u >> shift) & 255u], 1u);
        }
        __syncthreads();
        if (t == 0) {
            unsigned above = 0;
            int d = 255;
            while (d > 0 && above + sh.hist[d] < rest) {
                above += sh.hist[d];
                --d;
            }
            sh.digit = (unsigned)d;
            sh.rest = rest - above;
        }
        __syncthreads();
        prefix = (prefix << 8) | sh.digit;
        rest = sh.rest;
    }
    if (t == 0) {
        sh.count = 0;
        sh.top = 0;
    }
    for (int i = t; i < BUCKETS; i += T)
        sh.hist[i] = 0;
    __syncthreads();
    for (int i = t; i < n; i += T) {
        unsigned u = encode(in[i]);
        if (u > prefix) { // fewer than k of them
            sh.keys[atomicAdd(&sh.count, 1u)] = u;
            atomicMax(&sh.top, u);
        }
    }
    __syncthreads();
    const unsigned larger = sh.count;
    const unsigned top = sh.top;
    constexpr int R = MAX_K / T;
    unsigned u[R];
#pragma unroll
    for (int j = 0; j < R; ++j)
        u[j] = (unsigned)(t + j * T) < larger ? sh.keys[t + j * T] : 0u;
    __syncthreads();
    for (unsigned i = larger + t; i < k; i += T)
        out[i] = decode(prefix);
    if (larger > 0)
        finish<T, R>(u, prefix, top, larger, out, sh);
}

// One block: the least of at least k maxima of groups is no more than the k-th largest.
template <int E>
__global__ void __launch_bounds__(1024, 1)
single(const float* __restrict__ in, float* __restrict__ out, int n, unsigned k, int group)
{
    constexpr int T = 1024;
    __shared__ Shared sh;
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    float f[E];
#pragma unroll
    for (int j = 0; j < E; ++j)
        f[j] = t + j * T < n ? in[t + j * T] : 0.0f;
    sh.hist[t] = 0;
    sh.hist[t + T] = 0;
    unsigned u[E];
    unsigned most = 0;
#pragma unroll
    for (int j = 0; j < E; ++j) {
        u[j] = t + j * T < n ? encode(f[j]) : 0u;
        most = max(most, u[j]);
    }
    unsigned hi = __reduce_max_sync(ALL, most);
    for (int o = 1; o < group; o *= 2)
        most = max(most, __shfl_xor_sync(ALL, most, o));
    unsigned bound = __reduce_min_sync(ALL, most);
    if (lane == 0) {
        sh.low[warp] = bound;
        sh.high[warp] = hi;
    }
    __syncthreads();
    bound = max(__reduce_min_sync(ALL, sh.low[lane]), 1u);
    hi = __reduce_max_sync(ALL, sh.high[lane]);
    if (!finish<T, E>(u, bound, hi, k, out, sh))
        exact<T>(in, out, n, k, sh);
}

// Each block publishes its keys from its own bound up; the first block goes on with
// those from the highest of the bounds up, which are all there is above it.
template <int E>
__global__ void __launch_bounds__(512, 1)
many(const float* __restrict__ in, float* __restrict__ out, int n, unsigned k)
{
    constexpr int T = 512;
    constexpr int W = T / 32;
    __shared__ Shared sh;
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int blocks = gridDim.x;
    unsigned u[E];
    {
        float f[E];
#pragma unroll
        for (int j = 0; j < E; ++j) {
            int i = (j * blocks + (int)blockIdx.x) * T + t;
            f[j] = i < n ? in[i] : 0.0f;
        }
        if (t == 0)
            sh.count = 0;
        if (blockIdx.x == 0) {
            for (int i = t; i < BUCKETS; i += T)
                sh.hist[i] = 0;
        }
#pragma unroll
        for (int j = 0; j < E; ++j) {
            int i = (j * blocks + (int)blockIdx.x) * T + t;
            u[j] = i < n ? encode(f[j]) : 0u;
        }
    }
    unsigned most = 0;
#pragma unroll
    for (int j = 0; j < E; ++j)
        most = max(most, u[j]);
    most = __reduce_max_sync(ALL, most);
    if (lane == 0)
        sh.low[warp] = most;
    __syncthreads();
    // The second smallest of the maxima of the warps.
    unsigned m = lane < W ? sh.low[lane] : ALL;
    unsigned least = __reduce_min_sync(ALL, m);
    unsigned holders = __ballot_sync(ALL, m == least);
    if (lane == __ffs(holders) - 1)
        m = ALL;
    unsigned bound = max(__reduce_min_sync(ALL, m), 1u);

    unsigned mine = 0;
#pragma unroll
    for (int j = 0; j < E; ++j)
        mine += u[j] >= bound ? 1u : 0u;
    unsigned inclusive = warp_inclusive(mine, lane);
    unsigned base = 0;
    if (lane == 31)
        base = atomicAdd(&sh.count, inclusive);
    unsigned at = __shfl_sync(ALL, base, 31) + inclusive - mine;
#pragma unroll
    for (int j = 0; j < E; ++j) {
        if (u[j] >= bound) {
            if (at < SEGMENT)
                __stcg(&g_keys[blockIdx.x * SEGMENT + at], u[j]);
            ++at;
        }
    }
    __syncthreads();
    if (t == 0) {
        unsigned count = sh.count;
        unsigned long long head;
        if (count > SEGMENT) // a bound that nothing reaches: found out by the first block
            head = ((unsigned long long)ALL << 32) | 0x80000000u;
        else
            head = ((unsigned long long)bound << 32) | 0x80000000u | count;
        __threadfence();
        asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(&g_heads[blockIdx.x]), "l"(head) : "memory");
    }
    if (blockIdx.x != 0)
        return;

    unsigned highest = 0;
    if (t < MAX_BLOCKS) {
        unsigned count = 0;
        if (t < blocks) {
            unsigned long long head;
            do {
                asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(head) : "l"(&g_heads[t]) : "memory");
            } while (head == 0);
            g_heads[t] = 0;
            highest = (unsigned)(head >> 32);
            count = (unsigned)head & 0x7fffffffu;
        }
        sh.counts[t] = count;
    }
    __syncwarp();
    highest = __reduce_max_sync(ALL, highest);
    if (lane == 0)
        sh.high[warp] = highest;
    __syncthreads();
    bound = __reduce_max_sync(ALL, lane < W ? sh.high[lane] : 0u);

    constexpr int S = MAX_BLOCKS / W;   // segments a warp
    constexpr int P = SEGMENT / 32;     // keys of a segment a lane
    unsigned v[S * P];
    unsigned hi = 0;
#pragma unroll
    for (int s = 0; s < S; ++s) {
        int segment = warp + s * W;
        unsigned count = sh.counts[segment];
#pragma unroll
        for (int p = 0; p < P; ++p) {
            unsigned i = lane + p * 32;
            v[s * P + p] = 0;
            if (i < count)
                v[s * P + p] = __ldcg(&g_keys[segment * SEGMENT + i]);
        }
    }
#pragma unroll
    for (int i = 0; i < S * P; ++i)
        hi = max(hi, v[i]);
    hi = __reduce_max_sync(ALL, hi);
    if (lane == 0)
        sh.low[warp] = hi;
    __syncthreads();
    hi = __reduce_max_sync(ALL, lane < W ? sh.low[lane] : 0u);
    if (!finish<T, S * P>(v, bound, hi, k, out, sh))
        exact<T>(in, out, n, k, sh);
}

// Everything else: a bitonic network of a copy, whose exchanges all descend;
// the first step of a merge mirrors its second half.
__global__ void copy(const float* from, float* to, size_t count)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        to[i] = from[i];
}

__global__ void merge_step(float* data, unsigned n, unsigned distance, bool mirrored)
{
    unsigned pair = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned below = pair & (distance - 1u);
    unsigned low = (pair - below) * 2u + below;
    unsigned high = mirrored ? low + 2u * (distance - below) - 1u : low + distance;
    if (low < n && high < n) {
        float left = data[low];
        float right = data[high];
        if (left < right) {
            data[low] = right;
            data[high] = left;
        }
    }
}

extern "C" void solve(const float* input, float* output, int n, int k)
{
    if (n <= 0 || k <= 0)
        return;
    if (k <= MAX_K && n <= 16384) {
        int group = 32; // threads; at least k groups
        while (group > 1 && 1024 / group < k)
            group /= 2;
        if (n <= 1024)
            single<1><<<1, 1024>>>(input, output, n, k, group);
        else if (n <= 4096)
            single<4><<<1, 1024>>>(input, output, n, k, group);
        else
            single<16><<<1, 1024>>>(input, output, n, k, group);
    } else if (k <= MAX_K && n <= MAX_BLOCKS * 512 * 4) {
        many<4><<<(n - 1) / (512 * 4) + 1, 512>>>(input, output, n, k);
    } else if (k <= MAX_K && n <= MAX_BLOCKS * 512 * 16) {
        many<16><<<(n - 1) / (512 * 16) + 1, 512>>>(input, output, n, k);
    } else {
        const unsigned count = (unsigned)n;
        float* data = nullptr;
        cudaMallocAsync((void**)&data, sizeof(float) * (size_t)count, 0);
        copy<<<1056, 256>>>(input, data, count);
        for (unsigned half = 1; half < count; half *= 2) {
            for (unsigned distance = half; distance > 0; distance /= 2) {
                unsigned pairs = (count / (2 * distance) + 1) * distance;
                merge_step<<<(pairs + 255) / 256, 256>>>(data, count, distance, distance == half);
            }
        }
        copy<<<1056, 256>>>(data, output, (size_t)k);
        cudaFreeAsync(data, 0);
    }
}
