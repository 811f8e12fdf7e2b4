// The link to the runner, and the call of `solve` under way.
#include <cstdlib>

#include "api.h"
#include "kernels.h"
#include "log.h"
#include "scratch.h"

namespace {

gpu::ShimLink the_link;
gpu::ShimCall the_call;
gpu::ShimSaw seen;

void connect(const gpu::ShimLink* link) { the_link = *link; }

void begin(const gpu::ShimCall* call) {
  the_call = *call;
  seen = {};
  shim::scratch().begin(call->scratch, call->scratch_bytes, call->scratch_quota,
                        call->scratch_seed);
  shim::begin_staging();
  shim::streams().begin_call(cudart::kAsIssued);
  if (call->logged) shim::clear_log();
  cudaGetLastError();
}

gpu::ShimSaw end() {
  uint32_t kernel = cudart::kNoKernel;
  if (shim::streams().is_unjoined(kernel)) shim::forbid(gpu::Forbidden::unjoined, 0);
  shim::streams().end_call();
  if (the_call.logged) the_link.report->peak_bytes = shim::scratch().peak_bytes();
  ++the_link.report->waiting;  // The runner waits next; the log of the next call starts anew.
  return seen;
}

}  // namespace

namespace shim {

const gpu::ShimLink& link() { return the_link; }
const gpu::ShimCall& call() { return the_call; }
gpu::ShimSaw& saw() { return seen; }

void forbid(gpu::Forbidden what, uint64_t most_bytes) {
  the_link.forbid(what, most_bytes);
  std::abort();
}

cudaError_t wait() {
  if (the_call.logged) ++the_link.report->synchronisations;
  if (the_call.captured) return cudaSuccess;
  const Waiting waiting;
  return keep(driver().cuStreamSynchronize(the_link.stream));
}

}  // namespace shim

SHIM_API const gpu::Shim gpu_shim;
const gpu::Shim gpu_shim = {connect, shim::load_error, begin, end, shim::forget_staged};
