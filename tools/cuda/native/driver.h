// The functions of the CUDA driver that runner and shim use, in memory that cannot be written. The
// driver is opened at run time: nothing here is linked with it, and CUDA's runtime is not used at all.
#pragma once

#include <cuda.h>

namespace gpu {

// cuda.h defines each of these names as the newest version of the function it declares (cuMemAlloc
// as cuMemAlloc_v2), so that name and prototype always go together.
#define GPU_DRIVER_FUNCTIONS(f)                                                                     \
  f(cuInit) f(cuGetErrorName) f(cuGetErrorString) f(cuDriverGetVersion)                             \
  f(cuDeviceGet) f(cuDeviceGetName) f(cuDeviceGetAttribute) f(cuDeviceTotalMem) f(cuDeviceGetUuid)  \
  f(cuDevicePrimaryCtxSetFlags) f(cuDevicePrimaryCtxRetain)                                         \
  f(cuCtxSetCurrent) f(cuCtxGetCurrent) f(cuCtxSynchronize) f(cuCtxSetLimit)                                           \
  f(cuMemAlloc) f(cuMemFree) f(cuMemHostAlloc) f(cuMemFreeHost) f(cuIpcOpenMemHandle)               \
  f(cuMemHostRegister) f(cuMemHostGetDevicePointer)                                                 \
  f(cuMemcpyHtoDAsync) f(cuMemcpyDtoHAsync) f(cuMemcpyDtoDAsync) f(cuMemcpy2DAsync)                 \
  f(cuMemsetD8Async) f(cuMemsetD32Async) f(cuMemsetD2D8Async)                                       \
  f(cuStreamCreate) f(cuStreamSynchronize) f(cuStreamBeginCapture) f(cuStreamEndCapture)            \
  f(cuModuleLoadData) f(cuModuleGetFunction) f(cuModuleGetGlobal)                                   \
  f(cuFuncGetAttribute) f(cuFuncSetAttribute) f(cuFuncSetCacheConfig)                               \
  f(cuLaunchKernel) f(cuLaunchKernelEx)                                                             \
  f(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)                                           \
  f(cuOccupancyAvailableDynamicSMemPerBlock)                                                        \
  f(cuOccupancyMaxActiveClusters) f(cuOccupancyMaxPotentialClusterSize)                             \
  f(cuGraphCreate) f(cuGraphAddKernelNode) f(cuGraphAddMemsetNode) f(cuGraphAddChildGraphNode)      \
  f(cuGraphInstantiate) f(cuGraphUpload) f(cuGraphLaunch) f(cuGraphDestroy) f(cuGraphExecDestroy)   \
  f(cuTensorMapEncodeTiled) f(cuTensorMapEncodeIm2col) f(cuTensorMapReplaceAddress)

struct Driver {
#define GPU_MEMBER(name) decltype(&::name) name;
  GPU_DRIVER_FUNCTIONS(GPU_MEMBER)
#undef GPU_MEMBER
  // Of newer drivers alone; else null.
  decltype(&::cuTensorMapEncodeIm2colWide) cuTensorMapEncodeIm2colWide;
};

// Opens the driver. Null: `why` says what is missing.
const Driver* open_driver(const char** why);

// The driver's own name of an error.
inline const char* error_name(const Driver& driver, CUresult error) {
  const char* name = nullptr;
  if (driver.cuGetErrorName(error, &name) != CUDA_SUCCESS || name == nullptr) return "unknown error";
  return name;
}

}  // namespace gpu
