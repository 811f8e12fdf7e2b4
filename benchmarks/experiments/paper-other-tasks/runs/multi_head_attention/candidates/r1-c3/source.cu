// Head's keys in shared memory, register tiles, split keys per warp

#include <cmath>
#include <cstddef>
#include <cuda_runtime.h>

__device__ __forceinline__ float power2(float x)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

__device__ __forceinline__ void copy16(float* target, const float* source, bool valid)
{
    unsigned address = (unsigned)__cvta_generic_to_shared(target);
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source), "r"(bytes) : "memory");
}

__device__ __forceinline__ void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until no more than the given number of groups is on its way; for fewer, where it is above 3.
__device__ __forceinline__ void wait_groups(int left)
{
    if (left >= 3)
        asm volatile("cp.async.wait_group 3;" ::: "memory");
    else if (left == 2)
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    else if (left == 1)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 0;" ::: "memory");
}

// Adds up COUNT values over the lanes that differ in the bits from 16 down to LAST. While there is more than
// one, each step halves what a lane holds: the lane whose bit is set keeps the upper half.
template <int COUNT, int DISTANCE, int LAST>
__device__ __forceinline__ void add_lanes(float* v, int lane)
{
    if constexpr (DISTANCE >= LAST) {
        if constexpr (COUNT > 1) {
            constexpr int H = COUNT / 2;
            const bool up = (lane & DISTANCE) != 0;
#pragma unroll
            for (int i = 0; i < H; ++i) {
                float send = up ? v[i] : v[i + H];
                float stay = up ? v[i + H] : v[i];
                v[i] = stay + __shfl_xor_sync(0xffffffffu, send, DISTANCE);
            }
            add_lanes<H, DISTANCE / 2, LAST>(v, lane);
        } else {
            v[0] += __shfl_xor_sync(0xffffffffu, v[0], DISTANCE);
            add_lanes<1, DISTANCE / 2, LAST>(v, lane);
        }
    }
}

template <int COUNT, int DISTANCE>
__device__ __forceinline__ void max_lanes(float* v, int lane)
{
    if constexpr (DISTANCE >= 1) {
        if constexpr (COUNT > 1) {
            constexpr int H = COUNT / 2;
            const bool up = (lane & DISTANCE) != 0;
#pragma unroll
            for (int i = 0; i < H; ++i) {
                float send = up ? v[i] : v[i + H];
                float stay = up ? v[i + H] : v[i];
                v[i] = fmaxf(stay, __shfl_xor_sync(0xffffffffu, send, DISTANCE));
            }
            max_lanes<H, DISTANCE / 2>(v, lane);
        } else {
            v[0] = fmaxf(v[0], __shfl_xor_sync(0xffffffffu, v[0], DISTANCE));
            max_lanes<1, DISTANCE / 2>(v, lane);
        }
    }
}

// W columns a head, TQ queries a warp, KPL keys a lane at once.
template <int W, int TQ, int KPL>
struct Shape {
    static constexpr int CH = 32 * KPL;               // keys of a chunk
    static constexpr int KSTR = W + 4;                // floats from key to key
    static constexpr int PSTR = TQ == 4 ? 4 : TQ + 4; // floats from key to key of the weights
    static size_t bytes(int chunks, int qg, int ks)
    {
        return sizeof(float) *
               ((size_t)chunks * CH * (KSTR + W) + (size_t)qg * TQ * W + (size_t)qg * ks * CH * PSTR);
    }
};

// A block has a head and QG * TQ queries; its QG * KS warps share out the queries and the chunks of keys.
template <int W, int TQ, int KPL>
__global__ void __launch_bounds__(288)
attention(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
          float* __restrict__ output, int N, int d_model, int QG, int KS, int chunks, float scale)
{
    using S = Shape<W, TQ, KPL>;
    constexpr int CH = S::CH;
    constexpr int KSTR = S::KSTR;
    constexpr int PSTR = S::PSTR;
    constexpr int CGS = W / 4;        // lanes over the columns, four each
    constexpr int KG = 32 / CGS;      // groups of lanes over the keys
    constexpr int REST = TQ * 4 / KG; // sums of a lane after adding over those groups
    constexpr int LPQ = 32 / TQ;      // lanes that share a query's maximum

    extern __shared__ __align__(128) float memory[];
    float* sK = memory;
    float* sV = sK + (size_t)chunks * CH * KSTR;
    float* sQ = sV + (size_t)chunks * CH * W;
    float* sP = sQ + QG * TQ * W;

    const int tid = threadIdx.x;
    const int threads = blockDim.x;
    const int lane = tid % 32;
    const int warp = tid / 32;
    const int qg = warp % QG;
    const int ks = warp / QG;
    const size_t column0 = (size_t)blockIdx.y * W;
    const int query0 = blockIdx.x * QG * TQ;
    const int rounds = (chunks + KS - 1) / KS;
    float* myP = sP + warp * CH * PSTR;

    for (int i = tid; i < QG * TQ * CGS; i += threads) {
        int row = i / CGS;
        int c = i % CGS * 4;
        bool valid = query0 + row < N;
        copy16(sQ + row * W + c, valid ? Q + (size_t)(query0 + row) * d_model + column0 + c : Q, valid);
    }
    for (int r = 0; r < rounds; ++r) {
        const int from = r * KS * CH;
        const int to = min((r + 1) * KS, chunks) * CH;
        for (int i = from * CGS + tid; i < to * CGS; i += threads) {
            int row = i / CGS;
            int c = i % CGS * 4;
            bool valid = row < N;
            copy16(sK + row * KSTR + c, valid ? K + (size_t)row * d_model + column0 + c : K, valid);
        }
        commit();
        for (int i = from * CGS + tid; i < to * CGS; i += threads) {
            int row = i / CGS;
            int c = i % CGS * 4;
            bool valid = row < N;
            copy16(sV + row * W + c, valid ? V + (size_t)row * d_model + column0 + c : V, valid);
        }
        commit();
    }

    float o[TQ * 4]; // query q, column e of the lane's four at q * 4 + e
    float l[TQ];
#pragma unroll
    for (int i = 0; i < TQ * 4; ++i)
        o[i] = 0.0f;
#pragma unroll
    for (int q = 0; q < TQ; ++q)
        l[q] = 0.0f;
    float top = -INFINITY; // largest scaled score of query lane / LPQ

    const float* myQ = sQ + qg * TQ * W;
    const int cgi = lane % CGS;
    const int kg = lane / CGS;

#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
        const int chunk = r * KS + ks;
        const bool busy = chunk < chunks;
        const int base = chunk * CH;
        wait_groups(2 * rounds - 1 - 2 * r);
        __syncthreads();
        if (busy) {
            float s[TQ][KPL];
#pragma unroll
            for (int q = 0; q < TQ; ++q)
#pragma unroll
                for (int k = 0; k < KPL; ++k)
                    s[q][k] = 0.0f;
            const float* keys = sK + (base + lane) * KSTR;
#pragma unroll 2
            for (int c = 0; c < W; c += 4) {
                float4 kv[KPL];
#pragma unroll
                for (int k = 0; k < KPL; ++k)
                    kv[k] = *reinterpret_cast<const float4*>(keys + k * 32 * KSTR + c);
#pragma unroll
                for (int q = 0; q < TQ; ++q) {
                    const float4 qv = *reinterpret_cast<const float4*>(myQ + q * W + c);
#pragma unroll
                    for (int k = 0; k < KPL; ++k) {
                        s[q][k] = fmaf(qv.x, kv[k].x, s[q][k]);
                        s[q][k] = fmaf(qv.y, kv[k].y, s[q][k]);
                        s[q][k] = fmaf(qv.z, kv[k].z, s[q][k]);
                        s[q][k] = fmaf(qv.w, kv[k].w, s[q][k]);
                    }
                }
            }
            if (base + CH > N) {
#pragma unroll
                for (int k = 0; k < KPL; ++k) {
                    if (base + lane + 32 * k >= N) {
#pragma unroll
                        for (int q = 0; q < TQ; ++q)
                            s[q][k] = -INFINITY;
                    }
                }
            }
            float largest[TQ];
#pragma unroll
            for (int q = 0; q < TQ; ++q) {
                largest[q] = s[q][0];
#pragma unroll
                for (int k = 1; k < KPL; ++k)
                    largest[q] = fmaxf(largest[q], s[q][k]);
            }
            max_lanes<TQ, 16>(largest, lane);
            const float before = top;
            top = fmaxf(top, largest[0] * scale);
            if (r > 0) {
                const float factor = power2(before - top);
#pragma unroll
                for (int q = 0; q < TQ; ++q) {
                    const float f = __shfl_sync(0xffffffffu, factor, q * LPQ);
                    l[q] *= f;
#pragma unroll
                    for (int e = 0; e < 4; ++e)
                        o[q * 4 + e] *= f;
                }
            }
#pragma unroll
            for (int q = 0; q < TQ; ++q) {
                const float m = __shfl_sync(0xffffffffu, top, q * LPQ);
#pragma unroll
                for (int k = 0; k < KPL; ++k) {
                    s[q][k] = power2(fmaf(s[q][k], scale, -m));
                    l[q] += s[q][k];
                }
            }
#pragma unroll
            for (int k = 0; k < KPL; ++k) {
#pragma unroll
                for (int q = 0; q < TQ; q += 4)
                    *reinterpret_cast<float4*>(myP + (lane + 32 * k) * PSTR + q) =
                        make_float4(s[q][k], s[q + 1][k], s[q + 2][k], s[q + 3][k]);
            }
        }
        wait_groups(2 * rounds - 2 - 2 * r);
        __syncthreads();
        if (busy) {
            const float* values = sV + base * W + cgi * 4;
#pragma unroll 2
            for (int j = kg; j < CH; j += KG) {
                const float4 v = *reinterpret_cast<const float4*>(values + j * W);
#pragma unroll
                for (int q = 0; q < TQ; q += 4) {
                    const float4 p = *reinterpret_cast<const float4*>(myP + j * PSTR + q);
                    const float w4[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
                    for (int t = 0; t < 4; ++t) {
                        float* to = o + (q + t) * 4;
                        to[0] = fmaf(w4[t], v.x, to[0]);
                        to[1] = fmaf(w4[t], v.y, to[1]);
                        to[2] = fmaf(w4[t], v.z, to[2]);
                        to[3] = fmaf(w4[t], v.w, to[3]);
                    }
                }
            }
            __syncwarp();
        }
    }

    // each warp leaves its sums, its maxima and its sums of weights where its weights were
    add_lanes<TQ * 4, 16, CGS>(o, lane);
    add_lanes<TQ, 16, 1>(l, lane);
#pragma unroll
    for (int i = 0; i < REST; ++i) {
        const int flat = kg * REST + i;
        myP[(flat / 4) * W + cgi * 4 + flat % 4] = o[i];
    }
    if (lane % LPQ == 0) {
        myP[TQ * W + lane / LPQ] = top;
        myP[TQ * W + TQ + lane / LPQ] = l[0];
    }
    __syncthreads();

    for (int i = tid; i < QG * TQ * CGS; i += threads) {
        const int row = i / CGS;
        const int c = i % CGS * 4;
        if (query0 + row >= N)
            continue;
        const int group = row / TQ;
        const int q = row % TQ;
        float m = -INFINITY;
        for (int k = 0; k < KS; ++k)
            m = fmaxf(m, sP[(k * QG + group) * CH * PSTR + TQ * W + q]);
        float sum = 0.0f;
        float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int k = 0; k < KS; ++k) {
            const float* part = sP + (k * QG + group) * CH * PSTR;
            const float f = power2(part[TQ * W + q] - m);
            const float4 v = *reinterpret_cast<const float4*>(part + q * W + c);
            sum = fmaf(f, part[TQ * W + TQ + q], sum);
            total.x = fmaf(f, v.x, total.x);
            total.y = fmaf(f, v.y, total.y);
            total.z = fmaf(f, v.z, total.z);
            total.w = fmaf(f, v.w, total.w);
        }
        *reinterpret_cast<float4*>(output + (size_t)(query0 + row) * d_model + column0 + c) =
            make_float4(total.x / sum, total.y / sum, total.z / sum, total.w / sum);
    }
}

// Any size: a block has a query, a head and up to 128 columns.
__global__ void __launch_bounds__(128)
attention_any(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
              float* __restrict__ output, int N, int d_model, int h)
{
    __shared__ float weights[128];
    __shared__ float maxima[4];
    const int tid = threadIdx.x;
    const int width = d_model / h;
    const size_t parts = ((size_t)width + 127) / 128;
    const size_t items = (size_t)N * h * parts;
    const float root = sqrtf((float)width);
    for (size_t item = blockIdx.x; item < items; item += gridDim.x) {
        const size_t part = item % parts;
        const size_t head = item / parts % h;
        const size_t i = item / parts / h;
        const size_t column0 = head * width;
        const size_t own = part * 128 + tid;
        const bool mine = own < (size_t)width;
        const float* query = Q + i * d_model + column0;
        float m = -INFINITY;
        float l = 0.0f;
        float o = 0.0f;
        for (long long j0 = 0; j0 < N; j0 += 128) {
            const long long j = j0 + tid;
            float s = -INFINITY;
            if (j < N) {
                const float* key = K + (size_t)j * d_model + column0;
                float sum = 0.0f;
                for (int c = 0; c < width; ++c)
                    sum = fmaf(query[c], key[c], sum);
                s = sum / root;
            }
            float largest = s;
#pragma unroll
            for (int d = 16; d >= 1; d /= 2)
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, d));
            if (tid % 32 == 0)
                maxima[tid / 32] = largest;
            __syncthreads();
            largest = fmaxf(fmaxf(maxima[0], maxima[1]), fmaxf(maxima[2], maxima[3]));
            const float next = fmaxf(m, largest);
            const float factor = expf(m - next);
            m = next;
            weights[tid] = j < N ? expf(s - m) : 0.0f;
            __syncthreads();
            l *= factor;
            o *= factor;
            const int count = N - j0 < 128 ? (int)(N - j0) : 128;
            for (int k = 0; k < count; ++k) {
                l += weights[k];
                if (mine)
                    o = fmaf(weights[k], V[(size_t)(j0 + k) * d_model + column0 + own], o);
            }
            __syncthreads();
        }
        if (mine)
            output[i * d_model + column0 + own] = o / l;
    }
}

template <int W, int TQ, int KPL>
static bool launch(const float* Q, const float* K, const float* V, float* output, int N, int d_model, int h, int QG,
                   int KS)
{
    using S = Shape<W, TQ, KPL>;
    if (N > 8192 || h > 65535)
        return false;
    const int chunks = (N - 1) / S::CH + 1;
    const size_t bytes = S::bytes(chunks, QG, KS);
    if (bytes > 232448)
        return false;
    if (bytes > 49152)
        cudaFuncSetAttribute(attention<W, TQ, KPL>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    const float scale = (float)(1.4426950408889634 / std::sqrt((double)W));
    const dim3 grid((N - 1) / (QG * TQ) + 1, h);
    attention<W, TQ, KPL>
        <<<grid, 32 * QG * KS, bytes>>>(Q, K, V, output, N, d_model, QG, KS, chunks, scale);
    return true;
}

extern "C" void solve(const float* Q, const float* K, const float* V, float* output, int N, int d_model, int h)
{
    const int width = d_model / h;
    bool done = false;
    if (width == 8) {
        if (N <= 64)
            done = launch<8, 4, 2>(Q, K, V, output, N, d_model, h, 1, 1);
        else if (N <= 128)
            done = launch<8, 4, 2>(Q, K, V, output, N, d_model, h, 2, 2);
        else
            done = launch<8, 4, 2>(Q, K, V, output, N, d_model, h, 4, 2);
    } else if (width == 16) {
        if (N <= 256)
            done = launch<16, 8, 2>(Q, K, V, output, N, d_model, h, 2, 4);
        else
            done = launch<16, 16, 4>(Q, K, V, output, N, d_model, h, 3, 3);
    } else if (width == 32) {
        done = launch<32, 16, 4>(Q, K, V, output, N, d_model, h, 4, 2);
    }
    if (done)
        return;
    const size_t items = (size_t)N * h * (((size_t)width + 127) / 128);
    const unsigned blocks = (unsigned)(items < 1048576 ? items : 1048576);
    attention_any<<<blocks, 128>>>(Q, K, V, output, N, d_model, h);
}
