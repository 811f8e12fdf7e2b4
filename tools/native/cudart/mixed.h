// A number that looks random, the same for the same argument: the finaliser of SplitMix64 (Steele et al.
// 2014).
#pragma once

#include <cstdint>

namespace cudart {

inline uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace cudart
