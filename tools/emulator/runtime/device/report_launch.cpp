// The launch log of the report, with the counters of launches that were counted, and the calls of the
// API that failed.
#include <algorithm>
#include <cstring>

#include "device/account.h"
#include "device/l2.h"

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
  uint64_t sharing = launch.sampling.partial ? uint64_t{k.site_count} * sizeof(Sharing) : 0;
  uint64_t at = kCountersOffset + d.report->counters_used;
  if (at + 2 * row + sites + sharing > d.report_bytes) {
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
  if (sharing != 0) std::memcpy(in_report(at + 2 * row + sites), launch.sampling.sites.data(), sharing);
  d.report->counters_used += 2 * row + sites + sharing;
  return at;
}

uint64_t allocated_bytes() {
  uint64_t bytes = 0;
  for (const Allocation& one : device().allocations) {
    const bool own = one.kind == AllocationKind::buffer || one.kind == AllocationKind::scratch;
    bytes += own ? one.end - one.begin : 0;
  }
  return bytes;
}

}  // namespace

void report_launch(LaunchRun& launch) {
  Report& report = *device().report;
  ++report.launches;
  if (report.logged == kLogEntries) return;
  LaunchEntry entry{};
  const Sampling& sampling = launch.sampling;
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
  std::copy(launch.counters.work, launch.counters.work + kUnits, entry.work);
  std::copy(launch.heaviest, launch.heaviest + kUnits, entry.heaviest);
  entry.path_ticks = launch.counters.path_ticks;
  entry.longest_ticks = launch.longest_ticks;
  // Exactly known where every block was executed.
  entry.worst_line = sampling.partial ? launch.counters.worst_line
                                      : std::max(launch.counters.worst_line, sampling.shared_line);
  entry.meetings = launch.counters.meetings;
  entry.counted_blocks = sampling.partial ? sampling.counted_blocks : launch.blocks_total;
  entry.path_error = static_cast<uint64_t>(sampling.path_error);
  entry.wave_blocks = sampling.partial ? sampling.wave_blocks : 0;
  entry.shared_line = sampling.shared_line;
  entry.allocated_bytes = allocated_bytes();
  entry.l2_bytes = device().facts.l2_bytes;
  if (l.level == 1 || l.level == kSampleLevel) {
    entry.counters_offset = write_counters(launch);
    entry.footprint_bytes = launch.counters.footprint_sectors * 32;
    entry.reused_bytes = reuse_l2(launch);
  }
  std::memcpy(in_report(kLogOffset + report.logged * sizeof entry), &entry, sizeof entry);
  ++report.logged;
}

void note_failed_call(const char* call, CudaError error, int kernel) {
  for (FailedCall& one : device().report->failed_calls) {
    if (one.times == 0) {
      one.error = static_cast<uint32_t>(error);
      one.kernel = static_cast<uint32_t>(kernel);
      strncpy(one.call, call, sizeof one.call - 1);
    }
    const bool same = std::strncmp(one.call, call, sizeof one.call - 1) == 0;
    if (!same || one.error != static_cast<uint32_t>(error) || one.kernel != static_cast<uint32_t>(kernel)) {
      continue;
    }
    ++one.times;
    return;
  }
}

}  // namespace emu
