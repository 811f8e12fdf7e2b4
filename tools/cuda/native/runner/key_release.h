// Memory of the host in which a GPU asks the host process for keys while a batch runs.
#pragma once

#include "gpu.h"
#include "report.h"

namespace runner {

// Addresses as kernels see them; 0: there is no such memory, and `error` says why.
struct SharedReport {
  CUdeviceptr key_release;
  CUdeviceptr tags;
  CUresult error;
};

// Has the GPU see the report. To be done once.
SharedReport share_report(const Gpu& gpu, gpu::Report* report);

}  // namespace runner
