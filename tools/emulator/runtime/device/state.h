// The one device of this process: its arena, its allocations, its module, its report.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/happens_before.h"
#include "emu/fault.h"
#include "emu/host.h"
#include "emu/report.h"
#include "emu/warp.h"

namespace emu {

// Bytes around an allocation that nothing else may hold: out-of-bounds accesses land there.
constexpr uint64_t kGap = 4096;

inline uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

// The first lane of a mask that is not empty.
inline int lowest(Mask lanes) { return __builtin_ctz(lanes); }

struct Allocation {
  uint64_t begin;  // device addresses
  uint64_t end;
  AllocationKind kind;
  uint32_t index;
  bool tracked;    // some bytes may be uninitialised: ask the shadow
  bool read_only;  // to device code
  bool watched;    // device code may write it: races are looked for
  uint64_t pool = 0;        // host address of what its pages are filled from when they are touched
  uint64_t pool_pages = 0;  // 0: they are filled already
};

// An empty one, so that a cache entry is never null.
extern const Allocation kNowhere;

// Which warp of which block brought a line into L1, and as how many-th of its lines.
struct LineFill {
  uint32_t block;  // by its serial
  uint32_t warp;
  uint32_t fill;
};

// What one launch did to a line of L2 that its warps meet at: passes of atomics, and the latest path
// of a warp that wrote there for others to see.
struct LineUse {
  uint32_t launch;
  uint32_t passes;
  uint64_t ticks;
  uint32_t block;  // the last that passed, by its serial
  bool shared;     // by several blocks
};

struct SectorRange {
  uint64_t low, high;  // both are in it
};

// What L2 holds of an allocation, spread over the sectors between two of them.
struct Resident {
  uint64_t allocation;  // where it begins
  SectorRange range;
  double sectors;
};

// A fill or a copy, and how far each of its pieces lies from the one before.
struct Transfer {
  uint32_t kind;
  uint64_t to, from, bytes, to_step, from_step;
};

// What device code allocates; empty where no kernel does.
struct Heap {
  uint64_t begin = 0, end = 0;  // addresses of all it may have
  uint64_t top = 0;             // of what has not been given out in this call
  uint64_t live = 0;            // bytes
  std::map<uint64_t, Allocation> pieces;  // by their first address; freed ones are empty
};

// What a cooperative grid meets at.
constexpr uint64_t kWorkspaceBytes = 256;

// By a clock that never goes back.
inline int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

struct Device {
  DeviceFacts facts{};
  uint64_t base = 0;   // first device address of the arena
  uint64_t bytes = 0;  // of the arena
  uint64_t delta = 0;  // host address = device address + delta
  uint8_t* initialised = nullptr;   // one bit a byte of the arena, lazily mapped
  uint32_t* block_stamps = nullptr;  // one a 32-byte sector, lazily mapped
  uint32_t* wave_stamps = nullptr;
  uint32_t* dirty_stamps = nullptr;  // the wave that stored to a sector last
  LineFill* line_fills = nullptr;  // one a 128-byte line, lazily mapped
  LineUse* lines = nullptr;  // one a 128-byte line, lazily mapped
  uint8_t* filled = nullptr;  // one bit a page: filled from its pool already
  Transfer transfer{};       // the one made last
  std::vector<Resident> residents;  // by launches, fills and copies of this call
  Access* writes = nullptr;    // race shadow, one a word, lazily mapped
  Readers* readers = nullptr;
  uint32_t* earlier = nullptr;  // what a word held before its last strong write, lazily mapped
  Report* report = nullptr;
  uint64_t report_bytes = 0;

  const Module* module = nullptr;
  std::vector<uint64_t> variable_addresses;
  std::vector<uint32_t> dynamic_shared_limits;  // one a kernel
  std::vector<Allocation> permanent;            // variables and the grid workspace
  uint64_t workspace = 0;                       // device address
  Heap heap;

  CallOptions options{};
  volatile std::sig_atomic_t expired = 0;  // the call is out of time
  uint64_t brought_bytes = 0;  // from the host in this call, or to be
  int64_t begun_ns = 0;                    // when the call began
  int64_t block_ended_ns = 0;              // when a block of the call ended last
  std::vector<Allocation> allocations;  // live ones, by address; includes the permanent ones
  std::vector<Allocation> freed;        // of this call, for better messages
  uint64_t scratch_begin = 0;           // offset of the first byte above the call's buffers
  uint64_t scratch_end = 0;             // offset of the first permanent byte
  uint64_t scratch_used = 0;
  uint32_t scratch_count = 0;

  uint8_t* host(uint64_t address) const { return reinterpret_cast<uint8_t*>(address + delta); }
  bool contains(uint64_t address) const { return address - base < bytes; }
};

Device& device();

// The live allocation that holds the byte, or null.
const Allocation* find_allocation(uint64_t address);
// The same in the heap; and the piece that begins before the byte, or null.
const Allocation* find_piece(uint64_t address);
const Allocation* piece_before(uint64_t address);
// Nearest allocation, living or freed, for a message; null when there is none.
const Allocation* nearest_allocation(uint64_t address, bool* freed);

// Bits of the initialisation shadow. `first` counts bytes from the start of the shadow.
bool all_set(const uint8_t* bits, uint64_t first, uint64_t count);
void set_bits(uint8_t* bits, uint64_t first, uint64_t count);
void clear_bits(uint8_t* bits, uint64_t first, uint64_t count);

}  // namespace emu
