// The ways to launch a kernel. A launch runs to its end before it returns.
#include "api.h"

namespace {

cudart::CallConfigurations configurations;

cudaError_t run(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                cudaStream_t stream, bool cooperative) {
  const int kernel = cudart::kernel_of(function);
  if (kernel < 0) return cudart::keep(cudaErrorInvalidDeviceFunction);
  if (!cudart::is_default_stream(stream)) return cudart::keep(cudaErrorInvalidResourceHandle);
  const uint32_t grid_size[3] = {grid.x, grid.y, grid.z};
  const uint32_t block_size[3] = {block.x, block.y, block.z};
  return cudart::keep(emu::launch(static_cast<uint32_t>(kernel), grid_size, block_size, arguments,
                                  shared_bytes, cooperative));
}

// The blocks of a cluster may as well run one after the other: a kernel that uses its cluster has
// operations that are not translated.
bool fits(const dim3& cluster, const dim3& grid) {
  constexpr unsigned kMostBlocks = 8;  // what every chip with clusters can do
  const auto divides = [](unsigned part, unsigned whole) { return part != 0 && whole % part == 0; };
  return cluster.x <= kMostBlocks && cluster.y <= kMostBlocks && cluster.z <= kMostBlocks &&
         cluster.x * cluster.y * cluster.z <= kMostBlocks && divides(cluster.x, grid.x) &&
         divides(cluster.y, grid.y) && divides(cluster.z, grid.z);
}

}  // namespace

EMU_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                             cudaStream_t stream) {
  return configurations.push({grid, block, shared_bytes, stream});
}

EMU_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                               void* stream) {
  return cudart::keep(configurations.pop(grid, block, shared_bytes, stream));
}

EMU_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                       size_t shared_bytes, cudaStream_t stream) {
  return run(kernel, grid, block, arguments, shared_bytes, stream, false);
}

EMU_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                     size_t shared_bytes, cudaStream_t stream) {
  return run(function, grid, block, arguments, shared_bytes, stream, false);
}

EMU_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                                void** arguments, size_t shared_bytes,
                                                cudaStream_t stream) {
  return run(function, grid, block, arguments, shared_bytes, stream, true);
}

// Attributes that only hint are taken, an early start among them; those that change what a kernel may
// do are not there.
EMU_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                        void** arguments) {
  bool cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributePreferredSharedMemoryCarveout:
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        break;
      case cudaLaunchAttributeClusterDimension: {
        const auto& cluster = attribute.val.clusterDim;
        if (!fits(dim3(cluster.x, cluster.y, cluster.z), config->gridDim))
          return cudart::keep(cudaErrorInvalidClusterSize);
        break;
      }
      case cudaLaunchAttributeCooperative:
        cooperative = attribute.val.cooperative != 0;
        break;
      default:
        return cudart::keep(cudaErrorNotSupported);
    }
  }
  return run(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
             config->stream, cooperative);
}
