// Small helpers that generated kernels use besides the runtime's functions.
#pragma once

#include "emu/memory.h"
#include "emu/schedule.h"
#include "emu/specials.h"
#include "emu/warp.h"

namespace emu {

// What the code of a basic block says when it is done: the block where every live lane goes on, or
// one of these.
using Next = uint32_t;
constexpr Next kDispatch = 0x10000;  // lanes may stand at several blocks: let `pick` choose
constexpr Next kYield = 0x10001;     // the turn is over

// A basic block, executed by some lanes of a warp whose registers are `R`.
template <class R>
using BlockCode = Next (*)(Warp*, R&, Mask);

template <class R>
[[gnu::always_inline]] inline Status run_blocks(Warp* w, const BlockCode<R>* blocks) {
  R& registers = *reinterpret_cast<R*>(w->regs);
  while (true) {
    Next next = 0;
    const Mask lanes = pick(w, &next);
    if (lanes == 0) return stalled(w);
    next = blocks[next](w, registers, lanes);
    while (next < kDispatch) {
      if (--w->slice < 0) {
        send(w, w->alive, next);
        return Status::yielded;
      }
      next = blocks[next](w, registers, w->alive);
    }
    if (next == kYield || --w->slice < 0) return Status::yielded;
  }
}

// A kernel parameter at an offset of the parameter block.
template <class T>
[[gnu::always_inline]] inline T param(const Warp* w, uint64_t offset) {
  T value;
  __builtin_memcpy(&value, w->launch->params + offset, sizeof value);
  return value;
}

// The same at an address a lane has computed, which may lie outside.
template <class T>
inline T param_at(Warp* w, uint32_t site, int lane, uint64_t offset) {
  const uint64_t bytes = w->launch->kernel->param_bytes;
  if (offset > bytes || bytes - offset < sizeof(T)) param_outside(w, site, lane, offset, sizeof(T));
  return param<T>(w, offset);
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

}  // namespace emu
