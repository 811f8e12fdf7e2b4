// mbarriers: counted arrivals and bytes complete a phase. Copies that report to one land when somebody
// asks for its phase; who asks first finds them still under way.
#include <algorithm>
#include <cstring>

#include "device/cluster.h"
#include "device/fault.h"
#include "device/path.h"
#include "device/races.h"

namespace emu {
namespace {

constexpr uint32_t kMostCount = (1u << 20) - 1;
constexpr uint32_t kBytes = 8;

// What shared memory holds; nobody but these functions reads it.
uint64_t word_of(const Mbarrier& one) {
  const uint64_t transactions = static_cast<uint32_t>(one.transactions) & 0x3fffff;
  return uint64_t{1} << 63 | uint64_t{one.phase} << 62 | transactions << 40 |
         uint64_t{one.expected} << 20 | one.pending;
}

void store_word(BlockRun& block, uint32_t at, Mbarrier& one) {
  one.word = word_of(one);
  std::memcpy(block.shared + at, &one.word, kBytes);
}

FaultAt about(Fault fault, Warp* w, uint32_t site, int lane, uint32_t at) {
  FaultAt found{.fault = fault, .warp = w, .lane = lane, .site = site};
  found.space = SpaceNumber::shared;
  found.access = AccessNumber::atomic;
  found.bytes = kBytes;
  found.address = at;
  found.space_bytes = run_of(w).block->block.shared_bytes;
  return found;
}

[[noreturn]] void raise_count(Warp* w, uint32_t site, int lane, ReasonNumber reason) {
  raise({.fault = Fault::divergent_barrier, .warp = w, .lane = lane, .site = site,
         .reason = reason});
}

// Somebody's store has gone over it, or used it before it was made known.
[[noreturn]] void raise_overlap(Warp* w, uint32_t site, int lane, uint32_t at, uint32_t other) {
  FaultAt fault = about(Fault::race, w, site, lane, at);
  fault.other_site = other;
  fault.other_access = AccessNumber::write;
  raise(fault);
}

void complete_if_done(Mbarrier& one) {
  if (one.pending != 0 || one.transactions != 0) return;
  one.phase ^= 1;
  one.pending = one.expected;
  one.complete = std::move(one.arriving);
  one.arriving.clear();
  one.complete_ticks = one.arriving_ticks;
  one.arriving_ticks = 0;
  one.tried = false;
}

void change_transactions(Warp* w, uint32_t site, int lane, Mbarrier& one, int64_t by) {
  const int64_t sum = one.transactions + by;
  if (sum > int64_t{kMostCount} || sum < -int64_t{kMostCount}) {
    raise_count(w, site, lane, ReasonNumber::no_such_count);
  }
  one.transactions = static_cast<int32_t>(sum);
}

void take_arrival(Warp* w, uint32_t site, int lane, Mbarrier& one, uint32_t count) {
  // Whoever arrives does more than wait, however short the way to its next wait is.
  run_of(w).block->idle_rounds = 0;
  if (count > one.pending) raise_count(w, site, lane, ReasonNumber::too_many_arrivals);
  one.pending -= count;
}

// Lands everything under way to the mbarrier.
void land(BlockRun& block, uint32_t at, Mbarrier& one) {
  std::vector<BulkLoad> loads = std::move(one.loads);
  std::vector<DeferredArrival> deferred = std::move(one.deferred);
  one.loads.clear();
  one.deferred.clear();
  for (BulkLoad& load : loads) {
    land_load(block, at, load);
    change_transactions(load.warp, load.site, load.lane, one, -int64_t{load.transaction});
    one.arriving_ticks = std::max(one.arriving_ticks, load.ready);
  }
  for (const DeferredArrival& arrival : deferred) {
    for (const AsyncCopy& copy : arrival.copies) {
      land_async_copy(arrival.warp, copy);
      one.arriving_ticks = std::max(one.arriving_ticks, copy.ready);
    }
    if (arrival.warp->watched) publish(arrival.warp, Mask{1} << arrival.lane, one.arriving);
    take_arrival(arrival.warp, arrival.site, arrival.lane, one, 1);
  }
  complete_if_done(one);
  store_word(block, at, one);
}

bool is_complete(const Mbarrier& one, uint32_t parity) { return one.phase != parity; }

// Keeps what a poll has taken off the warp's path: who polls waits for others, not for itself.
void remember_wait(Warp* w, uint32_t site, Mask lanes, uint32_t rank, uint32_t at) {
  PhaseWait& wait = run_of(w).wait;
  if (wait.site == site && wait.address == at && wait.rank == rank) {
    w->ticks = wait.ticks;
  } else {
    wait = {site, at, __builtin_ctz(lanes), rank, w->ticks, wait.cost, wait.lanes};
  }
  polled(w, kTurn / 64);
  wait.cost += kTurn / 64;
  wait.lanes |= lanes;
}

void end_wait(Warp* w, uint32_t site, const Mbarrier& one) {
  PhaseWait& wait = run_of(w).wait;
  if (wait.site == site) w->ticks = wait.ticks;
  wait.site = kNone;
  const uint64_t latency = uint64_t{kTicks} * device().facts.latency_shared;
  go_on_at(w, site, std::max(w->ticks, one.complete_ticks) + latency);
}

}  // namespace

Mbarrier* find_barrier(Warp* w, uint32_t site, int lane, uint32_t address, BlockRun** where) {
  BlockRun& block = block_holding(w, site, lane, address, kBytes, AccessNumber::atomic);
  Visit visit(w, block);
  *where = &block;
  const uint32_t at = address & kOffsetMask;
  uint32_t places[kLanes];
  std::fill(places, places + kLanes, at);
  const Lanes<uint32_t> lanes(places, 0, Mask{1} << lane, 0);
  check_window(w, site, Mask{1} << lane, lanes, kBytes, block.block.shared_bytes,
               AccessNumber::atomic, SpaceNumber::shared);
  const auto found = block.mbarriers.find(at);
  if (found == block.mbarriers.end()) {
    if (all_known(block.shared_known.data() + at, kBytes)) {
      raise(about(Fault::uninitialised, w, site, lane, at));
    }
    // Another warp may yet make it: that is a race, the better name.
    doubt_shared(w, site, Mask{1} << lane, lanes, kBytes, AccessNumber::atomic);
    return nullptr;
  }
  Mbarrier& one = found->second;
  if (std::memcmp(block.shared + at, &one.word, kBytes) != 0) {
    raise_overlap(w, site, lane, at, w->watched ? block.writes[at / 4].site : kNone);
  }
  if (w->watched && !is_ordered(w, lane, one.init)) {
    raise_overlap(w, site, lane, at, one.init.site);
  }
  return &one;
}

namespace {

// Calls `act(lane, block, place, mbarrier)` for each lane whose mbarrier there is, in order.
template <class Act>
void each_barrier(Warp* w, uint32_t site, Mask lanes, const uint32_t* at, Act act) {
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    BlockRun* block = nullptr;
    Mbarrier* one = find_barrier(w, site, lane, at[lane], &block);
    if (one != nullptr) act(lane, *block, at[lane] & kOffsetMask, *one);
  }
}

}  // namespace

void mbarrier_init(Warp* w, uint32_t site, Mask lanes, const uint32_t* at, const uint32_t* count) {
  BlockRun& block = *run_of(w).home;
  const Lanes<uint32_t> places(at, 0, lanes, kBytes);
  check_window(w, site, lanes, places, kBytes, block.block.shared_bytes, AccessNumber::write,
               SpaceNumber::shared);
  uint32_t halves[2][kLanes] = {};
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (count[lane] == 0 || count[lane] > kMostCount) {
      raise_count(w, site, lane, ReasonNumber::no_such_count);
    }
    Mbarrier one;
    one.expected = one.pending = count[lane];
    const uint64_t word = word_of(one);
    halves[0][lane] = static_cast<uint32_t>(word);
    halves[1][lane] = static_cast<uint32_t>(word >> 32);
  }
  if (w->watched) {
    const void* values[2] = {halves[0], halves[1]};
    check_race_write(w, site, lanes, places, 4, 2, values);
  }
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    Mbarrier& one = block.mbarriers[at[lane]] = Mbarrier{};
    one.expected = one.pending = count[lane];
    one.init.time = order_time();
    one.init.block = block.block.linear;
    one.init.site = static_cast<uint16_t>(std::min<uint32_t>(site, 0xffff));
    one.init.warp = static_cast<uint8_t>(w->index);
    one.init.lane = static_cast<uint8_t>(lane);
    store_word(block, at[lane], one);
  }
  mark_shared_known(w, site, lanes, places, kBytes);
}

void mbarrier_inval(Warp* w, uint32_t site, Mask lanes, const uint32_t* at) {
  each_barrier(w, site, lanes, at, [](int, BlockRun& block, uint32_t place, Mbarrier&) {
    block.mbarriers.erase(place);
  });
}

void mbarrier_expect(Warp* w, uint32_t site, Mask lanes, const uint32_t* at,
                     const uint32_t* bytes) {
  each_barrier(w, site, lanes, at, [&](int lane, BlockRun& block, uint32_t place, Mbarrier& one) {
    change_transactions(w, site, lane, one, bytes[lane]);
    store_word(block, place, one);
  });
}

void mbarrier_complete(Warp* w, uint32_t site, Mask lanes, const uint32_t* at,
                       const uint32_t* bytes) {
  each_barrier(w, site, lanes, at, [&](int lane, BlockRun& block, uint32_t place, Mbarrier& one) {
    change_transactions(w, site, lane, one, -int64_t{bytes[lane]});
    complete_if_done(one);
    store_word(block, place, one);
  });
}

void mbarrier_arrive(Warp* w, uint32_t site, Mask lanes, const uint32_t* at, const uint32_t* count,
                     uint32_t flags, uint64_t* state) {
  const bool expects = (flags & kArriveExpect) != 0;
  uint32_t published = kNone;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (state != nullptr) state[lane] = 0;
    BlockRun* block = nullptr;
    Mbarrier* one = find_barrier(w, site, lane, at[lane], &block);
    if (one == nullptr) continue;
    const uint32_t place = at[lane] & kOffsetMask;
    if (one->pending == 0) land(*block, place, *one);
    if (w->watched && (flags & kArriveRelaxed) == 0 && published != at[lane]) {
      Mask same = 0;
      for (int i = 0; i < kLanes; ++i) same |= static_cast<Mask>(at[i] == at[lane]) << i;
      publish(w, same & lanes, one->arriving);
      published = at[lane];
    }
    one->arriving_ticks = std::max(one->arriving_ticks, w->ticks);
    if (state != nullptr) state[lane] = one->word;
    if (expects) change_transactions(w, site, lane, *one, count[lane]);
    const uint32_t arrivals = expects || count == nullptr ? 1 : count[lane];
    if ((flags & kArriveDrop) != 0) one->expected -= std::min(one->expected, arrivals);
    take_arrival(w, site, lane, *one, arrivals);
    if ((flags & kArriveNoComplete) != 0 && one->pending == 0) {
      raise_count(w, site, lane, ReasonNumber::too_many_arrivals);
    }
    complete_if_done(*one);
    store_word(*block, place, *one);
  }
}

Mask mbarrier_wait(Warp* w, uint32_t site, Mask lanes, const uint32_t* at, const uint64_t* state,
                   const uint32_t* parity, bool relaxed) {
  Mask done = 0;
  const Mbarrier* last = nullptr;
  each_barrier(w, site, lanes, at, [&](int lane, BlockRun& block, uint32_t place, Mbarrier& one) {
    const uint32_t phase =
        state != nullptr ? static_cast<uint32_t>(state[lane] >> 62 & 1) : parity[lane] & 1;
    const bool under_way = !one.loads.empty() || !one.deferred.empty();
    if (!is_complete(one, phase) && under_way) {
      // Lanes that ask together ask once.
      if (one.tried && last != &one) {
        land(block, place, one);
      } else {
        one.tried = true;
      }
    }
    last = &one;
    if (!is_complete(one, phase)) return;
    done |= Mask{1} << lane;
    if (w->watched && !relaxed) learn(w, one.complete);
  });
  if (done != 0 && last != nullptr) {
    end_wait(w, site, *last);
  } else {
    const int lane = __builtin_ctz(lanes);
    const uint32_t high = at[lane] >> kRankShift;
    remember_wait(w, site, lanes, high == 0 ? run_of(w).home->rank : high - 1,
                  at[lane] & kOffsetMask);
  }
  return done;
}

void async_arrive(Warp* w, uint32_t site, Mask lanes, const uint32_t* at, bool counted) {
  auto& copies = run_of(w).copies;
  each_barrier(w, site, lanes, at, [&](int lane, BlockRun& block, uint32_t place, Mbarrier& one) {
    DeferredArrival arrival{w, lane, site, {}};
    auto mine = [&](const AsyncCopy& copy) { return copy.lane == lane; };
    std::copy_if(copies.begin(), copies.end(), std::back_inserter(arrival.copies), mine);
    copies.erase(std::remove_if(copies.begin(), copies.end(), mine), copies.end());
    if (!counted) {
      if (one.pending == kMostCount) raise_count(w, site, lane, ReasonNumber::no_such_count);
      ++one.pending;
    }
    one.deferred.push_back(std::move(arrival));
    store_word(block, place, one);
  });
}

}  // namespace emu
