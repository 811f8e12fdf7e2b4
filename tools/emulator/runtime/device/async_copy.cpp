// cp.async. The bytes are read when the instruction runs and written when a wait covers them; until
// then the target counts as uninitialised, so that a missing wait is seen.
#include <algorithm>

#include "device/account.h"
#include "device/certain.h"
#include "device/checks.h"
#include "device/cluster.h"
#include "device/path.h"
#include "device/races.h"
#include "device/undefined.h"
#include "emu/memory.h"

namespace emu {

void land_async_copy(Warp* w, const AsyncCopy& copy) {
  BlockRun& block = *run_of(w).block;
  uint32_t address[kLanes];
  std::fill(address, address + kLanes, copy.shared);
  Mask lane = Mask{1} << copy.lane;
  Lanes<uint32_t> at(address, 0, lane, 0);
  if (watches_races(w)) {
    const void* values[4];
    // check_race_write finds the value of lane i at in[n] + i * width.
    for (uint32_t n = 0; n < copy.bytes / 4; ++n) {
      values[n] = copy.data + 4 * n - 4 * static_cast<uint32_t>(copy.lane);
    }
    check_race_write(w, copy.site, lane, at, 4, copy.bytes / 4, values);
  }
  std::memcpy(block.shared + copy.shared, copy.data, copy.bytes);
  mark_shared_known(w, copy.site, lane, at, copy.bytes);
  for (uint32_t i = 0; i < copy.bytes; ++i) {
    if (copy.undefined[i] == 0) continue;
    uint8_t& known = block.shared_known[copy.shared + i];
    known = static_cast<uint8_t>(~copy.undefined[i]);
    block.known_prefix = std::min(block.known_prefix, copy.shared);
    remember_origins(block.origins, copy.shared + i, 1, copy.origin);
  }
}

namespace {

void forget_target(BlockRun& block, uint32_t shared, uint32_t bytes) {
  std::memset(block.shared_known.data() + shared, 0, bytes);
  block.known_prefix = std::min(block.known_prefix, shared);
}

void note_undefined(Warp* w, AsyncCopy& copy, uint64_t address, uint32_t count) {
  const Allocation* one = count == 0 ? nullptr : find_allocation(address);
  if (one == nullptr || !one->tracked) return;
  copy.origin = kNone;
  bool any = false;
  for (uint32_t i = 0; i < count; ++i) {
    copy.undefined[i] = undefined_byte(address + i, &copy.origin);
    any = any || copy.undefined[i] != 0;
  }
  if (!any || copy.origin != kNone) return;
  copy.origin = origin_of_read(w, copy.site, copy.lane, SpaceNumber::global, address, count);
}

// Lands the copies of the lanes that belong to groups below `until`.
template <class Until>
void land_groups(Warp* w, Mask lanes, Until until) {
  WarpRun& run = run_of(w);
  auto& copies = run.copies;
  auto keep = copies.begin();
  for (AsyncCopy& copy : copies) {
    if ((lanes >> copy.lane & 1) != 0 && copy.group < until(copy.lane)) {
      land_async_copy(w, copy);
      go_on_at(w, copy.site, std::max(w->ticks, copy.ready));
    } else {
      if ((lanes >> copy.lane & 1) != 0) copy.waited = copy.group == run.group[copy.lane];
      *keep++ = copy;
    }
  }
  copies.erase(keep, copies.end());
}

bool brings(const AsyncCopy& copy, uint32_t address, uint32_t bytes) {
  return copy.shared < address + bytes && address < copy.shared + copy.bytes;
}

}  // namespace

CopyUnderWay copy_under_way(const BlockRun& block, uint32_t address, uint32_t bytes) {
  for (uint32_t warp = 0; warp < block.warp_count; ++warp) {
    const WarpRun& run = block.runs[warp];
    for (const AsyncCopy& copy : run.copies) {
      if (!brings(copy, address, bytes)) continue;
      const bool committed = copy.group < run.group[copy.lane];
      return {copy.site, !committed    ? CopyNumber::uncommitted
                         : copy.waited ? CopyNumber::late
                                       : CopyNumber::unwaited};
    }
  }
  for (const auto& [at, one] : block.mbarriers) {
    for (const DeferredArrival& arrival : one.deferred) {
      for (const AsyncCopy& copy : arrival.copies) {
        if (brings(copy, address, bytes)) return {copy.site, CopyNumber::unwaited};
      }
    }
  }
  return {};
}

void land_deferred(Warp* w, Mask lanes) {
  for (auto& [at, one] : run_of(w).home->mbarriers) {
    for (DeferredArrival& arrival : one.deferred) {
      if (arrival.warp != w || (lanes >> arrival.lane & 1) == 0) continue;
      for (const AsyncCopy& copy : arrival.copies) {
        land_async_copy(w, copy);
        one.arriving_ticks = std::max(one.arriving_ticks, copy.ready);
      }
      arrival.copies.clear();
    }
  }
}

void async_copy(Warp* w, uint32_t site, Mask lanes, const uint32_t* shared, int64_t shared_offset,
                const uint64_t* global, int64_t global_offset, uint32_t bytes,
                const uint32_t* source_bytes) {
  WarpRun& run = run_of(w);
  Lanes<uint32_t> to(shared, shared_offset, lanes, bytes);
  check_window(w, site, lanes, to, bytes, w->block->shared_bytes, AccessNumber::write,
               SpaceNumber::shared);
  Mask reading = lanes;
  uint64_t ready = 0;
  if (source_bytes != nullptr) {
    for (int i = 0; i < kLanes; ++i) {
      if (source_bytes[i] == 0) reading &= ~(Mask{1} << i);
    }
  }
  if (reading != 0) {
    Lanes<uint64_t> from(global, global_offset, reading, bytes);
    bool whole = true;
    for (Mask rest = reading; source_bytes != nullptr && rest != 0; rest &= rest - 1) {
      whole = whole && source_bytes[__builtin_ctz(rest)] >= bytes;
    }
    if (whole) {
      const Allocation* one = check_global(w, site, reading, from, bytes, AccessNumber::read);
      if (!w->tracked) check_global_known(w, site, reading, from, bytes, one, AccessNumber::read);
      if (watches_races(w, one)) check_race_read(w, site, reading, from, bytes);
    } else {
      // Lanes that read less than a full copy: only those bytes must exist.
      for (Mask rest = reading; rest != 0; rest &= rest - 1) {
        int i = __builtin_ctz(rest);
        uint32_t count = std::min(source_bytes[i], bytes);
        for (uint32_t b = 0; b < count; ++b) {
          Lanes<uint64_t> byte(global, global_offset + b, Mask{1} << i, 0);
          const Allocation* one =
              check_global(w, site, Mask{1} << i, byte, 1, AccessNumber::read);
          if (w->tracked) continue;
          check_global_known(w, site, Mask{1} << i, byte, 1, one, AccessNumber::read);
        }
      }
    }
    read_for_certain(w, reading, from, nullptr, true);
    if (w->block->counted) {
      ready = account_global(w, site, reading, from, AccessNumber::read);
      ready += w->ticks;
    }
  }
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int i = __builtin_ctz(rest);
    AsyncCopy copy{};
    copy.shared = to.address[i];
    copy.bytes = bytes;
    copy.site = site;
    copy.group = run.group[i];
    copy.lane = i;
    copy.ready = ready;
    uint32_t count = source_bytes == nullptr ? bytes : std::min(source_bytes[i], bytes);
    uint64_t address = global[i] + static_cast<uint64_t>(global_offset);
    if (count != 0) std::memcpy(copy.data, device().host(address), count);
    if (w->tracked) note_undefined(w, copy, address, count);
    forget_target(*run.block, copy.shared, bytes);
    run.copies.push_back(copy);
  }
}

void async_commit(Warp* w, Mask lanes) {
  WarpRun& run = run_of(w);
  for (int i = 0; i < kLanes; ++i) run.group[i] += lanes >> i & 1;
}

void async_wait(Warp* w, Mask lanes, uint32_t groups_left) {
  const WarpRun& run = run_of(w);
  if (groups_left == 0) land_deferred(w, lanes);
  land_groups(w, lanes, [&](int lane) {
    return run.group[lane] < groups_left ? 0 : run.group[lane] - groups_left;
  });
}

void async_wait_all(Warp* w, Mask lanes) {
  land_deferred(w, lanes);
  land_groups(w, lanes, [](int) { return kNone; });
}

}  // namespace emu
