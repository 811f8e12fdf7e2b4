// How long the path through a block is: what each warp waits for, one thing after another.
#pragma once

#include <cstdint>

#include "device/run.h"

namespace emu {

constexpr uint64_t kPassSectors = 4;  // a pass is 32 words wide

// Where the last sector of a request comes from.
enum class Level { l1, l2, dram };

uint64_t latency_ticks(Level level);

// The warp goes on at that time of its path: until then it waits for the instruction.
inline void go_on_at(Warp* w, uint32_t site, uint64_t ticks) {
  uint64_t* waited = run_of(w).waited;
  if (ticks > w->ticks && waited != nullptr) waited[site] += ticks - w->ticks;
  w->ticks = ticks;
}
// The warp waits for the instruction's result, as far as the code after it needs that.
void wait(Warp* w, uint32_t site, uint64_t ticks);
// The data path of L1 and shared memory moves so many sectors' worth of words.
void occupy(Warp* w, uint32_t site, uint64_t sectors);
// What the launch did to the line of L2 that holds the address.
LineUse& line_at(const LaunchRun& launch, uint64_t address);

template <class T>
Polled polled_by(Mask lanes, const T* address) {
  Polled found{lanes, {}};
  for (int i = 0; i < kLanes; ++i) found.address[i] = (lanes >> i & 1) != 0 ? address[i] : 0;
  return found;
}

// Whoever polls waits for others, not for itself: a poll that finds everything as the one before did
// counts for nothing.
bool polls_again(Warp* w, uint32_t site, const Polled& what);
// Whether the same lanes, or some of them, have polled the same there before.
bool has_polled(const Warp* w, uint32_t site, const Polled& what);
// Remembers the poll. One that was made before goes on where that did, after what the warp has done since
// beside polling, and after whoever wrote what it finds: blocks write side by side, so that a poll does not
// take longer by each that has.
void remember_poll(Warp* w, uint32_t site, const Polled& what, uint64_t written_ticks);

}  // namespace emu
