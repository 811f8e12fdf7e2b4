// The captured calls of `solve`, one for each slot.
#pragma once

#include <string>
#include <vector>

#include "solve.h"

namespace runner {

struct Captures {
  gpu::Solve solve;      // of slot 0
  uint64_t slot_stride;
  std::vector<CUgraph> graphs;  // by slot; none where `solve` cannot be captured
  std::string reason;           // why not
};

// Calls `solve` once on slot 0 and then captures a call for each slot; none of those is run.
Captures capture_slots(const Gpu& gpu, const Arena& arena, const Candidate& candidate,
                       const gpu::CaptureFrame& frame);

void forget_captures(const Gpu& gpu, const Candidate& candidate, Captures& captures);

}  // namespace runner
