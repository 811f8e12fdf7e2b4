#include "device/checks.h"

#include <algorithm>

namespace emu {
namespace {

// Bits of an aligned run of 1, 2, 4 or 8 bytes inside its shadow byte; longer ones are whole bytes.
uint8_t run_bits(uint64_t first, uint32_t bytes) {
  return static_cast<uint8_t>(((1u << std::min(bytes, 8u)) - 1) << (first & 7));
}

// `first` is a multiple of `bytes`.
bool is_known(const uint8_t* bits, uint64_t first, uint32_t bytes) {
  uint8_t want = run_bits(first, bytes);
  bool known = true;
  for (uint32_t i = 0; i < std::max(bytes / 8, 1u); ++i) {
    known = known && (bits[(first >> 3) + i] & want) == want;
  }
  return known;
}

void make_known(uint8_t* bits, uint64_t first, uint32_t bytes) {
  uint8_t set = run_bits(first, bytes);
  for (uint32_t i = 0; i < std::max(bytes / 8, 1u); ++i) {
    uint8_t& byte = bits[(first >> 3) + i];
    byte = static_cast<uint8_t>(byte | set);
  }
}

uint64_t first_unknown(const uint8_t* bits, uint64_t first) {
  while ((bits[first >> 3] >> (first & 7) & 1) != 0) ++first;
  return first;
}

// After a race, a read of what nobody wrote is no finding where it is not followed to what it decides.
bool hides_undefined(const Warp* w) {
  return !w->tracked && device().report->races[0].fault != 0;
}

}  // namespace

void check_doubtful_write(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                          uint32_t bytes) {
  const BlockRun& block = *run_of(w).block;
  const DoubtfulRead& read = block.doubtful;
  if (read.warp == w) return;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int lane = lowest(rest);
    if (read.address - at.address[lane] >= bytes) continue;
    keep_race({.fault = Fault::race,
               .warp = w,
               .lane = lane,
               .site = site,
               .other_site = read.site,
               .space = SpaceNumber::shared,
               .access = AccessNumber::write,
               .other_access = read.access,
               .bytes = bytes,
               .address = read.address,
               .space_bytes = block.block.shared_bytes,
               .copy_site = read.copy.site,
               .copy_state = read.copy.state},
              read.before_races);
    run_of(w).block->doubtful.open = false;
    return;
  }
}

void settle_doubtful(BlockRun& block) {
  if (block.doubtful.decides && !hides_undefined(block.doubtful.warp)) raise_doubtful(block);
  block.doubtful.open = false;
}

void raise_doubtful(BlockRun& block) {
  DoubtfulRead read = block.doubtful;
  block.doubtful.open = false;
  raise({.fault = Fault::uninitialised,
         .warp = read.warp,
         .lane = read.lane,
         .site = read.site,
         .space = SpaceNumber::shared,
         .access = read.access,
         .bytes = read.bytes,
         .address = read.address,
         .space_bytes = block.block.shared_bytes,
         .copy_site = read.copy.site,
         .copy_state = read.copy.state});
}

void raise_dependent(Warp* w, uint32_t site, int lane) {
  raise({.fault = Fault::dependent, .warp = w, .lane = lane, .site = site});
}

const Allocation* check_global_slow(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                                    uint32_t bytes, AccessNumber access, SpaceNumber space) {
  const Allocation* common = nullptr;
  bool several = false;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int lane = lowest(rest);
    uint64_t address = at.address[lane];
    FaultAt fault{.fault = Fault::misaligned, .warp = w, .lane = lane, .site = site};
    fault.space = space;
    fault.access = access;
    fault.bytes = bytes;
    fault.address = address;
    if ((address & (bytes - 1)) != 0) raise(fault);
    const Allocation* one = find_allocation(address);
    if (one == nullptr || one->end - address < bytes || one->end < address) {
      fault.fault = Fault::out_of_bounds;
      raise(fault);
    }
    if (one->read_only && access != AccessNumber::read) {
      fault.fault = Fault::read_only;
      raise(fault);
    }
    several = several || (common != nullptr && common != one);
    common = one;
  }
  run_of(w).recent[site % 8] = common;
  return several ? nullptr : common;
}

void check_global_known_slow(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                             uint32_t bytes, AccessNumber access) {
  const Device& d = device();
  if (at.consecutive && all_set(d.initialised, at.low - d.base, uint64_t{kLanes} * bytes)) return;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int lane = lowest(rest);
    uint64_t address = at.address[lane];
    if (is_known(d.initialised, address - d.base, bytes)) continue;
    const Allocation* one = find_allocation(address);
    if ((one != nullptr && !one->tracked) || hides_undefined(w)) continue;
    if (w->launch->level == kSampleLevel) {
      // A block that is not executed may have written it.
      if (w->launch->kernel->sites[site].steers) raise_dependent(w, site, lane);
      continue;
    }
    raise({.fault = Fault::uninitialised,
           .warp = w,
           .lane = lane,
           .site = site,
           .space = SpaceNumber::global,
           .access = access,
           .bytes = bytes,
           .address = d.base + first_unknown(d.initialised, address - d.base)});
  }
}

void mark_global_known_slow(Mask lanes, const Lanes<uint64_t>& at, uint32_t bytes) {
  const Device& d = device();
  if (at.consecutive && lanes == kFull) {
    set_bits(d.initialised, at.low - d.base, uint64_t{kLanes} * bytes);
    return;
  }
  for (int i = 0; i < kLanes; ++i) make_known(d.initialised, at.address[i] - d.base, bytes);
}

void raise_in_window(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at, uint32_t bytes,
                     uint64_t size, AccessNumber access, SpaceNumber space) {
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int lane = lowest(rest);
    uint32_t address = at.address[lane];
    bool misaligned = (address & (bytes - 1)) != 0;
    bool outside = uint64_t{address} + bytes > size;
    if (!misaligned && !outside) continue;
    raise({.fault = outside ? Fault::out_of_bounds : Fault::misaligned,
           .warp = w,
           .lane = lane,
           .site = site,
           .space = space,
           .access = access,
           .bytes = bytes,
           .address = address,
           .space_bytes = size});
  }
  refuse(Fault::infrastructure, "a failed check without a failing lane");
}

void extend_known_prefix(BlockRun& block) {
  uint32_t& prefix = block.known_prefix;
  while (prefix < block.block.shared_bytes && block.shared_known[prefix] == 0xff) ++prefix;
}

void doubt_shared(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at, uint32_t bytes,
                  AccessNumber access, Tracks tracks) {
  BlockRun& block = *run_of(w).block;
  // A block that is executed in part may have left out what writes it.
  const bool decides = !w->tracked || tracks == Tracks::no;
  if (w->launch->level == kSampleLevel) return;
  if (block.doubtful.open && (block.doubtful.decides || !decides)) return;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int lane = lowest(rest);
    for (uint32_t byte = at.address[lane]; byte < at.address[lane] + bytes; ++byte) {
      if (block.shared_known[byte] == 0xff) continue;
      block.doubtful = {true, w, lane, site, bytes, byte, access, decides, copy_under_way(block, byte, 1),
                        device().report->races[0].fault == 0};
      return;
    }
  }
}

void check_shared_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                        uint32_t bytes, AccessNumber access) {
  switch (bytes) {
    case 2: return check_shared_known<uint16_t, 1>(w, site, lanes, at, access);
    case 4: return check_shared_known<uint32_t, 1>(w, site, lanes, at, access);
    case 8: return check_shared_known<uint64_t, 1>(w, site, lanes, at, access);
    default: return check_shared_known<uint64_t, 2>(w, site, lanes, at, access);
  }
}

void mark_shared_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                       uint32_t bytes) {
  switch (bytes) {
    case 2: return mark_shared_known<uint16_t, 1>(w, site, lanes, at);
    case 4: return mark_shared_known<uint32_t, 1>(w, site, lanes, at);
    case 8: return mark_shared_known<uint64_t, 1>(w, site, lanes, at);
    default: return mark_shared_known<uint64_t, 2>(w, site, lanes, at);
  }
}

}  // namespace emu
