// Clusters: which block's shared memory an address means, and accesses to that of others.
#pragma once

#include "device/checks.h"
#include "device/run.h"
#include "emu/asynchronous.h"

namespace emu {

// While it lives, accesses of the warp to shared memory are to that of another block.
class Visit {
 public:
  Visit(Warp* w, BlockRun& target) : w_(w) {
    w->block = &target.block;
    run_of(w).block = &target;
  }
  ~Visit() {
    BlockRun* home = run_of(w_).home;
    w_->block = &home->block;
    run_of(w_).block = home;
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Warp* w_;
};

// The block whose shared memory holds the address. A fault where there is no such block, or where it
// has exited.
BlockRun& block_holding(Warp* w, uint32_t site, int lane, uint32_t address, uint32_t bytes,
                        AccessNumber access);

// Calls `act(block, lanes, offsets)` for the lanes that access each block's shared memory.
template <class Act>
void each_block(Warp* w, uint32_t site, Mask lanes, const uint32_t* address, int64_t offset,
                uint32_t bytes, AccessNumber access, Act act) {
  alignas(64) uint32_t place[kLanes];
  for (int i = 0; i < kLanes; ++i) place[i] = address[i] + static_cast<uint32_t>(offset);
  while (lanes != 0) {
    const int first = __builtin_ctz(lanes);
    const uint32_t rank = place[first] >> kRankShift;
    Mask same = 0;
    alignas(64) uint32_t inside[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      same |= static_cast<Mask>(place[i] >> kRankShift == rank) << i;
      inside[i] = place[i] & kOffsetMask;
    }
    same &= lanes;
    act(block_holding(w, site, first, place[first], bytes, access), same, inside);
    lanes &= ~same;
  }
}

// Accesses of another block's shared memory wait so much longer (an estimate: about 200 clocks on an
// H100).
void wait_for_cluster(Warp* w, uint32_t site, const BlockRun& target);

// Ends the process: all warps of the block, or of its cluster, wait for phases that cannot complete.
[[noreturn]] void raise_phase_deadlock(BlockRun& block);

// Lands what is under way to an mbarrier (mbarrier.cpp), and what a warp has sent to global memory.
Mbarrier* find_barrier(Warp* w, uint32_t site, int lane, uint32_t address, BlockRun** where);
void finish_bulk_stores(BlockRun& block);
// A load has landed: its bytes are in shared memory, and their count is known to the mbarrier.
void land_load(BlockRun& target, uint32_t barrier, BulkLoad& load);
void land_async_copy(Warp* w, const AsyncCopy& copy);
// A reduction by bulk copy of `bytes` at `memory`, which hold elements of the type.
void combine_bytes(uint8_t* memory, const uint8_t* values, uint64_t bytes, AtomOp op, AtomType type,
                   bool global);
// Copies that an arrival waits for land no later than their warp waits for them.
void land_deferred(Warp* w, Mask lanes);

}  // namespace emu
