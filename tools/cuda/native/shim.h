// How the runner governs the shim, our libcudart for candidates on a GPU. Both live in one process.
#pragma once

#include "driver.h"
#include "frames.h"
#include "report.h"

namespace gpu {

// What the shim needs of the runner, for good.
struct ShimLink {
  const Driver* driver;
  CUdevice device;
  CUstream stream;  // the only one
  Report* report;
  CUdeviceptr arena;
  uint64_t arena_bytes;
  // Says what `solve` did that it may not, and ends the process.
  void (*forbid)(Forbidden what, uint64_t most_bytes);
};

// What holds for one call of `solve`.
struct ShimCall {
  CUdeviceptr scratch;
  uint64_t scratch_bytes;
  uint64_t scratch_quota;
  uint64_t scratch_seed;
  bool device_to_host;  // allowed
  bool captured;        // into a graph: nothing may wait, and host memory must outlive the call
  bool logged;          // in the report
};

// What the shim saw of a call.
struct ShimSaw {
  bool read_back;          // results were copied to the host
  uint64_t brought_bytes;  // from host to device
};

// The one thing the runner looks up in the shim: `gpu_shim`.
struct Shim {
  void (*connect)(const ShimLink* link);
  // Why the candidate's device code did not load; null: it did.
  CUresult (*load_error)();
  void (*begin)(const ShimCall* call);
  ShimSaw (*end)();
  // Lets go of host memory that captured copies read.
  void (*forget_captured)();
};

}  // namespace gpu
