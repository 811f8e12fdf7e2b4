// The launch log of the report, with the counters of launches that were counted.
#include <algorithm>
#include <cstring>

#include "device/account.h"

namespace emu {
namespace {

uint8_t* in_report(uint64_t offset) {
  return reinterpret_cast<uint8_t*>(device().report) + offset;
}

uint64_t write_counters(const LaunchRun& launch) {
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
  // Where the footprint does not fit in L2, each wave reads again what the one before has read.
  const bool by_wave = c.footprint_sectors * 32 > d.facts.l2_bytes;
  auto* rows = reinterpret_cast<uint64_t*>(in_report(at));
  for (uint32_t i = 0; i < k.block_count; ++i) {
    rows[i] = c.block_warps[i];
    rows[k.block_count + i] = c.block_lanes[i];
  }
  for (uint32_t i = 0; i < k.site_count; ++i) {
    SiteCounters one = c.sites[i];
    one.dram_sectors = by_wave ? c.site_sectors_wave[i] : c.site_sectors_first[i];
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
  entry.barriers = launch.counters.barriers;
  entry.threads_run = launch.counters.threads_run;
  std::copy(launch.work, launch.work + kUnits, entry.work);
  std::copy(launch.heaviest, launch.heaviest + kUnits, entry.heaviest);
  entry.path_ticks = launch.path_ticks;
  entry.longest_ticks = launch.longest_ticks;
  entry.worst_line = launch.counters.worst_line;
  // A grid that meets by means of its own waits for itself no shorter.
  entry.meetings = std::max(launch.counters.meetings, launch.counters.waits_for_blocks);
  if (l.level == 1) {
    entry.counters_offset = write_counters(launch);
    entry.footprint_bytes = launch.counters.footprint_sectors * 32;
  }
  std::memcpy(in_report(kLogOffset + report.logged * sizeof entry), &entry, sizeof entry);
  ++report.logged;
}

}  // namespace emu
