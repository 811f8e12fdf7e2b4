#include "device/happens_before.h"

#include <algorithm>

#include "device/run.h"

namespace emu {
namespace {

uint32_t now = 1;

uint64_t key_of(uint32_t block, uint32_t warp, uint32_t lane, bool block_scope) {
  return uint64_t{block} << 13 | uint64_t{warp} << 7 | uint64_t{lane} << 1 | (block_scope ? 1 : 0);
}

WarpOrder& order_of(Warp* w) { return run_of(w).order; }
LaunchOrder& launch_order(Warp* w) { return run_of(w).block->launch->order; }

void put(std::vector<Published>& list, uint64_t key, uint32_t time) {
  for (Published& one : list) {
    if (one.key != key) continue;
    one.time = std::max(one.time, time);
    return;
  }
  list.push_back({key, time});
}

// Says whether the list tells more than before.
bool put(std::vector<Known>& list, Known known) {
  for (Known& one : list) {
    if (one.log != known.log) continue;
    const bool more = known.length > one.length;
    one.length = std::max(one.length, known.length);
    return more;
  }
  list.push_back(known);
  return true;
}

void acquire(WarpOrder& order, Known known) {
  if (put(order.acquired, known)) order.is_closure_whole = false;
}

void acquire_seen(WarpOrder& order) {
  for (const Known& one : order.seen) acquire(order, one);
  order.seen.clear();
}

uint32_t lane_time(const WarpOrder& order, int lane, int other) {
  uint32_t time = std::max(order.block_time, order.sync_time);
  if (order.lane_times == nullptr) return time;
  return std::max(time, (*order.lane_times)[static_cast<size_t>(lane)][static_cast<size_t>(other)]);
}

size_t entries_of(const BlockRun& block) { return (block.warp_count + size_t{1}) * kLanes; }

// Where a lane's entry stands in the clocks of the cluster; none where the block is of another.
constexpr size_t kNoEntry = ~size_t{0};
size_t entry_of(const BlockRun& home, const Access& access) {
  const uint32_t rank = rank_of(home, access.block);
  if (rank == kNone) return kNoEntry;
  const uint32_t warp = access.warp == kCopyEngine ? home.warp_count : access.warp;
  return rank * entries_of(home) + warp * size_t{kLanes} + access.lane % kLanes;
}

// The time that the first `length` entries of a log tell of a key; 0 where they tell nothing.
uint32_t time_in(const Known& known, uint64_t key) {
  const auto found = known.log->entries.find(key);
  if (found == known.log->entries.end()) return 0;
  const auto& entries = found->second;
  const auto end = std::partition_point(entries.begin(), entries.end(),
                                        [&](const Log::At& at) { return at.position < known.length; });
  return end == entries.begin() ? 0 : std::prev(end)->time;
}

constexpr size_t kMostLogs = 2048;

// Follows what has been acquired since the last time. Other warps may share the closure until then.
void look_through(WarpOrder& order) {
  const bool is_own = order.closure != nullptr && order.closure.use_count() == 1;
  if (!is_own) {
    order.closure = order.closure == nullptr ? std::make_shared<Closure>() : std::make_shared<Closure>(*order.closure);
  }
  order.is_closure_whole = true;
  Closure& closure = *order.closure;
  std::vector<Known> logs = order.acquired;
  for (size_t i = 0; i < logs.size() && !closure.believed; ++i) {
    const Known known = logs[i];
    uint32_t& length = closure.lengths[known.log];
    if (length >= known.length) continue;
    const uint32_t from = length;
    length = known.length;
    closure.steps.push_back(known);
    closure.believed = closure.lengths.size() > kMostLogs;
    const auto& others = known.log->others;
    auto other = std::lower_bound(others.begin(), others.end(), from,
                                  [](const auto& one, uint32_t position) { return one.first < position; });
    for (; other != others.end() && other->first < known.length; ++other) logs.push_back(other->second);
  }
  // All lengths say it in fewer steps.
  if (closure.steps.size() > 4 * closure.lengths.size() + 64) {
    closure.steps_before += closure.steps.size();
    closure.steps.clear();
  }
}

// The time before which all accesses of a key are ordered by the closure; 0 where none is.
uint32_t time_of(Closure& closure, uint64_t key) {
  Closure::Ordered& ordered = closure.times[key];
  const uint64_t end = closure.steps_before + closure.steps.size();
  if (ordered.step < closure.steps_before || end - ordered.step > closure.lengths.size()) {
    for (const auto& [log, length] : closure.lengths) {
      ordered.time = std::max(ordered.time, time_in({log, length}, key));
    }
  } else {
    for (uint64_t step = ordered.step; step < end; ++step) {
      ordered.time = std::max(ordered.time, time_in(closure.steps[step - closure.steps_before], key));
    }
  }
  ordered.step = end;
  return ordered.time;
}

bool is_published(const Warp* w, const Access& access) {
  WarpOrder& order = run_of(const_cast<Warp*>(w)).order;
  if (order.closure == nullptr || !order.is_closure_whole) look_through(order);
  Closure& closure = *order.closure;
  if (closure.believed) return true;
  const auto holds = [&](uint64_t key) { return time_of(closure, key) > access.time; };
  const bool same_block = access.block == run_of(const_cast<Warp*>(w)).home->block.linear;
  for (bool block_scope : {false, true}) {
    if (block_scope && !same_block) break;
    if (holds(key_of(access.block, kEveryone, kEveryone, block_scope)) ||
        holds(key_of(access.block, access.warp, kEveryone, block_scope)) ||
        (access.lane != kEveryone &&
         holds(key_of(access.block, access.warp, access.lane, block_scope)))) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool tells_of(const VectorClock& clock, const BlockRun& home, const Access& access) {
  if (clock.empty()) return false;
  const size_t entry = entry_of(home, access);
  if (entry == kNoEntry) return false;
  if (access.lane != kEveryone) return access.time < clock[entry];
  const auto lanes = clock.begin() + static_cast<ptrdiff_t>(entry / kLanes * kLanes);
  return access.time < *std::min_element(lanes, lanes + kLanes);
}

uint32_t order_time() { return now; }
uint32_t next_order_time() { return ++now; }

void start_order(WarpOrder& order) {
  order.block_time = order.flag_time = order.sync_time = now;
  order.strong_time = order.arrive_time = now;
  order.left.fill(0);
  order.lane_times.reset();
  order.acquired.clear();
  order.closure = nullptr;
  order.is_closure_whole = false;
  order.seen.clear();
  order.fenced.clear();
  order.fenced_logs.clear();
  order.known.clear();
  order.cluster_fenced.clear();
  order.cluster_time = now;
}

void join(VectorClock& clock, const VectorClock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

void lanes_meet(Warp* w, Mask lanes) {
  WarpOrder& order = order_of(w);
  const uint32_t time = ++now;
  acquire_seen(order);
  if (lanes == w->alive) {
    order.sync_time = time;
    order.lane_times.reset();
    return;
  }
  if (order.lane_times == nullptr) {
    order.lane_times = std::make_unique<std::array<std::array<uint32_t, kLanes>, kLanes>>();
  }
  auto& times = *order.lane_times;
  std::array<uint32_t, kLanes> known{};
  for (size_t other = 0; other < kLanes; ++other) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if ((lanes >> lane & 1) != 0) known[other] = std::max(known[other], times[lane][other]);
    }
    if ((lanes >> other & 1) != 0) known[other] = time;
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) != 0) times[lane] = known;
  }
}

void warps_meet(const std::vector<WarpOrder*>& orders) {
  const uint32_t time = ++now;
  std::vector<Known> acquired, fenced_logs;
  std::vector<Published> fenced;
  VectorClock clock;
  for (WarpOrder* order : orders) {
    order->block_time = time;
    acquire_seen(*order);
    join(clock, order->known);
    for (const Known& one : order->acquired) put(acquired, one);
    for (const Known& one : order->fenced_logs) put(fenced_logs, one);
    for (const Published& one : order->fenced) put(fenced, one.key, one.time);
  }
  if (!clock.empty()) {
    for (WarpOrder* order : orders) order->known = clock;
  }
  if (acquired.empty() && fenced.empty()) return;
  // The closure of a part of it is a beginning.
  std::shared_ptr<Closure> closure;
  bool is_whole = false;
  for (WarpOrder* order : orders) {
    const bool is_all = order->closure != nullptr && order->is_closure_whole && order->acquired == acquired;
    if (closure == nullptr || (is_all && !is_whole)) closure = order->closure;
    is_whole = is_whole || is_all;
  }
  for (WarpOrder* order : orders) {
    order->acquired = acquired;
    order->closure = closure;
    order->is_closure_whole = is_whole;
    order->fenced = fenced;
    order->fenced_logs = fenced_logs;
  }
}

// What mbarriers have told of the block's other warps and of its copy engine is published too.
void fence_clock(Warp* w, bool block_scope) {
  WarpOrder& order = order_of(w);
  const BlockRun& home = *run_of(w).home;
  const uint32_t* clock = order.known.data() + home.rank * entries_of(home);
  for (uint32_t warp = 0; warp <= home.warp_count; ++warp, clock += kLanes) {
    if (warp == w->index) continue;
    if (warp == home.warp_count) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        put(order.fenced, key_of(home.block.linear, kCopyEngine, lane, block_scope), clock[lane]);
      }
      return;
    }
    put(order.fenced, key_of(home.block.linear, warp, kEveryone, block_scope),
        *std::min_element(clock, clock + kLanes));
  }
}

void fence_lanes(Warp* w, Mask lanes, bool block_scope) {
  WarpOrder& order = order_of(w);
  const uint32_t block = w->block->linear;
  const uint32_t time = ++now;
  acquire_seen(order);
  put(order.fenced, key_of(block, kEveryone, kEveryone, block_scope),
      std::max(order.block_time, order.flag_time));
  put(order.fenced, key_of(block, w->index, kEveryone, block_scope),
      lanes == w->alive ? time : order.sync_time);
  for (Mask rest = lanes == w->alive ? 0 : lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    for (int other = 0; other < kLanes && order.lane_times != nullptr; ++other) {
      put(order.fenced, key_of(block, w->index, static_cast<uint32_t>(other), block_scope),
          lane_time(order, lane, other));
    }
    put(order.fenced, key_of(block, w->index, static_cast<uint32_t>(lane), block_scope), time);
  }
  for (const Known& one : order.acquired) put(order.fenced_logs, one);
  if (!order.known.empty()) fence_clock(w, block_scope);
  if (!block_scope && run_of(w).home->cluster != nullptr) publish(w, lanes, order.cluster_fenced);
}

void release_to(Warp* w, uint64_t address, bool adds) {
  const WarpOrder& order = order_of(w);
  LaunchOrder& launch = launch_order(w);
  if (order.fenced.empty()) {
    if (!adds) launch.by_address.erase(address);
    return;
  }
  Log*& log = launch.by_address[address];
  if (log == nullptr || !adds) {
    const Log* before = log;
    launch.logs.push_back(std::make_unique<Log>());
    log = launch.logs.back().get();
    // Whoever reads the address late finds what was stored before.
    if (before != nullptr) log->others.emplace_back(0, Known{before, before->length});
  }
  for (const Published& one : order.fenced) {
    auto& entries = log->entries[one.key];
    if (entries.empty() || entries.back().time < one.time) {
      entries.push_back({log->length, one.time});
    }
  }
  for (const Known& one : order.fenced_logs) {
    if (one.log != log) log->others.emplace_back(log->length, one);
  }
  ++log->length;
}

void forget_released(Warp* w, uint64_t address) {
  auto& logs = launch_order(w).by_address;
  if (!logs.empty()) logs.erase(address);
}

void acquire_from(Warp* w, uint64_t address, bool fenced) {
  const LaunchOrder& launch = launch_order(w);
  WarpOrder& order = order_of(w);
  auto found = launch.by_address.find(address);
  if (found != launch.by_address.end()) {
    const Known known{found->second, found->second->length};
    if (fenced) {
      acquire(order, known);
    } else {
      put(order.seen, known);
    }
  }
}

void lanes_leave(Warp* w, Mask lanes) {
  WarpOrder& order = order_of(w);
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    uint32_t ordered_until = std::max({order.block_time, order.sync_time, order.arrive_time});
    for (int other = 0; other < kLanes; ++other) {
      if (other != lane) ordered_until = std::max(ordered_until, lane_time(order, other, lane));
    }
    order.left[static_cast<size_t>(lane)] = ordered_until;
  }
}

void publish(Warp* w, Mask lanes, VectorClock& clock) {
  WarpOrder& order = order_of(w);
  acquire_seen(order);
  const BlockRun& home = *run_of(w).home;
  const size_t entries = entries_of(home);
  const uint32_t time = ++now;
  clock.resize(entries * cluster_blocks(home));
  join(clock, order.known);
  for (size_t i = 0; i < clock.size(); ++i) {
    if (i % entries < entries - kLanes) clock[i] = std::max(clock[i], order.cluster_time);
  }
  uint32_t* own = clock.data() + home.rank * entries;
  const uint32_t others = std::max(order.block_time, order.flag_time);
  for (size_t i = 0; i < entries - kLanes; ++i) own[i] = std::max(own[i], others);
  own += w->index * size_t{kLanes};
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    for (int other = 0; other < kLanes; ++other) {
      own[other] = std::max(own[other], lane_time(order, lane, other));
    }
    own[lane] = time;
  }
}

void publish_fenced(Warp* w, VectorClock& clock) { join(clock, order_of(w).cluster_fenced); }

void learn(Warp* w, const VectorClock& clock) { join(order_of(w).known, clock); }

void publish_engine(VectorClock& clock, const BlockRun& block, uint32_t lane, uint32_t time) {
  clock.resize(entries_of(block) * cluster_blocks(block));
  uint32_t& entry = clock[(block.rank + size_t{1}) * entries_of(block) - kLanes + lane % kLanes];
  entry = std::max(entry, time);
}

// Did the thread leave the kernel with nothing that orders the access?
bool left_unordered(const BlockRun& home, const Access& earlier) {
  if (earlier.warp >= home.warp_count || earlier.lane >= kLanes) return false;
  const uint32_t left = home.runs[earlier.warp].order.left[earlier.lane];
  return left != 0 && earlier.time >= left;
}

bool is_ordered(const Warp* w, int lane, const Access& earlier) {
  const WarpRun& run = run_of(const_cast<Warp*>(w));
  const WarpOrder& order = run.order;
  if (tells_of(order.known, *run.home, earlier)) return true;
  if (earlier.warp == kCopyEngine) return !order.acquired.empty() && is_published(w, earlier);
  if (earlier.time < order.cluster_time && rank_of(*run.home, earlier.block) != kNone) return true;
  if (earlier.block == run.home->block.linear && left_unordered(*run.home, earlier)) {
    if (earlier.time < std::max(order.strong_time, order.flag_time)) return true;
  } else if (earlier.block == run.home->block.linear) {
    if (earlier.time < order.block_time) return true;
    if (earlier.warp == w->index) {
      return earlier.lane == lane || earlier.lane == kEveryone ||
             earlier.time < lane_time(order, lane, earlier.lane);
    }
    if (earlier.time < order.flag_time) return true;
  }
  return !order.acquired.empty() && is_published(w, earlier);
}

}  // namespace emu
