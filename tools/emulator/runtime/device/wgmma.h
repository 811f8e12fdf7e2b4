// What a warp, and its warpgroup, have under way on tensor cores.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "emu/warp.h"

namespace emu {

constexpr uint32_t kGroupWarps = 4;

// A product that was not waited for.
struct ProductUnderWay {
  uint32_t group;  // number of the commit group it belongs to
  uint32_t time;   // of its reads of shared memory
  uint64_t ready;  // when it is done, in ticks
};

// Which products a register belongs to: one more than their group's number; 0: none.
struct RegisterUse {
  uint32_t result = 0, source = 0;
  uint32_t result_site = 0, source_site = 0;
};

struct WarpProducts {
  uint32_t group = 0;     // commit groups closed so far
  uint32_t complete = 0;  // of those, waited for
  bool fenced = false;    // wgmma.fence since the last product
  bool started = false;   // there was a product
  uint64_t busy = 0;      // until when, in ticks
  std::vector<ProductUnderWay> pending;  // oldest first
  std::vector<RegisterUse> registers;    // by number

  bool under_way(uint32_t use) const { return use > complete; }
  RegisterUse& at(uint16_t number) {
    if (number >= registers.size()) registers.resize(number + size_t{1});
    return registers[number];
  }
};

// What the warps of a group have executed together, as far as not all of them have come to it.
struct GroupStep {
  uint32_t site;
  uint32_t warp;  // that came first
  uint64_t a, b;  // descriptors
  bool adds;
};
struct Warpgroup {
  std::deque<GroupStep> steps;
  uint64_t first = 0;  // number of the oldest step
  uint64_t passed[kGroupWarps] = {};
};

struct BlockRun;

// The order time before which the engine has read shared memory for the warp: of its products and bulk
// stores.
uint32_t engine_reads_until(Warp* w, uint32_t now);
// The warp takes its next step, which is the one that the others took or will take.
void take_step(Warp* w, const GroupStep& step);
// The warp has left: a step of its group that it did not come to stays incomplete.
void leave_group(Warp* w);

}  // namespace emu
