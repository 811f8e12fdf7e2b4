// The blocks of a launch: from start to end, one after another.
#pragma once

#include <vector>

#include "device/run.h"

namespace emu {

// Gives the slot its memory, once; every block that runs in it starts from `start`.
void prepare_block(BlockRun& slot, LaunchRun& launch);

// Puts block `linear` of the grid into the slot, as the one that is `started` after so many others.
void start_block(BlockRun& slot, uint64_t linear, uint64_t started);

enum class Outcome { finished, polling };

// Runs the block to its end, or until its warps do nothing but wait for other blocks.
Outcome run_block(BlockRun& slot);

// Adds what the block executed to the launch, and weighs it against the heaviest so far.
void weigh(const BlockRun& slot);

// Puts the launch's `number`th cluster, counted as clusters are dealt, into the slots, one a rank; `cluster` is null where a cluster is
// one block. So many blocks have `started` before.
void start_cluster(LaunchRun& launch, ClusterRun* cluster, const std::vector<BlockRun*>& blocks, uint64_t number,
                   uint64_t started);

// Lands what the block, which has run to its end, has sent to memory.
void finish_block(BlockRun& slot);

// Runs the blocks of the grid to their ends. Where some have `started` already they are cluster 0.
void run_grid(LaunchRun& launch, uint64_t started = 0);

}  // namespace emu
