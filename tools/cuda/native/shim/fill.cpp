// Fills.
#include "api.h"
#include "log.h"

SHIM_API cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (!shim::is_device_address(to) || !shim::allocated(to, bytes))
    return shim::keep(cudaErrorInvalidValue);
  shim::note_set("cudaMemset", bytes);
  return shim::keep(shim::driver().cuMemsetD8Async(
      shim::to_device(to), static_cast<unsigned char>(value), bytes, shim::link().stream));
}

SHIM_API cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return shim::in_stream(stream, [=] { return cudaMemset(to, value, bytes); });
}

SHIM_API cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  if (width > pitch) return shim::keep(cudaErrorInvalidValue);
  if (width == 0 || height == 0) return cudaSuccess;
  if (!shim::is_device_address(to) || !shim::allocated(to, (height - 1) * pitch + width))
    return shim::keep(cudaErrorInvalidValue);
  shim::note_set("cudaMemset2D", width * height);
  return shim::keep(shim::driver().cuMemsetD2D8Async(shim::to_device(to), pitch,
                                                     static_cast<unsigned char>(value), width,
                                                     height, shim::link().stream));
}

SHIM_API cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width,
                                       size_t height, cudaStream_t stream) {
  return shim::in_stream(stream, [=] { return cudaMemset2D(to, pitch, value, width, height); });
}
