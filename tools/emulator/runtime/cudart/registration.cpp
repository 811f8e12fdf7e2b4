// What the static constructors of a candidate tell the runtime: which host stub stands for which
// kernel, which shadow for which device variable. The name given is the PTX name, so the embedded
// device code itself is never looked at.
#include <unordered_map>

#include "api.h"

namespace {

// Filled while static constructors run, so both must be ready before any of ours have.
std::unordered_map<const void*, int>& kernels() {
  static std::unordered_map<const void*, int> map;
  return map;
}
std::unordered_map<const void*, int>& variables() {
  static std::unordered_map<const void*, int> map;
  return map;
}

int find(const std::unordered_map<const void*, int>& map, const void* key) {
  const auto found = map.find(key);
  return found == map.end() ? -1 : found->second;
}

void* fat_binary = nullptr;

}  // namespace

namespace cudart {

int kernel_of(const void* function) { return find(kernels(), function); }
int variable_of(const void* symbol) { return find(variables(), symbol); }

}  // namespace cudart

EMU_API void** __cudaRegisterFatBinary(void* device_code) {
  fat_binary = device_code;
  return &fat_binary;
}
EMU_API void __cudaRegisterFatBinaryEnd(void**) {}
EMU_API void __cudaUnregisterFatBinary(void**) {}
EMU_API char __cudaInitModule(void**) { return 1; }

EMU_API void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int,
                                    uint3*, uint3*, dim3*, dim3*, int*) {
  kernels()[host_function] = emu::find_kernel(name);
}

EMU_API void __cudaRegisterVar(void**, char* host_variable, char*, const char* name, int, size_t,
                               int, int) {
  variables()[host_variable] = emu::find_variable(name);
}

// A kernel's handle is its host stub: both spellings of a launch then mean the same.
EMU_API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudart::kernel_of(function) < 0 ? cudart::keep(cudaErrorInvalidDeviceFunction)
                                         : cudaSuccess;
}
