// The clusters of a sampled launch that were executed whole, and how many of the grid each stands for.
// A launch without clusters counts as one with a block in each.
#pragma once

#include <optional>
#include <vector>

#include "device/run.h"

namespace emu {

struct Executed {
  uint64_t number;  // of the cluster, counted as clusters are dealt
  uint64_t cost;    // instructions and requests
  Counters counters;
};

// Where another cluster has to be executed: in the middle between two neighbours of unlike cost, where
// most of the grid's work is in doubt; nothing if next to none is. `clusters` lie in the grid's order.
std::optional<uint64_t> find_doubt(const std::vector<Executed>& clusters);

// Gives the launch the counters of all these clusters. Each stands for as many of the grid as lie nearest
// to it if `by_distance`, else for as many as the others; in all they count as `clusters.size()`.
void count_for_all(LaunchRun& launch, const std::vector<Executed>& clusters, bool by_distance);

}  // namespace emu
