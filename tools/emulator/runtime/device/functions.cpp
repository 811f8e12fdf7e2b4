// Calls through pointers.
#include <algorithm>

#include "device/fault.h"
#include "emu/schedule.h"

namespace emu {

void choose_function(Warp* w, uint32_t site, Mask lanes, const uint64_t* pointer,
                     const uint64_t* functions, uint32_t count, uint32_t* number) {
  const uint64_t* end = functions + count;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint64_t* found = std::find(functions, end, pointer[lane]);
    if (found == end) {
      raise({.fault = Fault::trap, .warp = w, .lane = lane, .site = site,
             .address = pointer[lane], .reason = ReasonNumber::no_function});
    }
    number[lane] = static_cast<uint32_t>(found - functions);
  }
}

void refuse_recursion(Warp* w, uint32_t site, Mask lanes) {
  raise({.fault = Fault::unsupported, .warp = w, .lane = __builtin_ctz(lanes), .site = site});
}

}  // namespace emu
