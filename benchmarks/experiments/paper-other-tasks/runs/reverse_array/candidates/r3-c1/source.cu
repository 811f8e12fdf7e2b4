// Mirrored vectors, next pair loaded before storing, moving pointers.

#include <cstddef>
#include <cuda_runtime.h>

constexpr unsigned THREADS = 256u;
constexpr unsigned RESIDENT = 132u * 8u;

// A vector with its elements in reverse order.
__device__ __forceinline__ uint4 flipped(uint4 v) { return make_uint4(v.w, v.z, v.y, v.x); }
__device__ __forceinline__ uint2 flipped(uint2 v) { return make_uint2(v.y, v.x); }
__device__ __forceinline__ unsigned flipped(unsigned v) { return v; }

// v[0 .. m - 1]: the whole array as vectors; vector i changes places with vector m - 1 - i.
// Each pair belongs to one thread, so that it may be read long before it is written.
template <typename V>
__global__ void __launch_bounds__(256, 8)
reverse_vectors(V* data, unsigned m)
{
    const unsigned pairs = m / 2u;
    const unsigned start = blockIdx.x * THREADS + threadIdx.x;

    if (start < pairs) {
        const unsigned stride = gridDim.x * THREADS;
        unsigned more = (pairs - 1u - start) / stride; // pairs of this thread behind the first
        V* front = data + start;
        V* back = data + (m - 1u - start);
        V a = __ldcg(front);
        V b = __ldcg(back);
#pragma unroll 1
        for (; more != 0u; --more) {
            V* next_front = front + stride;
            V* next_back = back - stride;
            const V c = __ldcg(next_front);
            const V d = __ldcg(next_back);
            *front = flipped(b);
            *back = flipped(a);
            a = c;
            b = d;
            front = next_front;
            back = next_back;
        }
        *front = flipped(b);
        *back = flipped(a);
    }

    // the vector in the middle turns round where it is
    if ((m & 1u) && start == 0u) {
        V* middle = data + pairs;
        const V c = *middle;
        *middle = flipped(c);
    }
}

template <typename V>
static void launch(float* data, unsigned m)
{
    const unsigned pairs = m / 2u;
    unsigned blocks = (pairs + THREADS - 1u) / THREADS;
    if (blocks > RESIDENT) {
        blocks = RESIDENT;
    }
    if (blocks == 0u) {
        blocks = 1u;
    }
    reverse_vectors<V><<<blocks, THREADS>>>(reinterpret_cast<V*>(data), m);
}

extern "C" void solve(float* data, int n)
{
    if (n <= 0) {
        return;
    }
    const unsigned count = (unsigned)n;
    if (count % 4u == 0u) {
        launch<uint4>(data, count / 4u);
    } else if (count % 2u == 0u) {
        launch<uint2>(data, count / 2u);
    } else {
        launch<unsigned>(data, count);
    }
}
