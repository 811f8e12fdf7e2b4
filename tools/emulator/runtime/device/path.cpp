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

namespace {

constexpr size_t kMostPolls = 16;  // sites of a loop that polls

Poll* poll_at(const Warp* w, uint32_t site) {
  std::vector<Poll>& polls = run_of(const_cast<Warp*>(w)).polls;
  const auto found = std::find_if(polls.begin(), polls.end(), [&](const Poll& one) { return one.site == site; });
  return found == polls.end() ? nullptr : &*found;
}

bool is_part_of(const Polled& what, const Polled& before) {
  if ((what.lanes & ~before.lanes) != 0) return false;
  for (int i = 0; i < kLanes; ++i) {
    if ((what.lanes >> i & 1) != 0 && what.address[i] != before.address[i]) return false;
  }
  return true;
}

}  // namespace

bool polls_again(Warp* w, uint32_t site, const Polled& what) {
  Poll* before = poll_at(w, site);
  const uint32_t bytes = w->launch->kernel->register_bytes;
  if (before == nullptr || before->what.lanes != what.lanes || !is_part_of(what, before->what) ||
      std::memcmp(before->registers.data(), w->regs, bytes) != 0) {
    return false;
  }
  w->ticks = before->ticks;
  run_of(w).polled = before->polled;
  return true;
}

bool has_polled(const Warp* w, uint32_t site, const Polled& what) {
  const Poll* before = poll_at(w, site);
  return before != nullptr && is_part_of(what, before->what);
}

void remember_poll(Warp* w, uint32_t site, const Polled& what, uint64_t written_ticks) {
  WarpRun& run = run_of(w);
  Poll* poll = poll_at(w, site);
  if (poll != nullptr && is_part_of(what, poll->what)) {
    const int64_t since = static_cast<int64_t>(w->ticks - poll->ticks) - (run.polled - poll->polled);
    const uint64_t own = poll->ticks + static_cast<uint64_t>(std::max<int64_t>(since, 0));
    const uint64_t seen = written_ticks == 0 ? 0 : written_ticks + 2 * latency_ticks(Level::l2);
    const uint64_t now = std::max(own, seen);
    run.polled += static_cast<int64_t>(now - w->ticks);
    if (now > w->ticks) go_on_at(w, site, now);
    w->ticks = now;
  } else if (poll == nullptr) {
    if (run.polls.size() == kMostPolls) run.polls.erase(run.polls.begin());
    poll = &run.polls.emplace_back();
  }
  const auto* registers = static_cast<const uint8_t*>(w->regs);
  poll->site = site;
  poll->what = what;
  poll->ticks = w->ticks;
  poll->polled = run.polled;
  poll->registers.assign(registers, registers + w->launch->kernel->register_bytes);
}

}  // namespace emu
