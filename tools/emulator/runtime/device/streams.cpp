#include "device/streams.h"

#include <iterator>

#include "device/fault.h"
#include "device/order.h"
#include "device/state.h"

namespace emu {
namespace {

cudart::StreamOrder order_of_call() {
  using Order = cudart::StreamOrder;
  const CallOptions& options = device().options;
  if (options.level != kCheckLevel && options.level != kFullLevel) return Order::issue;
  constexpr Order kOrders[] = {Order::first_last, Order::last_last, Order::default_last, Order::issue};
  return kOrders[options.schedule_seed == 0 ? 0 : mixed(options.schedule_seed) % std::size(kOrders)];
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
