// The memory that runner and GPU host process share.
#pragma once

#include "frames.h"
#include "gpu.h"

namespace runner {

struct Arena {
  CUdeviceptr base;
  uint64_t bytes;
  void* host;  // SharedBy::host: the host process's side of it; else null
};

// What is written before timed calls, so that L2 holds nothing of theirs. How long that takes depends
// on where it lies in memory, so runners that are compared write to the same place.
struct Flush {
  CUdeviceptr base;
  uint64_t bytes;
};

// `host_file`: descriptor of the memory file for SharedBy::host; -1: there is none.
Arena open_arena(const Gpu& gpu, const gpu::StartFrame& start, int host_file);

// Where memory is shared through the host, each runner has its own.
Flush open_flush(const Gpu& gpu, const gpu::StartFrame& start);

// The address of `bytes` bytes at an offset. Gives up where they are not inside the arena.
CUdeviceptr at(const Arena& arena, uint64_t offset, uint64_t bytes);

// Where memory is shared through the host: copies in what the host process wrote, and copies out what
// is there now. Else nothing.
void copy_in(const Gpu& gpu, const Arena& arena, uint64_t bytes);
void copy_out(const Gpu& gpu, const Arena& arena, uint64_t bytes);

}  // namespace runner
