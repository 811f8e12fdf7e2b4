#include "scratch.h"

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
  quota_ = quota < room ? round_up(quota) : room;
  if (quota_ > room) quota_ = room;
  held_ = peak_ = 0;
  const uint64_t skipped = mix(seed) % ((room - quota_) / kAlignment + 1) * kAlignment;
  live_.clear();
  free_.clear();
  if (room > skipped) free_[start + skipped] = room - skipped;
}

uint64_t Scratch::allocate(uint64_t bytes) {
  if (bytes > quota_ || round_up(bytes) > free_bytes()) return 0;
  const uint64_t wanted = round_up(bytes);
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const auto [start, length] = *hole;
    if (length < wanted) continue;
    free_.erase(hole);
    if (length > wanted) free_[start + wanted] = length - wanted;
    live_[start] = wanted;
    held_ += wanted;
    if (held_ > peak_) peak_ = held_;
    return start;
  }
  return 0;
}

bool Scratch::release(uint64_t address) {
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  auto [start, length] = *found;
  live_.erase(found);
  held_ -= length;
  const auto after = free_.lower_bound(start);
  if (after != free_.end() && after->first == start + length) {
    length += after->second;
    free_.erase(after);
  }
  auto before = free_.lower_bound(start);
  if (before != free_.begin() && (--before)->first + before->second == start) {
    before->second += length;
  } else {
    free_[start] = length;
  }
  return true;
}

}  // namespace shim
