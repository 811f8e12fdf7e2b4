// Block barriers.
#include <algorithm>

#include "device/fault.h"
#include "device/path.h"
#include "device/run.h"

namespace emu {
namespace {

// Of each further warp at a barrier: an H200 takes 31 clocks for one warp, 92 for 32.
constexpr uint64_t kArrivalClk = 2;

// A warp counts in full once all of its live lanes are there: hardware counts warps.
uint32_t threads_of(const Warp& w, Mask waiting) {
  if (waiting == 0) return 0;
  return (w.alive & ~waiting) == 0 ? kLanes : static_cast<uint32_t>(__builtin_popcount(waiting));
}

bool complete(const BlockRun& block, const Barrier& barrier) {
  if (!barrier.open) return false;
  if (barrier.count != 0) {
    uint32_t threads = barrier.arrived;
    for (uint32_t i = 0; i < block.warp_count; ++i) {
      threads += threads_of(block.warps[i], barrier.waiting[i]);
    }
    return threads >= barrier.count;
  }
  for (uint32_t i = 0; i < block.warp_count; ++i) {
    if ((block.warps[i].alive & ~barrier.waiting[i]) != 0) return false;
  }
  return true;
}

// Without a count the barrier waits for every warp of the block, which a count may say too.
bool same_count(const BlockRun& block, uint32_t a, uint32_t b) {
  uint32_t all = block.warp_count * kLanes;
  return (a == 0 ? all : a) == (b == 0 ? all : b);
}

uint32_t result_of(const Barrier& barrier) {
  switch (barrier.reduce) {
    case Reduce::popc: return barrier.total;
    case Reduce::all: return barrier.all ? 1 : 0;
    case Reduce::any: return barrier.any ? 1 : 0;
    case Reduce::none: break;
  }
  return 0;
}

void open(BlockRun& block, Barrier& barrier) {
  std::fill(barrier.waiting, barrier.waiting + block.warp_count, Mask{0});
  barrier.arrived = 0;
  barrier.latest = 0;
  barrier.last = 0;
  barrier.total = 0;
  barrier.any = false;
  barrier.all = true;
  barrier.open = false;
}

void release(BlockRun& block, Barrier& barrier) {
  if (block.doubtful.open) settle_doubtful(block);
  extend_known_prefix(block);
  uint32_t result = result_of(barrier);
  // A barrier of some warps orders less than this; a finer rule could only find more races.
  std::vector<WarpOrder*> meeting;
  const auto waiting = static_cast<uint64_t>(
      std::count_if(barrier.waiting, barrier.waiting + block.warp_count, [](Mask m) { return m != 0; }));
  const uint64_t wait =
      kTicks * (device().facts.latency_shared + kArrivalClk * (std::max<uint64_t>(1, waiting) - 1));
  const uint32_t sites = block.launch->launch.kernel->site_count;
  for (uint32_t i = 0; i < block.warp_count; ++i) {
    if (barrier.waiting[i] == 0) continue;
    Warp& w = block.warps[i];
    w.at_barrier &= ~barrier.waiting[i];
    w.barrier_result = result;
    meeting.push_back(&block.runs[i].order);
    // Whoever waits for the last to arrive has its path behind it.
    if (i != barrier.last && block.block.counted) {
      std::copy_n(block.runs[barrier.last].waited, sites, block.runs[i].waited);
    }
    w.ticks = barrier.latest;
    go_on_at(&w, barrier.site, barrier.latest + wait);
  }
  warps_meet(meeting);
  open(block, barrier);
}

void arrive(Warp* w, uint32_t site, Mask lanes, uint32_t id, uint32_t count, bool whole_warp,
            bool arrive_only, Reduce reduce, Mask predicate) {
  BlockRun& block = *run_of(w).block;
  if (id >= kBarriers) {
    raise({.fault = Fault::divergent_barrier, .warp = w, .lane = lowest(lanes), .site = site,
           .reason = ReasonNumber::no_such_barrier});
  }
  Barrier& barrier = block.barriers[id];
  if (!barrier.open) {
    open(block, barrier);
    barrier.open = true;
    barrier.count = count;
    barrier.site = site;
    barrier.reduce = reduce;
  } else if (!same_count(block, barrier.count, count)) {
    raise({.fault = Fault::divergent_barrier, .warp = w, .lane = lowest(lanes), .site = site,
           .other_site = barrier.site, .reason = ReasonNumber::different_thread_counts});
  }
  if (block.block.counted) ++block.launch->counters.barriers;
  if (w->ticks >= barrier.latest) {
    barrier.latest = w->ticks;
    barrier.last = w->index;
  }
  if (reduce != Reduce::none) {
    barrier.total += static_cast<uint32_t>(__builtin_popcount(lanes & predicate));
    barrier.any = barrier.any || (lanes & predicate) != 0;
    barrier.all = barrier.all && (lanes & ~predicate) == 0;
  }
  if (arrive_only) {
    w->at_barrier &= ~lanes;
    run_of(w).order.arrive_time = next_order_time();
    barrier.arrived +=
        whole_warp ? kLanes : static_cast<uint32_t>(__builtin_popcount(lanes));
  } else {
    w->at_barrier |= lanes;
    barrier.waiting[w->index] |= lanes;
  }
  if (complete(block, barrier)) release(block, barrier);
}

// Lanes of an aligned barrier arrive together; lanes that have left the kernel are not waited for.
void gather(Warp* w, uint32_t site, Mask lanes, uint32_t id, uint32_t count, bool arrive_only,
            Reduce reduce, Mask predicate) {
  WarpRun& run = run_of(w);
  if (run.gathering == 0) {
    run.gathering_site = site;
    run.gathering_id = id;
    run.gathering_count = count;
    run.gathering_arrive_only = arrive_only;
    run.gathering_reduce = reduce;
    run.gathering_predicate = 0;
  } else if (run.gathering_site != site) {
    raise({.fault = Fault::divergent_barrier, .warp = w, .lane = lowest(lanes), .site = site,
           .other_site = run.gathering_site, .reason = ReasonNumber::different_barriers});
  }
  run.gathering |= lanes;
  run.gathering_predicate |= predicate & lanes;
  w->at_barrier |= lanes;
  arrive_if_gathered(w);
}

}  // namespace

void arrive_if_gathered(Warp* w) {
  WarpRun& run = run_of(w);
  if (run.gathering == 0 || run.gathering != w->alive) return;
  Mask all = run.gathering;
  run.gathering = 0;
  arrive(w, run.gathering_site, all, run.gathering_id, run.gathering_count, true,
         run.gathering_arrive_only, run.gathering_reduce, run.gathering_predicate);
}

void barrier(Warp* w, uint32_t site, Mask lanes, uint32_t id, uint32_t count, bool aligned,
             bool arrive_only, Reduce reduce, Mask predicate, uint32_t next) {
  send(w, lanes, next);
  if (aligned && lanes != w->alive) {
    gather(w, site, lanes, id, count, arrive_only, reduce, predicate);
  } else {
    arrive(w, site, lanes, id, count, aligned, arrive_only, reduce, predicate);
  }
}

void release_complete_barriers(BlockRun& block) {
  for (Barrier& barrier : block.barriers) {
    if (complete(block, barrier)) release(block, barrier);
  }
}

void raise_deadlock(BlockRun& block) {
  FaultAt at{.fault = Fault::deadlock};
  for (uint32_t i = 0; i < block.warp_count; ++i) {
    Warp& w = block.warps[i];
    if (w.at_barrier == 0 && w.parked == 0) continue;
    const WarpRun& run = block.runs[i];
    uint32_t site = run.gathering != 0 ? run.gathering_site : kNone;
    int lane = lowest(w.at_barrier != 0 ? w.at_barrier : w.parked);
    if (site == kNone && w.at_barrier == 0) site = run.parked_site[lane];
    for (const Barrier& barrier : block.barriers) {
      if (site == kNone && barrier.open && (barrier.waiting[i] >> lane & 1) != 0) {
        site = barrier.site;
      }
    }
    if (at.warp == nullptr) {
      at.warp = &w;
      at.lane = lane;
      at.site = site;
    } else if (site != at.site) {
      at.other_site = site;
      break;
    }
  }
  raise(at);
}

void order_warp(Warp* w) {
  WarpRun& run = run_of(w);
  run.order.block_time = run.order.strong_time = next_order_time();
  if (run.home->cluster != nullptr) run.order.cluster_time = run.order.block_time;
}

void order_after_others(Warp* w) {
  WarpRun& run = run_of(w);
  run.order.flag_time = next_order_time();
  if (run.home->cluster != nullptr) run.order.cluster_time = run.order.flag_time;
}

}  // namespace emu
