// One warp, one shared-memory access a launch, at addresses from a table: for hardware counters.
#include <cuda_runtime.h>

// Offsets in units of the access; a lane with ~0 stays away.
template <int kWords, bool kStore>
__global__ void access(const unsigned* offsets, unsigned* out) {
  __shared__ alignas(16) unsigned words[8192];
  unsigned at = offsets[threadIdx.x];
  if (at == ~0u) return;
  unsigned where = (unsigned)__cvta_generic_to_shared(words) + at * kWords * 4;
  unsigned a = at, b = at, c = at, d = at;
  if constexpr (kStore) {
    if constexpr (kWords == 1) asm volatile("st.shared.u32 [%0], %1;" ::"r"(where), "r"(a) : "memory");
    if constexpr (kWords == 2) asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(where), "r"(a), "r"(b) : "memory");
    if constexpr (kWords == 4) asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(where), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
  } else {
    if constexpr (kWords == 1) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(where) : "memory");
    if constexpr (kWords == 2) asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(where) : "memory");
    if constexpr (kWords == 4) asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(where) : "memory");
  }
  out[threadIdx.x] = a + b + c + d;
}

extern "C" void solve(const unsigned* offsets, unsigned* out, int patterns) {
  for (int i = 0; i < patterns; ++i) {
    const unsigned* row = offsets + 32 * i;
    access<1, false><<<1, 32>>>(row, out);
    access<2, false><<<1, 32>>>(row, out);
    access<4, false><<<1, 32>>>(row, out);
    access<1, true><<<1, 32>>>(row, out);
    access<2, true><<<1, 32>>>(row, out);
    access<4, true><<<1, 32>>>(row, out);
  }
  cudaDeviceSynchronize();
}
