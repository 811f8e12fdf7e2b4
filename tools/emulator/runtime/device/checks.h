// The checks every memory instruction passes. Each ends the process when it fails.
#pragma once

#include "device/fault.h"
#include "device/lanes.h"
#include "device/pages.h"
#include "device/run.h"

namespace emu {

// The allocation that all lanes hit, or null when they hit several; checks bounds and alignment.
const Allocation* check_global_slow(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                                    uint32_t bytes, AccessNumber access, SpaceNumber space);

inline const Allocation* check_global(Warp* w, uint32_t site, Mask lanes,
                                      const Lanes<uint64_t>& at, uint32_t bytes,
                                      AccessNumber access,
                                      SpaceNumber space = SpaceNumber::global) {
  const Allocation* one = run_of(w).recent[site % 8];
  bool inside = at.low >= one->begin && at.low < one->end && at.high < one->end &&
                one->end - at.high >= bytes;
  bool writable = access == AccessNumber::read || !one->read_only;
  if (!inside || !writable || (at.bits & (bytes - 1)) != 0) {
    one = check_global_slow(w, site, lanes, at, bytes, access, space);
  }
  if (one == nullptr || one->pool_pages != 0) fill_touched(one, at, lanes, bytes);
  return one;
}

// Reads of bytes nobody has written; `one` is null when the lanes hit several allocations.
void check_global_known_slow(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                             uint32_t bytes, AccessNumber access);
void mark_global_known_slow(Mask lanes, const Lanes<uint64_t>& at, uint32_t bytes);

inline void check_global_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                               uint32_t bytes, const Allocation* one, AccessNumber access) {
  if (one != nullptr && !one->tracked) return;
  check_global_known_slow(w, site, lanes, at, bytes, access);
}

inline void mark_global_known(Mask lanes, const Lanes<uint64_t>& at, uint32_t bytes,
                              const Allocation* one) {
  if (one != nullptr && !one->tracked) return;
  mark_global_known_slow(lanes, at, bytes);
}

// What the kernel does next follows from what blocks that are not executed would have done.
[[noreturn]] void raise_dependent(Warp* w, uint32_t site, int lane);

// Shared and local memory: one range from 0 to `size`.
[[noreturn]] void raise_in_window(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                                  uint32_t bytes, uint64_t size, AccessNumber access,
                                  SpaceNumber space);

inline void check_window(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                         uint32_t bytes, uint64_t size, AccessNumber access, SpaceNumber space) {
  if (uint64_t{at.high} + bytes <= size && (at.bits & (bytes - 1)) == 0) return;
  raise_in_window(w, site, lanes, at, bytes, size, access, space);
}

// Does an instruction leave it to its kernel to keep track of undefined bits, where kernels do?
enum class Tracks : bool { no, yes };

// Some lane reads bytes that nobody has written: not a fault yet, but a doubtful read (run.h).
void doubt_shared(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at, uint32_t bytes,
                  AccessNumber access, Tracks tracks = Tracks::no);
// Does the write explain a doubtful read as a race?
void check_doubtful_write(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                          uint32_t bytes);

// Most often everything between the lowest and the highest address is known.
inline bool all_known(const uint8_t* known, uint32_t bytes) {
  uint8_t all = 0xff;
  for (uint32_t i = 0; i < bytes; ++i) all &= known[i];
  return all == 0xff;
}

template <class T, int N>
void check_shared_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                        AccessNumber access, Tracks tracks = Tracks::no) {
  const BlockRun& block = *run_of(w).block;
  constexpr uint32_t kBytes = sizeof(T) * N;
  if (uint64_t{at.high} + kBytes <= block.known_prefix) return;
  const uint8_t* known = block.shared_known.data();
  T all = static_cast<T>(~T{0});
  if (at.high - at.low <= 256 && all_known(known + at.low, at.high - at.low + kBytes)) return;
  if (at.consecutive) {
    for (int i = 0; i < kLanes * N; ++i) {
      all = static_cast<T>(all & raw_load<T>(known + at.low + static_cast<uint32_t>(i) * sizeof(T)));
    }
  } else if (at.uniform()) {
    for (int n = 0; n < N; ++n) {
      all = static_cast<T>(all & raw_load<T>(known + at.low + static_cast<uint32_t>(n) * sizeof(T)));
    }
  } else {
    for (int n = 0; n < N; ++n) {
      const uint8_t* from = known + static_cast<uint32_t>(n) * sizeof(T);
      for (int i = 0; i < kLanes; ++i) all = static_cast<T>(all & raw_load<T>(from + at.address[i]));
    }
  }
  if (all == static_cast<T>(~T{0})) return;
  doubt_shared(w, site, lanes, at, kBytes, access, tracks);
}

template <class T, int N>
void mark_shared_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at) {
  BlockRun& block = *run_of(w).block;
  if (uint64_t{at.high} + sizeof(T) * N <= block.known_prefix) return;
  uint8_t* known = block.shared_known.data();
  if (block.doubtful.open) check_doubtful_write(w, site, lanes, at, sizeof(T) * N);
  if (at.consecutive) {
    std::memset(known + at.low, 0xff, sizeof(T) * N * kLanes);
    return;
  }
  for (int n = 0; n < N; ++n) {
    uint8_t* to = known + static_cast<uint32_t>(n) * sizeof(T);
    for (int i = 0; i < kLanes; ++i) raw_store<T>(to + at.address[i], static_cast<T>(~T{0}));
  }
}

// The same for a width known only at run time.
void check_shared_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                        uint32_t bytes, AccessNumber access);
void mark_shared_known(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                       uint32_t bytes);

}  // namespace emu
