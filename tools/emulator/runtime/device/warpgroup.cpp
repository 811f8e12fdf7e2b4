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

bool is_product(const Warp* w, const GroupStep& step) {
  return std::strncmp(w->launch->kernel->sites[step.site].opcode, "wgmma.mma", 9) == 0;
}

// Copies of one instruction are the same instruction.
bool same_instruction(const Warp* w, const GroupStep& a, const GroupStep& b) {
  const Site* sites = w->launch->kernel->sites;
  const Site &x = sites[a.site], &y = sites[b.site];
  return x.line == y.line && std::strcmp(x.opcode, y.opcode) == 0;
}

[[noreturn]] void raise_unlike(Warp* w, const GroupStep& mine, const GroupStep& others) {
  const bool same = same_instruction(w, mine, others);
  const bool turned = !same && !is_product(w, mine);
  raise({.fault = Fault::divergent_barrier,
         .warp = w,
         .site = turned ? others.site : mine.site,
         .other_site = turned ? mine.site : others.site,
         .reason = same ? ReasonNumber::different_operands : ReasonNumber::missing_warps});
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
    return;
  }
  const GroupStep& others = group.steps[place];
  const bool operands = step.a == others.a && step.b == others.b && step.adds == others.adds;
  if (!operands || !same_instruction(w, step, others)) raise_unlike(w, step, others);
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
