#include "key_release.h"

#include <cstddef>

namespace runner {

SharedReport share_report(const Gpu& gpu, gpu::Report* report) {
  CUdeviceptr base = 0;
  CUresult result =
      gpu.driver->cuMemHostRegister(report, sizeof *report, CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result == CUDA_SUCCESS) result = gpu.driver->cuMemHostGetDevicePointer(&base, report, 0);
  if (result != CUDA_SUCCESS) return {0, 0, result};
  return {base + offsetof(gpu::Report, key_release), base + offsetof(gpu::Report, tags), CUDA_SUCCESS};
}

}  // namespace runner
