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
// Reads pieces of the block's own shared memory, which must be known and fenced.
void read_pieces(const BulkIssue& issue, const std::vector<Piece>& pieces,
                 std::vector<uint8_t>& data);
void queue_store(const BulkIssue& issue, BulkStore store);

}  // namespace emu
