// Device memory of `solve`'s own: parts of a piece of the arena, for the length of one call.
#pragma once

#include <cstdint>
#include <map>

namespace shim {

class Scratch {
 public:
  // Empties it. `seed` decides where allocations begin, in so far as `bytes` is more than `quota`.
  void begin(uint64_t base, uint64_t bytes, uint64_t quota, uint64_t seed);

  // 0: beyond the quota, which is in the bytes asked for: what alignment adds is not counted. Work runs in order on one stream, so what was freed can be had again at once.
  uint64_t allocate(uint64_t bytes);

  // False: `address` is not where an allocation of this call begins.
  bool release(uint64_t address);

  // Whether these bytes may be copied or filled: they begin elsewhere, or lie in one allocation.
  bool allows(uint64_t address, uint64_t bytes) const;

  uint64_t peak_bytes() const { return peak_; }
  uint64_t free_bytes() const { return quota_ - held_; }

 private:
  struct Allocation {
    uint64_t asked, length;
  };
  using Holes = std::map<uint64_t, uint64_t>;  // start to length
  Holes::iterator find_hole(uint64_t length);

  uint64_t begin_ = 0, end_ = 0;
  uint64_t first_ = 0;  // What lies below it comes last, and never joins a hole above it.
  uint64_t quota_ = 0;
  uint64_t held_ = 0;
  uint64_t peak_ = 0;
  Holes free_;
  std::map<uint64_t, Allocation> live_;
};

Scratch& scratch();

}  // namespace shim
