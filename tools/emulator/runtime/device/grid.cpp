// Which block runs when. Usually one block runs to its end before the next begins. A block whose
// warps only poll makes room for the other resident ones; a new one enters when one has finished,
// as on a GPU, so that protocols between blocks get no more help than a GPU gives them.
#include "device/grid.h"

#include <algorithm>
#include <deque>

#include "device/account.h"
#include "device/certain.h"
#include "device/cluster.h"
#include "device/fault.h"
#include "device/order.h"

namespace emu {
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

// Blocks went on ending until the time was up: the launch is slow here, which is no fault of it.
bool is_only_slow() {
  const Device& d = device();
  return d.expired != 0 && d.block_ended_ns != d.begun_ns &&
         (now_ns() - d.block_ended_ns) * 4 < d.block_ended_ns - d.begun_ns;
}

// Ends the call at the basic block where its foremost lanes are.
[[noreturn]] void end_late(const BlockRun& slot, Warp& w) {
  Progress& progress = device().report->progress;
  progress.basic_block = where(w);
  progress.block = slot.block.linear;
  device().report->only_slow = is_only_slow() ? 1 : 0;
  raise({.fault = Fault::endless_loop,
         .warp = &w,
         .lane = __builtin_ctz(foremost(w)),
         .basic_block = progress.basic_block});
}

// Runs the warp until it gives up its turn. True when it did something but poll.
bool take_turn(BlockRun& slot, uint32_t index) {
  LaunchRun& launch = *slot.launch;
  Warp& w = slot.warps[index];
  WarpRun& run = slot.runs[index];
  // Blocks of which each warp ends in its first turn end in time, however many they are.
  if (device().expired != 0) end_late(slot, w);
  w.fuel = kTurn;
  w.slice = slice_of(slot);
  run.poll_cost = 0;
  run.wait.cost = 0;
  run.wait.lanes = 0;
  Status status = launch.launch.kernel->run(&w);
  slot.status[index] = status;
  launch.fuel -= kTurn - w.fuel - run.poll_cost;
  bool over = launch.fuel < 0 || device().expired != 0;
  if (status == Status::exited || (status == Status::waiting && !over)) return true;
  if (over) end_late(slot, w);
  Progress& progress = device().report->progress;
  progress.basic_block = where(w);
  progress.block = slot.block.linear;
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

// And before warps that do nothing but wait for phases of mbarriers, or for their cluster, count as
// waiting for ever.
constexpr uint32_t kIdleRounds = 256;

bool waits_for_phase(const BlockRun& slot, uint32_t index) {
  const WarpRun& run = slot.runs[index];
  const Warp& w = slot.warps[index];
  const Mask able = w.alive & ~w.at_barrier & ~w.parked;
  return run.wait.cost > 0 && run.wait.cost == run.poll_cost && (able & ~run.wait.lanes) == 0;
}

bool waits_for_ever(const BlockRun& slot) {
  if (slot.cluster == nullptr) return slot.idle_rounds > kIdleRounds;
  return std::all_of(slot.cluster->blocks.begin(), slot.cluster->blocks.end(), [](const BlockRun* one) {
    return one->finished || one->idle_rounds > kIdleRounds;
  });
}

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
    bool idle = true;
    for (uint8_t index : slot.warp_order) {
      Warp& w = slot.warps[index];
      if (slot.status[index] == Status::exited) continue;
      alive = true;
      if (!can_run(w, slot.status[index])) continue;
      (take_turn(slot, index) ? progress : polling) = true;
      idle = idle && slot.status[index] == Status::yielded && waits_for_phase(slot, index);
      moved = moved || slot.status[index] != Status::yielded;
    }
    if (!alive) {
      if (slot.doubtful.open) settle_doubtful(slot);
      return Outcome::finished;
    }
    if (slot.gives_way) {
      slot.gives_way = false;
      return Outcome::polling;
    }
    rounds = moved || slot.slices > 0 ? 0 : rounds + 1;
    if (slot.slices > 0 && takes_a_break(slot)) return Outcome::polling;
    slot.idle_rounds = idle && polling ? slot.idle_rounds + 1 : 0;
    if (progress && rounds < kRounds) continue;
    if (waits_for_ever(slot)) raise_phase_deadlock(slot);
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
    launch.counters.work[u] += work[u];
    launch.heaviest[u] = std::max(launch.heaviest[u], work[u]);
  }
  const auto shorter = [](const Warp& one, const Warp& other) { return one.ticks < other.ticks; };
  const Warp& last = *std::max_element(slot.warps.begin(), slot.warps.end(), shorter);
  launch.counters.path_ticks += last.ticks;
  launch.longest_ticks = std::max(launch.longest_ticks, last.ticks);
  const uint64_t* waited = slot.runs[last.index].waited;
  for (uint32_t i = 0; waited != nullptr && i < kernel.site_count; ++i) {
    launch.counters.sites[i].path_ticks += waited[i];
  }
}


namespace {

// The block that has this rank in the launch's `number`th cluster.
uint64_t linear_in_cluster(const LaunchRun& launch, uint64_t number, uint32_t rank) {
  const uint32_t* grid = launch.launch.grid;
  const uint32_t* size = launch.cluster;
  uint64_t place[3];
  for (int axis = 0; axis < 3; ++axis) {
    const uint64_t clusters = grid[axis] / size[axis];
    place[axis] = number % clusters * size[axis] + rank % size[axis];
    number /= clusters;
    rank /= size[axis];
  }
  return place[0] + grid[0] * (place[1] + uint64_t{grid[1]} * place[2]);
}

}  // namespace

void start_cluster(LaunchRun& launch, ClusterRun* cluster, const std::vector<BlockRun*>& blocks, uint64_t number,
                   uint64_t started) {
  if (cluster != nullptr) cluster->blocks = blocks;
  for (uint32_t rank = 0; rank < blocks.size(); ++rank) {
    blocks[rank]->cluster = cluster;
    blocks[rank]->rank = rank;
    start_block(*blocks[rank], linear_in_cluster(launch, number, rank), started + rank);
  }
}

void finish_block(BlockRun& slot) {
  finish_bulk_stores(slot);
  end_certain(slot);
  slot.finished = true;
}

namespace {

// The blocks of a launch that are resident, and slots for those to come.
class Residents {
 public:
  Residents(LaunchRun& launch, uint64_t started)
      : launch_(launch),
        size_(cluster_blocks(launch)),
        started_(started),
        first_(started == 0 ? kNone : permuted(launch.seed, launch.blocks_total / size_, 0)) {}

  bool done() const { return started_ == launch_.blocks_total && waiting_.empty(); }

  // The blocks of a cluster enter together; those that are there get to run between two of them.
  bool has_room() const {
    return started_ < launch_.blocks_total && waiting_.size() + size_ <= launch_.resident_blocks &&
           (size_ == 1 || turns_ >= 4 * waiting_.size());
  }

  // The newest block goes first: it is the one that others may be waiting for.
  void enter() {
    turns_ = 0;
    const uint64_t number = next_cluster();
    std::unique_ptr<ClusterRun> cluster = size_ == 1 ? nullptr : std::make_unique<ClusterRun>();
    std::vector<BlockRun*> blocks;
    for (uint32_t rank = 0; rank < size_; ++rank) blocks.push_back(free_slot());
    start_cluster(launch_, cluster.get(), blocks, number, started_);
    started_ += size_;
    waiting_.insert(waiting_.begin(), blocks.begin(), blocks.end());
    if (cluster != nullptr) clusters_.push_back(std::move(cluster));
  }

  BlockRun& next() {
    ++turns_;
    BlockRun* slot = waiting_.front();
    waiting_.pop_front();
    return *slot;
  }

  void wait(BlockRun& slot) { waiting_.push_back(&slot); }

  // A slot is free again when its whole cluster has finished: until then others may ask for its memory.
  void finish(BlockRun& slot) {
    finish_block(slot);
    ClusterRun* cluster = slot.cluster;
    if (cluster == nullptr || cluster == slot.alone.get()) {
      idle_.push_back(&slot);
      return;
    }
    const auto& blocks = cluster->blocks;
    if (!std::all_of(blocks.begin(), blocks.end(), [](BlockRun* one) { return one->finished; })) return;
    idle_.insert(idle_.end(), blocks.begin(), blocks.end());
    std::erase_if(clusters_, [&](const auto& one) { return one.get() == cluster; });
  }

 private:
  // Cluster 0 has run already where some have: it took the turn of the one that comes first.
  uint64_t next_cluster() const {
    const uint64_t number = permuted(launch_.seed, launch_.blocks_total / size_, started_ / size_);
    return number == 0 && first_ != kNone ? first_ : number;
  }

  BlockRun* free_slot() {
    if (idle_.empty()) {
      slots_.push_back(std::make_unique<BlockRun>());
      prepare_block(*slots_.back(), launch_);
      return slots_.back().get();
    }
    BlockRun* slot = idle_.back();
    idle_.pop_back();
    return slot;
  }

  LaunchRun& launch_;
  uint32_t size_;
  uint64_t started_;
  uint64_t first_;  // cluster that the order has first, where another ran in its turn; else kNone
  uint64_t turns_ = 0;
  std::vector<std::unique_ptr<BlockRun>> slots_;
  std::vector<std::unique_ptr<ClusterRun>> clusters_;
  std::deque<BlockRun*> waiting_;
  std::vector<BlockRun*> idle_;
};

}  // namespace

void run_grid(LaunchRun& launch, uint64_t started) {
  Residents residents(launch, started);
  while (!residents.done()) {
    if (residents.has_room()) residents.enter();
    BlockRun& slot = residents.next();
    if (run_block(slot) == Outcome::finished) {
      device().block_ended_ns = now_ns();
      weigh(slot);
      residents.finish(slot);
    } else {
      residents.wait(slot);
    }
  }
}

}  // namespace emu
