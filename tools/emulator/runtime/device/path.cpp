#include "device/path.h"

#include <algorithm>
#include <cstring>

namespace emu {

uint64_t latency_ticks(Level level) {
  const DeviceFacts& f = device().facts;
  const uint32_t clocks = level == Level::dram ? f.latency_dram
                          : level == Level::l2 ? f.latency_l2
                                               : f.latency_l1;
  return uint64_t{kTicks} * clocks;
}

void wait(Warp* w, uint32_t site, uint64_t ticks) {
  const Site& s = w->launch->kernel->sites[site];
  if (s.waits == 0) return;
  ticks = ticks * s.waits / 256;
  if (s.copy != 0) {
    uint64_t& waited = run_of(w).waited_in_copy[s.copy];
    uint64_t& most = run_of(w).waited_in_loop[s.loop];
    waited += ticks;
    ticks = waited > most ? waited - most : 0;
    most = std::max(most, waited);
  }
  go_on_at(w, site, w->ticks + ticks);
}

void occupy(Warp* w, uint32_t site, uint64_t sectors) {
  BlockRun& block = *run_of(w).block;
  const uint64_t ticks = sectors * block.launch->sector_ticks;
  go_on_at(w, site, w->ticks + ticks);
  block.path += ticks;
}

LineUse& line_at(const LaunchRun& launch, uint64_t address) {
  Device& d = device();
  LineUse& line = d.lines[(address - d.base) >> 7];
  if (line.launch != launch.serial) line = {launch.serial, 0, 0, 0, false};
  return line;
}

bool polls_again(Warp* w, uint32_t site, uint64_t address) {
  WarpRun& run = run_of(w);
  const uint32_t bytes = w->launch->kernel->register_bytes;
  if (run.poll_site != site || run.poll_address != address ||
      run.polled_registers.size() != bytes ||
      std::memcmp(run.polled_registers.data(), w->regs, bytes) != 0) {
    return false;
  }
  w->ticks = run.poll_ticks;
  run.poll_waits = true;
  return true;
}

void remember_poll(Warp* w, uint32_t site, uint64_t address, uint64_t written_ticks) {
  WarpRun& run = run_of(w);
  const auto* registers = static_cast<const uint8_t*>(w->regs);
  if (run.poll_site == site && run.poll_address == address && run.poll_waits) {
    go_on_at(w, site, std::max(run.poll_ticks, written_ticks + 2 * latency_ticks(Level::l2)));
    // All warps of a block that wait for one event make one meeting.
    if (run.block->met != written_ticks) ++run.block->launch->counters.waits_for_blocks;
    run.block->met = written_ticks;
  }
  run.poll_site = site;
  run.poll_address = address;
  run.poll_waits = false;
  run.poll_ticks = w->ticks;
  run.polled_registers.assign(registers, registers + w->launch->kernel->register_bytes);
}

}  // namespace emu
