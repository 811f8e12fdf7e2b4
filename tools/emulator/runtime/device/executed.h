// The blocks of a sampled launch that were executed whole, and how many of the grid each stands for.
#pragma once

#include <optional>
#include <vector>

#include "device/run.h"

namespace emu {

struct Executed {
  uint64_t linear;
  uint64_t cost;  // instructions and requests
  Counters counters;
};

// Where another block has to be executed: in the middle between two neighbours of unlike cost, where
// most of the grid's work is in doubt; nothing if next to none is. `blocks` lie in the grid's order.
std::optional<uint64_t> find_doubt(const std::vector<Executed>& blocks);

// Gives the launch the counters of all these blocks. Each stands for as many of the grid as lie nearest
// to it if `by_distance`, else for as many as the others; in all they count as `blocks.size()`.
void count_for_all(LaunchRun& launch, const std::vector<Executed>& blocks, bool by_distance);

}  // namespace emu
