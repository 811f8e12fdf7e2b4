// mbarriers, bulk copies and clusters. Addresses of shared memory are 32 bits wide: the upper byte is 0
// for the block's own, else one more than the rank of a block of the cluster.
#pragma once

#include "emu/memory.h"
#include "emu/warp.h"

namespace emu {

constexpr uint32_t kRankShift = 24;
constexpr uint32_t kOffsetMask = (uint32_t{1} << kRankShift) - 1;

enum ArriveFlags : uint32_t {
  kArrivePlain = 0,
  kArriveDrop = 1,        // the thread takes no part in later phases
  kArriveExpect = 2,      // `count` is bytes that are to come; the arrival counts once
  kArriveNoComplete = 4,  // must not complete the phase
  kArriveRelaxed = 8,     // orders nothing
};

void mbarrier_init(Warp* w, uint32_t site, Mask lanes, const uint32_t* at, const uint32_t* count);
void mbarrier_inval(Warp* w, uint32_t site, Mask lanes, const uint32_t* at);
void mbarrier_expect(Warp* w, uint32_t site, Mask lanes, const uint32_t* at, const uint32_t* bytes);
void mbarrier_complete(Warp* w, uint32_t site, Mask lanes, const uint32_t* at,
                       const uint32_t* bytes);
// `count` null: one. `state` null: not asked for.
void mbarrier_arrive(Warp* w, uint32_t site, Mask lanes, const uint32_t* at, const uint32_t* count,
                     uint32_t flags, uint64_t* state);
// The lanes whose phase, that of `state` or with `parity`, is complete.
Mask mbarrier_wait(Warp* w, uint32_t site, Mask lanes, const uint32_t* at, const uint64_t* state,
                   const uint32_t* parity, bool relaxed);
// cp.async.mbarrier.arrive: an arrival when the lane's copies so far have landed. `counted`: the
// phase expects it already (.noinc).
void async_arrive(Warp* w, uint32_t site, Mask lanes, const uint32_t* at, bool counted);
inline uint32_t pending_count(uint64_t state) { return static_cast<uint32_t>(state) & 0xfffff; }

// fence.proxy.async: bulk copies see what was written before.
void fence_for_copies(Warp* w, Mask lanes);
// nanosleep: the end of a turn.
void sleep(Warp* w);

struct BulkReduction {
  bool reduces = false;
  AtomOp op = AtomOp::add;
  AtomType type = AtomType::u32;
  bool flushes = true;  // subnormal numbers in sums of f32 in global memory; a tile's type decides
};

// cp.async.bulk into shared memory; `blocks` null: of this block, else the ranks it goes to.
void bulk_load(Warp* w, uint32_t site, Mask lanes, const uint32_t* to, const uint64_t* from,
               const uint32_t* bytes, const uint32_t* barrier, const uint32_t* blocks);
// From the block's own shared memory into that of a block of its cluster.
void bulk_send(Warp* w, uint32_t site, Mask lanes, const uint32_t* to, const uint32_t* from,
               const uint32_t* bytes, const uint32_t* barrier, BulkReduction reduction);
void bulk_store(Warp* w, uint32_t site, Mask lanes, const uint64_t* to, const uint32_t* from,
                const uint32_t* bytes, BulkReduction reduction);
void bulk_commit(Warp* w, Mask lanes);
void bulk_wait(Warp* w, Mask lanes, uint32_t groups_left, bool read);

// Tiles of a tensor that a tensor map describes; `at` holds the coordinates, innermost first.
void tensor_load(Warp* w, uint32_t site, Mask lanes, const uint32_t* to, const uint64_t* map,
                 uint32_t rank, const uint32_t* const* at, const uint32_t* barrier,
                 const uint32_t* blocks);
void tensor_store(Warp* w, uint32_t site, Mask lanes, const uint64_t* map, uint32_t rank,
                  const uint32_t* const* at, const uint32_t* from, BulkReduction reduction);

// st.async: N values of T for a block of the cluster, whose mbarrier is told of their bytes.
void send_values(Warp* w, uint32_t site, Mask lanes, const uint32_t* to, const uint32_t* barrier,
                 uint32_t width, uint32_t count, const void* const* values, BulkReduction reduction);

// barrier.cluster. Waiting is polling: 0 when no lane can go on, and the turn is over.
void cluster_arrive(Warp* w, uint32_t site, Mask lanes, bool relaxed);
Mask cluster_wait(Warp* w, uint32_t site, Mask lanes, bool relaxed, uint32_t pc);

uint32_t cluster_rank(const Warp* w);
uint32_t cluster_size(const Warp* w);
uint32_t cluster_extent(const Warp* w, int axis);
uint32_t cluster_position(const Warp* w, int axis);  // of the block in its cluster
uint32_t cluster_index(const Warp* w, int axis);     // of the cluster in the grid
uint32_t cluster_count(const Warp* w, int axis);     // clusters of the grid

// mapa: the address of the same place in the shared memory of another block; getctarank.
inline uint64_t map_shared(uint64_t address, uint32_t rank) {
  return (address & ~uint64_t{0xff000000}) | uint64_t{rank + 1} << kRankShift;
}
inline uint32_t rank_at(const Warp* w, uint64_t address) {
  const uint32_t high = static_cast<uint32_t>(address) >> kRankShift;
  return high == 0 ? cluster_rank(w) : high - 1;
}

}  // namespace emu
