// Small helpers that generated kernels use besides the runtime's functions.
#pragma once

#include "emu/schedule.h"
#include "emu/warp.h"

namespace emu {

// A kernel parameter at an offset of the parameter block.
template <class T>
[[gnu::always_inline]] inline T param(const Warp* w, uint64_t offset) {
  T value;
  __builtin_memcpy(&value, w->launch->params + offset, sizeof value);
  return value;
}

// Sets the bits of a predicate that belong to `lanes`.
[[gnu::always_inline]] inline void put(Mask& predicate, Mask lanes, Mask value) {
  predicate = (predicate & ~lanes) | (value & lanes);
}

[[gnu::always_inline]] inline void fill(uint32_t* out, Mask lanes, uint32_t value) {
  for (int i = 0; i < kLanes; ++i) out[i] = lanes >> i & 1 ? value : out[i];
}

inline Mask lanes_equal(Mask lanes, const uint32_t* values, uint32_t wanted) {
  Mask found = 0;
  for (int i = 0; i < kLanes; ++i) found |= Mask(values[i] == wanted) << i;
  return found & lanes;
}

inline uint32_t warps_of_block(const Warp* w) {
  const uint32_t* block = w->launch->block;
  return (block[0] * block[1] * block[2] + kLanes - 1) / kLanes;
}

}  // namespace emu
