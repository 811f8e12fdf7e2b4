// How many blocks or clusters of a kernel are resident at once.
#include <algorithm>

#include "kernels.h"

namespace {

CUlaunchConfig driver_config(const cudaLaunchConfig_t& config, CUlaunchAttribute* attributes,
                             unsigned room) {
  const unsigned count = std::min(config.numAttrs, room);
  for (unsigned i = 0; i < count; ++i) {
    attributes[i].id = static_cast<CUlaunchAttributeID>(config.attrs[i].id);
    std::copy_n(config.attrs[i].val.pad, sizeof attributes[i].value.pad, attributes[i].value.pad);
  }
  return {config.gridDim.x,  config.gridDim.y,
          config.gridDim.z,  config.blockDim.x,
          config.blockDim.y, config.blockDim.z,
          static_cast<unsigned>(config.dynamicSmemBytes), shim::link().stream,
          attributes,        count};
}

using ClusterQuery = CUresult (*)(int*, CUfunction, const CUlaunchConfig*);

cudaError_t ask(ClusterQuery query, int* answer, const void* function,
                const cudaLaunchConfig_t* config) {
  const shim::Kernel* kernel = shim::kernel_of(function);
  if (kernel == nullptr) return shim::keep(cudaErrorInvalidDeviceFunction);
  CUlaunchAttribute attributes[16] = {};
  const CUlaunchConfig same = driver_config(*config, attributes, std::size(attributes));
  return shim::keep(query(answer, kernel->function, &same));
}

}  // namespace

SHIM_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int threads, size_t shared_bytes, unsigned flags) {
  const shim::Kernel* kernel = shim::kernel_of(function);
  if (kernel == nullptr) return shim::keep(cudaErrorInvalidDeviceFunction);
  return shim::keep(shim::driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, kernel->function, threads, shared_bytes, flags));
}

SHIM_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                   const void* function,
                                                                   int threads,
                                                                   size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                shared_bytes, 0);
}

SHIM_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function,
                                                               int blocks, int threads) {
  const shim::Kernel* kernel = shim::kernel_of(function);
  if (kernel == nullptr) return shim::keep(cudaErrorInvalidDeviceFunction);
  return shim::keep(shim::driver().cuOccupancyAvailableDynamicSMemPerBlock(
      bytes, kernel->function, blocks, threads));
}

SHIM_API cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                    const cudaLaunchConfig_t* config) {
  return ask(shim::driver().cuOccupancyMaxActiveClusters, clusters, function, config);
}

SHIM_API cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                          const cudaLaunchConfig_t* config) {
  return ask(shim::driver().cuOccupancyMaxPotentialClusterSize, size, function, config);
}
