// The ways to launch a kernel.
#include <algorithm>

#include "kernels.h"
#include "log.h"
#include "properties.h"

namespace {

cudart::CallConfigurations configurations;

constexpr unsigned kMaxAttributes = 16;
constexpr CUresult kInvalidConfiguration = static_cast<CUresult>(cudaErrorInvalidConfiguration);


uint64_t blocks_at_once(const shim::Kernel& kernel, const shim::Launch& launch) {
  const uint64_t threads = uint64_t{launch.block.x} * launch.block.y * launch.block.z;
  int each = 0;
  shim::driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      &each, kernel.function, static_cast<int>(threads), launch.shared_bytes, 0);
  const int sms = shim::device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  return static_cast<uint64_t>(each) * static_cast<uint64_t>(sms);
}

// Registers are handed out to whole warps, eight a thread at a time.
uint64_t registers_of_block(const shim::Kernel& kernel, uint64_t threads) {
  const uint64_t each = (static_cast<uint64_t>(kernel.registers) + 7) / 8 * 8;
  return each * 32 * ((threads + 31) / 32);
}

gpu::RefusedCall beyond(gpu::LimitNumber limit, uint64_t asked, uint64_t allowed,
                        uint32_t axis = 0) {
  gpu::RefusedCall why{};
  why.limit = static_cast<uint32_t>(limit);
  why.asked = asked;
  why.allowed = allowed;
  why.axis = axis;
  return why;
}

// What the driver would refuse: refusing it here leaves a capture under way intact. `why` becomes
// the limit.
CUresult check(const shim::Kernel& kernel, const shim::Launch& launch, gpu::RefusedCall& why) {
  using gpu::LimitNumber;
  const uint64_t grid[3] = {launch.grid.x, launch.grid.y, launch.grid.z};
  const uint64_t block[3] = {launch.block.x, launch.block.y, launch.block.z};
  constexpr uint64_t kMostBlocks[3] = {0x7fffffff, 65535, 65535};
  constexpr uint64_t kMostThreads[3] = {1024, 1024, 64};
  for (uint32_t axis = 0; axis < 3; ++axis) {
    if (block[axis] == 0 || block[axis] > kMostThreads[axis]) {
      why = beyond(LimitNumber::block_extent, block[axis], kMostThreads[axis], axis);
      return kInvalidConfiguration;
    }
  }
  const uint64_t threads = block[0] * block[1] * block[2];
  if (threads > 1024) {
    why = beyond(LimitNumber::threads_per_block, threads, 1024);
    return kInvalidConfiguration;
  }
  for (uint32_t axis = 0; axis < 3; ++axis) {
    if (grid[axis] == 0 || grid[axis] > kMostBlocks[axis]) {
      why = beyond(LimitNumber::grid_extent, grid[axis], kMostBlocks[axis], axis);
      return kInvalidConfiguration;
    }
  }
  if (threads > static_cast<uint64_t>(kernel.max_threads)) {
    const uint64_t registers = registers_of_block(kernel, threads);
    const int most = shim::device_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    why = registers > static_cast<uint64_t>(most)
              ? beyond(LimitNumber::registers, registers, static_cast<uint64_t>(most))
              : beyond(LimitNumber::launch_bounds, threads,
                       static_cast<uint64_t>(kernel.max_threads));
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  int limit = 0;
  shim::driver().cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    kernel.function);
  if (launch.shared_bytes > static_cast<size_t>(limit)) {
    why = beyond(LimitNumber::shared_memory, launch.shared_bytes, static_cast<uint64_t>(limit));
    why.most_shared_bytes = static_cast<uint32_t>(
        shim::device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t blocks = grid[0] * grid[1] * grid[2];
  if (launch.cooperative && blocks > blocks_at_once(kernel, launch)) {
    why = beyond(LimitNumber::resident_blocks, blocks, blocks_at_once(kernel, launch));
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  return CUDA_SUCCESS;
}

cudaError_t run_now(const shim::Kernel& kernel, const shim::Launch& launch, void** arguments,
                    CUlaunchAttribute* attributes, unsigned count) {
  gpu::RefusedCall why{};
  CUresult error = check(kernel, launch, why);
  if (error == CUDA_SUCCESS) {
    const dim3 &grid = launch.grid, &block = launch.block;
    const CUlaunchConfig config = {grid.x,  grid.y,
                                   grid.z,  block.x,
                                   block.y, block.z,
                                   static_cast<unsigned>(launch.shared_bytes), shim::link().stream,
                                   attributes, count};
    error = shim::driver().cuLaunchKernelEx(&config, kernel.function, arguments, nullptr);
  }
  if (error == CUDA_SUCCESS) {
    shim::note_launch(kernel, launch);
  } else {
    shim::note_refusal(error, kernel, launch, why);
  }
  return shim::keep(error);
}

cudaError_t run(const void* function, const shim::Launch& launch, void** arguments,
                cudaStream_t stream, CUlaunchAttribute* attributes, unsigned count) {
  const shim::Kernel* kernel = shim::kernel_of(function);
  if (kernel == nullptr) return shim::keep(cudaErrorInvalidDeviceFunction);
  return shim::in_stream(
      stream, [&] { return run_now(*kernel, launch, arguments, attributes, count); });
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
