// Running softmax; warps share keys, queries in registers, keys broadcast.

#include <cfloat>
#include <cmath>
#include <cuda_runtime.h>

namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr unsigned kFull = 0xffffffffu;

__device__ __forceinline__ float ex2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 16 bytes to shared memory, zeros where not valid
__device__ __forceinline__ void copy16(float* to, const float* from, bool valid)
{
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(address), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N>
__device__ __forceinline__ void wait_for()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}

// W columns a head. Lane: LQ groups of queries times LK = 32 / LQ interleaved subsets of keys;
// QT queries a thread, KT keys a thread and tile, S stages of tiles a warp.
template <int W, int LQ, int QT, int KT, int S>
struct Shape {
    static constexpr int LK = 32 / LQ;
    static constexpr int BQ = LQ * QT;
    static constexpr int TK = KT * LK;
    static constexpr int P = kWarps * LK;             // partial results of a query
    static constexpr int ST = W + 4;                  // padded row
    static constexpr int kStage = 2 * TK * ST;        // floats
    static constexpr int kRing = kWarps * S * kStage;
    static constexpr int kPartials = P * BQ * ST;
    static constexpr int kQueries = BQ * ST;
    static constexpr int kBytes = 4 * (kQueries + (kRing > kPartials ? kRing : kPartials));
    static constexpr int kCopies = TK * (W / 4) / 32; // of a lane, for K and for V
    static_assert(TK * (W / 4) % 32 == 0, "tile");
    static_assert(P <= 32 && BQ % (kWarps * (32 / P)) == 0, "partials");
};

template <int W, int LQ, int QT, int KT, int S>
__global__ void __launch_bounds__(kThreads, 1)
attention(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
          float* __restrict__ output, int N, int d_model, int tiles, float c)
{
    using T = Shape<W, LQ, QT, KT, S>;
    constexpr int LK = T::LK, BQ = T::BQ, TK = T::TK, P = T::P, ST = T::ST;
    extern __shared__ float4 memory[];
    float* queries = reinterpret_cast<float*>(memory);
    float* pool = queries + T::kQueries;

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int lq = lane % LQ;
    const int lk = lane / LQ;
    const int head = blockIdx.x / tiles;
    const int q0 = (blockIdx.x - head * tiles) * BQ;
    const size_t columns = (size_t)d_model;
    const size_t column = (size_t)head * W;
    float* ring = pool + warp * (S * T::kStage);
    const int key_tiles = (N + TK - 1) / TK;

    for (int i = tid; i < BQ * (W / 4); i += kThreads) {
        const int r = i / (W / 4);
        const int d = (i - r * (W / 4)) * 4;
        const bool valid = q0 + r < N;
        copy16(queries + r * ST + d, Q + (size_t)(valid ? q0 + r : 0) * columns + column + d, valid);
    }

    auto fetch = [&](int tile, int stage) {
        if (tile < key_tiles) {
            float* to = ring + stage * T::kStage;
#pragma unroll
            for (int n = 0; n < T::kCopies; ++n) {
                const int i = lane + 32 * n;
                const int r = i / (W / 4);
                const int d = (i - r * (W / 4)) * 4;
                const int j = tile * TK + r;
                const bool valid = j < N;
                const size_t at = (size_t)(valid ? j : 0) * columns + column + d;
                copy16(to + r * ST + d, K + at, valid);
                copy16(to + (TK + r) * ST + d, V + at, valid);
            }
        }
        commit();
    };

#pragma unroll
    for (int s = 0; s < S; ++s) {
        fetch(warp + s * kWarps, s);
    }
    wait_for<S - 1>();
    __syncthreads();

    float q[QT][W];
    float o[QT][W];
    float m[QT];
    float l[QT];
#pragma unroll
    for (int t = 0; t < QT; ++t) {
        m[t] = -FLT_MAX;
        l[t] = 0.0f;
#pragma unroll
        for (int d = 0; d < W; d += 4) {
            const float4 v = *reinterpret_cast<const float4*>(queries + (lq + t * LQ) * ST + d);
            q[t][d] = v.x;
            q[t][d + 1] = v.y;
            q[t][d + 2] = v.z;
            q[t][d + 3] = v.w;
            o[t][d] = 0.0f;
            o[t][d + 1] = 0.0f;
            o[t][d + 2] = 0.0f;
            o[t][d + 3] = 0.0f;
        }
    }

    int stage = 0;
#pragma unroll 1
    for (int tile = warp; tile < key_tiles; tile += kWarps) {
        wait_for<S - 1>();
        __syncwarp();
        const float* keys = ring + stage * T::kStage + lk * ST;
        const float* values = keys + TK * ST;

        float s[QT][KT];
#pragma unroll
        for (int t = 0; t < QT; ++t) {
#pragma unroll
            for (int j = 0; j < KT; ++j) {
                s[t][j] = 0.0f;
            }
        }
#pragma unroll
        for (int d = 0; d < W; d += 4) {
#pragma unroll
            for (int j = 0; j < KT; ++j) {
                const float4 k = *reinterpret_cast<const float4*>(keys + j * (LK * ST) + d);
#pragma unroll
                for (int t = 0; t < QT; ++t) {
                    s[t][j] = fmaf(q[t][d], k.x, s[t][j]);
                    s[t][j] = fmaf(q[t][d + 1], k.y, s[t][j]);
                    s[t][j] = fmaf(q[t][d + 2], k.z, s[t][j]);
                    s[t][j] = fmaf(q[t][d + 3], k.w, s[t][j]);
                }
            }
        }
        if (tile * TK + TK > N) {
#pragma unroll
            for (int j = 0; j < KT; ++j) {
                if (tile * TK + j * LK + lk >= N) {
#pragma unroll
                    for (int t = 0; t < QT; ++t) {
                        s[t][j] = -INFINITY;
                    }
                }
            }
        }
#pragma unroll
        for (int t = 0; t < QT; ++t) {
            float largest = m[t];
#pragma unroll
            for (int j = 0; j < KT; ++j) {
                largest = fmaxf(largest, s[t][j]);
            }
            const float scale = ex2((m[t] - largest) * c);
            m[t] = largest;
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < KT; ++j) {
                s[t][j] = ex2((s[t][j] - largest) * c);
                sum += s[t][j];
            }
            l[t] = fmaf(l[t], scale, sum);
#pragma unroll
            for (int d = 0; d < W; ++d) {
                o[t][d] *= scale;
            }
        }
#pragma unroll
        for (int j = 0; j < KT; ++j) {
#pragma unroll
            for (int d = 0; d < W; d += 4) {
                const float4 v = *reinterpret_cast<const float4*>(values + j * (LK * ST) + d);
#pragma unroll
                for (int t = 0; t < QT; ++t) {
                    o[t][d] = fmaf(s[t][j], v.x, o[t][d]);
                    o[t][d + 1] = fmaf(s[t][j], v.y, o[t][d + 1]);
                    o[t][d + 2] = fmaf(s[t][j], v.z, o[t][d + 2]);
                    o[t][d + 3] = fmaf(s[t][j], v.w, o[t][d + 3]);
                }
            }
        }
        __syncwarp();
        fetch(tile + S * kWarps, stage);
        stage = stage + 1 == S ? 0 : stage + 1;
    }
    wait_for<0>();
    __syncthreads();   // the rings become the room of the partial results

    const int part = warp * LK + lk;
#pragma unroll
    for (int t = 0; t < QT; ++t) {
        float* to = pool + (part * BQ + lq + t * LQ) * ST;
#pragma unroll
        for (int d = 0; d < W; d += 4) {
            *reinterpret_cast<float4*>(to + d) = make_float4(o[t][d], o[t][d + 1], o[t][d + 2], o[t][d + 3]);
        }
        *reinterpret_cast<float2*>(to + W) = make_float2(m[t], l[t]);
    }
    __syncthreads();

    // normalized weight of each partial result
#pragma unroll
    for (int r = 0; r < BQ; r += kWarps * (32 / P)) {
        const int row = r + warp * (32 / P) + lane / P;
        float* at = pool + ((lane % P) * BQ + row) * ST + W;
        const float2 ml = *reinterpret_cast<const float2*>(at);
        float largest = ml.x;
#pragma unroll
        for (int d = P / 2; d > 0; d >>= 1) {
            largest = fmaxf(largest, __shfl_xor_sync(kFull, largest, d));
        }
        const float weight = ex2((ml.x - largest) * c);
        float sum = weight * ml.y;
#pragma unroll
        for (int d = P / 2; d > 0; d >>= 1) {
            sum += __shfl_xor_sync(kFull, sum, d);
        }
        at[2] = weight / sum;
    }
    __syncthreads();

    for (int i = tid; i < BQ * W; i += kThreads) {
        const int row = i / W;
        const int d = i - row * W;
        if (q0 + row < N) {
            const float* from = pool + row * ST;
            float sum = 0.0f;
#pragma unroll 8
            for (int p = 0; p < P; ++p) {
                sum = fmaf(from[p * (BQ * ST) + W + 2], from[p * (BQ * ST) + d], sum);
            }
            output[(size_t)(q0 + row) * columns + column + d] = sum;
        }
    }
}

// Any width: a block for one row of one head, 128 keys a tile, 512 columns at a time.
constexpr int kAnyThreads = 128;

__global__ void __launch_bounds__(kAnyThreads)
attention_any(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
              float* __restrict__ output, int N, int d_model, int h, int w, float c)
{
    __shared__ float scores[kAnyThreads];
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const size_t columns = (size_t)d_model;
    const size_t items = (size_t)N * h;
    for (size_t item = blockIdx.x; item < items; item += gridDim.x) {
        const size_t row = item / h;
        const size_t column = (item - row * h) * (size_t)w;
        const float* query = Q + row * columns + column;
        for (long long d0 = 0; d0 < w; d0 += 4 * kAnyThreads) {
            float o[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            float m = -FLT_MAX;
            float l = 0.0f;
            for (long long j0 = 0; j0 < N; j0 += kAnyThreads) {
                const int count = N - j0 < kAnyThreads ? (int)(N - j0) : kAnyThreads;
                for (int j = warp; j < count; j += kAnyThreads / 32) {
                    const float* key = K + (size_t)(j0 + j) * columns + column;
                    float sum = 0.0f;
                    for (unsigned d = lane; d < (unsigned)w; d += 32) {
                        sum = fmaf(__ldg(query + d), __ldg(key + d), sum);
                    }
#pragma unroll
                    for (int x = 16; x > 0; x >>= 1) {
                        sum += __shfl_xor_sync(kFull, sum, x);
                    }
                    if (lane == 0) {
                        scores[j] = sum;
                    }
                }
                __syncthreads();
                float largest = m;
                for (int j = lane; j < count; j += 32) {
                    largest = fmaxf(largest, scores[j]);
                }
#pragma unroll
                for (int x = 16; x > 0; x >>= 1) {
                    largest = fmaxf(largest, __shfl_xor_sync(kFull, largest, x));
                }
                __syncthreads();
                if (tid < count) {
                    scores[tid] = ex2((scores[tid] - largest) * c);
                }
                const float scale = ex2((m - largest) * c);
                m = largest;
                l *= scale;
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    o[r] *= scale;
                }
                __syncthreads();
                for (int j = 0; j < count; ++j) {
                    const float p = scores[j];
                    const float* value = V + (size_t)(j0 + j) * columns + column;
                    l += p;
#pragma unroll
                    for (int r = 0; r < 4; ++r) {
                        const long long d = d0 + tid + r * kAnyThreads;
                        if (d < w) {
                            o[r] = fmaf(p, __ldg(value + d), o[r]);
                        }
                    }
                }
                __syncthreads();
            }
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const long long d = d0 + tid + r * kAnyThreads;
                if (d < w) {
                    output[row * columns + column + d] = o[r] / l;
                }
            }
        }
    }
}

template <int W, int LQ, int QT, int KT, int S>
void launch(const float* Q, const float* K, const float* V, float* output, int N, int d_model, int h, float c)
{
    using T = Shape<W, LQ, QT, KT, S>;
    static bool ready = false;
    if (!ready) {
        cudaFuncSetAttribute(attention<W, LQ, QT, KT, S>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kBytes);
        ready = true;
    }
    const int tiles = (int)(((long long)N + T::BQ - 1) / T::BQ);
    const unsigned blocks = (unsigned)((long long)tiles * h);
    attention<W, LQ, QT, KT, S><<<blocks, kThreads, T::kBytes>>>(Q, K, V, output, N, d_model, tiles, c);
}

}  // namespace

extern "C" void solve(const float* Q, const float* K, const float* V, float* output, int N, int d_model, int h)
{
    const int w = d_model / h;
    const float c = (float)(1.4426950408889634 / std::sqrt((double)w));
    const bool roomy = N < 0x7fff0000;
    auto blocks = [&](long long rows) { return (N + rows - 1) / rows * h; };

    if (w == 8 && roomy) {
        if (blocks(8) <= 132) {
            launch<8, 8, 1, 4, 2>(Q, K, V, output, N, d_model, h, c);
        } else {
            launch<8, 16, 4, 8, 4>(Q, K, V, output, N, d_model, h, c);
        }
    } else if (w == 16 && roomy) {
        if (blocks(16) <= 132) {
            launch<16, 8, 2, 8, 2>(Q, K, V, output, N, d_model, h, c);
        } else if (blocks(48) <= 132) {
            launch<16, 16, 3, 8, 4>(Q, K, V, output, N, d_model, h, c);
        } else {
            launch<16, 32, 2, 8, 4>(Q, K, V, output, N, d_model, h, c);
        }
    } else if (w == 32 && roomy) {
        if (blocks(16) <= 132) {
            launch<32, 16, 1, 8, 2>(Q, K, V, output, N, d_model, h, c);
        } else {
            launch<32, 32, 2, 8, 4>(Q, K, V, output, N, d_model, h, c);
        }
    } else {
        const size_t items = (size_t)N * h;
        const unsigned grid = items < (1u << 20) ? (unsigned)items : (1u << 20);
        attention_any<<<grid, kAnyThreads>>>(Q, K, V, output, N, d_model, h, w, c);
    }
}
