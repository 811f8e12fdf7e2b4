#include "device/l2.h"

#include <algorithm>

namespace emu {
namespace {

constexpr double kMost = 0.5;

double overlap(const SectorRange& one, const SectorRange& other) {
  const uint64_t low = std::max(one.low, other.low), high = std::min(one.high, other.high);
  return low <= high ? static_cast<double>(high - low + 1) : 0;
}

double room() { return static_cast<double>(device().facts.l2_bytes) / 32; }

double length(const SectorRange& range) { return static_cast<double>(range.high - range.low + 1); }

AllocationUse& use_of(Counters& counters, uint64_t address) {
  for (AllocationUse& one : counters.uses) {
    if (address >= one.begin && address < one.end) return one;
  }
  const Allocation* hit = find_allocation(address);
  AllocationUse use{address, address + 1, {address >> 5, address >> 5}, 0, 0};
  if (hit != nullptr) {
    use.begin = hit->begin;
    use.end = hit->end;
  }
  counters.uses.push_back(use);
  return counters.uses.back();
}

Resident* resident_in(uint64_t allocation) {
  for (Resident& one : device().residents) {
    if (one.allocation == allocation) return &one;
  }
  return nullptr;
}

// Blocks that were not executed touched more, on both sides of what the executed ones touched.
AllocationUse scaled(const AllocationUse& use, const LaunchRun& launch) {
  const Sampling& sampling = launch.sampling;
  if (!sampling.partial) return use;
  const double factor =
      static_cast<double>(launch.blocks_total) / std::max(1u, sampling.counted_blocks);
  AllocationUse all = use;
  const uint64_t margin = (use.range.high - use.range.low + 1) / std::max(1u, sampling.counted_blocks);
  all.range.low = std::max(use.begin >> 5, use.range.low - std::min(use.range.low, margin));
  all.range.high = std::min((use.end - 1) >> 5, use.range.high + margin);
  all.touched = std::min(use.touched * factor, length(all.range));
  all.moved = use.moved * (use.touched > 0 ? all.touched / use.touched : factor);
  return all;
}

// What others touch takes the place of what was left before.
void displace(double sectors) {
  for (Resident& one : device().residents) one.sectors *= std::max(0.0, 1 - sectors / room());
}

void leave(uint64_t allocation, const SectorRange& range, double sectors) {
  Resident* one = resident_in(allocation);
  if (one == nullptr) {
    device().residents.push_back({allocation, range, sectors});
    return;
  }
  const double outside = one->sectors * (1 - overlap(one->range, range) / length(one->range));
  one->range = {std::min(one->range.low, range.low), std::max(one->range.high, range.high)};
  one->sectors = std::min(outside + sectors, length(one->range));
}

}  // namespace

bool note_use(Counters& counters, const Distinct& sectors, uint64_t touched, uint64_t moved) {
  const uint64_t sector = *sectors.begin();
  AllocationUse& use = use_of(counters, sector << 5);
  use.range.low = std::min(use.range.low, sector);
  use.range.high = std::max(use.range.high, sectors.highest());
  use.touched += static_cast<double>(touched);
  use.moved += static_cast<double>(moved);
  const Resident* left = resident_in(use.begin);
  return left != nullptr && sector >= left->range.low && sector <= left->range.high &&
         left->sectors > kMost * length(left->range);
}

uint64_t reuse_l2(const LaunchRun& launch) {
  std::vector<AllocationUse> uses;
  double all = 0, found = 0;
  for (const AllocationUse& one : launch.counters.uses) {
    const AllocationUse use = scaled(one, launch);
    const Resident* left = resident_in(use.begin);
    if (left != nullptr) {
      const double part = overlap(use.range, left->range) / length(use.range);
      found += use.moved * part * left->sectors / length(left->range);
    }
    all += use.touched;
    uses.push_back(use);
  }
  displace(all);
  const double kept = std::min(1.0, room() / std::max(1.0, all));
  for (const AllocationUse& use : uses) leave(use.begin, use.range, use.touched * kept);
  return static_cast<uint64_t>(found * 32);
}

void leave_in_l2(const Allocation& allocation, uint64_t address, uint64_t bytes) {
  const SectorRange range{address >> 5, (address + bytes - 1) >> 5};
  displace(length(range));
  leave(allocation.begin, range, std::min(length(range), room()));
}

}  // namespace emu
