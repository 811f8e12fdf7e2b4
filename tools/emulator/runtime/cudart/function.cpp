// Attributes of kernels, and how many of their blocks fit on an SM.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "api.h"

namespace {

// Kernels that asked for more dynamic shared memory than they get unasked.
std::unordered_map<int, uint32_t> raised_limits;
std::unordered_set<int> large_clusters;

int64_t dynamic_shared_limit(int kernel) {
  const auto raised = raised_limits.find(kernel);
  if (raised != raised_limits.end()) return raised->second;
  const emu::Kernel& facts = emu::kernel(static_cast<uint32_t>(kernel));
  return int64_t{emu::facts().shared_bytes_per_block} - facts.static_shared_bytes;
}

int threads_limit(const emu::Kernel& kernel) {
  uint32_t limit = emu::facts().max_threads_per_block;
  if (kernel.max_threads != 0) limit = std::min(limit, kernel.max_threads);
  if (kernel.hardware_registers != 0) {
    const uint32_t warp = emu::facts().registers_per_block / kernel.hardware_registers / 32;
    limit = std::min(limit, warp * 32);
  }
  return static_cast<int>(limit);
}

int active_blocks(int kernel, int threads, size_t shared_bytes) {
  return emu::max_active_blocks(static_cast<uint32_t>(kernel), static_cast<uint32_t>(threads),
                                shared_bytes);
}

}  // namespace

bool cudart::takes_large_clusters(int kernel) { return large_clusters.count(kernel) != 0; }

EMU_API cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                         int value) {
  const int kernel = cudart::kernel_of(function);
  if (kernel < 0) return cudart::keep(cudaErrorInvalidDeviceFunction);
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize: {
      if (value < 0) return cudart::keep(cudaErrorInvalidValue);
      const emu::CudaError error = emu::set_dynamic_shared_limit(static_cast<uint32_t>(kernel),
                                                                 static_cast<uint32_t>(value));
      if (error == cudaSuccess) raised_limits[kernel] = static_cast<uint32_t>(value);
      return cudart::keep(error, "cudaFuncSetAttribute", kernel);
    }
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      return value < -1 || value > 100 ? cudart::keep(cudaErrorInvalidValue) : cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      if (emu::facts().compute_major < 9) return cudart::keep(cudaErrorNotSupported);
      if (value != 0)
        large_clusters.insert(kernel);
      else
        large_clusters.erase(kernel);
      return cudaSuccess;
    default:
      return cudart::keep(cudaErrorNotSupported, "cudaFuncSetAttribute", kernel);
  }
}

EMU_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const int index = cudart::kernel_of(function);
  if (index < 0) return cudart::keep(cudaErrorInvalidDeviceFunction);
  const emu::Kernel& kernel = emu::kernel(static_cast<uint32_t>(index));
  const emu::DeviceFacts& facts = emu::facts();
  *attributes = {};
  attributes->sharedSizeBytes = kernel.static_shared_bytes;
  attributes->localSizeBytes = kernel.local_bytes;
  attributes->maxThreadsPerBlock = threads_limit(kernel);
  attributes->numRegs = static_cast<int>(kernel.hardware_registers);
  attributes->ptxVersion = static_cast<int>(facts.compute_major * 10 + facts.compute_minor);
  attributes->binaryVersion = attributes->ptxVersion;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(dynamic_shared_limit(index));
  attributes->preferredShmemCarveout = -1;
  return cudaSuccess;
}

EMU_API cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return cudart::kernel_of(function) < 0 ? cudart::keep(cudaErrorInvalidDeviceFunction)
                                         : cudaSuccess;
}

EMU_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                  const void* function, int threads,
                                                                  size_t shared_bytes) {
  const int kernel = cudart::kernel_of(function);
  if (kernel < 0) return cudart::keep(cudaErrorInvalidDeviceFunction);
  if (threads <= 0) return cudart::keep(cudaErrorInvalidValue);
  *blocks = active_blocks(kernel, threads, shared_bytes);
  return cudaSuccess;
}

EMU_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int threads, size_t shared_bytes, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
}

// The largest dynamic shared memory with which `blocks` blocks still fit, by bisection: the rule
// how shared memory is handed out stays in one place.
EMU_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function,
                                                              int blocks, int threads) {
  const int kernel = cudart::kernel_of(function);
  if (kernel < 0) return cudart::keep(cudaErrorInvalidDeviceFunction);
  if (blocks <= 0 || threads <= 0 || active_blocks(kernel, threads, 0) < blocks)
    return cudart::keep(cudaErrorInvalidValue);
  size_t fits = 0;
  size_t fails = emu::facts().shared_bytes_per_sm + size_t{1};
  while (fails - fits > 1) {
    const size_t middle = fits + (fails - fits) / 2;
    (active_blocks(kernel, threads, middle) >= blocks ? fits : fails) = middle;
  }
  *bytes = fits;
  return cudaSuccess;
}

// How many clusters the multiprocessors hold, as if each could be shared out freely.
EMU_API cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                   const cudaLaunchConfig_t* config) {
  const int kernel = cudart::kernel_of(function);
  if (kernel < 0) return cudart::keep(cudaErrorInvalidDeviceFunction);
  if (emu::facts().compute_major < 9) return cudart::keep(cudaErrorNotSupported);
  unsigned blocks = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
    const auto& asked = config->attrs[i].val.clusterDim;
    blocks = asked.x * asked.y * asked.z;
  }
  const unsigned most = cudart::takes_large_clusters(kernel) ? emu::kLargestCluster : emu::kPortableCluster;
  if (blocks == 0 || blocks > most) return cudart::keep(cudaErrorInvalidClusterSize);
  const dim3& block = config->blockDim;
  const int active = active_blocks(kernel, static_cast<int>(block.x * block.y * block.z),
                                   config->dynamicSmemBytes);
  *clusters = active * static_cast<int>(emu::facts().sm_count) / static_cast<int>(blocks);
  return cudaSuccess;
}

EMU_API cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* function,
                                                         const cudaLaunchConfig_t*) {
  const int kernel = cudart::kernel_of(function);
  if (kernel < 0) return cudart::keep(cudaErrorInvalidDeviceFunction);
  if (emu::facts().compute_major < 9) return cudart::keep(cudaErrorNotSupported);
  *blocks = static_cast<int>(cudart::takes_large_clusters(kernel) ? emu::kLargestCluster : emu::kPortableCluster);
  return cudaSuccess;
}
