// One call of `solve`.
#pragma once

#include "arena.h"
#include "candidate.h"

namespace runner {

struct CallOf {
  uint32_t slot;
  uint64_t slot_stride;
  bool captured;
  bool logged;
};

// Calls it, and does not wait for what it launched.
gpu::ShimSaw call_solve(const Arena& arena, const Candidate& candidate, const gpu::Solve& solve,
                        const CallOf& of);

// Makes the memory that `solve` may allocate bytes that no call can have left there on purpose.
void poison_scratch(const Gpu& gpu, const Arena& arena, const gpu::Solve& solve);

}  // namespace runner
