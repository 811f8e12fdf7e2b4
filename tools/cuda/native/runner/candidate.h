// The candidate and the CUDA runtime it binds to.
#pragma once

#include "arena.h"
#include "gpu.h"
#include "shim.h"

namespace runner {

struct Candidate {
  const gpu::Shim* shim;
  void* solve;
};

// Opens the shim so that the candidate binds to it.
const gpu::Shim* open_shim(const char* library);

// Tells the shim what it works with, again whenever the arena is another.
void connect_shim(const Gpu& gpu, const gpu::Shim& shim, const Arena& arena, gpu::Report* report);

// Confines this process and loads the candidate. Says `refused` and ends where that cannot be done.
Candidate load_candidate(const Gpu& gpu, const gpu::Shim& shim, const Arena& arena,
                         gpu::Report* report, const gpu::StartFrame& start);

}  // namespace runner
