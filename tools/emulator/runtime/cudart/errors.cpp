// Error state, names and texts.
#include "api.h"

namespace {

struct Text {
  cudaError_t error;
  const char* name;
  const char* text;
};

// Every error this runtime returns.
constexpr Text kTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration",
     "__global__ function call is not configured"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
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

namespace cudart {

cudaError_t keep(cudaError_t error, const char* call, int kernel) {
  if (error == cudaSuccess) return error;
  last_error = error;
  emu::note_failed_call(call, error, kernel);
  return error;
}

}  // namespace cudart

EMU_API cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

EMU_API cudaError_t cudaPeekAtLastError() { return last_error; }

EMU_API const char* cudaGetErrorName(cudaError_t error) {
  const Text* text = find(error);
  return text ? text->name : "unrecognized error code";
}

EMU_API const char* cudaGetErrorString(cudaError_t error) {
  const Text* text = find(error);
  return text ? text->text : "unrecognized error code";
}
