// Kernels whose speed is known on paper, to see what a GPU makes of it.
#include <cuda_runtime.h>

// Neighbours load neighbouring vectors; a thread's four loads do not wait for each other.
extern "C" __global__ void copy(const float4* __restrict__ from, float4* __restrict__ to,
                                long long count) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; at + 3 * stride < count; at += 4 * stride) {
    const float4 a = from[at], b = from[at + stride];
    const float4 c = from[at + 2 * stride], d = from[at + 3 * stride];
    to[at] = a;
    to[at + stride] = b;
    to[at + 2 * stride] = c;
    to[at + 3 * stride] = d;
  }
  for (; at < count; at += stride) to[at] = from[at];
}

// Eight chains of fused multiply-adds a thread, `rounds` x 64 x 8 of them. The sum is stored so that
// nothing can be left out.
extern "C" __global__ void __launch_bounds__(256) multiply_add(float* out, int rounds, float by) {
  float sums[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) sums[i] = by * static_cast<float>(threadIdx.x + i);
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < 64; ++step) {
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] = fmaf(sums[i], by, 0.5f);
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += sums[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void nothing() {}
