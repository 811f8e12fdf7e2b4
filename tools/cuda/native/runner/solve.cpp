#include "solve.h"

#include <cstring>

#include "call.h"

namespace runner {

gpu::ShimSaw call_solve(const Arena& arena, const Candidate& candidate, const gpu::Solve& solve,
                        const CallOf& of) {
  uint64_t integers[gpu::kMaxIntegers];
  std::memcpy(integers, solve.integers, sizeof integers);
  for (uint32_t i = 0; i < gpu::kMaxIntegers; ++i)
    if ((solve.pointers >> i & 1) != 0)
      integers[i] = at(arena, integers[i] + of.slot * of.slot_stride, 0);
  const gpu::ShimCall call = {at(arena, solve.scratch_offset, solve.scratch_bytes),
                              solve.scratch_bytes,
                              solve.scratch_quota,
                              solve.scratch_seed + of.slot,
                              solve.device_to_host != 0,
                              of.captured,
                              of.logged};
  candidate.shim->begin(&call);
  call_any(candidate.solve, integers, solve.floats);
  return candidate.shim->end();
}

void poison_scratch(const Gpu& gpu, const Arena& arena, const gpu::Solve& solve) {
  if (solve.scratch_bytes < 4) return;
  // NaN as a float, in either half too, and another one in each call.
  const auto pattern = static_cast<unsigned>(0x7fc07e00 | (solve.scratch_seed & 0x1ff) << 16 |
                                             (solve.scratch_seed >> 9 & 0x1ff));
  expect(gpu,
         gpu.driver->cuMemsetD32Async(at(arena, solve.scratch_offset, solve.scratch_bytes), pattern,
                                      solve.scratch_bytes / 4, gpu.stream),
         "scratch");
}

}  // namespace runner
