// Kernels whose speed is known on paper, to see what a GPU makes of it.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

// A block copies 4 x 256 neighbouring vectors; a thread's four loads do not wait for each other.
extern "C" __global__ void __launch_bounds__(256) copy(const float4* __restrict__ from,
                                                       float4* __restrict__ to, long long count) {
  const long long first = static_cast<long long>(blockIdx.x) * 1024 + threadIdx.x;
  float4 held[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i * 256 < count) held[i] = __ldcs(from + first + i * 256);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i * 256 < count) __stcs(to + first + i * 256, held[i]);
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

// A block an SM, all of which wait for each other `rounds` times.
extern "C" __global__ void meet(int rounds) {
  for (int i = 0; i < rounds; ++i) cooperative_groups::this_grid().sync();
}
