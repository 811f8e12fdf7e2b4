#include "device/streams.h"

#include "device/fault.h"
#include "device/state.h"

namespace emu {
namespace {

uint64_t order_of_call() {
  const CallOptions& options = device().options;
  if (options.level != kCheckLevel && options.level != kFullLevel) return cudart::kAsIssued;
  return options.schedule_seed == 0 ? cudart::kOwnLast : options.schedule_seed;
}

}  // namespace

cudart::Streams& streams() {
  static cudart::Streams all;
  return all;
}

void begin_streams() { streams().begin_call(order_of_call()); }

void end_streams() {
  uint32_t kernel = cudart::kNoKernel;
  if (streams().is_unjoined(kernel)) raise({.fault = Fault::unjoined, .kernel = kernel});
  streams().end_call();
}

}  // namespace emu
