// One block: wide digit, tiny bucket ranks; else ballot LSD radix.

#include <cuda_runtime.h>

// Unsigned integers in the order of the floats.
__device__ __forceinline__ unsigned encode(float f)
{
    unsigned b = __float_as_uint(f);
    return b ^ ((unsigned)((int)b >> 31) | 0x80000000u);
}

__device__ __forceinline__ float decode(unsigned u)
{
    return __uint_as_float(u ^ ((u >> 31) ? 0x80000000u : 0xffffffffu));
}

// Monotone map of values to 0 .. N-1: each rounded step keeps the order.
template <int N>
__device__ __forceinline__ unsigned digit_of(float x, float low, float scale)
{
    float v = __fmul_rn(__fsub_rn(x, low), scale);
    unsigned d = __float2uint_rz(v);
    return min(d, (unsigned)(N - 1));
}

__device__ __forceinline__ unsigned warp_inclusive(unsigned v, int lane)
{
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
        unsigned w = __shfl_up_sync(0xffffffffu, v, o);
        if (lane >= o)
            v += w;
    }
    return v;
}

template <int T, int I>
struct Shape {
    static constexpr int N = T * I;
    static constexpr int REGION = (N + 4 > 2 * T) ? N + 4 : 2 * T; // words, multiple of 4
    static constexpr int BYTES = (REGION + N) * 4;
};

template <int T, int I>
__global__ void __launch_bounds__(T, 1) sort_block(float* data, int n)
{
    constexpr int N = T * I;
    constexpr int W = T / 32;
    constexpr unsigned ALL = 0xffffffffu;
    constexpr unsigned LIMIT = 32;

    extern __shared__ uint4 raw[];
    unsigned* cnt = reinterpret_cast<unsigned*>(raw);
    unsigned* keys = cnt + Shape<T, I>::REGION;
    __shared__ unsigned s_lo[32], s_hi[32], s_sum[32], s_max[32];

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;

    float f[I];
#pragma unroll
    for (int k = 0; k < I; ++k) {
        int i = t + k * T;
        f[k] = (i < n) ? data[i] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < I; ++k)
        cnt[t + k * T] = 0;

    unsigned u[I];
    unsigned lo = 0xffffffffu, hi = 0;
#pragma unroll
    for (int k = 0; k < I; ++k) {
        int i = t + k * T;
        u[k] = 0xffffffffu; // behind every number, infinity too
        if (i < n) {
            u[k] = encode(f[k]);
            lo = min(lo, u[k]);
            hi = max(hi, u[k]);
        }
    }
    lo = __reduce_min_sync(ALL, lo);
    hi = __reduce_max_sync(ALL, hi);
    if (lane == 0) {
        s_lo[warp] = lo;
        s_hi[warp] = hi;
    }
    __syncthreads();
    lo = __reduce_min_sync(ALL, lane < W ? s_lo[lane] : 0xffffffffu);
    hi = __reduce_max_sync(ALL, lane < W ? s_hi[lane] : 0u);
    if (lo == hi)
        return; // all equal, the whole block leaves

    const float low = decode(lo);
    const float scale = fminf(__fdividef((float)N, __fsub_rn(decode(hi), low)), 3.402823466e+38f);

    // Counts of the wide digit; the order of arrival in a bucket does not matter.
    unsigned d[I], r[I];
#pragma unroll
    for (int k = 0; k < I; ++k) {
        d[k] = 0;
        r[k] = 0;
        if (t + k * T < n) {
            d[k] = digit_of<N>(f[k], low, scale);
            r[k] = atomicAdd(&cnt[d[k]], 1u);
        }
    }
    __syncthreads();

    // Scan: thread t owns the counters t*I .. t*I+I-1.
    unsigned c[I];
    if constexpr (I % 4 == 0) {
#pragma unroll
        for (int j = 0; j < I / 4; ++j) {
            uint4 v = reinterpret_cast<const uint4*>(cnt)[t * (I / 4) + j];
            c[4 * j] = v.x;
            c[4 * j + 1] = v.y;
            c[4 * j + 2] = v.z;
            c[4 * j + 3] = v.w;
        }
    } else if constexpr (I == 2) {
        uint2 v = reinterpret_cast<const uint2*>(cnt)[t];
        c[0] = v.x;
        c[1] = v.y;
    } else {
#pragma unroll
        for (int j = 0; j < I; ++j)
            c[j] = cnt[t * I + j];
    }
    unsigned sum = 0, most = 0;
#pragma unroll
    for (int j = 0; j < I; ++j) {
        sum += c[j];
        most = max(most, c[j]);
    }
    unsigned inc = warp_inclusive(sum, lane);
    most = __reduce_max_sync(ALL, most);
    if (lane == 31)
        s_sum[warp] = inc;
    if (lane == 0)
        s_max[warp] = most;
    __syncthreads();
    unsigned before = __reduce_add_sync(ALL, (lane < W && lane < warp) ? s_sum[lane] : 0u);
    most = __reduce_max_sync(ALL, lane < W ? s_max[lane] : 0u);

    if (most <= LIMIT) { // the same for all threads
        unsigned at = before + inc - sum;
#pragma unroll
        for (int j = 0; j < I; ++j) {
            unsigned count = c[j];
            c[j] = at;
            at += count;
        }
        if constexpr (I % 4 == 0) {
#pragma unroll
            for (int j = 0; j < I / 4; ++j)
                reinterpret_cast<uint4*>(cnt)[t * (I / 4) + j] =
                    make_uint4(c[4 * j], c[4 * j + 1], c[4 * j + 2], c[4 * j + 3]);
        } else if constexpr (I == 2) {
            reinterpret_cast<uint2*>(cnt)[t] = make_uint2(c[0], c[1]);
        } else {
#pragma unroll
            for (int j = 0; j < I; ++j)
                cnt[t * I + j] = c[j];
        }
        if (t == 0)
            cnt[N] = (unsigned)n;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < I; ++k) {
            if (t + k * T < n)
                keys[cnt[d[k]] + r[k]] = u[k];
        }
        __syncthreads();
        // Rank within the bucket, by position, so that writes stay almost coalesced.
#pragma unroll
        for (int k = 0; k < I; ++k) {
            unsigned p = t + k * T;
            if (p < (unsigned)n) {
                unsigned key = keys[p];
                float value = decode(key);
                unsigned b = digit_of<N>(value, low, scale);
                unsigned begin = cnt[b];
                unsigned end = cnt[b + 1];
                unsigned place = begin;
                if (end - begin > 1) {
                    for (unsigned j = begin; j < end; ++j) {
                        unsigned other = keys[j];
                        place += (other < key || (other == key && j < p)) ? 1u : 0u;
                    }
                }
                data[place] = value;
            }
        }
        return;
    }

    // Crowded buckets: radix sort from the lowest bits up, 6 bits a pass, all N keys.
    // Counters lie as [warp][64]; they are scanned in the order digit, warp: 64*W = 2*T of them.
    const int q0 = 2 * t, q1 = 2 * t + 1;
    const int a0 = (q0 % W) * 64 + q0 / W;
    const int a1 = (q1 % W) * 64 + q1 / W;
    unsigned* mine = cnt + warp * 64;
    __syncthreads();
#pragma unroll 1
    for (int shift = 0; shift < 32; shift += 6) {
        cnt[q0] = 0;
        cnt[q1] = 0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < I; ++k) {
            unsigned g = (u[k] >> shift) & 63u;
            unsigned same = ALL;
#pragma unroll
            for (int b = 0; b < 6; ++b) {
                bool bit = (g >> b) & 1u;
                unsigned votes = __ballot_sync(ALL, bit);
                same &= bit ? votes : ~votes;
            }
            unsigned below = __popc(same & ((1u << lane) - 1u));
            unsigned previous = mine[g];
            __syncwarp();
            if (below == 0)
                mine[g] = previous + __popc(same);
            __syncwarp();
            r[k] = previous + below;
        }
        __syncthreads();
        unsigned x0 = cnt[a0];
        unsigned x1 = cnt[a1];
        unsigned pair = x0 + x1;
        unsigned run = warp_inclusive(pair, lane);
        if (lane == 31)
            s_sum[warp] = run;
        __syncthreads();
        unsigned base = __reduce_add_sync(ALL, (lane < W && lane < warp) ? s_sum[lane] : 0u);
        base += run - pair;
        cnt[a0] = base;
        cnt[a1] = base + x0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < I; ++k) {
            unsigned g = (u[k] >> shift) & 63u;
            keys[mine[g] + r[k]] = u[k];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < I; ++k)
            u[k] = keys[warp * (32 * I) + k * 32 + lane];
    }
#pragma unroll
    for (int k = 0; k < I; ++k) {
        int i = t + k * T;
        if (i < n)
            data[i] = decode(keys[i]);
    }
}

// Beyond one block: a step of a bitonic network whose exchanges all ascend;
// the first step of a merge mirrors its second half.
__global__ void merge_step(float* data, unsigned n, unsigned distance, bool mirrored)
{
    unsigned pair = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned below = pair & (distance - 1u);
    unsigned low = (pair - below) * 2u + below;
    unsigned high = mirrored ? low + 2u * (distance - below) - 1u : low + distance;
    if (low < n && high < n) {
        float left = data[low];
        float right = data[high];
        if (left > right) {
            data[low] = right;
            data[high] = left;
        }
    }
}

template <int T, int I>
static void launch(float* data, int n)
{
    constexpr int bytes = Shape<T, I>::BYTES;
    if constexpr (bytes > 46 * 1024) {
        static const cudaError_t once = cudaFuncSetAttribute(
            sort_block<T, I>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        (void)once;
    }
    sort_block<T, I><<<1, T, bytes>>>(data, n);
}

extern "C" void solve(float* data, int n)
{
    if (n <= 1)
        return;
    if (n <= 512) {
        launch<512, 1>(data, n);
    } else if (n <= 1024) {
        launch<1024, 1>(data, n);
    } else if (n <= 2048) {
        launch<1024, 2>(data, n);
    } else if (n <= 4096) {
        launch<1024, 4>(data, n);
    } else if (n <= 8192) {
        launch<1024, 8>(data, n);
    } else {
        const unsigned count = (unsigned)n;
        for (unsigned half = 1; half < count; half *= 2) {
            for (unsigned distance = half; distance > 0; distance /= 2) {
                unsigned pairs = (count / (2 * distance) + 1) * distance;
                merge_step<<<(pairs + 255) / 256, 256>>>(data, count, distance, distance == half);
            }
        }
    }
}
