// Which accesses are ordered before which, at level full: by barriers, by lanes that meet in a
// collective, by a fence followed by a strong store or atomic that somebody reads. One clock numbers
// all these events of a process; an access bears the time of the last one before it.
//
// A warp knows its own block up to `block_time`, its other warps up to `flag_time`, its own lanes up to `sync_time` or, lane by lane,
// `lane_times`, and others by the logs it has acquired from. Fences move what it knows into `fenced`;
// a strong store or atomic appends that to the log of its address.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emu/warp.h"

namespace emu {

struct BlockRun;

constexpr uint32_t kEveryone = 0x3f;  // in place of a warp or a lane
constexpr uint32_t kCopyEngine = 0x3e;  // in place of a warp: bulk copies; the lane tells them apart

// Of each lane of each warp of a cluster, and of each block's copy engine behind them: what it did
// before this time is ordered. Empty: nothing is known.
using VectorClock = std::vector<uint32_t>;

// The last access of a kind to a word.
struct Access {
  uint32_t time;  // 0: none
  uint32_t block;
  uint16_t site;
  uint8_t warp;
  uint8_t lane;   // kEveryone: several of the warp
  uint8_t bytes;  // of the word, as a mask
  uint8_t flags;  // AccessFlags
  uint16_t unused;
};
static_assert(sizeof(Access) == 16);

// Two of a word's readers.
struct Readers {
  Access first;
  Access last;
};

enum AccessFlags : uint8_t {
  kStrongAccess = 1,
  kBlockScope = 2,   // strong to its block alone
  kUpdate = 4,       // an atomic read-modify-write
  kSameValue = 8,    // it found the value there already, by somebody it is not ordered with
  kObserves = 64,    // an update whose result is used: it comes after those before it, in every order
  kVolatile = 32,    // of shared memory, by a volatile access
  kHides = 16,       // it is the last of several writes, which HiddenWrites has more of
};

// Writes of a word that its last one does not stand for: nothing orders them before it, but all are
// strong to each other; or they are plain, and by whoever wrote last.
struct HiddenWrites {
  Access block;  // the last by another block
  Access warp;   // the last by another warp of its block
  Access plain;
};

struct Log;

// The first `length` entries of a log.
struct Known {
  const Log* log;
  uint32_t length;

  bool operator==(const Known& other) const { return log == other.log && length == other.length; }
};

// All accesses of a block, warp or lane before `time`, published to `key`'s scope.
struct Published {
  uint64_t key;
  uint32_t time;
};

// What was released to an address, oldest first.
struct Log {
  struct At {
    uint32_t position;
    uint32_t time;
  };
  std::unordered_map<uint64_t, std::vector<At>> entries;
  std::vector<std::pair<uint32_t, Known>> others;
  uint32_t length = 0;
};

// Logs and those that their writers had acquired from, each as far as it is known.
struct Closure {
  // The time before which all accesses of a key are ordered, as of so many steps.
  struct Ordered {
    uint32_t time = 0;
    uint64_t step = 0;
  };
  bool believed = false;  // a protocol of too many steps to look through
  std::unordered_map<const Log*, uint32_t> lengths;
  std::vector<Known> steps;   // how `lengths` grew, but for the `steps_before` first times
  uint64_t steps_before = 0;
  std::unordered_map<uint64_t, Ordered> times;  // of the keys that were asked for
};

// A warp's part.
struct WarpOrder {
  uint32_t block_time;
  uint32_t flag_time;  // the same of other warps alone: flags in shared memory
  uint32_t sync_time;
  std::unique_ptr<std::array<std::array<uint32_t, kLanes>, kLanes>> lane_times;
  std::vector<Known> acquired;
  std::shared_ptr<Closure> closure;  // of `acquired`, or of what that was when it was last asked for
  bool is_closure_whole;             // of all of `acquired`
  std::vector<Known> seen;  // by relaxed or volatile loads: acquired at the next fence, or meeting
  std::vector<Published> fenced;
  std::vector<Known> fenced_logs;
  VectorClock known;      // by mbarriers, barriers of the cluster and waits for bulk copies
  VectorClock cluster_fenced;  // what a fence of the cluster or the GPU orders before a relaxed arrival
  uint32_t cluster_time;  // all of the cluster's threads, by strong accesses between its blocks
  uint32_t strong_time;   // all of the block's threads, by strong accesses of shared memory
  uint32_t arrive_time;   // barriers at which it did not wait order what it did before
  std::array<uint32_t, kLanes> left;  // of lanes that are gone: nothing orders what they did from then on; else 0
};

// A launch's part.
struct LaunchOrder {
  uint32_t begin = 0;
  std::unordered_map<uint64_t, Log*> by_address;
  std::vector<std::unique_ptr<Log>> logs;
};

uint32_t order_time();
uint32_t next_order_time();

void start_order(WarpOrder& order);
// Lanes of the warp meet: what they did before is ordered before what any of them does next.
void lanes_meet(Warp* w, Mask lanes);
// The same of whole warps that meet at a barrier.
void warps_meet(const std::vector<WarpOrder*>& orders);
// A fence: what the lanes know may now be published to the block, or to the device.
void fence_lanes(Warp* w, Mask lanes, bool block_scope);
// A strong store or atomic to an address publishes what was fenced; an atomic adds to what is there.
void release_to(Warp* w, uint64_t address, bool adds);
void forget_released(Warp* w, uint64_t address);
// `fenced`: the load acquires by itself, or as an update; else a fence or a meeting has to follow.
void acquire_from(Warp* w, uint64_t address, bool fenced);
// Lanes leave the kernel: no barrier tells others of what they did after their last one.
void lanes_leave(Warp* w, Mask lanes);

// Adds what the lanes know, themselves included, to a clock that others will learn from.
void publish(Warp* w, Mask lanes, VectorClock& clock);
// A relaxed arrival at the cluster's barrier publishes what a fence has ordered before.
void publish_fenced(Warp* w, VectorClock& clock);
// What the clock tells is ordered before all the warp does next.
void learn(Warp* w, const VectorClock& clock);
// What a block's copy engine did before `time` is ordered for those who learn from the clock.
void publish_engine(VectorClock& clock, const BlockRun& block, uint32_t lane, uint32_t time);

// Does the clock tell of an access by the cluster of `home`?
bool tells_of(const VectorClock& clock, const BlockRun& home, const Access& access);

// Is the access ordered before what the lane does now? Both are of the same launch.
bool is_ordered(const Warp* w, int lane, const Access& earlier);

}  // namespace emu
