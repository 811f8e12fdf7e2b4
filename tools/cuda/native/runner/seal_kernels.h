// The kernels of seal.cu, and the graph nodes that run them around a timed call.
#pragma once

#include "arena.h"
#include "frames.h"
#include "gpu.h"
#include "key_release.h"

namespace runner {

struct SealKernels {
  CUfunction open, flush, tag, hand_over, ask;
};

SealKernels load_seal_kernels(const Gpu& gpu, const char* cubin);

// A graph that grows at its end: each node follows the last.
struct Chain {
  CUgraph graph;
  CUgraphNode last;  // null: it is empty
};

Chain begin_chain(const Gpu& gpu);
void add_clear_tags(const Gpu& gpu, const Arena& arena, const gpu::ArmFrame& frame, Chain& chain);
void add_open(const Gpu& gpu, const SealKernels& kernels, const Arena& arena,
              const gpu::ArmFrame& frame, uint32_t step, Chain& chain);
void add_flush(const Gpu& gpu, const SealKernels& kernels, const Flush& flush, uint32_t value,
               Chain& chain);
void add_captured(const Gpu& gpu, CUgraph captured, Chain& chain);
void add_tags(const Gpu& gpu, const SealKernels& kernels, const Arena& arena,
              const gpu::ArmFrame& frame, uint32_t step, Chain& chain, bool ignored = false);
// See kStepwise.
void add_question(const Gpu& gpu, const SealKernels& kernels, const Arena& arena,
                  const gpu::ArmFrame& frame, const SharedReport& shared_report, uint64_t number,
                  Chain& chain);
// All tags of the batch, to `Gpu::tags`.
void add_hand_over(const Gpu& gpu, const SealKernels& kernels, const Arena& arena,
                   const gpu::ArmFrame& frame, Chain& chain);

}  // namespace runner
