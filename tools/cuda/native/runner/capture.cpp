#include "capture.h"

namespace {

using namespace runner;

// Null: `why` says what stood in the way. The capture is over in any case.
CUgraph capture_one(const Gpu& gpu, const Arena& arena, const Candidate& candidate,
                    const gpu::Solve& solve, const CallOf& of, std::string* why) {
  expect(gpu, gpu.driver->cuStreamBeginCapture(gpu.stream, CU_STREAM_CAPTURE_MODE_RELAXED),
         "capture");
  const gpu::ShimSaw saw = call_solve(arena, candidate, solve, of);
  CUgraph graph = nullptr;
  const CUresult ended = gpu.driver->cuStreamEndCapture(gpu.stream, &graph);
  if (ended == CUDA_SUCCESS && !saw.read_back) return graph;
  *why = saw.read_back ? "solve reads results back" : gpu::error_name(*gpu.driver, ended);
  if (graph != nullptr) gpu.driver->cuGraphDestroy(graph);
  return nullptr;
}

}  // namespace

namespace runner {

Captures capture_slots(const Gpu& gpu, const Arena& arena, const Candidate& candidate,
                       const gpu::CaptureFrame& frame) {
  Captures made{frame.solve, frame.slot_stride, {}, {}};
  copy_in(gpu, arena, frame.solve.copied_bytes);
  poison_scratch(gpu, arena, frame.solve);
  const CallOf warm_up = {0, frame.slot_stride, false, true};
  const gpu::ShimSaw saw = call_solve(arena, candidate, frame.solve, warm_up);
  settle(gpu);
  copy_out(gpu, arena, frame.solve.copied_bytes);
  if (saw.read_back) {
    made.reason = "solve reads results back";
    return made;
  }
  for (uint32_t slot = 0; slot < frame.slots; ++slot) {
    const CallOf of = {slot, frame.slot_stride, true, false};
    CUgraph graph = capture_one(gpu, arena, candidate, frame.solve, of, &made.reason);
    if (graph == nullptr) {
      forget_captures(gpu, candidate, made);
      break;
    }
    made.graphs.push_back(graph);
  }
  settle(gpu);
  return made;
}

void forget_captures(const Gpu& gpu, const Candidate& candidate, Captures& captures) {
  for (const CUgraph graph : captures.graphs) gpu.driver->cuGraphDestroy(graph);
  captures.graphs.clear();
  candidate.shim->forget_captured();
}

}  // namespace runner
