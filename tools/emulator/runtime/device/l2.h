// What the launches, fills and copies of a call leave in L2 for those after them.
#pragma once

#include "device/distinct.h"
#include "device/run.h"

namespace emu {

// Notes what a request touches and moves for the first time in its launch. Returns whether L2 has most
// of it from before the launch.
bool note_use(Counters& counters, const Distinct& sectors, uint64_t touched, uint64_t moved);

// Returns how many bytes the launch, which is over, did not have to move because they were in L2; for
// the next ones, what it touched takes their place.
uint64_t reuse_l2(const LaunchRun& launch);

// A fill or a copy touched the bytes of one allocation.
void leave_in_l2(const Allocation& allocation, uint64_t address, uint64_t bytes);

}  // namespace emu
