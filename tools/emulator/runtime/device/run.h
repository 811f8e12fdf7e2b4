// A launch while it runs: its resident blocks, their warps, what the scheduler knows of each.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "device/asynchronous.h"
#include "device/happens_before.h"
#include "device/state.h"
#include "device/wgmma.h"
#include "emu/report.h"
#include "emu/schedule.h"
#include "emu/warp.h"

namespace emu {

constexpr uint32_t kBarriers = 16;
constexpr uint32_t kMaxWarps = 32;
constexpr int64_t kTurn = 4096;      // back-edges of a warp before others run
constexpr uint32_t kPollHurry = 64;  // picks of patience that one poll uses up

// What an opcode's qualifiers and name say about ordering and polling.
enum SiteTraits : uint16_t {
  kStrong = 1,   // .volatile .relaxed .acquire .release ...: never half of a race with its like
  kAcquire = 2,  // may see what another thread published before
  kWarpSync = 4, // bar.warp.sync: lanes may meet at different places
  kPastL1 = 8,  // asks L2 even for what the block has loaded before
  kFloat = 16,  // on floats: an atomic of shared memory is a compare-and-swap loop
  kBlockOnly = 32,  // .cta: strong to the block alone
  kRelease = 64,    // .release, .acq_rel: a fence before it
  kSwaps = 128,     // compare-and-swap
  kIsVolatile = 256,
  kRelaxedLoad = 512,  // acquires at the next fence, not at once
};

struct Barrier {
  Mask waiting[kMaxWarps];
  uint32_t arrived;  // threads that arrived without waiting
  uint32_t count;    // 0: all threads
  uint32_t site;
  uint32_t total;    // of bar.red
  bool any, all;
  Reduce reduce;
  bool open;         // somebody has arrived
  uint64_t latest;   // when the last of them did, in ticks
  uint32_t last;     // the warp that did
};

struct BlockRun;

// The blocks that share a cluster, by rank; each stays until all have finished.
struct ClusterRun {
  std::vector<BlockRun*> blocks;
  VectorClock arriving;  // at the cluster's barrier, in this phase
  VectorClock complete;  // in the one before
  uint64_t arriving_ticks = 0;
  uint64_t complete_ticks = 0;
};

// The lanes and the addresses of a poll.
struct Polled {
  Mask lanes;
  uint64_t address[kLanes];
};

// The last poll of a warp at a site: of what, and what was known then.
struct Poll {
  uint32_t site;
  Polled what;
  uint64_t ticks;  // the path behind it
  int64_t polled;  // WarpRun::polled then
  std::vector<uint8_t> registers;
};

// The scheduler's part of a warp (Warp::runtime).
struct WarpRun {
  BlockRun* block;  // whose shared memory is accessed
  BlockRun* home;   // the warp's own
  const uint16_t* traits;  // SiteTraits of each site
  const Allocation* recent[8];  // last allocation, by site

  // pick: lanes that starve behind a loop get a turn now and then.
  uint32_t starved;
  uint32_t favoured_turns;
  Mask favoured;

  // Warp collectives.
  Mask members[kLanes];
  uint32_t parked_site[kLanes];
  Mask released;  // complete already: the next join lets them pass

  // Aligned barriers: lanes that wait for the rest of their warp.
  Mask gathering;
  uint32_t gathering_site;
  uint32_t gathering_id;
  uint32_t gathering_count;
  bool gathering_arrive_only;
  Reduce gathering_reduce;
  Mask gathering_predicate;

  int64_t poll_cost;  // fuel that polling took in this turn
  uint64_t clock;
  std::vector<Poll> polls;  // the last of each site that polls
  int64_t polled = 0;       // ticks that polls have put the warp's path on, less what they took back

  std::vector<uint32_t> trips;  // Warp::trips
  uint32_t fills = 0;                 // lines that the warp has brought into L1
  std::vector<uint32_t> local_fills;  // of local memory: when each word's line came in, and if stored to
  std::vector<uint64_t> waited_in_copy;  // ticks, by Site::copy
  std::vector<uint64_t> waited_in_loop;  // the most of them, by Site::loop
  uint64_t* waited;  // ticks on the warp's path, by site; null where not counted

  WarpOrder order;
  uint32_t splits;    // of lanes that came to an activemask together

  PhaseWait wait;          // the last wait for a phase that was not complete
  Mask cluster_arrived;    // lanes that the cluster's barrier has not yet let go
  Mask cluster_pending;    // lanes that have arrived there and not waited
  std::vector<BulkStore> bulk_stores;  // bulk copies out of shared memory, oldest first
  uint32_t bulk_group[kLanes];         // their groups closed so far
  WarpProducts products;               // of its warpgroup
  std::vector<AsyncCopy> copies;  // cp.async not yet waited for, oldest first
  uint32_t group[kLanes];         // commit groups closed so far
  std::vector<uint8_t> local_undefined;  // bits of local memory, where they are tracked
  std::unordered_map<uint32_t, uint32_t> local_origins;  // of undefined words in it
};

struct LaunchRun;

// A read of uninitialised shared memory that may yet turn out to be a race: when another warp
// writes the byte before the next barrier, a missing barrier is the better explanation.
struct DoubtfulRead {
  bool open = false;
  Warp* warp;
  int lane;
  uint32_t site;
  uint32_t bytes;
  uint32_t address;  // first byte that nobody has written
  AccessNumber access;
  bool decides;      // the reader does not keep track of what is undefined
  CopyUnderWay copy;
  bool before_races; // no race was known then
};

// Bytes of an output, by device addresses.
struct StoredRange {
  uint64_t begin, end;
};

struct BlockRun {
  Block block{};
  LaunchRun* launch = nullptr;
  uint32_t warp_count = 0;
  std::vector<Warp> warps;
  std::vector<WarpRun> runs;
  std::vector<uint8_t> warp_order;
  std::vector<Status> status;
  Barrier barriers[kBarriers]{};

  std::vector<uint64_t> block_warps, block_lanes;  // of this block, by basic block
  std::vector<uint64_t> waited;  // of each warp, by site
  uint64_t path = 0;      // ticks of the data path of L1 and shared memory
  uint32_t asked_site = kNone;  // of the last atomic on global memory that steers its warp
  bool gives_way = false;       // to the other resident blocks, before its next turn
  uint32_t slices = 0;  // short turns left: warps are interleaved while there are some
  uint32_t serial = 0;  // of the block on this device: the stamp of its sectors
  uint32_t wave = 0;
  ClusterRun* cluster = nullptr;
  std::unique_ptr<ClusterRun> alone;  // where no other block is in it
  uint32_t rank = 0;      // in its cluster
  bool asynchronous = false;  // it has a cluster or bulk copies: block barriers do not order all
  bool finished = false;  // its shared memory is nobody's
  uint32_t idle_rounds = 0;  // in which all its warps only waited for phases of mbarriers
  uint32_t begin_time = 0;
  bool has_left = false;  // some of its threads have left the kernel: barriers do not order all
  std::map<uint32_t, Mbarrier> mbarriers;  // by address
  VectorClock fenced_for_copies;           // by fence.proxy.async
  std::vector<Warpgroup> groups;           // that have executed wgmma

  uint8_t* shared = nullptr;
  std::vector<uint8_t> shared_known;   // the bits that are initialised: all of a byte or none, unless tracked
  std::unordered_map<uint32_t, uint32_t> origins;  // of undefined words of shared memory, where tracked
  uint32_t known_prefix = 0;           // all bytes below are initialised: found out at barriers
  DoubtfulRead doubtful;
  std::vector<Access> writes;          // race shadow, one entry a word; empty unless checked
  std::vector<Readers> readers;
  std::unordered_map<uint64_t, HiddenWrites> hidden;  // by word
  std::vector<uint32_t> earlier;       // what a word held before its last strong store
  std::map<uint64_t, uint64_t> observed;  // writes of others it has read late once, by address
  bool uncertain = false;              // its values may not be those of a whole call (certain.h)
  bool misled = false;                 // nor where it goes, and what it accesses
  std::vector<StoredRange> stored;     // to outputs, where launches are sampled
  std::vector<uint8_t> memory;         // registers, local and shared memory, 64-byte aligned inside
};

// Requests of a wave that miss L1, of those the ones that miss L2, and how many of these are due.
struct Misses {
  uint64_t all, far, due;
};

// Of a launch that is executed in part.
struct Sampling {
  enum class Phase { whole, before, wave, blocks };
  Phase phase = Phase::whole;
  bool partial = false;          // not all of its blocks are executed
  uint32_t most_trips = kNone;   // iterations of outermost loops that are executed
  uint32_t wave_blocks = 0;      // executed of the wave that is looked at
  uint32_t counted_blocks = 0;
  std::vector<Sharing> sites;
  std::vector<Misses> misses;    // by site
  uint64_t shared_line = 0;      // most passes of atomics on a line that several blocks use
  double path_error = 0;         // standard error of the mean path of counted blocks, in ticks
};

// What a launch touched of one allocation.
struct AllocationUse {
  uint64_t begin, end;
  SectorRange range;
  double touched;  // sectors
  double moved;    // sectors read first, or stored first, or both
};

struct Counters {
  std::vector<uint64_t> block_warps, block_lanes;
  std::vector<SiteCounters> sites;
  uint64_t footprint_sectors = 0;            // touched by this launch
  std::vector<AllocationUse> uses;
  std::vector<uint64_t> site_sectors_first;  // first touch in the launch
  std::vector<uint64_t> site_sectors_wave;   // first touch in the wave
  uint64_t barriers = 0;
  uint64_t threads_run = 0;
  uint64_t worst_line = 0;
  uint64_t meetings = 0;  // arrivals at the barrier of the grid
  uint64_t work[kUnits] = {};
  uint64_t path_ticks = 0;
};

struct LaunchRun {
  Launch launch{};
  std::vector<uint16_t> traits;
  std::vector<uint8_t> params;
  uint32_t threads = 0;
  uint32_t cluster[3] = {1, 1, 1};
  uint64_t blocks_total = 0;
  uint32_t resident_blocks = 1;
  uint32_t wave_blocks = 1;
  uint32_t l1_share = 1;  // lines of L1 for each resident warp
  uint32_t first_serial = 0;
  uint32_t first_wave = 0;
  bool races = false;
  LaunchOrder order;
  std::unordered_map<uint64_t, HiddenWrites> hidden;  // writes of global memory, by word
  int64_t fuel = 0;
  uint64_t seed = 0;
  Counters counters;
  std::vector<uint32_t> block_ticks;  // of one execution of each basic block
  uint64_t sector_ticks = 0;          // of eight words on the data path of L1 and shared memory
  uint64_t heaviest[kUnits] = {};
  uint64_t longest_ticks = 0;
  uint32_t serial = 0;  // of the launch: stamps lines that atomics touch
  Sampling sampling;
};

inline WarpRun& run_of(Warp* w) { return *static_cast<WarpRun*>(w->runtime); }
// The blocks of each cluster of the launch; 1 without clusters.
inline uint32_t cluster_blocks(const LaunchRun& launch) {
  return launch.cluster[0] * launch.cluster[1] * launch.cluster[2];
}
inline uint32_t cluster_blocks(const BlockRun& block) {
  return block.cluster == nullptr ? 1 : static_cast<uint32_t>(block.cluster->blocks.size());
}
// Rank of a block of the grid in the cluster of `home`; kNone where it is of another.
inline uint32_t rank_of(const BlockRun& home, uint32_t linear) {
  if (linear == home.block.linear) return home.rank;
  for (uint32_t rank = 0; home.cluster != nullptr && rank < cluster_blocks(home); ++rank) {
    if (home.cluster->blocks[rank]->block.linear == linear) return rank;
  }
  return kNone;
}
inline uint32_t site_traits(Warp* w, uint32_t site) { return run_of(w).traits[site]; }

// Barrier bookkeeping (barrier.cpp).
void release_complete_barriers(BlockRun& block);
// The lanes gathered at an aligned barrier arrive if the whole live warp is among them.
void arrive_if_gathered(Warp* w);
[[noreturn]] void raise_deadlock(BlockRun& block);

// Nobody wrote the byte in time: the fault after all, unless the reader keeps track of it.
// The cp.async that has yet to bring some of these bytes of shared memory, if one has.
CopyUnderWay copy_under_way(const BlockRun& block, uint32_t address, uint32_t bytes);
void settle_doubtful(BlockRun& block);
[[noreturn]] void raise_doubtful(BlockRun& block);

// Moves `known_prefix` up.
void extend_known_prefix(BlockRun& block);

// What happened before this point is ordered before everything the warp does next.
void order_warp(Warp* w);
// The same of what other warps did.
void order_after_others(Warp* w);

// Lets polling eat into the turn, so that others get to make progress.
inline void polled(Warp* w, int64_t cost) {
  w->fuel -= cost;
  run_of(w).poll_cost += cost;
  run_of(w).starved += kPollHurry;
}

}  // namespace emu
