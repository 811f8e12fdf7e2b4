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

// Whoever polls waits for others, not for itself: a poll that finds everything as the one before did
// counts for nothing.
bool polls_again(Warp* w, uint32_t site, uint64_t address);
// Remembers the poll. One that has waited, and finds a change, goes on after whoever made it.
void remember_poll(Warp* w, uint32_t site, uint64_t address, uint64_t written_ticks);

}  // namespace emu
