#include "device/touches.h"

#include <algorithm>

#include "device/l2.h"
#include "device/sample.h"

namespace emu {
namespace {

struct FirstTouches {
  uint64_t in_block = 0, in_launch = 0, in_wave = 0, again = 0;
};

FirstTouches stamp(const BlockRun& block, const Distinct& sectors) {
  Device& d = device();
  const uint64_t base = d.base >> 5;
  const uint32_t first_serial = block.launch->first_serial;
  FirstTouches found;
  for (uint64_t sector : sectors) {
    uint32_t& stamp = d.block_stamps[sector - base];
    if (stamp == block.serial) continue;
    ++found.in_block;
    found.in_launch += stamp < first_serial;
    stamp = block.serial;
    uint32_t& wave = d.wave_stamps[sector - base];
    found.in_wave += wave != block.wave;
    found.again += wave + 1 == block.wave;
    wave = block.wave;
  }
  return found;
}

// Sectors that are stored to for the first time: L2 writes each back once, even if it was read before.
FirstTouches dirty(const BlockRun& block, const Distinct& sectors, uint64_t in_block) {
  Device& d = device();
  const uint64_t base = d.base >> 5;
  FirstTouches found;
  for (uint64_t sector : sectors) {
    uint32_t& wave = d.dirty_stamps[sector - base];
    found.in_launch += wave < block.launch->first_wave;
    found.in_wave += wave != block.wave;
    found.again += wave + 1 == block.wave;
    wave = block.wave;
  }
  found.in_block = std::max(in_block, found.in_wave);
  return found;
}

}  // namespace

Level touch(Warp* w, uint32_t site, const Distinct& sectors, AccessNumber access, uint32_t lost) {
  const BlockRun& block = *run_of(w).block;
  LaunchRun& launch = *block.launch;
  Counters& counters = launch.counters;
  const bool partial = launch.sampling.partial;
  FirstTouches found = stamp(block, sectors);
  counters.footprint_sectors += found.in_launch;
  const uint64_t touched = partial ? found.in_wave : found.in_launch;
  if (access == AccessNumber::write) found = dirty(block, sectors, found.in_block);
  found.in_block += lost;
  if (found.in_block == 0) return (site_traits(w, site) & kPastL1) != 0 ? Level::l2 : Level::l1;
  counters.sites[site].l2_sectors += found.in_block;
  counters.site_sectors_first[site] += found.in_launch;
  counters.site_sectors_wave[site] += found.in_wave;
  const uint64_t moved = partial ? found.in_wave : found.in_launch;
  const bool is_left = moved != 0 && note_use(counters, sectors, touched, moved);
  if (partial) {
    const bool far = !is_left && found.in_wave != 0;
    return level_in_sample(launch, site, {found.in_block, found.in_wave, found.again}, far);
  }
  if (is_left) return Level::l2;
  const bool overflows = counters.footprint_sectors * 32 > device().facts.l2_bytes;
  return (overflows ? found.in_wave : found.in_launch) != 0 ? Level::dram : Level::l2;
}

}  // namespace emu
