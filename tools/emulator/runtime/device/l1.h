// What L1 still holds of the lines that a warp has touched: its share of the cache, in the order in which
// lines came in.
#pragma once

#include "device/distinct.h"
#include "device/run.h"

namespace emu {

// Lines of L1 that each resident warp of the launch has to itself: what shared memory leaves.
uint32_t l1_share(const LaunchRun& launch, uint64_t blocks_per_sm);

// Brings in the lines of a load. Returns how many sectors that the block has touched before have been
// pushed out since by lines of the same warp; what another warp brought in counts as there.
uint32_t lost_sectors(Warp* w, const Distinct& sectors);

// What an access to local memory asks L2 for, in sectors.
struct LocalTraffic {
  uint64_t read = 0, written = 0;
};
// Brings in the lines of local memory that hold these words of a warp's lanes; each line is a word of
// every lane. A line that was stored to is written back when it is pushed out.
LocalTraffic touch_local(Warp* w, const Distinct& words, bool writes);

}  // namespace emu
