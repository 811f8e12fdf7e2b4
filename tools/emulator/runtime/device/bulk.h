// What copies of a run of bytes and of a tile have in common: checks, race shadow, account.
#pragma once

#include <vector>

#include "device/cluster.h"

namespace emu {

// One lane's bulk copy, while it is issued.
struct BulkIssue {
  Warp* w;
  uint32_t site;
  int lane;
  Mask bit() const { return Mask{1} << lane; }
};

constexpr uint32_t kBulkUnit = 16;           // bytes: alignment and size of a bulk copy
constexpr uint64_t kBulkBytesPerClock = 64;  // of one copy, from L2 (an estimate)

// The copy engine's lanes in a clock: loads by mbarrier, what stores read, what they write.
inline uint32_t lane_of_load(uint32_t barrier) { return barrier / 8 % 16; }
inline uint32_t lane_of_reads(const Warp* w) { return 16 + w->index % 8; }
inline uint32_t lane_of_writes(const Warp* w) { return 24 + w->index % 8; }

// A copy begins at a multiple of `align`; its size is one of 16 bytes, or of `align` where that is less.
void check_unit(const BulkIssue& issue, SpaceNumber space, AccessNumber access, uint64_t address,
                uint64_t size, uint32_t align);
// Raises where bytes lie outside of the block's shared memory.
void check_shared(const BulkIssue& issue, uint32_t address, uint64_t bytes, AccessNumber access);
// Runs of global memory: inside one allocation, known where they are read; then raced and counted.
// Returns the ticks until the last of them is there.
void check_bulk_global(const BulkIssue& issue, uint64_t address, uint64_t bytes,
                       AccessNumber access);
uint64_t account_bulk(const BulkIssue& issue, uint64_t address, uint64_t bytes, bool first,
                      AccessNumber access);
void race_bulk_read(const BulkIssue& issue, uint64_t address, uint64_t bytes);

// Queues a load for the blocks it goes to; its pieces' addresses are inside their shared memory.
void queue_load(const BulkIssue& issue, uint32_t to, uint32_t barrier, const uint32_t* blocks,
                uint32_t align, BulkLoad load);
// Reads pieces of the block's own shared memory, which must be fenced, and known unless the instruction
// tracks what is undefined.
void read_pieces(const BulkIssue& issue, const std::vector<Piece>& pieces,
                 std::vector<uint8_t>& data, Tracks tracks = Tracks::no);
void queue_store(const BulkIssue& issue, BulkStore store);

}  // namespace emu
