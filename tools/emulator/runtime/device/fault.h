// Ways to end the process with a fault record.
#pragma once

#include "emu/fault.h"
#include "emu/report.h"
#include "emu/warp.h"

namespace emu {

struct FaultAt {
  Fault fault;
  Warp* warp = nullptr;
  uint32_t kernel = kNone;  // where there is no warp
  int lane = 0;
  uint32_t site = kNone;
  uint32_t other_site = kNone;
  uint32_t other_kernel = kNone;
  uint32_t basic_block = kNone;
  SpaceNumber space = SpaceNumber::none;
  AccessNumber access = AccessNumber::none;
  AccessNumber other_access = AccessNumber::none;
  uint32_t bytes = 0;
  uint64_t address = 0;
  uint64_t space_bytes = 0;  // shared, local: how large the space is
  ReasonNumber reason = ReasonNumber::none;
  uint32_t copy_site = kNone;
  CopyNumber copy_state = CopyNumber::none;
  const char* detail = "";  // the kernel's own words
  const uint32_t* block = nullptr;  // and thread, where there is no warp
  const uint32_t* thread = nullptr;
};

[[noreturn]] void raise(const FaultAt& at);
// Keeps a race; the call goes on, for a while, so that others show. What the race leads to is no news.
// `earliest`: its first access came before any race that is kept, and may have led to them.
void keep_race(const FaultAt& at, bool earliest = false);
// Keeps a race of a read that only guards an update (races.h); the call goes on.
void keep_guarded_race(const FaultAt& at);
[[noreturn]] void host_touched_device(uint64_t address);

}  // namespace emu
