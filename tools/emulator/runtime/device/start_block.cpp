// Slots for blocks, and what a block finds when it starts: registers that hold nothing of use, shared
// memory that nobody has written, no barrier open.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "device/account.h"
#include "device/certain.h"
#include "device/order.h"
#include "device/run.h"

namespace emu {
namespace {

constexpr uint64_t kSlotAlign = 64;
// Where races are looked for and blocks are shuffled, warps take short turns of a few basic blocks at
// first. Only at first: a warp that waits for others would not show as one that polls.
constexpr uint32_t kSlicesPerWarp = 24;

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

// Nothing is defined yet: of registers and local memory all bits are set, and no place has given them.
void forget_registers(Warp& w) {
  const Kernel& kernel = *w.launch->kernel;
  std::memset(w.regs + kernel.undefined_offset, 0xff, kernel.register_bytes - kernel.undefined_offset);
  WarpRun& run = run_of(&w);
  run.local_undefined.assign(local_stride(kernel) * kLanes, 0xff);
  run.local_origins.clear();
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
  // Blocks that are not executed leave memory undefined.
  w.tracked = launch.launch.kernel->undefined_offset != 0 && launch.launch.level != kSampleLevel;
  w.pass = Pass::values;
  run.block = run.home = &slot;
  if (launch.launch.kernel->undefined_offset != 0) forget_registers(w);
  run.traits = launch.traits.data();
  std::fill(std::begin(run.recent), std::end(run.recent), &kNowhere);
  run.starved = run.favoured_turns = 0;
  run.favoured = run.released = run.gathering = 0;
  run.poll_cost = 0;
  run.clock = 0;
  run.copies.clear();
  std::fill(std::begin(run.group), std::end(run.group), 0u);
  run.wait = {kNone, 0, 0, 0, 0, 0, 0};
  run.cluster_arrived = run.cluster_pending = 0;
  run.bulk_stores.clear();
  run.products = {};
  std::fill(std::begin(run.bulk_group), std::end(run.bulk_group), 0u);
  run.fills = 0;
  if (slot.block.counted) {
    run.local_fills.assign(launch.launch.kernel->local_bytes / 4 + 1, 0);
  }
  run.waited = slot.waited.empty() ? nullptr : &slot.waited[index * launch.launch.kernel->site_count];
  run.polls.clear();
  run.polled = 0;
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

void prepare_block(BlockRun& slot, LaunchRun& launch) {
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
  uint64_t registers = round_up(kernel.register_bytes, kSlotAlign);
  uint64_t local = round_up(local_stride(kernel) * kLanes, kSlotAlign);
  slot.memory.resize(slot.warp_count * (registers + local) + shared + 2 * kSlotAlign);
  auto* at = reinterpret_cast<uint8_t*>(
      round_up(reinterpret_cast<uint64_t>(slot.memory.data()), kSlotAlign));
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

void start_block(BlockRun& slot, uint64_t linear, uint64_t started) {
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
  slot.asked_site = kNone;
  slot.gives_way = false;
  std::fill(slot.block_warps.begin(), slot.block_warps.end(), uint64_t{0});
  std::fill(slot.block_lanes.begin(), slot.block_lanes.end(), uint64_t{0});
  slot.waited.assign(slot.block.counted ? slot.warp_count * launch.launch.kernel->site_count : 0, 0);
  slot.begin_time = next_order_time();
  slot.has_left = false;
  slot.hidden.clear();
  slot.asynchronous = slot.cluster != nullptr;
  slot.finished = false;
  slot.idle_rounds = 0;
  slot.mbarriers.clear();
  slot.groups.clear();
  slot.fenced_for_copies.clear();
  slot.slices = launch.races && launch.seed > 1 ? kSlicesPerWarp * slot.warp_count : 0;
  slot.known_prefix = 0;
  slot.doubtful.open = false;
  begin_certain(slot);
  slot.observed.clear();
  slot.origins.clear();
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

}  // namespace emu
