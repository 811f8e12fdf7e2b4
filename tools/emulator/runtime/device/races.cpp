#include "device/races.h"

#include <algorithm>

#include "device/fault.h"

namespace emu {
namespace {

constexpr uint64_t kStrongBit = uint64_t{1} << 20;
constexpr uint64_t kWarpField = uint64_t{0xff} << 24;
constexpr uint64_t kBytesField = uint64_t{0xf} << 16;
constexpr uint64_t kAllBytes = kBytesField;

uint64_t bytes_of(uint64_t entry) { return entry >> 16 & 0xf; }
uint32_t site_of(uint64_t entry) { return entry & 0xffff; }

struct Access {
  Warp* w;
  uint32_t site;
  AccessNumber kind;
  uint64_t floor;  // entries below it are ordered before us
  uint64_t entry;  // ours, without the bytes

  Access(Warp* warp, uint32_t number, AccessNumber what)
      : w(warp), site(number), kind(what), floor(uint64_t{run_of(warp).ordered} << 32) {
    uint64_t strong = (site_traits(warp, number) & kStrong) != 0 ? kStrongBit : 0;
    entry = uint64_t{run_of(warp).block->epoch} << 32 | uint64_t{warp->index} << 24 | strong |
            std::min<uint32_t>(number, 0xffff);
  }

  // Does the earlier access clash with ours on `bytes`?
  bool clashes(uint64_t earlier, uint64_t bytes) const {
    if (earlier < floor || (bytes_of(earlier) & bytes) == 0) return false;
    if (((earlier & entry) & kStrongBit) != 0) return false;
    return ((earlier ^ entry) & kWarpField) != 0;
  }
};

[[noreturn]] void raise_race(const Access& access, int lane, uint32_t address, uint32_t bytes,
                             uint64_t earlier, AccessNumber earlier_kind) {
  raise({.fault = Fault::race,
         .warp = access.w,
         .lane = lane,
         .site = access.site,
         .other_site = site_of(earlier),
         .space = SpaceNumber::shared,
         .access = access.kind,
         .other_access = earlier_kind,
         .bytes = bytes,
         .address = address,
         .space_bytes = access.w->block->shared_bytes});
}

// One number stands for all readers (or atomics) of a word that we are not ordered after. Where it
// cannot say exactly who touched which byte, it forgets rather than accuses.
uint64_t merged(const Access& access, uint64_t earlier, uint64_t bytes) {
  uint64_t mine = access.entry | bytes << 16;
  if (earlier < access.floor) return mine;
  bool same_warp = ((earlier ^ mine) & kWarpField) == 0;
  if (same_warp) return mine | (earlier & kBytesField);
  if (bytes_of(earlier) == bytes) return mine | kWarpField;
  if ((bytes_of(earlier) & bytes) == bytes) return earlier;
  return mine;
}

// Calls `visit(lane, word, bytes touched)` for every word of every lane.
template <class Visit>
void each_word(Mask lanes, const Lanes<uint32_t>& at, uint32_t bytes, Visit visit) {
  if (at.uniform()) lanes &= -lanes;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint32_t address = at.address[lane];
    if (bytes < 4) {
      visit(lane, address / 4, ((uint64_t{1} << bytes) - 1) << (address & 3));
    } else {
      for (uint32_t i = 0; i < bytes / 4; ++i) visit(lane, address / 4 + i, uint64_t{0xf});
    }
  }
}

// Reads of `count` neighbouring whole words with nothing amiss, which is how tiles are read. False:
// look closer. True: nothing clashes, and the reader is recorded.
bool read_run(const Access& access, const uint64_t* writes, uint64_t* reads, uint32_t count) {
  uint64_t recent = 0;
  uint64_t partial = 0;
  for (uint32_t i = 0; i < count; ++i) {
    recent |= static_cast<uint64_t>(writes[i] >= access.floor);
    partial |= reads[i] >= access.floor ? ~reads[i] & kBytesField : 0;
  }
  if ((recent | partial) != 0) return false;
  uint64_t mine = access.entry | kAllBytes;
  for (uint32_t i = 0; i < count; ++i) {
    bool other = reads[i] >= access.floor && ((reads[i] ^ mine) & kWarpField) != 0;
    reads[i] = other ? mine | kWarpField : mine;
  }
  return true;
}

bool read_plainly(const Access& access, const uint64_t* writes, uint64_t* reads,
                  const Lanes<uint32_t>& at, uint32_t bytes) {
  if (bytes < 4 || (access.entry & kStrongBit) != 0) return false;
  uint32_t first = at.low / 4;
  uint32_t each = bytes / 4;
  if (at.consecutive) return read_run(access, writes + first, reads + first, each * kLanes);
  if (at.uniform()) return read_run(access, writes + first, reads + first, each);
  if (at.high / 4 + each - first > 64) return false;
  // Which words of the span are read, as runs of bits.
  uint64_t words = (uint64_t{1} << each) - 1;
  uint64_t touched = 0;
  for (int i = 0; i < kLanes; ++i) touched |= words << (at.address[i] / 4 - first);
  while (touched != 0) {
    uint32_t skip = static_cast<uint32_t>(__builtin_ctzll(touched));
    touched >>= skip;
    first += skip;
    uint32_t run = ~touched == 0 ? 64 : static_cast<uint32_t>(__builtin_ctzll(~touched));
    if (!read_run(access, writes + first, reads + first, run)) return false;
    if (run == 64) break;
    touched >>= run;
    first += run;
  }
  return true;
}

// Would storing change what an earlier unordered write left there?
bool changes(const uint8_t* now, const void* value, uint32_t width) {
  return std::memcmp(now, value, width) != 0;
}

}  // namespace

void check_race_read(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                     uint32_t bytes) {
  BlockRun& block = *run_of(w).block;
  Access access(w, site, AccessNumber::read);
  uint64_t* writes = block.writes.data();
  uint64_t* reads = block.reads.data();
  if (read_plainly(access, writes, reads, at, bytes)) return;
  each_word(lanes, at, bytes, [&](int lane, uint32_t word, uint64_t touched) {
    if (access.clashes(writes[word], touched)) {
      raise_race(access, lane, word * 4, bytes, writes[word],
                 (writes[word] & kStrongBit) != 0 ? AccessNumber::atomic : AccessNumber::write);
    }
    if ((access.entry & kStrongBit) == 0) reads[word] = merged(access, reads[word], touched);
  });
}

void check_race_write(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                      uint32_t width, uint32_t count, const void* const* in) {
  BlockRun& block = *run_of(w).block;
  Access access(w, site, AccessNumber::write);
  uint64_t* writes = block.writes.data();
  uint64_t* reads = block.reads.data();
  uint32_t bytes = width * count;
  auto check = [&](int lane, uint32_t word, uint64_t touched) {
    if (access.clashes(reads[word], touched)) {
      raise_race(access, lane, word * 4, bytes, reads[word], AccessNumber::read);
    }
    if (!access.clashes(writes[word], touched)) return;
    bool differs = false;
    for (uint32_t n = 0; n < count; ++n) {
      const auto* value = static_cast<const uint8_t*>(in[n]) + static_cast<uint32_t>(lane) * width;
      differs = differs ||
                changes(block.shared + at.address[lane] + n * width, value, width);
    }
    if (differs) {
      raise_race(access, lane, word * 4, bytes, writes[word],
                 (writes[word] & kStrongBit) != 0 ? AccessNumber::atomic : AccessNumber::write);
    }
  };
  each_word(lanes, at, bytes, check);
  each_word(lanes, at, bytes, [&](int, uint32_t word, uint64_t touched) {
    uint64_t earlier = writes[word];
    bool ours = earlier >= access.floor && ((earlier ^ access.entry) & kWarpField) == 0;
    writes[word] = access.entry | touched << 16 | (ours ? earlier & kBytesField : 0);
  });
}

void check_race_atomic(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                       uint32_t bytes) {
  BlockRun& block = *run_of(w).block;
  Access access(w, site, AccessNumber::atomic);
  access.entry |= kStrongBit;
  uint64_t* writes = block.writes.data();
  uint64_t* reads = block.reads.data();
  each_word(lanes, at, bytes, [&](int lane, uint32_t word, uint64_t touched) {
    if (access.clashes(reads[word], touched)) {
      raise_race(access, lane, word * 4, bytes, reads[word], AccessNumber::read);
    }
    if (access.clashes(writes[word], touched)) {
      raise_race(access, lane, word * 4, bytes, writes[word], AccessNumber::write);
    }
    bool atomic_before = (writes[word] & kStrongBit) != 0;
    writes[word] = atomic_before ? merged(access, writes[word], touched)
                                 : access.entry | touched << 16;
  });
}

}  // namespace emu
