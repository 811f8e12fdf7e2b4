// The ways to launch a kernel.
#include <algorithm>

#include "kernels.h"
#include "log.h"
#include "properties.h"

namespace {

cudart::CallConfigurations configurations;

constexpr unsigned kMaxAttributes = 16;
constexpr CUresult kInvalidConfiguration = static_cast<CUresult>(cudaErrorInvalidConfiguration);


bool fits_the_device_at_once(const shim::Kernel& kernel, const shim::Launch& launch) {
  const uint64_t threads = uint64_t{launch.block.x} * launch.block.y * launch.block.z;
  const uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  int each = 0;
  shim::driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      &each, kernel.function, static_cast<int>(threads), launch.shared_bytes, 0);
  const int sms = shim::device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  return blocks <= static_cast<uint64_t>(each) * static_cast<uint64_t>(sms);
}

// What the driver would refuse: refusing it here leaves a capture under way intact.
CUresult check(const shim::Kernel& kernel, const shim::Launch& launch) {
  const uint64_t x = launch.block.x, y = launch.block.y, z = launch.block.z;
  if (x * y * z == 0 || x > 1024 || y > 1024 || z > 64 || x * y * z > 1024)
    return kInvalidConfiguration;
  if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0) return kInvalidConfiguration;
  if (launch.grid.x > 0x7fffffff || launch.grid.y > 65535 || launch.grid.z > 65535)
    return kInvalidConfiguration;
  if (x * y * z > static_cast<uint64_t>(kernel.max_threads))
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  int limit = 0;
  shim::driver().cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    kernel.function);
  if (launch.shared_bytes > static_cast<size_t>(limit)) return CUDA_ERROR_INVALID_VALUE;
  if (launch.cooperative && !fits_the_device_at_once(kernel, launch))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return CUDA_SUCCESS;
}

cudaError_t run(const void* function, const shim::Launch& launch, void** arguments,
                cudaStream_t stream, CUlaunchAttribute* attributes, unsigned count) {
  const shim::Kernel* kernel = shim::kernel_of(function);
  if (kernel == nullptr) return shim::keep(cudaErrorInvalidDeviceFunction);
  if (!shim::is_default_stream(stream)) return shim::keep(cudaErrorInvalidResourceHandle);
  CUresult error = check(*kernel, launch);
  if (error == CUDA_SUCCESS) {
    const dim3 &grid = launch.grid, &block = launch.block;
    const CUlaunchConfig config = {grid.x,  grid.y,
                                   grid.z,  block.x,
                                   block.y, block.z,
                                   static_cast<unsigned>(launch.shared_bytes), shim::link().stream,
                                   attributes, count};
    error = shim::driver().cuLaunchKernelEx(&config, kernel->function, arguments, nullptr);
  }
  if (error == CUDA_SUCCESS) {
    shim::note_launch(*kernel, launch);
  } else {
    shim::note_refusal(error, *kernel, launch);
  }
  return shim::keep(error);
}

cudaError_t run_plain(const void* function, dim3 grid, dim3 block, void** arguments,
                      size_t shared_bytes, cudaStream_t stream) {
  return run(function, {grid, block, dim3(0, 0, 0), shared_bytes, false}, arguments, stream,
             nullptr, 0);
}

// Attributes that shape this launch or only hint. Those that reach beyond it are not there: parts of
// L2 set aside, events, priorities of memory, launches from the device.
bool allowed(cudaLaunchAttributeID id) {
  constexpr cudaLaunchAttributeID kAllowed[] = {
      cudaLaunchAttributeIgnore,
      cudaLaunchAttributeCooperative,
      cudaLaunchAttributeClusterDimension,
      cudaLaunchAttributeClusterSchedulingPolicyPreference,
      cudaLaunchAttributeProgrammaticStreamSerialization,
      cudaLaunchAttributePriority,
      cudaLaunchAttributePreferredClusterDimension,
      cudaLaunchAttributePreferredSharedMemoryCarveout};
  return std::ranges::find(kAllowed, id) != std::end(kAllowed);
}

// Both kinds of attribute are laid out alike and share numbers.
static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(int{cudaLaunchAttributeCooperative} == int{CU_LAUNCH_ATTRIBUTE_COOPERATIVE});
static_assert(int{cudaLaunchAttributeClusterDimension} ==
              int{CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION});
static_assert(int{cudaLaunchAttributeProgrammaticStreamSerialization} ==
              int{CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION});

}  // namespace

SHIM_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                              cudaStream_t stream) {
  return configurations.push({grid, block, shared_bytes, stream});
}

SHIM_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                                void* stream) {
  return shim::keep(configurations.pop(grid, block, shared_bytes, stream));
}

SHIM_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                        void** arguments, size_t shared_bytes,
                                        cudaStream_t stream) {
  return run_plain(kernel, grid, block, arguments, shared_bytes, stream);
}

SHIM_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                      size_t shared_bytes, cudaStream_t stream) {
  return run_plain(function, grid, block, arguments, shared_bytes, stream);
}

SHIM_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                                 void** arguments, size_t shared_bytes,
                                                 cudaStream_t stream) {
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  return run(function, {grid, block, dim3(0, 0, 0), shared_bytes, true}, arguments, stream,
             &cooperative, 1);
}

SHIM_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                         void** arguments) {
  if (config->numAttrs > kMaxAttributes) return shim::keep(cudaErrorInvalidValue);
  shim::Launch launch{config->gridDim, config->blockDim, dim3(0, 0, 0), config->dynamicSmemBytes,
                      false};
  CUlaunchAttribute attributes[kMaxAttributes] = {};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (!allowed(attribute.id)) return shim::keep(cudaErrorNotSupported);
    attributes[i].id = static_cast<CUlaunchAttributeID>(attribute.id);
    std::copy_n(attribute.val.pad, sizeof attributes[i].value.pad, attributes[i].value.pad);
    if (attribute.id == cudaLaunchAttributeCooperative)
      launch.cooperative = attribute.val.cooperative != 0;
    if (attribute.id == cudaLaunchAttributeClusterDimension)
      launch.cluster = dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y,
                            attribute.val.clusterDim.z);
  }
  return run(function, launch, arguments, config->stream, attributes, config->numAttrs);
}
