// Which sectors of global memory a launch touches for the first time: what L1 and L2 cannot have.
#pragma once

#include "device/distinct.h"
#include "device/path.h"
#include "device/run.h"

namespace emu {

// Stamps the sectors; counts those new to the block, to the wave and to the launch. Returns where the
// slowest of them comes from.
// `lost`: sectors that L1 has had and lost.
Level touch(Warp* w, uint32_t site, const Distinct& sectors, AccessNumber access,
            uint32_t lost = 0);

}  // namespace emu
