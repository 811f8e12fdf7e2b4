#include "batch.h"

#include <cstring>

#include "replies.h"

namespace {

using namespace runner;

void check(const Captures& captures, const gpu::ArmFrame& frame) {
  constexpr uint32_t kUncaptured = gpu::kStepwise | gpu::kHost | gpu::kSolve;
  if ((frame.flags & kUncaptured) == kUncaptured)
    give_up("batch", "uncaptured calls step by step");
  if (frame.steps > gpu::kMaxSteps || frame.input_count > gpu::kMaxRegions ||
      frame.output_count > gpu::kMaxRegions)
    give_up("batch", "more than there is room for");
  uint64_t offsets = frame.slot_stride | frame.tag_offset;
  for (uint32_t i = 0; i < frame.input_count; ++i)
    offsets |= frame.inputs[i].offset | frame.inputs[i].sealed_offset;
  for (uint32_t o = 0; o < frame.output_count; ++o) offsets |= frame.outputs[o].offset;
  if (offsets % gpu::kAlignment != 0) give_up("batch", "an offset is not a multiple of 16");
  const bool from_graphs = (frame.flags & (gpu::kSolve | gpu::kHost)) == gpu::kSolve;
  for (uint32_t step = 0; step < frame.steps; ++step)
    if (from_graphs && frame.order[step] >= captures.graphs.size())
      give_up("batch", "a slot that was not captured");
}

CUgraphExec finish(const Gpu& gpu, const Chain& chain) {
  CUgraphExec ready = nullptr;
  expect(gpu, gpu.driver->cuGraphInstantiate(&ready, chain.graph, 0), "graph");
  expect(gpu, gpu.driver->cuGraphUpload(ready, gpu.stream), "graph");
  gpu.driver->cuGraphDestroy(chain.graph);
  return ready;
}

}  // namespace

namespace runner {

// The outputs of a call are tagged after the flush that is there for the next one, so that they are
// read from memory whether there was a call that left them in L2 or not: the time of tagging cancels.
// No code of the candidate runs between a call and its tags in either order.
// Step by step, the key of the tags is there when the call has ended, and that of the next inputs when
// the tags are told: so those are opened last, and what is in L2 then is written out once more.
Batch compose(const Gpu& gpu, const SealKernels& kernels, const Parts& parts,
              const gpu::ArmFrame& frame) {
  const auto& [arena, flush, captures, shared_report] = parts;
  check(captures, frame);
  Batch batch{};
  batch.calls_solve = (frame.flags & gpu::kSolve) != 0;
  batch.host_inclusive = batch.calls_solve && (frame.flags & gpu::kHost) != 0;
  batch.copied_bytes = frame.copied_bytes;
  batch.tag_bytes = uint64_t{frame.steps} * frame.output_count * 8;
  batch.order.assign(frame.order, frame.order + frame.steps);
  copy_in(gpu, arena, frame.copied_bytes);
  const bool flushes = (frame.flags & gpu::kFlush) != 0;
  const bool stepwise = (frame.flags & gpu::kStepwise) != 0;
  Chain chain = begin_chain(gpu);
  const auto ask = [&](uint64_t number) {
    if (stepwise) add_question(gpu, kernels, arena, frame, shared_report, number, chain);
  };
  // What the host process has just written lies in L2, of one batch more than of another.
  if (flushes) add_flush(gpu, kernels, flush, frame.order[0], chain);
  add_clear_tags(gpu, arena, frame, chain);
  for (uint32_t step = 0; step < frame.steps; ++step) {
    ask(2 * step + 1);
    add_open(gpu, kernels, arena, frame, step, chain);
    if (flushes) add_flush(gpu, kernels, flush, frame.order[step], chain);
    // Tags that were taken already stand before the call once more: its neighbour stays the same.
    if (step != 0) add_tags(gpu, kernels, arena, frame, step - 1, chain, stepwise);
    if (batch.host_inclusive) {
      batch.graphs.push_back(finish(gpu, chain));
      chain = begin_chain(gpu);
    } else if (batch.calls_solve) {
      add_captured(gpu, captures.graphs[frame.order[step]], chain);
    }
    ask(2 * step + 2);
    if (stepwise && flushes) add_flush(gpu, kernels, flush, frame.order[step], chain);
    if (stepwise) add_tags(gpu, kernels, arena, frame, step, chain);
  }
  if (frame.steps != 0 && !stepwise) add_tags(gpu, kernels, arena, frame, frame.steps - 1, chain);
  add_hand_over(gpu, kernels, arena, frame, chain);
  batch.graphs.push_back(finish(gpu, chain));
  settle(gpu);
  return batch;
}

// A host-inclusive batch is the same chain cut in two before each call: what lies between two calls
// is one graph, the tags of the one and the inputs of the next.
void run_batch(const Gpu& gpu, const Arena& arena, const Candidate& candidate,
               const Captures& captures, const Batch& batch, uint64_t* tags) {
  for (size_t part = 0; part < batch.graphs.size(); ++part) {
    expect(gpu, gpu.driver->cuGraphLaunch(batch.graphs[part], gpu.stream), "graph launch");
    if (!batch.host_inclusive || part == batch.order.size()) continue;
    const CallOf of = {batch.order[part], captures.slot_stride, false, false};
    call_solve(arena, candidate, captures.solve, of);
  }
  settle_stream(gpu);
  std::memcpy(tags, gpu.tags, batch.tag_bytes);
  copy_out(gpu, arena, batch.copied_bytes);
}

void forget_batch(const Gpu& gpu, Batch& batch) {
  for (const CUgraphExec graph : batch.graphs) gpu.driver->cuGraphExecDestroy(graph);
  batch = {};
}

}  // namespace runner
