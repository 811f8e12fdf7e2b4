// Special registers that say where and when a warp runs.
#pragma once

#include "emu/warp.h"

namespace emu {

// `%nsmid`, and `%smid` below it: blocks are dealt to all of them, in another order each launch.
uint32_t multiprocessors();
uint32_t multiprocessor(Warp* w);

// `%nwarpid` and `%warpid`: a place on the multiprocessor, which is no position in the block.
uint32_t warp_slots();
uint32_t warp_slot(Warp* w);

// `%gridid`: grows from launch to launch.
uint64_t grid_number(Warp* w);

// `%clock64` and `%globaltimer`: they grow with work and from launch to launch. Not a time.
uint64_t cycles(Warp* w);
uint64_t timer_ns(Warp* w);

}  // namespace emu
