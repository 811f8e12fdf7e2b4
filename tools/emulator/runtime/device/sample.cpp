// Which blocks stand for all, and in which order they are executed:
//
//   one block           what a block costs; where all together cost too much:
//   a wave and another  neighbours in the order of the grid, somewhere in it, each block only the first
//                       iterations of its outermost loops: what blocks share in L2
//   some blocks         whole, one somewhere in each of as many parts of the grid, the last one, and
//                       more between neighbours of unlike work: all other counts
//
// Nothing tells a block in which of them it is.
#include "device/sample.h"

#include <algorithm>
#include <set>
#include <utility>

#include "device/certain.h"
#include "device/checks.h"
#include "device/cluster.h"
#include "device/executed.h"
#include "device/grid.h"
#include "device/order.h"

namespace emu {
namespace {

constexpr uint64_t kFewestBlocks = 2;
constexpr uint64_t kMostBlocks = 512;
constexpr uint32_t kMostBetween = 8;  // halvings that find where blocks of other work begin
constexpr uint32_t kFewestTrips = 2;
constexpr uint32_t kMostRounds = 1 << 14;
constexpr int64_t kFuelBetween = 2;   // blocks for which it must last
constexpr uint32_t kOtherLines = 0x80000000;  // lines that atomics touch are counted anew

class Sampler {
 public:
  explicit Sampler(LaunchRun& launch) : launch_(launch) {
    launch.sampling.sites.resize(launch.launch.kernel->site_count + 1);
    launch.sampling.misses.resize(launch.launch.kernel->site_count + 1);
    prepare_block(slot_, launch);
  }

  void run() {
    const uint64_t total = launch_.blocks_total;
    const uint32_t* cluster = launch_.cluster;
    if (launch_.launch.cooperative || cluster[0] * cluster[1] * cluster[2] != 1) depends();
    run_one(0);
    const uint64_t cost = std::max<uint64_t>(1, cost_of_block());
    const uint64_t allowed = device().options.sample_cost;
    if (cost * total <= allowed) {
      weigh(slot_);
      run_grid(launch_, 1);
      return;
    }
    launch_.sampling.partial = true;
    begin_certain_anew();
    run_waves(cost, allowed / 2);
    run_blocks(std::clamp(allowed / 2 / cost, kFewestBlocks, kMostBlocks), cost);
  }

 private:
  using Phase = Sampling::Phase;

  void run_one(uint64_t linear) {
    slot_.cluster = nullptr;
    slot_.rank = 0;
    start_block(slot_, linear, started_++);
    slot_.wave = wave_;
    // Waits for copies of its own make a block give way, too.
    for (uint32_t rounds = 0; run_block(slot_) != Outcome::finished; ++rounds) {
      if (rounds == kMostRounds) depends();
    }
    finish_bulk_stores(slot_);
    end_certain(slot_);
    slot_.finished = true;
  }

  [[noreturn]] void depends() {
    raise({.fault = Fault::dependent, .kernel = launch_.launch.kernel_index});
  }

  // Instructions and requests of the block that has just run.
  uint64_t cost_of_block() {
    const Kernel& kernel = *launch_.launch.kernel;
    uint64_t cost = 0;
    for (uint32_t i = 0; i < kernel.block_count && kernel.costs != nullptr; ++i) {
      cost += slot_.block_warps[i] * kernel.costs[i].pipes[static_cast<uint32_t>(Pipe::issue)];
    }
    for (const SiteCounters& site : launch_.counters.sites) cost += 4 * site.requests;
    return cost;
  }

  uint32_t most_trips_of_block() const {
    uint32_t most = 0;
    for (const WarpRun& run : slot_.runs) {
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
    const uint64_t total = launch_.blocks_total;
    uint64_t blocks = std::min<uint64_t>(launch_.wave_blocks, total);
    const uint32_t trips = most_trips_of_block();
    // Who loads ahead for others ends as many iterations later as it is ahead.
    const bool hands_over = slot_.asynchronous || !slot_.mbarriers.empty();
    if (2 * blocks * cost > allowed && trips > kFewestTrips && !hands_over) {
      const uint64_t wanted = allowed * trips / (2 * blocks * cost);
      sampling.most_trips = static_cast<uint32_t>(std::clamp<uint64_t>(wanted, kFewestTrips, trips));
      cost = std::max<uint64_t>(1, cost * sampling.most_trips / trips);
    }
    blocks = std::clamp<uint64_t>(allowed / 2 / cost, 1, blocks);
    const uint64_t first = total > 2 * blocks ? draw(total - 2 * blocks + 1) : 0;
    sampling.phase = Phase::before;
    wave_ = launch_.first_wave + 1;
    const uint64_t middle = std::min(first + blocks, total);
    if (total > blocks) {
      for (uint64_t i = first; i < middle; ++i) run_one(i);
    }
    const uint64_t begin = total > blocks ? middle : 0;
    const uint64_t end = std::min(begin + blocks, total);
    forget_counters();
    sampling.phase = Phase::wave;
    ++wave_;
    for (uint64_t i = begin; i < end; ++i) run_one(i);
    sampling.wave_blocks = static_cast<uint32_t>(end - begin);
    sampling.most_trips = kNone;
  }

  void run_blocks(uint64_t wanted, uint64_t cost_of_first) {
    Sampling& sampling = launch_.sampling;
    const uint64_t total = launch_.blocks_total;
    const uint64_t count = std::min(wanted, total);
    sampling.shared_line = 0;
    sampling.phase = Phase::blocks;
    begin_certain_anew();
    launch_.serial ^= kOtherLines;
    std::vector<Executed> blocks;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t begin = total * i / count, end = total * (i + 1) / count;
      blocks.push_back(execute(begin + draw(end - begin)));
    }
    // What is left over for the end of a grid is often less, and the first blocks may do more.
    const bool with_first =
        blocks.front().linear != 0 && blocks.front().cost != cost_of_first && affords_more();
    if (with_first) blocks.insert(blocks.begin(), execute(0));
    const bool with_last = blocks.back().linear + 1 < total && affords_more();
    if (with_last) blocks.push_back(execute(total - 1));
    std::optional<uint64_t> doubt = find_doubt(blocks);
    const bool unlike = doubt.has_value();
    if (!unlike && with_last) blocks.pop_back();
    if (!unlike && with_first) blocks.erase(blocks.begin());
    for (uint32_t more = 0; doubt && more < kMostBetween && affords_more(); ++more) {
      auto follows = [&](const Executed& one) { return one.linear > *doubt; };
      const auto at = std::find_if(blocks.begin(), blocks.end(), follows);
      blocks.insert(at, execute(*doubt));
      doubt = find_doubt(blocks);
    }
    for (uint64_t end : ends_of_grid()) {
      const auto is_it = [&](const Executed& one) { return one.linear == end; };
      if (affords_more() && std::none_of(blocks.begin(), blocks.end(), is_it)) execute_for_results(end);
    }
    count_for_all(launch_, blocks, unlike);
    sampling.counted_blocks = static_cast<uint32_t>(blocks.size());
  }

  // Whether another block leaves back-edges enough, or the call would be taken to be endless.
  bool affords_more() const { return launch_.fuel > kFuelBetween * dearest_; }

  Executed execute(uint64_t linear) {
    forget_counters();
    wave_ += 2;
    const int64_t fuel = launch_.fuel;
    run_one(linear);
    dearest_ = std::max(dearest_, fuel - launch_.fuel);
    weigh(slot_);
    const uint64_t cost = cost_of_block();
    return {linear, cost, std::move(launch_.counters)};
  }

  // The first block, the last, and the last along each side: what is wrong at the end of a side shows
  // there.
  std::set<uint64_t> ends_of_grid() const {
    const uint64_t x = launch_.launch.grid[0], y = launch_.launch.grid[1], z = launch_.launch.grid[2];
    return {0, x - 1, x * (y - 1), x * y * (z - 1), x * y * z - 1};
  }

  // Nobody counts it.
  void execute_for_results(uint64_t linear) {
    forget_counters();
    wave_ += 2;
    run_one(linear);
  }

  LaunchRun& launch_;
  BlockRun slot_;
  uint64_t started_ = 0;
  uint64_t drawn_ = 0;
  int64_t dearest_ = 0;  // fuel that one block took at most
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
