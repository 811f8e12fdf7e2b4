// A batch of timed calls: put together first, run when ordered.
#pragma once

#include <vector>

#include "capture.h"
#include "seal_kernels.h"

namespace runner {

struct Batch {
  bool host_inclusive;
  uint64_t copied_bytes;
  std::vector<uint32_t> order;         // slots
  std::vector<CUgraphExec> graphs;     // one for all, or before and after each call of `solve`
  bool calls_solve;
  uint64_t tag_bytes;
};

struct Parts {
  const Arena& arena;
  const Flush& flush;
  const Captures& captures;
  const SharedReport& shared_report;
};

// Does everything but run it; what the frame holds is not kept.
Batch compose(const Gpu& gpu, const SealKernels& kernels, const Parts& parts,
              const gpu::ArmFrame& frame);

// Runs it and waits for its end, its tags written down in `tags`.
void run_batch(const Gpu& gpu, const Arena& arena, const Candidate& candidate,
               const Captures& captures, const Batch& batch, uint64_t* tags);

void forget_batch(const Gpu& gpu, Batch& batch);

}  // namespace runner
