#include "device/account.h"

#include <algorithm>
#include <optional>

#include "device/distinct.h"
#include "device/l1.h"
#include "device/lanes.h"
#include "device/path.h"
#include "device/touches.h"

namespace emu {
namespace {

// Passes of one round of an atomic on shared memory: an H200 adds integers to one word at a lane a
// clock; a compare-and-swap loop where there is no native instruction (an estimate). In
// tools/profiler/traffic.py, too.
constexpr uint64_t kAtomicPasses = 1;
constexpr uint64_t kLoopPasses = 6;
constexpr uint64_t kLocalAtOnce = 8;  // loads of local memory that are under way together (an estimate)
constexpr uint64_t kLineTicks = 54;  // of a pass of an L2 line, as traffic.py has it in clocks

// A request passes an L2 line once a sector, and once more for each further lane on one address. Of
// those who swap the same word only one succeeds in the time that others need to hear of it.
void pass_lines(Warp* w, uint32_t site, const uint64_t* address, Mask lanes, bool changed) {
  const bool swaps = changed && (site_traits(w, site) & kSwaps) != 0;
  const uint64_t heard = swaps ? latency_ticks(Level::l2) / kLineTicks : 0;
  LaunchRun& launch = *run_of(w).block->launch;
  for (Mask rest = lanes; rest != 0;) {
    const uint64_t first = address[__builtin_ctz(rest)];
    Mask same = 0;
    each_lane(rest, [&](int i) { same |= Mask{address[i] >> 7 == first >> 7} << i; });
    rest &= ~same;
    LineUse& line = line_at(launch, first);
    line.shared |= line.passes != 0 && line.block != run_of(w).block->serial;
    line.block = run_of(w).block->serial;
    line.passes += count_sectors(address, same) + count_serial(address, same) - 1;
    if (line.shared) line.passes += static_cast<uint32_t>(heard);
    uint64_t& worst = line.shared ? launch.sampling.shared_line : launch.counters.worst_line;
    worst = std::max<uint64_t>(worst, line.passes);
  }
}

// Most distinct words that any of the 32 banks has to serve.
uint32_t worst_bank(const Lanes<uint32_t>& at, Mask lanes, uint32_t bytes) {
  // 32 neighbouring words lie in 32 banks.
  if ((at.high + bytes - 1) / 4 - at.low / 4 < 32) return 1;
  Distinct words;
  uint32_t of_bank[32] = {};
  uint32_t most = 1;
  each_lane(lanes, [&](int i) {
    for (uint32_t b = 0; b < bytes; b += 4) {
      uint32_t word = (at.address[i] + b) / 4;
      if (words.add(word)) most = std::max(most, ++of_bank[word % 32]);
    }
  });
  return most;
}

// Does every lane access what its neighbour at this distance does, if that is active?
bool reads_alike(const Lanes<uint32_t>& at, Mask lanes, int distance) {
  bool alike = true;
  each_lane(lanes, [&](int i) {
    const int other = i ^ distance;
    alike &= (lanes >> other & 1) == 0 || at.address[i] == at.address[other];
  });
  return alike;
}

// Lines of local memory that L1 could not keep. Where the resident threads' local memories are larger
// than L2, part of them goes on to DRAM.
void ask_l2(Warp* w, uint32_t site, const LocalTraffic& traffic) {
  LaunchRun& launch = *run_of(w).block->launch;
  const DeviceFacts& f = device().facts;
  const uint64_t blocks = std::min<uint64_t>(launch.wave_blocks, launch.blocks_total);
  const double footprint = static_cast<double>(blocks * launch.threads) *
                           static_cast<double>(local_stride(*launch.launch.kernel));
  const double far = std::clamp(footprint / std::max(1u, f.l2_bytes) - 0.5, 0.0, 1.0);
  const uint64_t asked = traffic.read + traffic.written;
  const auto beyond = static_cast<uint64_t>(far * static_cast<double>(asked));
  launch.counters.sites[site].l2_sectors += asked;
  launch.counters.site_sectors_first[site] += beyond;
  launch.counters.site_sectors_wave[site] += beyond;
  if (launch.sampling.phase == Sampling::Phase::wave) {
    Sharing& sum = launch.sampling.sites[site];
    sum.in_block += asked;
    sum.in_wave += beyond;
  }
  if (traffic.read != 0) go_on_at(w, site, w->ticks + latency_ticks(Level::l2) / kLocalAtOnce);
}

}  // namespace

uint32_t count_sectors(const uint64_t* address, Mask lanes) {
  Distinct sectors;
  collect_sectors(sectors, address, lanes);
  return sectors.size();
}

// An H200's counters say the same as this for every pattern tried (tests/fixtures/recorded): an
// 8-byte access is served half-warp by half-warp, a 16-byte one quarter by quarter; two neighbouring
// parts of a load are served as one where each lane reads what its neighbour at distance one reads,
// or each what its neighbour at distance two reads.
Passes count_passes(const Lanes<uint32_t>& at, Mask lanes, uint32_t bytes, AccessNumber access) {
  if (bytes <= 4) return {worst_bank(at, lanes, bytes), 1};
  const uint32_t parts = std::min(bytes, 16u) / 4;
  if (at.consecutive) return {parts, parts};
  const uint32_t width = kLanes / parts;
  const Mask first = (Mask{1} << width) - 1;
  Passes passes = {0, 0};
  auto serve = [&](Mask part) {
    if (part == 0) return;
    passes.taken += worst_bank(at, part, bytes);
    ++passes.ideal;
  };
  for (uint32_t i = 0; i < parts; i += 2) {
    const Mask low = lanes & first << (i * width);
    const Mask high = lanes & first << ((i + 1) * width);
    if (access == AccessNumber::read &&
        (reads_alike(at, low | high, 1) || reads_alike(at, low | high, 2))) {
      serve(low | high);
    } else {
      serve(low);
      serve(high);
    }
  }
  return passes;
}

uint32_t count_serial(const uint64_t* address, Mask lanes) {
  uint64_t seen[kLanes];
  uint32_t times[kLanes];
  uint32_t distinct = 0, most = 0;
  each_lane(lanes, [&](int i) {
    uint32_t at = 0;
    while (at < distinct && seen[at] != address[i]) ++at;
    if (at == distinct) {
      seen[at] = address[i];
      times[at] = 0;
      ++distinct;
    }
    most = std::max(most, ++times[at]);
  });
  return most;
}

uint64_t account_global(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                        AccessNumber access, bool polls) {
  const std::optional<Polled> what = polls ? std::optional(polled_by(lanes, at.address)) : std::nullopt;
  if (what && polls_again(w, site, *what)) return 0;
  Counters& counters = run_of(w).block->launch->counters;
  SiteCounters& c = counters.sites[site];
  Distinct sectors;
  collect_sectors(sectors, at, lanes);
  ++c.requests;
  c.lanes += static_cast<uint64_t>(__builtin_popcount(lanes));
  c.sectors += sectors.size();
  const uint32_t lines = count_lines(sectors);
  c.lines += lines;
  const bool cached = access == AccessNumber::read && (site_traits(w, site) & kPastL1) == 0;
  const uint32_t lost = cached ? lost_sectors(w, sectors) : 0;
  uint64_t ticks = latency_ticks(touch(w, site, sectors, access, lost));
  if (access == AccessNumber::atomic) {
    // A kept result is under way for two latencies of L2: 525 clocks of an H200, a load 287.
    ticks += latency_ticks(Level::l2);
    c.serial += count_serial(at.address, lanes);
    pass_lines(w, site, at.address, lanes, !polls);
  }
  if (!what || !has_polled(w, site, *what)) wait(w, site, ticks);
  // L1 looks up a line a clock, and moves four sectors.
  occupy(w, site, std::max<uint64_t>(kPassSectors * lines, sectors.size()));
  if ((site_traits(w, site) & kStrong) == 0) return ticks;
  LineUse& line = line_at(*run_of(w).block->launch, at.low);
  if (access != AccessNumber::read) line.ticks = std::max(line.ticks, w->ticks);
  if (at.low - device().workspace < kWorkspaceBytes && access == AccessNumber::atomic) {
    // The last block to arrive goes on after all others, as they do after it.
    counters.meetings += static_cast<uint64_t>(__builtin_popcount(lanes));
    go_on_at(w, site, line.ticks);
  }
  if (what) remember_poll(w, site, *what, line.ticks);
  return ticks;
}

uint64_t account_run(Warp* w, uint32_t site, uint64_t address, uint64_t bytes, bool first,
                     AccessNumber access) {
  constexpr uint64_t kAtOnce = 128;  // sectors
  constexpr uint64_t kWavefront = 128;  // bytes
  if (bytes == 0) return 0;
  BlockRun& block = *run_of(w).block;
  SiteCounters& c = block.launch->counters.sites[site];
  c.requests += first ? 1 : 0;
  c.lanes += bytes;  // each counts as a lane of one byte
  const uint64_t end = (address + bytes - 1) >> 5;
  uint64_t ticks = 0;
  for (uint64_t sector = address >> 5; sector <= end; sector += kAtOnce) {
    Distinct sectors;
    sectors.add_range(sector, std::min(end, sector + kAtOnce - 1));
    c.sectors += sectors.size();
    c.lines += count_lines(sectors);
    ticks = std::max(ticks, latency_ticks(touch(w, site, sectors, access)));
  }
  if (access == AccessNumber::atomic) ++c.serial;
  const uint64_t passes = (bytes + kWavefront - 1) / kWavefront;
  c.wavefronts += passes;
  c.ideal_wavefronts += passes;
  c.worst_ways = std::max<uint64_t>(c.worst_ways, 1);
  // Beside the warp, which goes on; but on the same data path.
  block.path += passes * kPassSectors * block.launch->sector_ticks;
  return ticks;
}

void account_const(Warp* w, uint32_t site, Mask lanes, const uint64_t* address) {
  SiteCounters& c = run_of(w).block->launch->counters.sites[site];
  Distinct words;
  each_lane(lanes, [&](int i) { words.add(address[i] >> 2); });
  ++c.requests;
  c.lanes += static_cast<uint64_t>(__builtin_popcount(lanes));
  c.wavefronts += words.size();
  ++c.ideal_wavefronts;
  c.worst_ways = std::max<uint64_t>(c.worst_ways, words.size());
  occupy(w, site, kPassSectors * (words.size() - 1));
}

void account_shared(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at, uint32_t bytes,
                    AccessNumber access, bool polls) {
  const std::optional<Polled> what = polls ? std::optional(polled_by(lanes, at.address)) : std::nullopt;
  if (what && polls_again(w, site, *what)) return;
  const Site& facts = w->launch->kernel->sites[site];
  if (facts.width == kPart) return;
  SiteCounters& c = run_of(w).block->launch->counters.sites[site];
  const Passes passes =
      facts.width == 0
          ? count_passes(at, lanes, bytes, access)
          : count_passes({at.address, facts.shift, lanes, facts.width}, lanes, facts.width, access);
  const uint64_t latency = uint64_t{kTicks} * device().facts.latency_shared;
  ++c.requests;
  c.lanes += static_cast<uint64_t>(__builtin_popcount(lanes));
  c.wavefronts += passes.taken;
  c.ideal_wavefronts += passes.ideal;
  c.worst_ways =
      std::max<uint64_t>(c.worst_ways, (passes.taken + passes.ideal - 1) / passes.ideal);
  uint64_t taken = passes.taken;
  if (access == AccessNumber::atomic) {
    uint64_t wide[kLanes];
    for (int i = 0; i < kLanes; ++i) wide[i] = at.address[i];
    const uint64_t serial = count_serial(wide, lanes);
    c.serial += serial;
    const bool loops = (site_traits(w, site) & kFloat) != 0;
    taken = std::max(taken, serial) * (loops ? kLoopPasses : kAtomicPasses);
    if (loops) go_on_at(w, site, w->ticks + serial * 2 * latency);
  }
  if (!what || !has_polled(w, site, *what)) wait(w, site, latency);
  occupy(w, site, kPassSectors * taken);
  if (what) remember_poll(w, site, *what, 0);
}

void account_local(Warp* w, uint32_t site, Mask lanes, const uint32_t* address, uint32_t bytes,
                   AccessNumber access) {
  LaunchRun& launch = *run_of(w).block->launch;
  SiteCounters& c = launch.counters.sites[site];
  // Hardware interleaves: the same word of 8 neighbouring lanes shares a sector.
  Distinct sectors, words;
  each_lane(lanes, [&](int i) {
    for (uint32_t b = 0; b < bytes; b += 4) {
      words.add((address[i] + b) / 4);
      sectors.add(uint64_t{(address[i] + b) / 4} * 4 + static_cast<uint64_t>(i) / 8);
    }
  });
  ++c.requests;
  c.lanes += static_cast<uint64_t>(__builtin_popcount(lanes));
  c.sectors += sectors.size();
  const LocalTraffic traffic = touch_local(w, words, access == AccessNumber::write);
  if (traffic.read + traffic.written != 0) ask_l2(w, site, traffic);
  wait(w, site, latency_ticks(Level::l1));
  occupy(w, site, std::max<uint64_t>(kPassSectors, sectors.size()));
}

}  // namespace emu
