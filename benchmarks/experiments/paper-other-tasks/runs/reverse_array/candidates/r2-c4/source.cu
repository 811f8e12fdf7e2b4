// Mirrored tiles staged by cp.async, written back as aligned vectors.

#include <cuda_runtime.h>

namespace {

constexpr int THREADS = 256;

__device__ __forceinline__ void copy16(float* to, const float* from)
{
    const unsigned s = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s), "l"(from) : "memory");
}

__device__ __forceinline__ void copies_done()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

// A vector with its elements in reverse order.
__device__ __forceinline__ float4 flipped(float4 v)
{
    return make_float4(v.w, v.z, v.y, v.x);
}

// Block b owns the elements s .. e - 1 of the first half and their mirror images n - e .. n - s - 1.
// The mirrored tile starts r elements behind an aligned vector and is staged r places further on.
// QUAD: n is a multiple of four, so that whole vectors mirror whole vectors.
template <int U, bool QUAD>
__global__ void __launch_bounds__(THREADS)
reverse_tiles(float* data, int n)
{
    constexpr int L = 4 * U * THREADS;
    __shared__ __align__(16) float front[L];
    __shared__ __align__(16) float back[L + 4];

    const int t = threadIdx.x;
    const int half = n / 2;
    const int s = (int)blockIdx.x * L;
    const int len = min(L, half - s);
    const int p = n - s - len;
    const int r = p & 3;
    float* head = data + s;
    float* tail = data + (p - r);

    if (QUAD && len == L) { // then r is 0
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const int i = 4 * (t + u * THREADS);
            copy16(front + i, head + i);
            copy16(back + i, tail + i);
        }
        copies_done();
        __syncthreads();
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const int i = 4 * (t + u * THREADS);
            const float4 a = *reinterpret_cast<const float4*>(back + (L - 4 - i));
            const float4 b = *reinterpret_cast<const float4*>(front + (L - 4 - i));
            *reinterpret_cast<float4*>(head + i) = flipped(a);
            *reinterpret_cast<float4*>(tail + i) = flipped(b);
        }
        return; // the whole block
    }

    const int total = len + r;
    for (int i = 4 * t; i < len; i += 4 * THREADS) {
        if (i + 3 < len) {
            copy16(front + i, head + i);
        } else {
            for (int c = i; c < len; ++c)
                front[c] = head[c];
        }
    }
    for (int i = 4 * t; i < total; i += 4 * THREADS) {
        if (i >= r && i + 3 < total) {
            copy16(back + i, tail + i);
        } else {
            for (int c = max(i, r); c < min(i + 4, total); ++c)
                back[c] = tail[c];
        }
    }
    copies_done();
    __syncthreads();

    // head[c] was back[total - 1 - c], tail[c] was front[total - 1 - c]
    for (int i = 4 * t; i < len; i += 4 * THREADS) {
        const int m = total - 1 - i;
        if (i + 3 < len) {
            *reinterpret_cast<float4*>(head + i) =
                make_float4(back[m], back[m - 1], back[m - 2], back[m - 3]);
        } else {
            for (int c = i; c < len; ++c)
                head[c] = back[total - 1 - c];
        }
    }
    for (int i = 4 * t; i < total; i += 4 * THREADS) {
        const int m = total - 1 - i;
        if (i >= r && i + 3 < total) {
            *reinterpret_cast<float4*>(tail + i) =
                make_float4(front[m], front[m - 1], front[m - 2], front[m - 3]);
        } else {
            for (int c = max(i, r); c < min(i + 4, total); ++c)
                tail[c] = front[total - 1 - c];
        }
    }
}

template <int U>
void launch(float* data, int n)
{
    constexpr int L = 4 * U * THREADS;
    const int half = n / 2;
    const unsigned blocks = ((unsigned)half + (unsigned)L - 1u) / (unsigned)L;
    if (n % 4 == 0)
        reverse_tiles<U, true><<<blocks, THREADS>>>(data, n);
    else
        reverse_tiles<U, false><<<blocks, THREADS>>>(data, n);
}

} // namespace

extern "C" void solve(float* data, int n)
{
    if (n < 2)
        return; // nothing changes places
    if (n <= 1 << 22)
        launch<1>(data, n);
    else
        launch<2>(data, n);
}
