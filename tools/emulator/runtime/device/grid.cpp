// Which block runs when. Usually one block runs to its end before the next begins. A block whose
// warps only poll makes room for the other resident ones; a new one enters when one has finished,
// as on a GPU, so that protocols between blocks get no more help than a GPU gives them.
#include "device/grid.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>

#include "device/account.h"
#include "device/fault.h"
#include "device/order.h"

namespace emu {
namespace {

constexpr uint64_t kAlign = 64;
// Where races are looked for and blocks are shuffled, warps take short turns of a few basic blocks at
// first. Only at first: a warp that waits for others would not show as one that polls.
constexpr uint32_t kSlicesPerWarp = 24;

uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

}  // namespace

void prepare(BlockRun& slot, LaunchRun& launch) {
  const Kernel& kernel = *launch.launch.kernel;
  slot.launch = &launch;
  slot.warp_count = (launch.threads + kLanes - 1) / kLanes;
  slot.warps.resize(slot.warp_count);
  slot.runs.resize(slot.warp_count);
  slot.status.resize(slot.warp_count);
  slot.warp_order.resize(slot.warp_count);
  slot.block_warps.resize(kernel.block_count + 1);
  slot.block_lanes.resize(kernel.block_count + 1);
  uint32_t shared = kernel.static_shared_bytes + launch.launch.dynamic_shared_bytes;
  uint64_t registers = round_up(kernel.register_bytes, kAlign);
  uint64_t local = round_up(local_stride(kernel) * kLanes, kAlign);
  slot.memory.resize(slot.warp_count * (registers + local) + shared + 2 * kAlign);
  auto* at = reinterpret_cast<uint8_t*>(
      round_up(reinterpret_cast<uint64_t>(slot.memory.data()), kAlign));
  for (Warp& w : slot.warps) {
    w.regs = at;
    at += registers;
    w.local = at;
    at += local;
  }
  slot.shared = at;
  slot.shared_known.resize(shared + 1);
  if (launch.races) {
    slot.writes.resize(shared / 4 + 2);
    slot.readers.resize(shared / 4 + 2);
    slot.earlier.resize(shared / 4 + 2);
  }
  slot.block.launch = &launch.launch;
  slot.block.shared = slot.shared;
  slot.block.shared_bytes = shared;
}

namespace {

// What registers and local arrays hold before they are set: large numbers, and none at all.
constexpr int kPoison[] = {0xff, 0x7b, 0xc6, 0x49};

void poison(BlockRun& slot) {
  const uint64_t seed = mixed(slot.launch->seed + slot.serial);
  for (uint32_t i = 0; i < slot.warp_count; ++i) {
    uint8_t* from = slot.warps[i].regs;
    const uint8_t* to = i + 1 < slot.warp_count ? slot.warps[i + 1].regs : slot.shared;
    std::memset(from, kPoison[(seed + i) % 4], static_cast<size_t>(to - from));
  }
}

void start_warp(BlockRun& slot, uint32_t index) {
  LaunchRun& launch = *slot.launch;
  Warp& w = slot.warps[index];
  WarpRun& run = slot.runs[index];
  std::fill(w.pc, w.pc + kLanes, uint16_t{0});
  uint32_t threads = std::min<uint32_t>(kLanes, launch.threads - index * kLanes);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    uint32_t thread = index * kLanes + lane;
    const uint32_t* size = launch.launch.block;
    w.tid[0][lane] = thread % size[0];
    w.tid[1][lane] = thread / size[0] % size[1];
    w.tid[2][lane] = thread / size[0] / size[1];
  }
  w.block = &slot.block;
  w.launch = &launch.launch;
  w.block_warps = slot.block_warps.data();
  w.block_lanes = slot.block_lanes.data();
  w.block_ticks = launch.block_ticks.data();
  w.ticks = 0;
  w.fuel = 0;
  w.alive = threads == kLanes ? ~Mask{0} : (Mask{1} << threads) - 1;
  w.parked = w.at_barrier = 0;
  w.index = index;
  w.barrier_result = 0;
  w.runtime = &run;
  w.watched = launch.races;
  run.block = &slot;
  run.traits = launch.traits.data();
  std::fill(std::begin(run.recent), std::end(run.recent), &kNowhere);
  run.starved = run.favoured_turns = 0;
  run.favoured = run.released = run.gathering = 0;
  run.poll_cost = 0;
  run.clock = 0;
  run.copies.clear();
  std::fill(std::begin(run.group), std::end(run.group), 0u);
  run.poll_site = kNone;
  run.poll_waits = false;
  run.waited_in_copy.assign(launch.launch.kernel->copies + 1, 0);
  run.waited_in_loop.assign(launch.launch.kernel->loops + 1, 0);
  start_order(run.order);
  run.splits = 0;
  w.trips = nullptr;
  if (launch.launch.level != kSampleLevel) return;
  run.trips.assign(launch.launch.kernel->block_count, 0);
  w.trips = run.trips.data();
  w.most_trips = launch.sampling.most_trips;
}

}  // namespace

void start(BlockRun& slot, uint64_t linear, uint64_t started) {
  LaunchRun& launch = *slot.launch;
  const uint32_t* grid = launch.launch.grid;
  slot.block.linear = static_cast<uint32_t>(linear);
  slot.block.ctaid[0] = static_cast<uint32_t>(linear % grid[0]);
  slot.block.ctaid[1] = static_cast<uint32_t>(linear / grid[0] % grid[1]);
  slot.block.ctaid[2] = static_cast<uint32_t>(linear / grid[0] / grid[1]);
  slot.block.counted = launch.launch.level == 1 || launch.launch.level == kSampleLevel;
  launch.counters.threads_run += launch.threads;
  slot.serial = launch.first_serial + static_cast<uint32_t>(started);
  slot.wave = launch.first_wave + static_cast<uint32_t>(started / launch.wave_blocks);
  slot.path = 0;
  slot.met = 0;
  std::fill(slot.block_warps.begin(), slot.block_warps.end(), uint64_t{0});
  std::fill(slot.block_lanes.begin(), slot.block_lanes.end(), uint64_t{0});
  next_order_time();
  slot.slices = launch.races && launch.seed > 1 ? kSlicesPerWarp * slot.warp_count : 0;
  slot.known_prefix = 0;
  slot.doubtful.open = false;
  slot.observed.clear();
  poison(slot);
  std::fill(slot.shared_known.begin(), slot.shared_known.end(), uint8_t{0});
  for (Barrier& barrier : slot.barriers) barrier.open = false;
  std::iota(slot.warp_order.begin(), slot.warp_order.end(), uint8_t{0});
  for (uint32_t i = 0; i < slot.warp_count; ++i) {
    slot.warp_order[i] = static_cast<uint8_t>(
        permuted(launch.seed == 0 ? 0 : launch.seed + (launch.seed > 1 ? linear : 0),
                 slot.warp_count, i));
    start_warp(slot, i);
    slot.status[i] = Status::yielded;
  }
}

namespace {

// The lanes that would run next; all that live where none can.
Mask foremost(const Warp& w) {
  Mask able = w.alive & ~w.at_barrier & ~w.parked;
  return able != 0 ? able : w.alive;
}

uint32_t where(const Warp& w) {
  uint32_t lowest = kNone;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((foremost(w) >> lane & 1) != 0) lowest = std::min<uint32_t>(lowest, w.pc[lane]);
  }
  return lowest;
}

constexpr int64_t kWholeTurn = int64_t{1} << 62;

int64_t slice_of(BlockRun& slot) {
  if (slot.slices == 0) return kWholeTurn;
  --slot.slices;
  return static_cast<int64_t>(mixed(slot.launch->seed + (uint64_t{slot.serial} << 20) + slot.slices) % 8);
}

// Runs the warp until it gives up its turn. True when it did something but poll.
bool take_turn(BlockRun& slot, uint32_t index) {
  LaunchRun& launch = *slot.launch;
  Warp& w = slot.warps[index];
  WarpRun& run = slot.runs[index];
  w.fuel = kTurn;
  w.slice = slice_of(slot);
  run.poll_cost = 0;
  Status status = launch.launch.kernel->run(&w);
  slot.status[index] = status;
  launch.fuel -= kTurn - w.fuel - run.poll_cost;
  bool over = launch.fuel < 0 || device().expired != 0;
  if (status == Status::exited || (status == Status::waiting && !over)) return true;
  Progress& progress = device().report->progress;
  progress.basic_block = where(w);
  progress.block = slot.block.linear;
  if (over) {
    raise({.fault = Fault::endless_loop,
           .warp = &w,
           .lane = __builtin_ctz(foremost(w)),
           .basic_block = progress.basic_block});
  }
  return run.poll_cost * 2 < kTurn;
}

// A warp that waits can go on once a barrier has released lanes of it.
bool can_run(const Warp& w, Status status) {
  if (status == Status::waiting) return (w.alive & ~w.at_barrier & ~w.parked) != 0;
  return status == Status::yielded;
}

// Rounds in which nothing but back-edges happened before other blocks get to run: a loop that polls
// by plain loads looks like work.
constexpr int kRounds = 64;

// Now and then another block gets to run between two short turns.
bool takes_a_break(const BlockRun& slot) {
  return mixed(slot.launch->seed ^ (uint64_t{slot.serial} << 24 | slot.slices)) % 8 == 0;
}

}  // namespace

Outcome run_block(BlockRun& slot) {
  int rounds = 0;
  while (true) {
    bool progress = false;
    bool polling = false;
    bool alive = false;
    bool moved = false;
    for (uint8_t index : slot.warp_order) {
      Warp& w = slot.warps[index];
      if (slot.status[index] == Status::exited) continue;
      alive = true;
      if (!can_run(w, slot.status[index])) continue;
      (take_turn(slot, index) ? progress : polling) = true;
      moved = moved || slot.status[index] != Status::yielded;
    }
    if (!alive) {
      if (slot.doubtful.open) raise_doubtful(slot);
      return Outcome::finished;
    }
    rounds = moved || slot.slices > 0 ? 0 : rounds + 1;
    if (slot.slices > 0 && takes_a_break(slot)) return Outcome::polling;
    if (progress && rounds < kRounds) continue;
    if (progress || polling) return Outcome::polling;
    raise_deadlock(slot);
  }
}

void weigh(const BlockRun& slot) {
  LaunchRun& launch = *slot.launch;
  const Kernel& kernel = *launch.launch.kernel;
  uint64_t work[kUnits] = {};
  for (uint32_t i = 0; i < kernel.block_count; ++i) {
    const uint64_t warps = slot.block_warps[i];
    if (warps == 0) continue;
    launch.counters.block_warps[i] += warps;
    launch.counters.block_lanes[i] += slot.block_lanes[i];
    for (uint32_t p = 0; p < kPipes && kernel.costs != nullptr; ++p) {
      work[p] += warps * kernel.costs[i].pipes[p];
    }
  }
  work[kPipes] = slot.path;
  for (uint32_t u = 0; u < kUnits; ++u) {
    launch.work[u] += work[u];
    launch.heaviest[u] = std::max(launch.heaviest[u], work[u]);
  }
  uint64_t longest = 0;
  for (const Warp& w : slot.warps) longest = std::max(longest, w.ticks);
  launch.path_ticks += longest;
  launch.path_squares += static_cast<double>(longest) * static_cast<double>(longest);
  launch.longest_ticks = std::max(launch.longest_ticks, longest);
}

void run_grid(LaunchRun& launch, uint64_t started) {
  std::deque<std::unique_ptr<BlockRun>> resident;
  std::vector<std::unique_ptr<BlockRun>> idle;
  auto enter = [&] {
    if (idle.empty()) {
      idle.push_back(std::make_unique<BlockRun>());
      prepare(*idle.back(), launch);
    }
    resident.push_back(std::move(idle.back()));
    idle.pop_back();
    start(*resident.back(), permuted(launch.seed, launch.blocks_total, started), started);
    ++started;
  };
  while (started < launch.blocks_total || !resident.empty()) {
    // The newest block goes first: it is the one that others may be waiting for.
    if (resident.size() < launch.resident_blocks && started < launch.blocks_total) {
      enter();
      std::rotate(resident.begin(), resident.end() - 1, resident.end());
    }
    std::unique_ptr<BlockRun> slot = std::move(resident.front());
    resident.pop_front();
    if (run_block(*slot) == Outcome::finished) {
      weigh(*slot);
      idle.push_back(std::move(slot));
    } else {
      resident.push_back(std::move(slot));
    }
  }
}

}  // namespace emu
