// What is under way beside the warps: phases of mbarriers, bulk copies that land when they are waited
// for, arrivals that wait for copies.
#pragma once

#include <cstdint>
#include <vector>

#include "device/happens_before.h"
#include "emu/asynchronous.h"
#include "emu/report.h"
#include "emu/warp.h"

namespace emu {

struct AsyncCopy {
  uint32_t shared;
  uint32_t bytes;
  uint32_t site;
  uint32_t group;  // number of the commit group it belongs to
  uint64_t ready;  // when it lands, on the warp's path
  int lane;
  uint8_t data[16];
  uint8_t undefined[16];  // bits of the data, where they are tracked
  uint32_t origin;        // of those
  bool waited;            // the last wait came before its group was committed
};

// A cp.async whose bytes are on their way to where somebody reads, and how far it is.
struct CopyUnderWay {
  uint32_t site = kNone;
  CopyNumber state = CopyNumber::none;
};

// A run of bytes on its way into shared memory; a tile is many of them.
struct Piece {
  uint32_t shared;
  uint32_t first;  // of the copy's data
  uint32_t bytes;
};

struct BulkLoad {
  Warp* warp;
  int lane;
  uint32_t site;
  uint32_t time;   // of its issue
  uint64_t ready;  // when it lands, in ticks
  uint32_t transaction;
  BulkReduction reduction;
  std::vector<Piece> pieces;
  std::vector<uint8_t> data;
  uint32_t begin, end;  // of the shared memory that the pieces lie in
};

// cp.async.mbarrier.arrive: an arrival once the lane's copies have landed.
struct DeferredArrival {
  Warp* warp;
  int lane;
  uint32_t site;
  std::vector<AsyncCopy> copies;
};

// A run of bytes on its way out of shared memory.
struct OutPiece {
  uint64_t global;
  uint32_t first;
  uint32_t bytes;
};

struct BulkStore {
  int lane;
  uint32_t site;
  uint32_t group;
  uint32_t time;
  uint64_t ready;
  bool read;  // out of shared memory: a wait_group.read covered it
  BulkReduction reduction;
  std::vector<OutPiece> pieces;
  std::vector<uint8_t> data;
};

struct Mbarrier {
  uint64_t word = 0;  // what shared memory holds
  uint32_t expected = 0;
  uint32_t pending = 0;
  int32_t transactions = 0;
  uint32_t phase = 0;  // parity of the one in progress
  bool tried = false;  // somebody asked while copies were under way
  Access init{};
  VectorClock arriving, complete;
  uint64_t arriving_ticks = 0, complete_ticks = 0;
  std::vector<BulkLoad> loads;
  std::vector<DeferredArrival> deferred;
};

// What a warp waits for that only polls: a phase of an mbarrier, or of the cluster's barrier.
struct PhaseWait {
  uint32_t site;
  uint32_t address;
  int lane;
  uint32_t rank;    // of the block that holds the mbarrier; kNone: the cluster's barrier
  uint64_t ticks;   // on its path when it began
  int64_t cost;     // fuel that such polls took in this turn
  Mask lanes;       // that made them
};

}  // namespace emu
