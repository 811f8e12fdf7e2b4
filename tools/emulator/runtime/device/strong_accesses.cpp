#include "device/strong_accesses.h"

#include <algorithm>
#include <cstring>

namespace emu {
namespace {

constexpr uint8_t kWholeWord = 0xf;

// Tells the writes of a word apart, but for those that a block makes without any other event between.
uint64_t event_of(const Access& write) { return uint64_t{write.block} << 32 | write.time; }

}  // namespace

void release_lanes(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at, bool adds) {
  const uint32_t traits = site_traits(w, site);
  const bool strong = adds || (traits & kStrong) != 0;
  if ((traits & kRelease) != 0) fence_lanes(w, lanes, (traits & kBlockOnly) != 0);
  if (!strong && run_of(w).block->launch->order.by_address.empty()) return;
  if (strong && adds && run_of(w).order.fenced.empty()) return;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const uint64_t address = at.address[__builtin_ctz(rest)];
    if (strong) {
      release_to(w, address, adds);
    } else {
      forget_released(w, address);
    }
  }
}

void acquire_lanes(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at) {
  if (run_of(w).block->launch->order.by_address.empty()) return;
  const bool fenced = (site_traits(w, site) & kRelaxedLoad) == 0;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    acquire_from(w, at.address[__builtin_ctz(rest)], fenced);
  }
}

void keep_earlier(Warp* w, Mask lanes, const Lanes<uint64_t>& at, uint32_t bytes) {
  const Device& d = device();
  const auto* memory = reinterpret_cast<const uint8_t*>(w->launch->delta);
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const uint64_t address = at.address[__builtin_ctz(rest)] & ~uint64_t{3};
    const uint32_t size = std::max(bytes, 4u);
    std::memcpy(d.earlier + (address - d.base) / 4, memory + address, size);
  }
}

Mask reads_earlier(Warp* w, Mask lanes, const Lanes<uint64_t>& at, uint32_t bytes) {
  const Device& d = device();
  BlockRun& block = *run_of(w).block;
  Mask late = 0;
  if (bytes != 4 && bytes != 8) return late;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint64_t word = (at.address[lane] - d.base) / 4;
    const Access& write = d.writes[word];
    if (write.time < block.launch->order.begin || write.block == block.block.linear ||
        (write.flags & kStrongAccess) == 0 || write.bytes != kWholeWord ||
        is_ordered(w, lane, write)) {
      continue;
    }
    const Access& second = d.writes[word + bytes / 4 - 1];
    if (event_of(write) != event_of(second)) continue;
    const auto seen = block.observed.find(at.address[lane]);
    if (seen == block.observed.end() || seen->second != event_of(write)) late |= Mask{1} << lane;
  }
  for (Mask rest = late; rest != 0; rest &= rest - 1) {
    const uint64_t address = at.address[__builtin_ctz(rest)];
    block.observed[address] = event_of(d.writes[(address - d.base) / 4]);
  }
  return late;
}

void keep_earlier(Warp* w, Mask lanes, const Lanes<uint32_t>& at, uint32_t bytes) {
  BlockRun& block = *run_of(w).block;
  for (Mask rest = bytes == 4 ? lanes : 0; rest != 0; rest &= rest - 1) {
    const uint32_t address = at.address[__builtin_ctz(rest)];
    std::memcpy(&block.earlier[address / 4], block.shared + address, 4);
  }
}

Mask reads_earlier(Warp* w, Mask lanes, const Lanes<uint32_t>& at, uint32_t bytes) {
  BlockRun& block = *run_of(w).block;
  Mask late = 0;
  for (Mask rest = bytes == 4 ? lanes : 0; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const Access& write = block.writes[at.address[lane] / 4];
    if (write.time < run_of(w).order.block_time || write.warp != w->index ||
        write.bytes != kWholeWord || (write.flags & kUpdate) != 0 ||
        (write.flags & kStrongAccess) == 0 || is_ordered(w, lane, write)) {
      continue;
    }
    const auto seen = block.observed.find(at.address[lane]);
    if (seen == block.observed.end() || seen->second != event_of(write)) late |= Mask{1} << lane;
  }
  for (Mask rest = late; rest != 0; rest &= rest - 1) {
    const uint32_t address = at.address[__builtin_ctz(rest)];
    block.observed[address] = event_of(block.writes[address / 4]);
  }
  return late;
}

}  // namespace emu
