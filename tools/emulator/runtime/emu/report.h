// Layout of the report memfd: fixed sizes, native byte order. tools/emulator/report_layout.py is the
// same in NumPy; a test compares the two.
//
//   Report           at 0
//   printed text     at kTextOffset, Report::text_bytes used
//   LaunchEntry[]    at kLogOffset, Report::logged used
//   counters         at kCountersOffset up to the end: per counted launch block_count executions,
//                    block_count lane sums (uint64_t each), then site_count SiteCounters, all of
//                    the counted blocks; of a sampled launch site_count Sharing after those
#pragma once

#include <cstdint>

namespace emu {

constexpr uint64_t kReportMagic = 0x3274726f70657245;  // "Ereport2"
constexpr uint32_t kNone = 0xffffffff;
constexpr uint64_t kTextOffset = 4096;
constexpr uint64_t kTextBytes = 61440;
constexpr uint64_t kLogOffset = kTextOffset + kTextBytes;
constexpr uint32_t kLogEntries = 2048;
constexpr uint32_t kGuardedRaces = 4;
constexpr uint32_t kRaces = 4;
constexpr uint32_t kFailedCalls = 4;

enum class SpaceNumber : uint32_t { none, global, shared, local, constant, param };
enum class AccessNumber : uint32_t { none, read, write, atomic };
enum class AllocationKind : uint32_t { none, buffer, scratch, variable, workspace, heap };

// What exactly is wrong with a barrier or a collective; why a kernel stopped itself.
enum class ReasonNumber : uint32_t {
  none,
  different_barriers,
  different_thread_counts,
  no_such_barrier,
  not_a_member,
  missing_lanes,
  assertion,
  phase_incomplete,          // of an mbarrier: `address` arrivals and `bytes` are missing
  cluster_incomplete,        // not all threads reach the cluster's barrier
  too_many_arrivals,         // at an mbarrier, in one phase
  no_such_count,             // of arrivals or bytes
  unpaired_cluster_barrier,  // arrived twice, or waited without arriving
  exited_block,              // whose shared memory is accessed
  no_tensor_map,             // at the address
  no_proxy_fence,            // between a store and the bulk copy that reads it
  missing_warps,             // of a warpgroup
  different_operands,        // of wgmma, in lanes or warps of a warpgroup
  reserved_bits,             // of a matrix descriptor are set
  no_pattern,                // of its swizzle begins where a matrix descriptor says
  negative_start,            // of a tile that is written
  decides_address,           // what an undefined value is used for
  decides_branch,
  decides_access,            // whether an instruction is executed that accesses memory
  decides_atomic,
  decides_collective,
  decides_operand,           // of an instruction that takes whole values
  decides_output,
  no_function,  // at the address that is called
};

// How far a cp.async is whose bytes are not there yet. Late: it was committed after the last wait.
enum class CopyNumber : uint32_t { none, uncommitted, late, unwaited };

// What a launch asks too much of.
enum class LimitNumber : uint32_t {
  none,
  grid_extent,
  block_extent,
  threads_per_block,
  launch_bounds,
  shared_memory,
  registers,
  resident_blocks,
  cluster_extent,  // divides the grid, or is the kernel's own
  cluster_blocks,
};

struct FaultRecord {
  uint32_t fault;  // Fault
  uint32_t kernel;
  uint32_t site;        // kNone where it is not about an instruction
  uint32_t other_site;  // the earlier access, the other barrier, or where an undefined value is used
  uint32_t other_kernel;  // where it is used; else kNone
  uint32_t basic_block;
  uint32_t block[3];
  uint32_t thread[3];
  uint32_t space;   // SpaceNumber
  uint32_t access;  // AccessNumber
  uint32_t other_access;
  uint32_t bytes;
  uint32_t allocation_kind;  // AllocationKind
  uint32_t allocation_index;
  uint32_t allocation_freed;
  uint32_t reason;  // ReasonNumber
  uint32_t copy_site;  // of the cp.async on its way to what is read; else kNone
  uint32_t copy_state;  // CopyNumber
  uint64_t address;
  int64_t allocation_offset;  // of the access from the nearest allocation's start; may be negative
  uint64_t allocation_bytes;
  char detail[256];
};

// The first launch, or raise of a kernel's limit, that CUDA would have refused.
struct LaunchError {
  uint32_t error;  // cudaError_t
  uint32_t kernel;
  uint32_t limit;  // LimitNumber
  uint32_t axis;   // of an extent: 0, 1, 2
  uint64_t asked;
  uint64_t allowed;
  uint64_t dynamic_shared_bytes;
  uint32_t static_shared_bytes;
  uint32_t most_shared_bytes;  // dynamic and static, once the attribute is raised; 0: not about it
  uint32_t grid[3];            // 0, 0, 0 where nothing was launched
  uint32_t block[3];
};

// A function of the runtime API that returned an error to solve, which went on.
struct FailedCall {
  uint32_t error;   // cudaError_t
  uint32_t kernel;  // that it is about; else kNone
  uint32_t times;   // the same error of the same function
  char call[52];
};

// Where the device is, for a process that is killed because it does not end.
struct Progress {
  uint32_t in_kernel;
  uint32_t kernel;
  uint32_t basic_block;
  uint32_t block;
};

// What the work of a block is weighed by: the pipes of emu::Pipe, then the data path of L1 and shared
// memory.
constexpr uint32_t kUnits = 10;
// Paths are counted in parts of a clock.
constexpr uint32_t kTicks = 16;

struct LaunchEntry {
  uint32_t kernel;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint32_t cooperative;
  uint32_t block_count;
  uint32_t site_count;
  uint64_t blocks_total;
  uint64_t counters_offset;  // 0: not counted
  uint64_t footprint_bytes;  // of the whole grid
  uint64_t reused_bytes;     // not moved: what launches before it left in L2
  uint64_t barriers;
  uint64_t threads_run;
  uint64_t work[kUnits];       // of each unit: instructions, ticks of the data path
  uint64_t heaviest[kUnits];   // the most of it in one block
  uint64_t path_ticks;         // longest path through each block, summed
  uint64_t longest_ticks;      // of any block
  uint64_t worst_line;         // most passes of atomics on one line of L2
  uint64_t meetings;           // of blocks with each other, summed over blocks
  uint64_t path_error;         // standard error of the mean path of counted blocks, in ticks
  uint64_t counted_blocks;     // that the counters are of; all but where the launch was sampled
  uint64_t wave_blocks;        // whose sharing was looked at; 0: the launch was executed whole
  uint64_t shared_line;        // of lines that several blocks use: as worst_line
  uint64_t allocated_bytes;    // of all buffers and scratch memory there are
  uint64_t l2_bytes;           // of the GPU
};

// What the blocks of a wave share, by site: sectors that are new to the block, of those the ones new
// to the wave, of those the ones that the wave before had.
struct Sharing {
  uint64_t in_block, in_wave, again;
};

struct SiteCounters {
  uint64_t requests;
  uint64_t lanes;
  uint64_t sectors;
  uint64_t lines;
  uint64_t wavefronts;
  uint64_t ideal_wavefronts;
  uint64_t worst_ways;
  uint64_t l2_sectors;
  uint64_t dram_sectors;
  uint64_t serial;
  uint64_t path_ticks;  // that the longest path of each block waits here, summed
};

struct Report {
  uint64_t magic;
  uint64_t bytes;
  uint64_t counters_used;
  uint32_t launches;  // of the call, logged or not
  uint32_t logged;
  uint32_t counters_overflowed;
  uint32_t text_bytes;
  uint32_t text_truncated;
  uint32_t allocation_failed;  // refused: 1 cudaMalloc quota, 2 arena, 3 variables
  uint64_t refused_bytes;  // of the first of them
  uint64_t allowed_bytes;  // at once, by the quota
  uint64_t copies;          // fills and copies by the host API
  uint64_t pieces;          // that they came in beyond their first: rows of a rectangle
  uint64_t copied_sectors;  // of device memory, read or written by them
  uint64_t host_bytes;      // that they moved between host and device
  uint64_t held_bytes;      // that solve and its kernels allocated and have not freed
  uint64_t held_allocations;
  uint64_t only_slow;  // blocks were still ending when the time was up
  Progress progress;
  LaunchError launch_error;
  FaultRecord fault;
  FaultRecord races[kRaces];  // after which the call went on; the first of each two lines
  FailedCall failed_calls[kFailedCalls];  // the first ones
  FaultRecord guarded[kGuardedRaces];  // races of reads that only guard an update; the first of each two lines
};
static_assert(sizeof(Report) <= kTextOffset);

constexpr uint64_t kCountersOffset = kLogOffset + kLogEntries * sizeof(LaunchEntry);

}  // namespace emu
