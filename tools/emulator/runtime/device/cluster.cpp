// Clusters of blocks: their barrier, their places, whose shared memory an address means; and waiting
// for phases that never complete.
#include "device/cluster.h"

#include <algorithm>

#include "device/fault.h"
#include "device/path.h"

namespace emu {
namespace {

constexpr uint64_t kClusterClocks = 200;  // between asking another block's shared memory and its answer
// From the last arrival at a cluster's barrier until those that wait go on: an H200 takes 394 to 435
// clocks for 2 to 8 blocks of 256 threads (benchmarks/constants_on_gpu.py costs).
constexpr uint64_t kBarrierClocks = 400;

[[noreturn]] void raise_barrier(Warp* w, uint32_t site, Mask lanes) {
  raise({.fault = Fault::divergent_barrier, .warp = w, .lane = __builtin_ctz(lanes), .site = site,
         .reason = ReasonNumber::unpaired_cluster_barrier});
}

// Exited threads are not waited for.
bool everybody_arrived(const ClusterRun& cluster) {
  for (const BlockRun* block : cluster.blocks) {
    for (uint32_t i = 0; i < block->warp_count; ++i) {
      if ((block->warps[i].alive & ~block->runs[i].cluster_arrived) != 0) return false;
    }
  }
  return true;
}

void release_if_complete(ClusterRun& cluster) {
  if (!everybody_arrived(cluster)) return;
  for (BlockRun* block : cluster.blocks) {
    for (WarpRun& run : block->runs) run.cluster_arrived = 0;
  }
  cluster.complete = std::move(cluster.arriving);
  cluster.arriving.clear();
  cluster.complete_ticks = cluster.arriving_ticks;
  cluster.arriving_ticks = 0;
}

// A cluster of one block, where nobody asked for clusters.
ClusterRun& cluster_of(Warp* w) {
  BlockRun& home = *run_of(w).home;
  if (home.cluster == nullptr) {
    home.alone = std::make_unique<ClusterRun>();
    home.alone->blocks.push_back(&home);
    home.cluster = home.alone.get();
  }
  return *home.cluster;
}

}  // namespace

BlockRun& block_holding(Warp* w, uint32_t site, int lane, uint32_t address, uint32_t bytes,
                        AccessNumber access) {
  BlockRun& home = *run_of(w).home;
  const uint32_t high = address >> kRankShift;
  if (high == 0 || high - 1 == home.rank) return home;
  FaultAt fault{.fault = Fault::out_of_bounds, .warp = w, .lane = lane, .site = site};
  fault.space = SpaceNumber::shared;
  fault.access = access;
  fault.bytes = bytes;
  fault.address = address;
  fault.space_bytes = home.block.shared_bytes;
  if (high - 1 >= cluster_blocks(home)) raise(fault);
  BlockRun& target = *home.cluster->blocks[high - 1];
  if (!target.finished) return target;
  fault.address = address & kOffsetMask;
  fault.reason = ReasonNumber::exited_block;
  raise(fault);
}

void wait_for_cluster(Warp* w, uint32_t site, const BlockRun& target) {
  if (&target == run_of(w).home || !target.block.counted) return;
  go_on_at(w, site, w->ticks + kTicks * kClusterClocks);
}

void cluster_arrive(Warp* w, uint32_t site, Mask lanes, bool relaxed) {
  WarpRun& run = run_of(w);
  ClusterRun& cluster = cluster_of(w);
  if ((run.cluster_pending & lanes) != 0) raise_barrier(w, site, run.cluster_pending & lanes);
  run.cluster_pending |= lanes;
  run.cluster_arrived |= lanes;
  if (w->watched) {
    if (relaxed) publish_fenced(w, cluster.arriving);
    else publish(w, lanes, cluster.arriving);
  }
  cluster.arriving_ticks = std::max(cluster.arriving_ticks, w->ticks);
  release_if_complete(cluster);
}

Mask cluster_wait(Warp* w, uint32_t site, Mask lanes, bool relaxed, uint32_t pc) {
  WarpRun& run = run_of(w);
  ClusterRun& cluster = cluster_of(w);
  if ((lanes & ~run.cluster_pending) != 0) raise_barrier(w, site, lanes & ~run.cluster_pending);
  release_if_complete(cluster);
  const Mask held = run.cluster_arrived & lanes;
  PhaseWait& wait = run.wait;
  if (held != 0) {
    if (wait.site == site && wait.rank == kNone) {
      w->ticks = wait.ticks;
    } else {
      wait = {site, 0, __builtin_ctz(held), kNone, w->ticks, wait.cost, wait.lanes};
    }
    wait.cost += w->fuel;
    wait.lanes |= lanes;
    polled(w, w->fuel);
    send(w, lanes, pc);
    return 0;
  }
  run.cluster_pending &= ~lanes;
  if (wait.site == site && wait.rank == kNone) w->ticks = wait.ticks;
  wait.site = kNone;
  // Who comes later than that waits for nothing: work between arrival and wait hides the barrier.
  go_on_at(w, site, std::max(w->ticks, cluster.complete_ticks + kTicks * kBarrierClocks));
  if (w->watched && !relaxed) learn(w, cluster.complete);
  return lanes;
}

uint32_t cluster_rank(const Warp* w) { return run_of(const_cast<Warp*>(w)).home->rank; }
uint32_t cluster_size(const Warp* w) {
  return cluster_blocks(*run_of(const_cast<Warp*>(w)).home->launch);
}
uint32_t cluster_extent(const Warp* w, int axis) {
  return run_of(const_cast<Warp*>(w)).home->launch->cluster[axis];
}
uint32_t cluster_position(const Warp* w, int axis) {
  const BlockRun& home = *run_of(const_cast<Warp*>(w)).home;
  return home.block.ctaid[axis] % home.launch->cluster[axis];
}
uint32_t cluster_index(const Warp* w, int axis) {
  const BlockRun& home = *run_of(const_cast<Warp*>(w)).home;
  return home.block.ctaid[axis] / home.launch->cluster[axis];
}
uint32_t cluster_count(const Warp* w, int axis) {
  const BlockRun& home = *run_of(const_cast<Warp*>(w)).home;
  return home.launch->launch.grid[axis] / home.launch->cluster[axis];
}

void fence_for_copies(Warp* w, Mask lanes) {
  if (!w->watched) return;
  BlockRun& home = *run_of(w).home;
  BlockRun& first = home.cluster == nullptr ? home : *home.cluster->blocks[0];
  publish(w, lanes, first.fenced_for_copies);
}

void sleep(Warp* w) {
  WarpRun& run = run_of(w);
  if (run.wait.cost > 0 && run.wait.cost == run.poll_cost && w->fuel > 0) {
    run.wait.cost += w->fuel;
    polled(w, w->fuel);
  }
  w->fuel = 0;
}

void raise_phase_deadlock(BlockRun& block) {
  FaultAt at{.fault = Fault::deadlock, .reason = ReasonNumber::phase_incomplete};
  for (uint32_t i = 0; i < block.warp_count; ++i) {
    const PhaseWait& wait = block.runs[i].wait;
    if (block.warps[i].alive == 0 || wait.cost == 0) continue;
    if (at.warp != nullptr) {
      if (wait.site != at.site) at.other_site = wait.site;
      continue;
    }
    at.warp = &block.warps[i];
    at.lane = wait.lane;
    at.site = wait.site;
    if (wait.rank == kNone) {
      at.reason = ReasonNumber::cluster_incomplete;
      continue;
    }
    const BlockRun& holder = block.cluster == nullptr ? block : *block.cluster->blocks[wait.rank];
    const auto found = holder.mbarriers.find(wait.address);
    if (found == holder.mbarriers.end()) continue;
    at.address = found->second.pending;
    at.bytes = static_cast<uint32_t>(std::max(found->second.transactions, 0));
  }
  raise(at);
}

}  // namespace emu
