// What the static constructors of a candidate tell the runtime: its device code, which host stub
// stands for which kernel, and which shadow for which device variable.
#include <cstdio>
#include <fatbinary_section.h>
#include <unordered_map>

#include "kernels.h"

namespace {

// A candidate whose device code does not load has null ones: its launches then fail as they would.
std::unordered_map<const void*, shim::Kernel> kernels;
std::unordered_map<const void*, shim::Variable> variables;
CUresult first_failure = CUDA_SUCCESS;

int attribute(CUfunction function, CUfunction_attribute which) {
  int value = 0;
  shim::driver().cuFuncGetAttribute(&value, which, function);
  return value;
}

void note_failure(CUresult error) {
  if (first_failure == CUDA_SUCCESS) first_failure = error;
}

CUmodule module_of(void** handle) { return reinterpret_cast<CUmodule>(handle); }

}  // namespace

namespace shim {

const Kernel* kernel_of(const void* function) {
  const auto found = kernels.find(function);
  return found == kernels.end() ? nullptr : &found->second;
}

const Variable* variable_of(const void* symbol) {
  const auto found = variables.find(symbol);
  return found == variables.end() ? nullptr : &found->second;
}

bool is_device_address(const void* pointer) {
  const CUdeviceptr address = to_device(pointer);
  if (address >= link().arena && address - link().arena < link().arena_bytes) return true;
  for (const auto& [shadow, variable] : variables)
    if (address >= variable.address && address - variable.address < variable.bytes) return true;
  return false;
}

CUresult load_error() { return first_failure; }

}  // namespace shim

SHIM_API void** __cudaRegisterFatBinary(void* wrapper) {
  const auto* code = static_cast<const __fatBinC_Wrapper_t*>(wrapper);
  CUmodule module = nullptr;
  const CUresult error = shim::driver().cuModuleLoadData(&module, code->data);
  if (error != CUDA_SUCCESS) note_failure(error);
  return reinterpret_cast<void**>(module);
}

SHIM_API void __cudaRegisterFatBinaryEnd(void**) {}
SHIM_API void __cudaUnregisterFatBinary(void**) {}
SHIM_API char __cudaInitModule(void**) { return 1; }

SHIM_API void __cudaRegisterFunction(void** handle, const char* host_function, char*,
                                     const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  if (handle == nullptr) return;
  CUfunction function = nullptr;
  const CUresult error = shim::driver().cuModuleGetFunction(&function, module_of(handle), name);
  if (error != CUDA_SUCCESS) return note_failure(error);
  kernels[host_function] = {name, function, attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
                            attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS),
                            attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
                            attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)};
}

SHIM_API void __cudaRegisterVar(void** handle, char* host_variable, char*, const char* name, int,
                                size_t, int, int) {
  if (handle == nullptr) return;
  shim::Variable variable{};
  const CUresult error =
      shim::driver().cuModuleGetGlobal(&variable.address, &variable.bytes, module_of(handle), name);
  if (error != CUDA_SUCCESS) return note_failure(error);
  variables[host_variable] = variable;
}

// A kernel's handle is its host stub: both spellings of a launch then mean the same.
SHIM_API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return shim::kernel_of(function) == nullptr ? shim::keep(cudaErrorInvalidDeviceFunction)
                                              : cudaSuccess;
}
