// Counting what memory instructions cost, for blocks that are counted.
#pragma once

#include <cstdint>

#include "device/lanes.h"
#include "device/run.h"
#include "emu/report.h"
#include "emu/warp.h"

namespace emu {

// Lanes' local memories stand one after another, each this long.
inline uint64_t local_stride(const Kernel& kernel) {
  return (uint64_t{kernel.local_bytes} + 15) / 16 * 16;
}

// Distinct 32-byte sectors that the lanes touch.
uint32_t count_sectors(const uint64_t* address, Mask lanes);
// Passes of a shared-memory access over the 32 banks, and those it would need without conflicts.
struct Passes {
  uint32_t taken, ideal;
};
Passes count_passes(const Lanes<uint32_t>& at, Mask lanes, uint32_t bytes, AccessNumber access);
// Most lanes with the same address.
uint32_t count_serial(const uint64_t* address, Mask lanes);

// Returns how long the data are under way, in ticks. `polls`: it may be waiting for what another warp
// writes.
uint64_t account_global(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                        AccessNumber access, bool polls = false);
// Counts a run of bytes that a bulk copy moves to or from shared memory as full sectors, of one request
// where it is the `first` run of a copy. Returns how long the slowest of them is under way, in ticks.
uint64_t account_run(Warp* w, uint32_t site, uint64_t address, uint64_t bytes, bool first,
                     AccessNumber access);
// Constant memory serves one word at a time; what all lanes read alike costs nothing.
void account_const(Warp* w, uint32_t site, Mask lanes, const uint64_t* address);
void account_shared(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at, uint32_t bytes,
                    AccessNumber access, bool polls = false);
void account_local(Warp* w, uint32_t site, Mask lanes, const uint32_t* address, uint32_t bytes,
                   AccessNumber access);

// Writes the launch's entry and counters into the report.
void report_launch(LaunchRun& launch);

}  // namespace emu
