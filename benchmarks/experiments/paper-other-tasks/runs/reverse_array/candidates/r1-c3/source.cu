// Mirrored tiles swapped in aligned vectors; shared staging where misaligned.

#include <cuda_runtime.h>
#include <stddef.h>

namespace {

constexpr int THREADS = 128;
constexpr int ROOM = 132 * 2048; // threads that an H200 holds at once

__device__ __forceinline__ float4 turned(float4 v)
{
    return make_float4(v.w, v.z, v.y, v.x);
}

template <bool KEEP>
__device__ __forceinline__ void put(float4* p, float4 v)
{
    if (KEEP) {
        *p = v; // fits in L2
    } else {
        __stcs(p, v);
    }
}

// n a multiple of 4: a tile at either end consists of aligned vectors, and a vector's mirror is a vector.
template <int P, bool KEEP>
__global__ void __launch_bounds__(THREADS, 2048 / THREADS)
swap_vectors(float* data, int vectors)
{
    float4* x = reinterpret_cast<float4*>(data);
    const int pairs = vectors >> 1;
    const int first = blockIdx.x * (THREADS * P);
    const int i = first + threadIdx.x;
    const int last = vectors - 1;

    if (first + THREADS * P <= pairs) {
        float4 a[P];
        float4 b[P];
#pragma unroll
        for (int k = 0; k < P; ++k) {
            a[k] = __ldcg(x + (i + k * THREADS));
            b[k] = __ldcg(x + (last - i - k * THREADS));
        }
#pragma unroll
        for (int k = 0; k < P; ++k) {
            put<KEEP>(x + (i + k * THREADS), turned(b[k]));
            put<KEEP>(x + (last - i - k * THREADS), turned(a[k]));
        }
    } else {
#pragma unroll
        for (int k = 0; k < P; ++k) {
            const int j = i + k * THREADS;
            if (j < pairs) {
                const float4 a = __ldcg(x + j);
                const float4 b = __ldcg(x + (last - j));
                put<KEEP>(x + j, turned(b));
                put<KEEP>(x + (last - j), turned(a));
            }
        }
    }

    // the vector in the middle is its own mirror
    if ((vectors & 1) && blockIdx.x == 0 && threadIdx.x == 0) {
        x[pairs] = turned(x[pairs]);
    }
}

template <int P, bool KEEP>
void launch(float* data, int vectors)
{
    const int pairs = vectors >> 1;
    int blocks = (pairs + THREADS * P - 1) / (THREADS * P);
    if (blocks < 1) blocks = 1;
    swap_vectors<P, KEEP><<<blocks, THREADS>>>(data, vectors);
}

// Any n: a block stages a tile of either end in shared memory, then writes each to the other's place in
// aligned vectors. The block after the last tile swaps the middle, less than two tiles, element by element.
constexpr int TILE = 2048;
constexpr int TILE_THREADS = 256;

__global__ void __launch_bounds__(TILE_THREADS)
swap_tiles(float* data, int n, int tiles)
{
    __shared__ __align__(16) float front[TILE];
    __shared__ __align__(16) float back[TILE + 4];
    const int t = threadIdx.x;
    const int b = blockIdx.x;

    if (b == tiles) { // the whole block
        const int end = n / 2;
        for (int i = tiles * TILE + t; i < end; i += TILE_THREADS) {
            const float a = data[i];
            const float c = data[n - 1 - i];
            data[i] = c;
            data[n - 1 - i] = a;
        }
        return;
    }

    const int f = b * TILE;            // the front tile is aligned
    const int s = n - f - TILE;        // the back tile need not be
    const int offset = s & 3;
    const int head = (4 - offset) & 3; // elements before its first aligned vector
    const int inner = (TILE - head) / 4;
    const int tail = TILE - head - 4 * inner;
    float* fp = data + f;
    float* bp = data + s;
    const float4* fv = reinterpret_cast<const float4*>(fp);
    const float4* bv = reinterpret_cast<const float4*>(bp + head);
    float4* front_vectors = reinterpret_cast<float4*>(front);
    float4* back_vectors = reinterpret_cast<float4*>(back + offset + head);

#pragma unroll
    for (int k = 0; k < TILE / 4 / TILE_THREADS; ++k) {
        const int v = t + k * TILE_THREADS;
        const float4 a = __ldcg(fv + v);
        if (v < inner) {
            back_vectors[v] = __ldcg(bv + v);
        }
        front_vectors[v] = a;
    }
    if (t < head) {
        back[offset + t] = __ldcg(bp + t);
    }
    if (t < tail) {
        const int j = head + 4 * inner + t;
        back[offset + j] = __ldcg(bp + j);
    }
    __syncthreads();

#pragma unroll
    for (int k = 0; k < TILE / 4 / TILE_THREADS; ++k) {
        const int v = t + k * TILE_THREADS;
        const float* from = back + offset + (TILE - 1 - 4 * v);
        __stcs(reinterpret_cast<float4*>(fp) + v, make_float4(from[0], from[-1], from[-2], from[-3]));
        if (v < inner) {
            const float* other = front + (TILE - 1 - head - 4 * v);
            __stcs(reinterpret_cast<float4*>(bp + head) + v,
                   make_float4(other[0], other[-1], other[-2], other[-3]));
        }
    }
    if (t < head) {
        bp[t] = front[TILE - 1 - t];
    }
    if (t < tail) {
        const int j = head + 4 * inner + t;
        bp[j] = front[TILE - 1 - j];
    }
}

} // namespace

extern "C" void solve(float* data, int n)
{
    if (n <= 1) return;
    if (n % 4 == 0) {
        const int vectors = n / 4;
        const int pairs = vectors / 2;
        if (pairs <= ROOM) {
            launch<1, true>(data, vectors);
        } else if (pairs <= 2 * ROOM) {
            launch<2, true>(data, vectors);
        } else {
            launch<2, false>(data, vectors);
        }
    } else {
        const int tiles = n / (2 * TILE);
        swap_tiles<<<tiles + 1, TILE_THREADS>>>(data, n, tiles);
    }
}
