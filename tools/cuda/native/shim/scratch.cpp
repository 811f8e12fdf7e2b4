#include "scratch.h"

#include <algorithm>
#include <iterator>

namespace {

constexpr uint64_t kAlignment = 512;  // what cudaMalloc gives on current GPUs

uint64_t round_up(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The finaliser of splitmix64.
uint64_t mix(uint64_t seed) {
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111eb;
  return seed ^ (seed >> 31);
}

}  // namespace

namespace shim {

Scratch& scratch() {
  static Scratch one;
  return one;
}

void Scratch::begin(uint64_t base, uint64_t bytes, uint64_t quota, uint64_t seed) {
  const uint64_t start = round_up(base);
  const uint64_t end = base + bytes;
  const uint64_t room = end > start ? (end - start) / kAlignment * kAlignment : 0;
  begin_ = start;
  end_ = start + room;
  quota_ = std::min(quota, room);
  held_ = peak_ = 0;
  const uint64_t places = (room - quota_) / kAlignment + 1;
  first_ = start + mix(seed) % places * kAlignment;
  live_.clear();
  free_.clear();
  if (first_ > start) free_[start] = first_ - start;
  if (end_ > first_) free_[first_] = end_ - first_;
}

Scratch::Holes::iterator Scratch::find_hole(uint64_t length) {
  const auto fits = [length](const auto& hole) { return hole.second >= length; };
  const auto above = free_.lower_bound(first_);
  const auto found = std::find_if(above, free_.end(), fits);
  if (found != free_.end()) return found;
  const auto below = std::find_if(free_.begin(), above, fits);
  return below == above ? free_.end() : below;
}

uint64_t Scratch::allocate(uint64_t bytes) {
  if (bytes > free_bytes()) return 0;
  const uint64_t wanted = round_up(bytes);
  const auto hole = find_hole(wanted);
  if (hole == free_.end()) return 0;
  const auto [start, length] = *hole;
  free_.erase(hole);
  if (length > wanted) free_[start + wanted] = length - wanted;
  live_[start] = {bytes, wanted};
  held_ += bytes;
  peak_ = std::max(peak_, held_);
  return start;
}

bool Scratch::allows(uint64_t address, uint64_t bytes) const {
  if (address < begin_ || address >= end_) return true;
  const auto after = live_.upper_bound(address);
  if (after == live_.begin()) return false;
  const auto& [start, allocation] = *std::prev(after);
  const uint64_t offset = address - start;
  return offset <= allocation.asked && bytes <= allocation.asked - offset;
}

bool Scratch::release(uint64_t address) {
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  uint64_t start = address, length = found->second.length;
  held_ -= found->second.asked;
  live_.erase(found);
  const auto after = free_.find(start + length);
  if (after != free_.end() && after->first != first_) {
    length += after->second;
    free_.erase(after);
  }
  auto before = free_.lower_bound(start);
  if (start != first_ && before != free_.begin() && (--before)->first + before->second == start) {
    before->second += length;
  } else {
    free_[start] = length;
  }
  return true;
}

}  // namespace shim
