#include "device/order.h"

namespace emu {

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

}  // namespace emu
