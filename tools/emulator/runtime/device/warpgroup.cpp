// Do the four warps of a group execute the same wgmma instructions?
#include <algorithm>
#include <cstring>

#include "device/fault.h"
#include "device/run.h"

namespace emu {
namespace {

[[noreturn]] void raise_missing(BlockRun& block, const GroupStep& step) {
  FaultAt found{.fault = Fault::divergent_barrier, .warp = &block.warps[step.warp], .site = step.site};
  found.reason = ReasonNumber::missing_warps;
  raise(found);
}

bool alike(const Warp* w, const GroupStep& a, const GroupStep& b) {
  const Site* sites = w->launch->kernel->sites;
  const Site &x = sites[a.site], &y = sites[b.site];
  return x.line == y.line && std::strcmp(x.opcode, y.opcode) == 0 && a.a == b.a && a.b == b.b &&
         a.adds == b.adds;
}

}  // namespace

void take_step(Warp* w, const GroupStep& step) {
  BlockRun& block = *run_of(w).home;
  const uint32_t number = w->index / kGroupWarps, member = w->index % kGroupWarps;
  if (block.groups.size() <= number) block.groups.resize(number + size_t{1});
  Warpgroup& group = block.groups[number];
  const uint64_t place = group.passed[member]++ - group.first;
  if (place == group.steps.size()) {
    for (uint32_t other = 0; other < kGroupWarps; ++other) {
      const uint32_t index = number * kGroupWarps + other;
      if (index >= block.warp_count || block.warps[index].alive == 0) raise_missing(block, step);
    }
    group.steps.push_back(step);
  } else if (!alike(w, step, group.steps[place])) {
    raise({.fault = Fault::divergent_barrier,
           .warp = w,
           .site = step.site,
           .other_site = group.steps[place].site,
           .reason = ReasonNumber::different_operands});
  }
  while (std::all_of(group.passed, group.passed + kGroupWarps,
                     [&](uint64_t passed) { return passed > group.first; })) {
    group.steps.pop_front();
    ++group.first;
  }
}

void leave_group(Warp* w) {
  BlockRun& block = *run_of(w).home;
  const uint32_t number = w->index / kGroupWarps;
  if (number >= block.groups.size()) return;
  const Warpgroup& group = block.groups[number];
  const uint64_t passed = group.passed[w->index % kGroupWarps] - group.first;
  if (passed < group.steps.size()) raise_missing(block, group.steps[passed]);
}

}  // namespace emu
