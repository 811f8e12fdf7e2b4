#include "device/order.h"

namespace emu {

uint64_t mixed(uint64_t x) {  // the finaliser of splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

namespace {

// A Feistel network over the smallest even number of bits that holds n, walked until it lands
// below n: a bijection without a table.
uint64_t shuffle(uint64_t seed, uint64_t n, uint64_t i) {
  int half = 1;
  while ((uint64_t{1} << (2 * half)) < n) ++half;
  uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = i >> half;
    uint64_t right = i & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t next = left ^ (mixed(right ^ mixed(seed + round)) & mask);
      left = right;
      right = next;
    }
    i = left << half | right;
  } while (i >= n);
  return i;
}

}  // namespace

uint64_t permuted(uint64_t seed, uint64_t n, uint64_t i) {
  if (seed == 0) return i;
  if (seed == 1) return n - 1 - i;
  return shuffle(seed, n, i);
}

bool is_sampled(uint64_t i, uint64_t n, uint64_t count) {
  if (count >= n) return true;
  if (count < 2) return i == 0;
  using Wide = unsigned __int128;
  Wide k = (static_cast<Wide>(i) * (count - 1) + (n - 2)) / (n - 1);
  return k * (n - 1) / (count - 1) == i;
}

bool is_drawn(uint64_t seed, uint64_t i, uint64_t n, uint64_t count) {
  if (seed == 0 || count >= n) return is_sampled(i, n, count);
  using Wide = unsigned __int128;
  const auto stretch = static_cast<uint64_t>(static_cast<Wide>(i) * count / n);
  const auto begin = static_cast<uint64_t>((static_cast<Wide>(stretch) * n + count - 1) / count);
  const auto end = static_cast<uint64_t>((static_cast<Wide>(stretch + 1) * n + count - 1) / count);
  return i == begin + mixed(seed ^ mixed(stretch)) % (end - begin);
}

}  // namespace emu
