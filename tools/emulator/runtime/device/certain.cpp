#include "device/certain.h"

#include <algorithm>

namespace emu {
namespace {

constexpr size_t kMostRanges = size_t{1} << 22;  // of a call, and of a block

struct Output {
  uint64_t begin;       // of its allocation
  uint32_t serial = 0;  // of the first block of the launch that stored to it last
  bool blurred = false;
  std::vector<StoredRange> ranges;
};

struct Certain {
  bool lost = false;  // nothing is certain any more
  std::vector<Output> outputs;
};

Certain& certain() {
  static Certain one;
  return one;
}

bool samples(const Warp* w) { return w->launch->level == kSampleLevel; }

bool is_input(const Allocation& one) { return one.kind == AllocationKind::buffer && !one.watched; }
bool is_output(const Allocation& one) { return one.kind == AllocationKind::buffer && one.watched; }

Output& output_of(const Allocation& one) {
  auto& all = certain().outputs;
  auto found = std::find_if(all.begin(), all.end(), [&](const Output& o) { return o.begin == one.begin; });
  if (found != all.end()) return *found;
  all.push_back({});
  all.back().begin = one.begin;
  return all.back();
}

// What device code may write lacks what other blocks do, and has what a block did twice.
bool knows(const Allocation& one) { return is_input(one) || one.read_only; }

void add(std::vector<StoredRange>& ranges, uint64_t begin, uint64_t end) {
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

}  // namespace

void be_uncertain(Warp* w, bool steers) {
  if (!samples(w)) return;
  BlockRun& block = *run_of(w).home;
  block.uncertain = true;
  block.misled = block.misled || steers;
}

void read_for_certain(Warp* w, Mask lanes, const Lanes<uint64_t>& at, const Allocation* one, bool steers) {
  if (!samples(w)) return;
  const BlockRun& block = *run_of(w).home;
  const bool is_known = block.uncertain && (block.misled || !steers);
  if (is_known || (one != nullptr && knows(*one))) return;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const Allocation* hit = one != nullptr ? one : find_allocation(at.address[lowest(rest)]);
    if (hit != nullptr && knows(*hit)) continue;
    be_uncertain(w, steers);
    return;
  }
}

void read_for_certain(Warp* w, uint64_t address) {
  if (!samples(w)) return;
  const Allocation* hit = find_allocation(address);
  if (hit == nullptr || !knows(*hit)) be_uncertain(w, true);
}

void store_for_certain(Warp* w, Mask lanes, const Lanes<uint64_t>& at, uint32_t bytes, const Allocation* one) {
  if (!samples(w)) return;
  BlockRun& block = *run_of(w).home;
  if (block.stored.size() > kMostRanges) block.uncertain = true;
  if (one != nullptr && !is_output(*one)) return;
  if (one != nullptr && at.consecutive && lanes == kFull) {
    add(block.stored, at.low, at.low + uint64_t{kLanes} * bytes);
    return;
  }
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const uint64_t address = at.address[lowest(rest)];
    const Allocation* hit = one != nullptr ? one : find_allocation(address);
    if (hit != nullptr && is_output(*hit)) add(block.stored, address, address + bytes);
  }
}

void blur(Warp* w, const Lanes<uint64_t>& at, Mask lanes, const Allocation* one) {
  if (!samples(w)) return;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const Allocation* hit = one != nullptr ? one : find_allocation(at.address[lowest(rest)]);
    if (hit != nullptr && is_output(*hit)) output_of(*hit).blurred = true;
    if (one != nullptr) return;
  }
}

void blur(Warp* w, uint64_t address) {
  if (!samples(w)) return;
  const Allocation* hit = find_allocation(address);
  if (hit != nullptr && is_output(*hit)) output_of(*hit).blurred = true;
}

void begin_certain(BlockRun& block) {
  block.uncertain = block.misled = false;
  block.stored.clear();
}

void end_certain(BlockRun& block) {
  if (block.stored.empty()) return;
  const LaunchRun& launch = *block.launch;
  const auto phase = launch.sampling.phase;
  const bool whole = phase == Sampling::Phase::whole || phase == Sampling::Phase::blocks;
  for (const StoredRange& range : block.stored) {
    const Allocation* one = find_allocation(range.begin);
    if (one == nullptr || !is_output(*one)) continue;
    Output& output = output_of(*one);
    if (output.serial != launch.first_serial) {
      output.serial = launch.first_serial;
      output.ranges.clear();
    }
    if (whole && !block.uncertain) add(output.ranges, range.begin, range.end);
    if (output.ranges.size() > kMostRanges) certain().lost = true;
  }
  block.stored.clear();
}

void copied(const Allocation* from, const Allocation* to, bool whole) {
  if (device().options.level != kSampleLevel) return;
  Certain& all = certain();
  all.lost = all.lost || !whole || (from != nullptr && !knows(*from));
  if (to != nullptr && is_output(*to)) output_of(*to).ranges.clear();
}

void begin_certain_anew() {
  for (Output& one : certain().outputs) one.ranges.clear();
}

void forget_certain() { certain() = {}; }

void report_certain(uint64_t* to, uint64_t capacity_bytes) {
  Certain& all = certain();
  std::vector<StoredRange> ranges;
  for (Output& one : all.outputs) {
    if (one.blurred || all.lost) continue;
    ranges.insert(ranges.end(), one.ranges.begin(), one.ranges.end());
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const StoredRange& a, const StoredRange& b) { return a.begin < b.begin; });
  std::vector<StoredRange> merged;
  for (const StoredRange& one : ranges) {
    if (!merged.empty() && one.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, one.end);
    } else {
      merged.push_back(one);
    }
  }
  if (capacity_bytes < 3 * sizeof(uint64_t)) return;
  const uint64_t room = (capacity_bytes / sizeof(uint64_t) - 1) / 2;
  const uint64_t count = std::min<uint64_t>(room, merged.size());
  to[0] = count;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t from = count == 1 ? 0 : i * (merged.size() - 1) / (count - 1);
    to[1 + 2 * i] = merged[from].begin - device().base;
    to[2 + 2 * i] = merged[from].end - merged[from].begin;
  }
}

}  // namespace emu
