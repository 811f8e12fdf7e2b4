// The launch log, written into the report.
#pragma once

#include "kernels.h"

namespace shim {

struct Launch {
  dim3 grid, block, cluster;
  size_t shared_bytes;
  bool cooperative;
};

void clear_log();
void note_launch(const Kernel& kernel, const Launch& launch);
void note_copy(const char* name, size_t bytes, bool between_host_and_device);
void note_set(const char* name, size_t bytes);
// Remembers the first launch that was refused, and the limit in `why` that it goes beyond.
void note_refusal(CUresult error, const Kernel& kernel, const Launch& launch,
                  const gpu::RefusedCall& why);
void note_allocation_failure(size_t bytes);

}  // namespace shim
