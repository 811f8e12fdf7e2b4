// Which blocks stand for all, and in which order they are executed:
//
//   one block           what a block costs; where all together cost too much:
//   a wave and another  neighbours in the order of the grid, somewhere in it, each block only the first
//                       iterations of its outermost loops: what blocks share in L2
//   some blocks         whole, one somewhere in each of as many parts of the grid, the last one, and
//                       more between neighbours of unlike work: all other counts
//
// Where a launch has clusters, each of them stands in the place of a block: all its blocks are executed
// side by side. Nothing tells a block in which of them it is.
#include "device/sample.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "device/certain.h"
#include "device/checks.h"
#include "device/cluster.h"
#include "device/executed.h"
#include "device/grid.h"
#include "device/order.h"

namespace emu {
namespace {

constexpr uint64_t kFewestClusters = 2;
constexpr uint64_t kMostBlocks = 512;
constexpr uint32_t kMostBetween = 8;  // halvings that find where blocks of other work begin
constexpr uint32_t kFewestTrips = 2;
constexpr uint32_t kMostRounds = 1 << 14;
constexpr int64_t kFuelBetween = 2;   // clusters for which it must last
constexpr uint32_t kOtherLines = 0x80000000;  // lines that atomics touch are counted anew

class Sampler {
 public:
  explicit Sampler(LaunchRun& launch) : launch_(launch), size_(cluster_blocks(launch)) {
    launch.sampling.sites.resize(launch.launch.kernel->site_count + 1);
    launch.sampling.misses.resize(launch.launch.kernel->site_count + 1);
    for (uint32_t rank = 0; rank < size_; ++rank) {
      slots_.push_back(std::make_unique<BlockRun>());
      prepare_block(*slots_.back(), launch);
      blocks_.push_back(slots_.back().get());
    }
  }

  void run() {
    if (launch_.launch.cooperative) depends();
    run_one(0);
    const uint64_t cost = std::max<uint64_t>(1, cost_of_cluster());
    const uint64_t allowed = device().options.sample_cost;
    if (cost * clusters() <= allowed) {
      weigh_all();
      run_grid(launch_, size_);
      return;
    }
    launch_.sampling.partial = true;
    begin_certain_anew();
    run_waves(cost, allowed / 2);
    const uint64_t most = std::max(kFewestClusters, kMostBlocks / size_);
    run_clusters(std::clamp(allowed / 2 / cost, kFewestClusters, most), cost);
  }

 private:
  using Phase = Sampling::Phase;

  uint64_t clusters() const { return launch_.blocks_total / size_; }

  void run_one(uint64_t number) {
    ClusterRun cluster;
    start_cluster(launch_, size_ == 1 ? nullptr : &cluster, blocks_, number, started_);
    started_ += size_;
    for (BlockRun* block : blocks_) block->wave = wave_;
    std::deque<BlockRun*> waiting(blocks_.begin(), blocks_.end());
    int64_t fuel = launch_.fuel;
    for (uint64_t rounds = 0; !waiting.empty();) {
      BlockRun* block = waiting.front();
      waiting.pop_front();
      if (run_block(*block) == Outcome::finished) {
        finish_block(*block);
        continue;
      }
      waiting.push_back(block);
      // Waits for copies of its own, or for another block of its cluster, make a block give way, too.
      if (hands_over(*block) && launch_.fuel != fuel) rounds = 0;
      fuel = launch_.fuel;
      if (rounds++ == kMostRounds * size_) depends();
    }
    for (BlockRun* block : blocks_) block->cluster = nullptr;
  }

  void weigh_all() {
    for (const BlockRun* block : blocks_) weigh(*block);
  }

  [[noreturn]] void depends() {
    raise({.fault = Fault::dependent, .kernel = launch_.launch.kernel_index});
  }

  // Instructions and requests of the cluster that has just run.
  uint64_t cost_of_cluster() {
    const Kernel& kernel = *launch_.launch.kernel;
    uint64_t cost = 0;
    for (uint32_t i = 0; i < kernel.block_count && kernel.costs != nullptr; ++i) {
      for (const BlockRun* block : blocks_) {
        cost += block->block_warps[i] * kernel.costs[i].pipes[static_cast<uint32_t>(Pipe::issue)];
      }
    }
    for (const SiteCounters& site : launch_.counters.sites) cost += 4 * site.requests;
    return cost;
  }

  bool hands_over(const BlockRun& block) const {
    return size_ > 1 || block.asynchronous || !block.mbarriers.empty();
  }

  uint32_t most_trips_of_block() const {
    uint32_t most = 0;
    for (const WarpRun& run : blocks_.front()->runs) {
      for (uint32_t trips : run.trips) most = std::max(most, trips);
    }
    return most;
  }

  uint64_t draw(uint64_t below) {
    return mixed(launch_.seed ^ mixed(launch_.serial) ^ ++drawn_ << 32) % below;
  }

  void forget_counters() {
    const Kernel& k = *launch_.launch.kernel;
    Counters& c = launch_.counters;
    c = {};
    c.block_warps.resize(k.block_count + 1);
    c.block_lanes.resize(k.block_count + 1);
    c.sites.resize(k.site_count + 1);
    c.site_sectors_first.resize(k.site_count + 1);
    c.site_sectors_wave.resize(k.site_count + 1);
  }

  void run_waves(uint64_t cost, uint64_t allowed) {
    Sampling& sampling = launch_.sampling;
    const uint64_t total = clusters();
    uint64_t resident = std::clamp<uint64_t>(launch_.wave_blocks / size_, 1, total);
    const uint32_t trips = most_trips_of_block();
    // Who loads ahead for others ends as many iterations later as it is ahead.
    if (2 * resident * cost > allowed && trips > kFewestTrips && !hands_over(*blocks_.front())) {
      const uint64_t wanted = allowed * trips / (2 * resident * cost);
      sampling.most_trips = static_cast<uint32_t>(std::clamp<uint64_t>(wanted, kFewestTrips, trips));
      cost = std::max<uint64_t>(1, cost * sampling.most_trips / trips);
    }
    resident = std::clamp<uint64_t>(allowed / 2 / cost, 1, resident);
    const uint64_t first = total > 2 * resident ? draw(total - 2 * resident + 1) : 0;
    sampling.phase = Phase::before;
    wave_ = launch_.first_wave + 1;
    const uint64_t middle = std::min(first + resident, total);
    if (total > resident) {
      for (uint64_t i = first; i < middle; ++i) run_one(i);
    }
    const uint64_t begin = total > resident ? middle : 0;
    const uint64_t end = std::min(begin + resident, total);
    forget_counters();
    sampling.phase = Phase::wave;
    ++wave_;
    for (uint64_t i = begin; i < end; ++i) run_one(i);
    sampling.wave_blocks = static_cast<uint32_t>((end - begin) * size_);
    sampling.most_trips = kNone;
  }

  void run_clusters(uint64_t wanted, uint64_t cost_of_first) {
    Sampling& sampling = launch_.sampling;
    const uint64_t total = clusters();
    const uint64_t count = std::min(wanted, total);
    sampling.shared_line = 0;
    sampling.phase = Phase::blocks;
    begin_certain_anew();
    launch_.serial ^= kOtherLines;
    std::vector<Executed> found;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t begin = total * i / count, end = total * (i + 1) / count;
      found.push_back(execute(begin + draw(end - begin)));
    }
    // What is left over for the end of a grid is often less, and the first blocks may do more.
    const bool with_first =
        found.front().number != 0 && found.front().cost != cost_of_first && affords_more();
    if (with_first) found.insert(found.begin(), execute(0));
    const bool with_last = found.back().number + 1 < total && affords_more();
    if (with_last) found.push_back(execute(total - 1));
    std::optional<uint64_t> doubt = find_doubt(found);
    const bool unlike = doubt.has_value();
    if (!unlike && with_last) found.pop_back();
    if (!unlike && with_first) found.erase(found.begin());
    for (uint32_t more = 0; doubt && more < kMostBetween && affords_more(); ++more) {
      auto follows = [&](const Executed& one) { return one.number > *doubt; };
      const auto at = std::find_if(found.begin(), found.end(), follows);
      found.insert(at, execute(*doubt));
      doubt = find_doubt(found);
    }
    for (uint64_t end : ends_of_grid()) {
      const auto is_it = [&](const Executed& one) { return one.number == end; };
      if (affords_more() && std::none_of(found.begin(), found.end(), is_it)) execute_for_results(end);
    }
    count_for_all(launch_, found, unlike);
    sampling.counted_blocks = static_cast<uint32_t>(found.size() * size_);
  }

  // Whether another cluster leaves back-edges enough, or the call would be taken to be endless.
  bool affords_more() const { return launch_.fuel > kFuelBetween * dearest_; }

  Executed execute(uint64_t number) {
    forget_counters();
    wave_ += 2;
    const int64_t fuel = launch_.fuel;
    run_one(number);
    dearest_ = std::max(dearest_, fuel - launch_.fuel);
    weigh_all();
    const uint64_t cost = cost_of_cluster();
    return {number, cost, std::move(launch_.counters)};
  }

  // The first cluster, the last, and the last along each side: what is wrong at the end of a side shows
  // there.
  std::set<uint64_t> ends_of_grid() const {
    uint64_t side[3];
    for (int axis = 0; axis < 3; ++axis) side[axis] = launch_.launch.grid[axis] / launch_.cluster[axis];
    const auto [x, y, z] = side;
    return {0, x - 1, x * (y - 1), x * y * (z - 1), x * y * z - 1};
  }

  // Nobody counts it.
  void execute_for_results(uint64_t number) {
    forget_counters();
    wave_ += 2;
    run_one(number);
  }

  LaunchRun& launch_;
  const uint32_t size_;  // blocks of a cluster
  std::vector<std::unique_ptr<BlockRun>> slots_;
  std::vector<BlockRun*> blocks_;  // the slots, by rank
  uint64_t started_ = 0;
  uint64_t drawn_ = 0;
  int64_t dearest_ = 0;  // fuel that one cluster took at most
  uint32_t wave_ = 0;
};

}  // namespace

void run_sample(LaunchRun& launch) { Sampler(launch).run(); }

Level level_in_sample(LaunchRun& launch, uint32_t site, const Sharing& one, bool far) {
  Sampling& sampling = launch.sampling;
  Misses& misses = sampling.misses[site];
  if (sampling.phase == Sampling::Phase::blocks) {
    if (misses.all == 0) return Level::dram;
    misses.due += misses.far;
    if (misses.due < misses.all) return Level::l2;
    misses.due -= misses.all;
    return Level::dram;
  }
  if (sampling.phase == Sampling::Phase::wave) {
    Sharing& sum = sampling.sites[site];
    sum.in_block += one.in_block;
    sum.in_wave += one.in_wave;
    sum.again += one.again;
    ++misses.all;
    misses.far += far;
  }
  return far ? Level::dram : Level::l2;
}

}  // namespace emu
