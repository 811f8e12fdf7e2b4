// Launches too large to be executed whole: some blocks stand for all.
#pragma once

#include "device/path.h"
#include "device/run.h"

namespace emu {

// Runs the launch whole where that costs no more than the call allows, else in part.
void run_sample(LaunchRun& launch);

// Where a request comes from that asks L2 for sectors its block has not touched before; `far` if L2 can
// have some of them neither from its wave nor from before the launch.
Level level_in_sample(LaunchRun& launch, uint32_t site, const Sharing& one, bool far);

}  // namespace emu
