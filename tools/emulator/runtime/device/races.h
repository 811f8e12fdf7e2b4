// Shared-memory races, at level full: two warps of a block touch one byte, one of them writes it,
// and nothing orders the two. Lanes of one warp run in lock-step and do not race. Accesses that
// are atomic or strong do not race with their like, and writing the value that is there already
// is no race with the earlier write.
//
// Each 4-byte word remembers its last write and its last read as one number:
//   bits 0-15 site, 16-19 bytes touched, 20 strong, 24-31 warp (0xff: several), 32-63 epoch
#pragma once

#include "device/lanes.h"
#include "device/run.h"

namespace emu {

void check_race_read(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                     uint32_t bytes);
// `in` points to the values about to be stored: element n of lane i is at in[n] + i * width.
void check_race_write(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                      uint32_t width, uint32_t count, const void* const* in);
void check_race_atomic(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                       uint32_t bytes);

inline bool watches_races(const Warp* w) { return w->launch->level == 2; }

}  // namespace emu
