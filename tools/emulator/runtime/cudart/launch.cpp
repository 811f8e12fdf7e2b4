// The ways to launch a kernel. A launch runs to its end before it returns.
#include "api.h"

namespace {

cudart::CallConfigurations configurations;

cudaError_t run(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                cudaStream_t stream, bool cooperative, const char* call = __builtin_FUNCTION(),
                emu::ClusterShape cluster = {}) {
  const int kernel = cudart::kernel_of(function);
  if (kernel < 0) return cudart::keep(cudaErrorInvalidDeviceFunction, call);
  const cudart::InStream in_stream(stream);
  if (!in_stream) return cudart::keep(cudaErrorInvalidResourceHandle, call, kernel);
  const uint32_t grid_size[3] = {grid.x, grid.y, grid.z};
  const uint32_t block_size[3] = {block.x, block.y, block.z};
  cluster.large = cudart::takes_large_clusters(kernel);
  return cudart::keep(emu::launch(static_cast<uint32_t>(kernel), grid_size, block_size, arguments,
                                  shared_bytes, cooperative, cluster),
                      call, kernel);
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
  return run(kernel, grid, block, arguments, shared_bytes, stream, false, "cudaLaunchKernel");
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
  emu::ClusterShape cluster;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributePreferredSharedMemoryCarveout:
      case cudaLaunchAttributeProgrammaticStreamSerialization:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
        break;
      case cudaLaunchAttributeClusterDimension: {
        const auto& asked = attribute.val.clusterDim;
        cluster.blocks[0] = asked.x;
        cluster.blocks[1] = asked.y;
        cluster.blocks[2] = asked.z;
        if (asked.x == 0 || asked.y == 0 || asked.z == 0)
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
             config->stream, cooperative, "cudaLaunchKernelExC", cluster);
}
