// Error state, names and texts. The driver has them all, but for the few errors of the runtime alone.
#include "api.h"

namespace {

struct Text {
  cudaError_t error;
  const char* name;
  const char* text;
};

constexpr Text kTexts[] = {
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration",
     "__global__ function call is not configured"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    // Where the runtime's name is not the driver's in other letters.
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const Text* find(cudaError_t error) {
  for (const Text& text : kTexts)
    if (text.error == error) return &text;
  return nullptr;
}

cudaError_t last_error = cudaSuccess;

}  // namespace

namespace shim {

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace shim

SHIM_API cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

SHIM_API cudaError_t cudaPeekAtLastError() { return last_error; }

SHIM_API const char* cudaGetErrorName(cudaError_t error) {
  if (const Text* text = find(error)) return text->name;
  const char* name = nullptr;
  shim::driver().cuGetErrorName(static_cast<CUresult>(error), &name);
  return name == nullptr ? "unrecognized error code" : name;
}

SHIM_API const char* cudaGetErrorString(cudaError_t error) {
  if (const Text* text = find(error)) return text->text;
  const char* string = nullptr;
  shim::driver().cuGetErrorString(static_cast<CUresult>(error), &string);
  return string == nullptr ? "unrecognized error code" : string;
}
