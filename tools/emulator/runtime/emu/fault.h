// A fault writes one record into the report and ends the process with kFaultExit: nothing of the
// candidate runs afterwards, as after a sticky error on a GPU.
#pragma once

#include "emu/warp.h"

namespace emu {

constexpr int kFaultExit = 86;

// Numbers are part of the report format (tools/emulator/report.py).
enum class Fault : uint32_t {
  none = 0,
  out_of_bounds = 1,
  misaligned = 2,
  race = 3,
  uninitialised = 4,
  divergent_barrier = 5,
  partial_mask = 6,
  absent_lane = 7,
  deadlock = 8,
  endless_loop = 9,
  trap = 10,
  unsupported = 11,
  host_touched_device = 12,
  large_copy = 13,     // more brought from the host in one copy than a table takes
  host_copy = 14,      // device-to-host copy without the capability
  read_only = 15,      // store to constant memory
  infrastructure = 16, // our own bookkeeping failed
  large_copies = 17,   // more brought from the host in one call of solve
  dependent = 18,      // no fault: what a sampled launch does follows from blocks that are left out
  unwaited = 19,       // a register of a product that is under way was touched
  unfenced = 20,       // a product whose registers no wgmma.fence made ready
  unjoined = 21,       // work of a stream that neither host nor default stream has waited for
};

}  // namespace emu
