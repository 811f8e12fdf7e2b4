// Distinct numbers among what the lanes of a warp access: sectors, words.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/lanes.h"
#include "emu/warp.h"

namespace emu {

// Each distinct number among the lanes' items once, in no particular order. Neighbours are usually
// equal or rising; the list is short (at most 32 lanes x 8 items).
class Distinct {
 public:
  bool add(uint64_t value) {
    if (size_ != 0 && value == seen_[size_ - 1]) return false;
    if (size_ != 0 && value < highest_) {
      for (uint32_t i = 0; i < size_; ++i) {
        if (seen_[i] == value) return false;
      }
    } else if (size_ != 0 && value == highest_) {
      return false;
    }
    highest_ = size_ == 0 ? value : std::max(highest_, value);
    seen_[size_++] = value;
    return true;
  }
  // All numbers from the first to the last, which are at most as many as lanes have items.
  void add_range(uint64_t first, uint64_t last) {
    for (uint64_t value = first; value <= last; ++value) seen_[size_++] = value;
    highest_ = last;
  }
  uint64_t highest() const { return highest_; }
  uint32_t size() const { return size_; }
  const uint64_t* begin() const { return seen_; }
  const uint64_t* end() const { return seen_ + size_; }

 private:
  uint64_t seen_[kLanes * 8];
  uint32_t size_ = 0;
  uint64_t highest_ = 0;
};

template <class Visit>
void each_lane(Mask lanes, Visit visit) {
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) visit(__builtin_ctz(rest));
}

// Aligned accesses of at most 32 bytes stay inside one sector each.
inline void collect_sectors(Distinct& sectors, const uint64_t* address, Mask lanes) {
  each_lane(lanes, [&](int i) { sectors.add(address[i] >> 5); });
}

inline void collect_sectors(Distinct& sectors, const Lanes<uint64_t>& at, Mask lanes) {
  if (at.consecutive || at.uniform()) {
    sectors.add_range(at.low >> 5, at.high >> 5);
  } else {
    collect_sectors(sectors, at.address, lanes);
  }
}

// Of 128 bytes each.
inline uint32_t count_lines(const Distinct& sectors) {
  Distinct lines;
  for (uint64_t sector : sectors) lines.add(sector >> 2);
  return lines.size();
}

}  // namespace emu
