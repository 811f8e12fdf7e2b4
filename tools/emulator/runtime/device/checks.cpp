#include "device/checks.h"

#include <algorithm>

namespace emu {
namespace {

int lowest(Mask lanes) { return __builtin_ctz(lanes); }

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

template <class U>
int unknown_lane(const uint8_t* bits, U origin, Mask lanes, const Lanes<U>& at, uint32_t bytes) {
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int lane = lowest(rest);
    if (!is_known(bits, at.address[lane] - origin, bytes)) return lane;
  }
  return -1;
}

// The write that a doubtful read of another warp should have waited for.
void check_doubtful_write(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                          uint32_t bytes) {
  const BlockRun& block = *run_of(w).block;
  const DoubtfulRead& read = block.doubtful;
  if (read.warp == w) return;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int lane = lowest(rest);
    if (read.address - at.address[lane] >= bytes) continue;
    raise({.fault = Fault::race,
           .warp = w,
           .lane = lane,
           .site = site,
           .other_site = read.site,
           .space = SpaceNumber::shared,
           .access = AccessNumber::write,
           .other_access = read.access,
           .bytes = bytes,
           .address = read.address,
           .space_bytes = block.block.shared_bytes});
  }
}

}  // namespace

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
         .space_bytes = block.block.shared_bytes});
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
    if (one != nullptr && !one->tracked) continue;
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

void check_shared_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                        uint32_t bytes, AccessNumber access) {
  BlockRun& block = *run_of(w).block;
  const uint8_t* bits = block.shared_bits.data();
  if (at.uniform() && is_known(bits, at.low, bytes)) return;
  // Most often all bytes between the lowest and the highest address are known.
  if (at.high - at.low < 512 && all_set(bits, at.low, at.high - at.low + bytes)) return;
  int lane = unknown_lane(bits, 0u, lanes, at, bytes);
  if (lane < 0 || block.doubtful.open) return;
  block.doubtful = {true, w, lane, site, bytes, static_cast<uint32_t>(first_unknown(bits, at.address[lane])),
                    access};
}

void mark_shared_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                       uint32_t bytes) {
  BlockRun& block = *run_of(w).block;
  uint8_t* bits = block.shared_bits.data();
  if (block.doubtful.open) check_doubtful_write(w, site, lanes, at, bytes);
  if (at.consecutive && lanes == kFull) {
    set_bits(bits, at.low, uint64_t{kLanes} * bytes);
  } else {
    for (int i = 0; i < kLanes; ++i) make_known(bits, at.address[i], bytes);
  }
}

}  // namespace emu
