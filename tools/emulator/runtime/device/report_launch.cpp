// The launch log of the report, with the counters of launches that were counted.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "device/account.h"

namespace emu {
namespace {

uint8_t* in_report(uint64_t offset) {
  return reinterpret_cast<uint8_t*>(device().report) + offset;
}

// How often the basic block of a site ran, in the blocks that were counted and in all.
struct Runs {
  double counted = 0, all = 0, lanes = 0;
};

Runs runs_of(const LaunchRun& launch, const Site& site) {
  const Counters& c = launch.counters;
  if (site.block >= launch.launch.kernel->block_count) return {};
  const auto counted = static_cast<double>(c.block_warps[site.block]);
  return {counted, counted + static_cast<double>(launch.other_warps[site.block]),
          static_cast<double>(launch.other_lanes[site.block])};
}

// From counted to all executions of a site. Hand-made kernels count no basic blocks: then by blocks.
double growth(const LaunchRun& launch, const Runs& runs) {
  if (runs.counted > 0) return runs.all / runs.counted;
  return static_cast<double>(launch.blocks_total) / static_cast<double>(launch.blocks_counted);
}

// From the counted to all accesses to global memory: the work of all blocks in counted ones.
double work_growth(const LaunchRun& launch) {
  const Kernel& k = *launch.launch.kernel;
  double counted = 0, all = 0;
  for (uint32_t i = 0; i < k.site_count && k.sites != nullptr; ++i) {
    if (launch.counters.site_sectors_first[i] == 0) continue;
    const Runs runs = runs_of(launch, k.sites[i]);
    counted += runs.counted;
    all += runs.all;
  }
  return growth(launch, {counted, all, 0});
}

bool names(const Site& site, const char* part) {
  return site.opcode != nullptr && std::strstr(site.opcode, part) != nullptr;
}

uint64_t rounded(double value) { return static_cast<uint64_t>(value + 0.5); }

// A site that ran, but never where it was looked at: every lane somewhere else.
SiteCounters scattered(const Site& site, const Runs& runs) {
  SiteCounters worst{};
  worst.requests = rounded(runs.all);
  worst.lanes = rounded(runs.lanes);
  if (names(site, "atom") || names(site, "red.")) worst.serial = worst.lanes;
  if (names(site, ".shared")) {
    worst.wavefronts = worst.lanes;
    worst.ideal_wavefronts = worst.requests;
    worst.worst_ways = std::max<uint64_t>(1, worst.lanes / std::max<uint64_t>(1, worst.requests));
  } else {
    worst.sectors = worst.l2_sectors = worst.dram_sectors = worst.lanes;
  }
  return worst;
}

SiteCounters grown_site(const SiteCounters& one, double factor) {
  SiteCounters all = one;
  for (uint64_t* figure : {&all.requests, &all.lanes, &all.sectors, &all.wavefronts,
                           &all.ideal_wavefronts, &all.l2_sectors, &all.serial}) {
    *figure = rounded(static_cast<double>(*figure) * factor);
  }
  return all;
}

struct Scaled {
  std::vector<double> dram;  // factor from counted to whole-grid sectors, one an allocation
  bool by_wave = false;      // the footprint does not fit in L2
  uint64_t footprint_bytes = 0;
};

// Sectors of an allocation that some blocks touch together. Blocks of the sample touched `apart`
// sectors when each is taken alone and `together` different ones in all; how the union grows with
// the number of blocks (not at all where all read the same bytes, in proportion where none share)
// is carried on as the same power.
double grown(double apart, double together, double sampled, double blocks) {
  if (together == 0 || sampled <= 1) return together;
  double of_one = apart / sampled;
  double power = std::clamp(std::log(together / of_one) / std::log(sampled), 0.0, 1.0);
  return of_one * std::pow(blocks, power);
}

Scaled scale_sectors(const LaunchRun& launch) {
  const Device& d = device();
  const Counters& c = launch.counters;
  auto counted = static_cast<double>(launch.blocks_counted);
  double total = counted * work_growth(launch);
  double wave = std::min(static_cast<double>(launch.wave_blocks) * total /
                             static_cast<double>(launch.blocks_total),
                         total);
  bool exact = launch.blocks_counted == launch.blocks_total;
  Scaled scaled;
  std::vector<double> unions, unions_by_wave;
  double footprint = 0;
  for (size_t i = 0; i < d.allocations.size(); ++i) {
    const Allocation& one = d.allocations[i];
    auto size = static_cast<double>((one.end + 31) / 32 - one.begin / 32);
    auto apart = static_cast<double>(c.allocation_block[i]);
    auto together = static_cast<double>(c.allocation_first[i]);
    auto by_wave = static_cast<double>(c.allocation_wave[i]);
    double in_all = exact ? together : std::min(size, grown(apart, together, counted, total));
    double in_wave = exact ? by_wave
                           : std::min(size, grown(apart, together, counted, wave)) * total / wave;
    unions.push_back(in_all);
    unions_by_wave.push_back(std::max(in_wave, in_all));
    footprint += in_all;
  }
  scaled.footprint_bytes = static_cast<uint64_t>(footprint + 0.5) * 32;
  scaled.by_wave = scaled.footprint_bytes > d.facts.l2_bytes;
  for (size_t i = 0; i < d.allocations.size(); ++i) {
    uint64_t seen = scaled.by_wave ? c.allocation_wave[i] : c.allocation_first[i];
    double meant = scaled.by_wave ? unions_by_wave[i] : unions[i];
    scaled.dram.push_back(seen == 0 ? 0 : meant / static_cast<double>(seen));
  }
  return scaled;
}

uint64_t write_counters(const LaunchRun& launch, const Scaled& scaled) {
  Device& d = device();
  const Kernel& k = *launch.launch.kernel;
  uint64_t row = uint64_t{k.block_count} * 8;
  uint64_t sites = uint64_t{k.site_count} * sizeof(SiteCounters);
  uint64_t at = kCountersOffset + d.report->counters_used;
  if (at + 2 * row + sites > d.report_bytes) {
    d.report->counters_overflowed = 1;
    return 0;
  }
  const Counters& c = launch.counters;
  auto* rows = reinterpret_cast<uint64_t*>(in_report(at));
  for (uint32_t i = 0; i < k.block_count; ++i) {
    rows[i] = c.block_warps[i] + launch.other_warps[i];
    rows[k.block_count + i] = c.block_lanes[i] + launch.other_lanes[i];
  }
  for (uint32_t i = 0; i < k.site_count; ++i) {
    const Runs runs = k.sites == nullptr ? Runs{} : runs_of(launch, k.sites[i]);
    SiteCounters one = grown_site(c.sites[i], growth(launch, runs));
    uint64_t counted = scaled.by_wave ? c.site_sectors_wave[i] : c.site_sectors_first[i];
    double factor = scaled.dram.empty() ? 0 : scaled.dram[c.site_allocation[i]];
    one.dram_sectors = rounded(static_cast<double>(counted) * factor);
    if (runs.counted == 0 && runs.all > 0) one = scattered(k.sites[i], runs);
    std::memcpy(in_report(at + 2 * row + i * sizeof one), &one, sizeof one);
  }
  d.report->counters_used += 2 * row + sites;
  return at;
}

}  // namespace

void report_launch(LaunchRun& launch) {
  Report& report = *device().report;
  ++report.launches;
  if (report.logged == kLogEntries) return;
  LaunchEntry entry{};
  const Launch& l = launch.launch;
  entry.kernel = l.kernel_index;
  std::copy(l.grid, l.grid + 3, entry.grid);
  std::copy(l.block, l.block + 3, entry.block);
  entry.static_shared_bytes = l.kernel->static_shared_bytes;
  entry.dynamic_shared_bytes = l.dynamic_shared_bytes;
  entry.cooperative = l.cooperative ? 1 : 0;
  entry.block_count = l.kernel->block_count;
  entry.site_count = l.kernel->site_count;
  entry.blocks_total = launch.blocks_total;
  entry.blocks_counted = launch.blocks_counted;
  entry.barriers = launch.counters.barriers;
  entry.threads_run = launch.counters.threads_run;
  entry.heaviest = launch.heaviest;
  entry.executions = std::accumulate(launch.other_warps.begin(), launch.other_warps.end(), uint64_t{0});
  for (const uint64_t one : launch.counters.block_warps) entry.executions += one;
  if (l.level > 0) {
    Scaled scaled = scale_sectors(launch);
    entry.counters_offset = write_counters(launch, scaled);
    entry.footprint_bytes = scaled.footprint_bytes;
  }
  std::memcpy(in_report(kLogOffset + report.logged * sizeof entry), &entry, sizeof entry);
  ++report.logged;
}

}  // namespace emu
