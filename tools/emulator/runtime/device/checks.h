// The checks every memory instruction passes. Each ends the process when it fails.
#pragma once

#include "device/fault.h"
#include "device/lanes.h"
#include "device/run.h"

namespace emu {

// The allocation that all lanes hit, or null when they hit several; checks bounds and alignment.
const Allocation* check_global_slow(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                                    uint32_t bytes, AccessNumber access, SpaceNumber space);

inline const Allocation* check_global(Warp* w, uint32_t site, Mask lanes,
                                      const Lanes<uint64_t>& at, uint32_t bytes,
                                      AccessNumber access,
                                      SpaceNumber space = SpaceNumber::global) {
  const Allocation* one = run_of(w).recent[site % 8];
  bool inside = at.low >= one->begin && at.low < one->end && at.high < one->end &&
                one->end - at.high >= bytes;
  bool writable = access == AccessNumber::read || !one->read_only;
  if (inside && writable && (at.bits & (bytes - 1)) == 0) return one;
  return check_global_slow(w, site, lanes, at, bytes, access, space);
}

// Reads of bytes nobody has written; `one` is null when the lanes hit several allocations.
void check_global_known_slow(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                             uint32_t bytes, AccessNumber access);
void mark_global_known_slow(Mask lanes, const Lanes<uint64_t>& at, uint32_t bytes);

inline void check_global_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                               uint32_t bytes, const Allocation* one, AccessNumber access) {
  if (one != nullptr && !one->tracked) return;
  check_global_known_slow(w, site, lanes, at, bytes, access);
}

inline void mark_global_known(Mask lanes, const Lanes<uint64_t>& at, uint32_t bytes,
                              const Allocation* one) {
  if (one != nullptr && !one->tracked) return;
  mark_global_known_slow(lanes, at, bytes);
}

// Shared and local memory: one range from 0 to `size`.
[[noreturn]] void raise_in_window(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                                  uint32_t bytes, uint64_t size, AccessNumber access,
                                  SpaceNumber space);

inline void check_window(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                         uint32_t bytes, uint64_t size, AccessNumber access, SpaceNumber space) {
  if (uint64_t{at.high} + bytes <= size && (at.bits & (bytes - 1)) == 0) return;
  raise_in_window(w, site, lanes, at, bytes, size, access, space);
}

// Not a fault yet, but a doubtful read: see run.h.
void check_shared_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                        uint32_t bytes, AccessNumber access);
void mark_shared_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at, uint32_t bytes);

}  // namespace emu
