#include "device/executed.h"

#include <algorithm>
#include <cmath>

namespace emu {
namespace {

constexpr double kLeastDoubt = 0.01;  // of the work of the grid

double unlike(double one, double other) { return std::abs(one - other); }

double gap(const std::vector<Executed>& blocks, size_t i) {
  return static_cast<double>(blocks[i + 1].linear - blocks[i].linear);
}

double cost(const Executed& one) { return static_cast<double>(one.cost); }

// How many blocks of the grid each stands for, over the mean.
std::vector<double> weights(const LaunchRun& launch, const std::vector<Executed>& blocks, bool by_distance) {
  std::vector<double> found(blocks.size(), 1.0);
  if (!by_distance) return found;
  const double total = static_cast<double>(launch.blocks_total);
  const double many = static_cast<double>(blocks.size());
  double begin = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const double here = static_cast<double>(blocks[i].linear) + 0.5;
    const double end = i + 1 < blocks.size() ? here + gap(blocks, i) / 2 : total;
    found[i] = (end - begin) * many / total;
    begin = end;
  }
  return found;
}

// Adds up one counter of all blocks, each times its weight.
template <typename Read>
uint64_t sum(const std::vector<Executed>& blocks, const std::vector<double>& weight, Read read) {
  double all = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    all += weight[i] * static_cast<double>(read(blocks[i].counters));
  }
  return static_cast<uint64_t>(std::llround(all));
}

void add_uses(std::vector<AllocationUse>& all, const std::vector<AllocationUse>& uses, double weight) {
  for (const AllocationUse& use : uses) {
    auto same = [&](const AllocationUse& one) { return one.begin == use.begin; };
    auto found = std::find_if(all.begin(), all.end(), same);
    if (found == all.end()) found = all.insert(all.end(), {use.begin, use.end, use.range, 0, 0});
    found->range.low = std::min(found->range.low, use.range.low);
    found->range.high = std::max(found->range.high, use.range.high);
    found->touched += weight * use.touched;
    found->moved += weight * use.moved;
  }
}

// Neighbours stand for each other's part of the grid: their differences tell how badly.
double path_error(const std::vector<Executed>& blocks, double total) {
  double squares = 0;
  for (size_t i = 0; i + 1 < blocks.size(); ++i) {
    const double one = static_cast<double>(blocks[i].counters.path_ticks);
    const double off = gap(blocks, i) / total * unlike(one, static_cast<double>(blocks[i + 1].counters.path_ticks));
    squares += off * off / 2;
  }
  return std::sqrt(squares);
}

}  // namespace

std::optional<uint64_t> find_doubt(const std::vector<Executed>& blocks) {
  double most = 0, work = 0;
  size_t where = 0;
  for (size_t i = 0; i + 1 < blocks.size(); ++i) {
    work += gap(blocks, i) * (cost(blocks[i]) + cost(blocks[i + 1])) / 2;
    const double doubt = gap(blocks, i) / 2 * unlike(cost(blocks[i]), cost(blocks[i + 1]));
    if (gap(blocks, i) >= 2 && doubt > most) {
      most = doubt;
      where = i;
    }
  }
  if (most <= kLeastDoubt * work) return std::nullopt;
  return (blocks[where].linear + blocks[where + 1].linear) / 2;
}

void count_for_all(LaunchRun& launch, const std::vector<Executed>& blocks, bool by_distance) {
  const std::vector<double> weight = weights(launch, blocks, by_distance);
  auto all = [&](auto read) { return sum(blocks, weight, read); };
  Counters found = blocks.front().counters;
  for (size_t i = 0; i < found.block_warps.size(); ++i) {
    found.block_warps[i] = all([&](const Counters& one) { return one.block_warps[i]; });
    found.block_lanes[i] = all([&](const Counters& one) { return one.block_lanes[i]; });
  }
  for (size_t i = 0; i < found.sites.size(); ++i) {
    for (uint64_t SiteCounters::*counter :
         {&SiteCounters::requests, &SiteCounters::lanes, &SiteCounters::sectors, &SiteCounters::lines,
          &SiteCounters::wavefronts, &SiteCounters::ideal_wavefronts, &SiteCounters::l2_sectors,
          &SiteCounters::dram_sectors, &SiteCounters::serial,
          &SiteCounters::path_ticks}) {
      found.sites[i].*counter = all([&](const Counters& one) { return one.sites[i].*counter; });
    }
    for (const Executed& one : blocks) {
      found.sites[i].worst_ways = std::max(found.sites[i].worst_ways, one.counters.sites[i].worst_ways);
    }
  }
  for (uint64_t Counters::*counter : {&Counters::footprint_sectors, &Counters::barriers, &Counters::threads_run,
                                      &Counters::meetings, &Counters::path_ticks}) {
    found.*counter = all([&](const Counters& one) { return one.*counter; });
  }
  for (uint32_t u = 0; u < kUnits; ++u) {
    found.work[u] = all([&](const Counters& one) { return one.work[u]; });
  }
  found.uses.clear();
  for (size_t i = 0; i < blocks.size(); ++i) {
    add_uses(found.uses, blocks[i].counters.uses, weight[i]);
    found.worst_line = std::max(found.worst_line, blocks[i].counters.worst_line);
    found.waits_for_blocks = std::max(found.waits_for_blocks, blocks[i].counters.waits_for_blocks);
  }
  launch.sampling.path_error = path_error(blocks, static_cast<double>(launch.blocks_total));
  launch.counters = std::move(found);
}

}  // namespace emu
