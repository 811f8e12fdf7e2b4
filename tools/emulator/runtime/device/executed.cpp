#include "device/executed.h"

#include <algorithm>
#include <cmath>

#include "device/grid.h"

namespace emu {
namespace {

constexpr double kLeastDoubt = 0.01;  // of the work of the grid

double clusters_of(const LaunchRun& launch) {
  return static_cast<double>(launch.blocks_total / cluster_blocks(launch));
}

double unlike(double one, double other) { return std::abs(one - other); }

double gap(const std::vector<Executed>& clusters, size_t i) {
  return static_cast<double>(clusters[i + 1].number - clusters[i].number);
}

double cost(const Executed& one) { return static_cast<double>(one.cost); }

// How many clusters of the grid each stands for, over the mean.
std::vector<double> weights(const LaunchRun& launch, const std::vector<Executed>& clusters, bool by_distance) {
  std::vector<double> found(clusters.size(), 1.0);
  if (!by_distance) return found;
  const double total = clusters_of(launch);
  const double many = static_cast<double>(clusters.size());
  double begin = 0;
  for (size_t i = 0; i < clusters.size(); ++i) {
    const double here = static_cast<double>(clusters[i].number) + 0.5;
    const double end = i + 1 < clusters.size() ? here + gap(clusters, i) / 2 : total;
    found[i] = (end - begin) * many / total;
    begin = end;
  }
  return found;
}

// Adds up one counter of all clusters, each times its weight.
template <typename Read>
uint64_t sum(const std::vector<Executed>& clusters, const std::vector<double>& weight, Read read) {
  double all = 0;
  for (size_t i = 0; i < clusters.size(); ++i) {
    all += weight[i] * static_cast<double>(read(clusters[i].counters));
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
double path_error(const std::vector<Executed>& clusters, double total) {
  double squares = 0;
  for (size_t i = 0; i + 1 < clusters.size(); ++i) {
    const double one = static_cast<double>(clusters[i].counters.path_ticks);
    const double off = gap(clusters, i) / total * unlike(one, static_cast<double>(clusters[i + 1].counters.path_ticks));
    squares += off * off / 2;
  }
  return std::sqrt(squares);
}

}  // namespace

std::optional<uint64_t> find_doubt(const std::vector<Executed>& clusters) {
  double most = 0, work = 0;
  size_t where = 0;
  for (size_t i = 0; i + 1 < clusters.size(); ++i) {
    work += gap(clusters, i) * (cost(clusters[i]) + cost(clusters[i + 1])) / 2;
    const double doubt = gap(clusters, i) / 2 * unlike(cost(clusters[i]), cost(clusters[i + 1]));
    if (gap(clusters, i) >= 2 && doubt > most) {
      most = doubt;
      where = i;
    }
  }
  if (most <= kLeastDoubt * work) return std::nullopt;
  return (clusters[where].number + clusters[where + 1].number) / 2;
}

void count_for_all(LaunchRun& launch, const std::vector<Executed>& clusters, bool by_distance) {
  const std::vector<double> weight = weights(launch, clusters, by_distance);
  auto all = [&](auto read) { return sum(clusters, weight, read); };
  Counters found = clusters.front().counters;
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
    for (const Executed& one : clusters) {
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
  for (size_t i = 0; i < clusters.size(); ++i) {
    add_uses(found.uses, clusters[i].counters.uses, weight[i]);
    found.worst_line = std::max(found.worst_line, clusters[i].counters.worst_line);
  }
  launch.sampling.path_error = path_error(clusters, clusters_of(launch)) / cluster_blocks(launch);
  launch.counters = std::move(found);
}

}  // namespace emu
