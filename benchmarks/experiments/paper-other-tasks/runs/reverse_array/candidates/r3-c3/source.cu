// One mirrored vector pair a thread; narrower backs where misaligned.

#include <cuda_runtime.h>

constexpr unsigned THREADS = 256;

// Vector i of the front, elements 4 i ... 4 i + 3, changes places with its mirror, which begins at n - 4 - 4 i
// and is aligned to WIDTH elements. Fewer than eight elements in the middle change places one by one.
template <int WIDTH>
__global__ void __launch_bounds__(THREADS)
reverse_pairs(float* data, unsigned n)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    const unsigned pairs = n / 8u;
    if (i < pairs) {
        float4* front = reinterpret_cast<float4*>(data) + i;
        float* back = data + (n - 4u - 4u * i);
        const float4 a = __ldcg(front);
        float4 b;
        if (WIDTH == 4) {
            b = __ldcg(reinterpret_cast<const float4*>(back));
        } else if (WIDTH == 2) {
            const float2 low = *reinterpret_cast<const float2*>(back);
            const float2 high = *reinterpret_cast<const float2*>(back + 2);
            b = make_float4(low.x, low.y, high.x, high.y);
        } else {
            b = make_float4(back[0], back[1], back[2], back[3]);
        }
        *front = make_float4(b.w, b.z, b.y, b.x);
        if (WIDTH == 4) {
            *reinterpret_cast<float4*>(back) = make_float4(a.w, a.z, a.y, a.x);
        } else if (WIDTH == 2) {
            *reinterpret_cast<float2*>(back) = make_float2(a.w, a.z);
            *reinterpret_cast<float2*>(back + 2) = make_float2(a.y, a.x);
        } else {
            back[0] = a.w;
            back[1] = a.z;
            back[2] = a.y;
            back[3] = a.x;
        }
    }
    // at most three pairs of elements are left
    if (i < (n & 7u) / 2u) {
        const unsigned left = 4u * pairs + i;
        const unsigned right = n - 1u - left;
        const float a = data[left];
        const float b = data[right];
        data[left] = b;
        data[right] = a;
    }
}

extern "C" void solve(float* data, int n)
{
    if (n <= 1) {
        return;
    }
    const unsigned count = (unsigned)n;
    unsigned blocks = (count / 8u + THREADS - 1u) / THREADS;
    if (blocks == 0u) {
        blocks = 1u;
    }
    if (count % 4u == 0u) {
        reverse_pairs<4><<<blocks, THREADS>>>(data, count);
    } else if (count % 2u == 0u) {
        reverse_pairs<2><<<blocks, THREADS>>>(data, count);
    } else {
        reverse_pairs<1><<<blocks, THREADS>>>(data, count);
    }
}
