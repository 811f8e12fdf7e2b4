// What the shim notes of the last call or capture of `solve`, in a memory file that the host
// process maps too. The candidate shares the address space: all of it is a claim, shown and never
// ranked by.
// tools/cuda/protocol.py is the same in Python; a test compares the two.
#pragma once

#include <cstdint>

#include "seal.h"

namespace gpu {

constexpr uint64_t kReportMagic = 0x31747270'75677564;  // "dugprpt1"
constexpr uint32_t kLogEntries = 1024;
constexpr uint32_t kTextBytes = 64 << 10;
constexpr uint32_t kNoText = 0xffffffff;
constexpr uint32_t kMaxTags = 256 * 24;  // steps times outputs

enum class EntryKind : uint32_t { kernel = 0, copy = 1, set = 2 };

struct LogEntry {
  uint32_t kind;  // EntryKind
  uint32_t name;  // offset into `text` of a kernel's name as in PTX, or of a call's; kNoText: no room
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t cluster[3];  // 0, 0, 0: none
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint32_t registers;  // of a thread
  uint32_t local_bytes;  // of a thread
  uint32_t cooperative;
  uint32_t blocks_per_sm;  // that the driver says fit at once
  uint32_t pad;
  uint64_t bytes;  // copied or set
};

// What a launch asks too much of.
enum class LimitNumber : uint32_t {
  none = 0,  // the driver refused it and does not say why
  grid_extent = 1,
  block_extent = 2,
  threads_per_block = 3,
  launch_bounds = 4,
  shared_memory = 5,
  registers = 6,
  resident_blocks = 7,
};

// A launch that CUDA refused. `solve` may have found another way.
struct RefusedCall {
  uint32_t error;  // CUresult; 0: none
  uint32_t limit;  // LimitNumber
  uint32_t axis;   // of an extent: 0, 1, 2
  uint32_t static_shared_bytes;
  uint64_t asked;
  uint64_t allowed;
  uint64_t dynamic_shared_bytes;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t most_shared_bytes;  // dynamic and static, once the attribute is raised
  uint32_t pad;
  char kernel[184];  // its name as in PTX
};

struct Report {
  uint64_t magic;
  uint64_t bytes;
  uint32_t launches;  // of kernels, logged or not
  uint32_t entries;   // that were worth logging, logged or not
  uint32_t logged;
  uint32_t text_used;
  uint32_t allocation_failed;  // beyond the quota
  uint32_t synchronisations;
  uint32_t waiting;  // above 0: for the GPU, so that who is late then is a kernel
  uint32_t pad;
  uint64_t refused_bytes;  // of the first allocation that failed
  uint64_t allowed_bytes;  // at once, by the quota
  uint64_t peak_bytes;     // allocated at once
  uint64_t copies;         // fills and copies by the host API
  uint64_t host_bytes;     // that they moved between host and device
  RefusedCall refused;
  LogEntry log[kLogEntries];
  char text[kTextBytes];  // zero-terminated strings
  // Of the last batch: word i * output_count + o, as they were when it had run, or, step by step, when
  // the key of the next inputs was asked for. The host process reads them here at once: a copy of its
  // own from the GPU would take a time that varies.
  uint64_t tags[kMaxTags];
  KeyRelease key_release;
};

}  // namespace gpu
