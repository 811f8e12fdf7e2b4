#include "device/l1.h"

#include <algorithm>

#include "device/occupancy.h"

namespace emu {
namespace {

constexpr uint64_t kL1LineBytes = 128;
constexpr uint32_t kLineSectors = 4;
constexpr uint32_t kLeastLines = 4;
constexpr uint32_t kDirty = 0x80000000;

}  // namespace

uint32_t l1_share(const LaunchRun& launch, uint64_t blocks_per_sm) {
  const DeviceFacts& f = device().facts;
  const Kernel& k = *launch.launch.kernel;
  const uint64_t of_sm = (launch.blocks_total + f.sm_count - 1) / std::max(1u, f.sm_count);
  const uint64_t resident = std::max<uint64_t>(1, std::min(blocks_per_sm, of_sm));
  const uint64_t shared = k.static_shared_bytes + launch.launch.dynamic_shared_bytes;
  const uint64_t taken = shared == 0 ? 0 : resident * (shared + f.shared_bytes_reserved);
  const uint64_t least = f.l1_bytes - std::min(f.l1_bytes, f.shared_bytes_per_sm);
  const uint64_t left = std::max<uint64_t>(least, f.l1_bytes - std::min<uint64_t>(f.l1_bytes, taken));
  const uint64_t warps = resident * ((launch.threads + kLanes - 1) / kLanes);
  return std::max(kLeastLines, static_cast<uint32_t>(left / kL1LineBytes / std::max<uint64_t>(1, warps)));
}

uint32_t lost_sectors(Warp* w, const Distinct& sectors) {
  Device& d = device();
  WarpRun& run = run_of(w);
  const BlockRun& block = *run.block;
  const uint32_t share = block.launch->l1_share;
  const auto own = static_cast<uint32_t>(w - block.warps.data());
  const uint64_t base = d.base >> 5;
  uint32_t lost = 0;
  for (uint64_t sector : sectors) {
    const uint64_t at = sector - base;
    LineFill& line = d.line_fills[at / kLineSectors];
    const bool known = line.block == block.serial;
    const bool gone = known && line.warp == own && run.fills - line.fill >= share;
    lost += gone && d.block_stamps[at] == block.serial;
    if (!known || gone) line = {block.serial, own, ++run.fills};
  }
  return lost;
}

LocalTraffic touch_local(Warp* w, const Distinct& words, bool writes) {
  WarpRun& run = run_of(w);
  const uint32_t share = run.block->launch->l1_share;
  LocalTraffic traffic;
  for (uint64_t word : words) {
    uint32_t& line = run.local_fills[word];
    const uint32_t fill = line & ~kDirty;
    const bool gone = fill != 0 && run.fills - fill >= share;
    if (gone && (line & kDirty) != 0) traffic.written += kLineSectors;
    if (gone && !writes) traffic.read += kLineSectors;
    const uint32_t dirty = (gone ? 0 : line & kDirty) | (writes ? kDirty : 0);
    line = (fill == 0 || gone ? ++run.fills : fill) | dirty;
  }
  return traffic;
}

}  // namespace emu
