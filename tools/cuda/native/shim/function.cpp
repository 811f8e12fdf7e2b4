// Attributes of kernels.
#include "kernels.h"

namespace {

int attribute(const shim::Kernel& kernel, CUfunction_attribute which) {
  int value = 0;
  shim::driver().cuFuncGetAttribute(&value, which, kernel.function);
  return value;
}

static_assert(int{cudaFuncAttributeMaxDynamicSharedMemorySize} ==
              int{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES});
static_assert(int{cudaFuncAttributeNonPortableClusterSizeAllowed} ==
              int{CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED});

}  // namespace

// Runtime and driver share the numbers of attributes.
SHIM_API cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which,
                                          int value) {
  const shim::Kernel* kernel = shim::kernel_of(function);
  if (kernel == nullptr) return shim::keep(cudaErrorInvalidDeviceFunction);
  return shim::keep(shim::driver().cuFuncSetAttribute(
      kernel->function, static_cast<CUfunction_attribute>(which), value));
}

SHIM_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const shim::Kernel* kernel = shim::kernel_of(function);
  if (kernel == nullptr) return shim::keep(cudaErrorInvalidDeviceFunction);
  const auto get = [kernel](CUfunction_attribute which) { return attribute(*kernel, which); };
  const auto bytes = [&](CUfunction_attribute which) { return static_cast<size_t>(get(which)); };
  *attributes = {};
  attributes->sharedSizeBytes = bytes(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  attributes->constSizeBytes = bytes(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  attributes->localSizeBytes = bytes(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  attributes->maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  attributes->numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  attributes->ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  attributes->binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  attributes->cacheModeCA = get(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
  attributes->maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  attributes->preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  attributes->clusterDimMustBeSet = get(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
  attributes->requiredClusterWidth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
  attributes->requiredClusterHeight = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
  attributes->requiredClusterDepth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
  attributes->clusterSchedulingPolicyPreference =
      get(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
  attributes->nonPortableClusterSizeAllowed =
      get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  return cudaSuccess;
}

SHIM_API cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache config) {
  const shim::Kernel* kernel = shim::kernel_of(function);
  if (kernel == nullptr) return shim::keep(cudaErrorInvalidDeviceFunction);
  return shim::keep(
      shim::driver().cuFuncSetCacheConfig(kernel->function, static_cast<CUfunc_cache>(config)));
}
