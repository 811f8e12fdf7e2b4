// Four positions a thread, all channels in registers, corrected mean
#include <cuda_runtime.h>

template <int V>
__device__ __forceinline__ void load_vec(const float* __restrict__ p, float (&v)[V])
{
    if constexpr (V == 4) {
        const float4 q = __ldg(reinterpret_cast<const float4*>(p));
        v[0] = q.x;
        v[1] = q.y;
        v[2] = q.z;
        v[3] = q.w;
    } else {
        v[0] = __ldg(p);
    }
}

template <int V>
__device__ __forceinline__ void store_vec(float* __restrict__ p, const float (&v)[V])
{
    if constexpr (V == 4) {
        __stcs(reinterpret_cast<float4*>(p), make_float4(v[0], v[1], v[2], v[3]));
    } else {
        __stcs(p, v[0]);
    }
}

__device__ __forceinline__ float inverse_root(float v)
{
    const float r = rsqrtf(v);
    const float e = fmaf(-v * r, r, 1.0f);
    return fmaf(0.5f * r, e, r);
}

// C channels in registers, V neighbouring positions a thread. vectors = H * W / V.
template <int C, int V>
__global__ void __launch_bounds__(256)
layer_norm_registers(const float* __restrict__ x, float* __restrict__ y, int N, size_t vectors,
                     float eps)
{
    const size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= vectors) return;
    const size_t plane = vectors * V;
    const float inv_c = 1.0f / C;

    for (int n = blockIdx.y; n < N; n += gridDim.y) {
        const size_t begin = (size_t)n * C * plane + p * V;
        float v[C][V];
#pragma unroll
        for (int c = 0; c < C; ++c) load_vec<V>(x + begin + c * plane, v[c]);

#pragma unroll
        for (int j = 0; j < V; ++j) {
            float sum = v[0][j];
#pragma unroll
            for (int c = 1; c < C; ++c) sum += v[c][j];
            const float mean = sum * inv_c;
            float rest = 0.0f;
#pragma unroll
            for (int c = 0; c < C; ++c) {
                v[c][j] -= mean;
                rest += v[c][j];
            }
            rest *= inv_c;
            float squares = 0.0f;
#pragma unroll
            for (int c = 0; c < C; ++c) {
                v[c][j] -= rest;
                squares = fmaf(v[c][j], v[c][j], squares);
            }
            const float r = inverse_root(fmaf(squares, inv_c, eps));
#pragma unroll
            for (int c = 0; c < C; ++c) v[c][j] *= r;
        }

#pragma unroll
        for (int c = 0; c < C; ++c) store_vec<V>(y + begin + c * plane, v[c]);
    }
}

// Any number of channels: three passes, the later ones mostly from the caches.
template <int V>
__global__ void __launch_bounds__(256)
layer_norm_passes(const float* __restrict__ x, float* __restrict__ y, int N, int C,
                  size_t vectors, float eps)
{
    const size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= vectors) return;
    const size_t plane = vectors * V;
    const float count = (float)C;

    for (int n = blockIdx.y; n < N; n += gridDim.y) {
        const size_t begin = (size_t)n * C * plane + p * V;
        const float* from = x + begin;
        float* to = y + begin;

        float mean[V], rest[V], scale[V];
#pragma unroll
        for (int j = 0; j < V; ++j) mean[j] = 0.0f;
        for (int c0 = 0; c0 < C; c0 += 32) {
            const int c1 = C - c0 < 32 ? C : c0 + 32;
            float s[V];
#pragma unroll
            for (int j = 0; j < V; ++j) s[j] = 0.0f;
#pragma unroll 4
            for (int c = c0; c < c1; ++c) {
                float v[V];
                load_vec<V>(from + c * plane, v);
#pragma unroll
                for (int j = 0; j < V; ++j) s[j] += v[j];
            }
#pragma unroll
            for (int j = 0; j < V; ++j) mean[j] += s[j];
        }
#pragma unroll
        for (int j = 0; j < V; ++j) {
            mean[j] /= count;
            rest[j] = 0.0f;
            scale[j] = 0.0f;
        }

        for (int c0 = 0; c0 < C; c0 += 32) {
            const int c1 = C - c0 < 32 ? C : c0 + 32;
            float s[V], q[V];
#pragma unroll
            for (int j = 0; j < V; ++j) {
                s[j] = 0.0f;
                q[j] = 0.0f;
            }
#pragma unroll 4
            for (int c = c0; c < c1; ++c) {
                float v[V];
                load_vec<V>(from + c * plane, v);
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    const float d = v[j] - mean[j];
                    s[j] += d;
                    q[j] = fmaf(d, d, q[j]);
                }
            }
#pragma unroll
            for (int j = 0; j < V; ++j) {
                rest[j] += s[j];
                scale[j] += q[j];
            }
        }
#pragma unroll
        for (int j = 0; j < V; ++j) {
            rest[j] /= count;
            const float variance = fmaxf(fmaf(-rest[j], rest[j], scale[j] / count), 0.0f);
            scale[j] = inverse_root(variance + eps);
        }

#pragma unroll 4
        for (int c = 0; c < C; ++c) {
            float v[V];
            load_vec<V>(from + c * plane, v);
#pragma unroll
            for (int j = 0; j < V; ++j) v[j] = ((v[j] - mean[j]) - rest[j]) * scale[j];
            store_vec<V>(to + c * plane, v);
        }
    }
}

template <int V>
static void launch(const float* x, float* y, int N, int C, size_t plane, float eps)
{
    const size_t vectors = plane / V;
    const int threads = vectors * (size_t)N >= 1000000 ? 256 : 128;
    const dim3 grid((unsigned int)((vectors + threads - 1) / threads),
                    (unsigned int)(N < 65535 ? N : 65535));
    switch (C) {
    case 2:
        layer_norm_registers<2, V><<<grid, threads>>>(x, y, N, vectors, eps);
        break;
    case 3:
        layer_norm_registers<3, V><<<grid, threads>>>(x, y, N, vectors, eps);
        break;
    case 4:
        layer_norm_registers<4, V><<<grid, threads>>>(x, y, N, vectors, eps);
        break;
    case 8:
        layer_norm_registers<8, V><<<grid, threads>>>(x, y, N, vectors, eps);
        break;
    default:
        layer_norm_passes<V><<<grid, threads>>>(x, y, N, C, vectors, eps);
        break;
    }
}

extern "C" void solve(const float* x, float* y, int N, int C, int H, int W, float eps)
{
    const size_t plane = (size_t)H * (size_t)W;
    if (plane % 4 == 0) {
        launch<4>(x, y, N, C, plane, eps);
    } else {
        launch<1>(x, y, N, C, plane, eps);
    }
}
