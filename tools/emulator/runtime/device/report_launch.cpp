// The launch log of the report, with the counters of launches that were counted.
#include <algorithm>
#include <cstring>

#include "device/account.h"

namespace emu {
namespace {

uint8_t* in_report(uint64_t offset) {
  return reinterpret_cast<uint8_t*>(device().report) + offset;
}

struct Scaled {
  std::vector<double> dram;  // factor from counted to whole-grid sectors, one an allocation
  bool by_wave = false;      // the footprint does not fit in L2
  uint64_t footprint_bytes = 0;
};

// A sample that reads all of a matrix must not count it once for each block that was left out:
// an allocation is never touched in more sectors than it has (by each wave, where L2 is too small
// to keep it).
Scaled scale_sectors(const LaunchRun& launch) {
  const Device& d = device();
  const Counters& c = launch.counters;
  double scale = static_cast<double>(launch.blocks_total) /
                 static_cast<double>(std::max<uint64_t>(launch.blocks_counted, 1));
  Scaled scaled;
  std::vector<double> whole(d.allocations.size());
  double footprint = 0;
  for (size_t i = 0; i < d.allocations.size(); ++i) {
    double size = static_cast<double>((d.allocations[i].end - d.allocations[i].begin + 31) / 32);
    whole[i] = std::min(size, static_cast<double>(c.allocation_first[i]) * scale);
    footprint += whole[i];
  }
  scaled.footprint_bytes = static_cast<uint64_t>(footprint) * 32;
  scaled.by_wave = scaled.footprint_bytes > d.facts.l2_bytes;
  double waves = static_cast<double>((launch.blocks_total + launch.wave_blocks - 1) /
                                     launch.wave_blocks);
  for (size_t i = 0; i < d.allocations.size(); ++i) {
    auto counted = static_cast<double>(scaled.by_wave ? c.allocation_wave[i] : c.allocation_first[i]);
    double size = static_cast<double>((d.allocations[i].end - d.allocations[i].begin + 31) / 32);
    double most = scaled.by_wave ? size * waves : whole[i];
    scaled.dram.push_back(counted == 0 ? 0 : std::min(counted * scale, most) / counted);
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
  std::memcpy(in_report(at), c.block_warps.data(), row);
  std::memcpy(in_report(at + row), c.block_lanes.data(), row);
  for (uint32_t i = 0; i < k.site_count; ++i) {
    SiteCounters one = c.sites[i];
    uint64_t counted = scaled.by_wave ? c.site_sectors_wave[i] : c.site_sectors_first[i];
    double factor = scaled.dram.empty() ? 0 : scaled.dram[c.site_allocation[i]];
    one.dram_sectors = static_cast<uint64_t>(static_cast<double>(counted) * factor + 0.5);
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
  if (l.level > 0) {
    Scaled scaled = scale_sectors(launch);
    entry.counters_offset = write_counters(launch, scaled);
    entry.footprint_bytes = scaled.footprint_bytes;
  }
  std::memcpy(in_report(kLogOffset + report.logged * sizeof entry), &entry, sizeof entry);
  ++report.logged;
}

}  // namespace emu
