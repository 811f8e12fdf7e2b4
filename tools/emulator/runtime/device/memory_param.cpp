// Kernel parameters read at computed addresses.
#include "device/account.h"
#include "device/fault.h"
#include "emu/memory.h"

namespace emu {

void param_outside(Warp* w, uint32_t site, int lane, uint64_t offset, uint32_t bytes) {
  raise({.fault = Fault::out_of_bounds,
         .warp = w,
         .lane = lane,
         .site = site,
         .space = SpaceNumber::param,
         .access = AccessNumber::read,
         .bytes = bytes,
         .address = offset,
         .space_bytes = w->launch->kernel->param_bytes});
}

void param_read(Warp* w, uint32_t site, Mask lanes, const uint64_t* address) {
  if (w->block->counted) account_const(w, site, lanes, address);
}

}  // namespace emu
