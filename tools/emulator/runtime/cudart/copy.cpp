// Fills and copies. All of them are done when the call returns.
#include <cstring>

#include "api.h"

namespace {

// What a `solve` may bring along: tables of coefficients, not results computed on the host.
constexpr size_t kTableBytes = size_t{1} << 20;

cudaMemcpyKind infer(const void* to, const void* from) {
  const bool to_device = emu::is_device_address(cudart::to_device(to));
  const bool from_device = emu::is_device_address(cudart::to_device(from));
  if (to_device) return from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

cudaError_t fill(void* to, int value, size_t bytes, bool part = false,
                 const char* call = __builtin_FUNCTION()) {
  if (bytes == 0) return cudaSuccess;
  return cudart::keep(emu::device_set(cudart::to_device(to), value, bytes, part), call);
}

cudaError_t fill_rows(void* to, size_t pitch, int value, size_t width, size_t height,
                      const char* call = __builtin_FUNCTION()) {
  if (width > pitch) return cudart::keep(cudaErrorInvalidValue, call);
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t error =
        fill(static_cast<char*>(to) + row * pitch, value, width, row != 0, call);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                      size_t height, cudaMemcpyKind kind,
                      const char* call = __builtin_FUNCTION()) {
  if (width > to_pitch || width > from_pitch) return cudart::keep(cudaErrorInvalidValue, call);
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t error =
        cudart::copy(static_cast<char*>(to) + row * to_pitch,
                     static_cast<const char*>(from) + row * from_pitch, width, kind, row != 0, call);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

namespace cudart {

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, bool part,
                 const char* call) {
  if (bytes == 0) return cudaSuccess;
  const cudaMemcpyKind real = infer(to, from);
  if (kind != cudaMemcpyDefault && kind != real)
    return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDeviceToDevice
               ? keep(cudaErrorInvalidValue, call)
               : keep(cudaErrorInvalidMemcpyDirection, call);
  switch (real) {
    case cudaMemcpyHostToDevice:
      if (bytes > kTableBytes) emu::refuse_copy(emu::Fault::large_copy, kTableBytes);
      return keep(emu::copy_to_device(to_device(to), from, bytes, part), call);
    case cudaMemcpyDeviceToHost:
      return keep(emu::copy_from_device(to, to_device(from), bytes, part), call);
    case cudaMemcpyDeviceToDevice:
      return keep(emu::copy_on_device(to_device(to), to_device(from), bytes, part), call);
    default:
      std::memmove(to, from, bytes);
      return cudaSuccess;
  }
}

}  // namespace cudart

EMU_API cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudart::copy(to, from, bytes, kind);
}

EMU_API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                    cudaStream_t stream) {
  const cudart::InStream in_stream(stream);
  if (!in_stream) return cudart::keep(cudaErrorInvalidResourceHandle);
  return cudart::copy(to, from, bytes, kind);
}

EMU_API cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                 size_t width, size_t height, cudaMemcpyKind kind) {
  return copy_rows(to, to_pitch, from, from_pitch, width, height, kind);
}

EMU_API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                      size_t from_pitch, size_t width, size_t height,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  const cudart::InStream in_stream(stream);
  if (!in_stream) return cudart::keep(cudaErrorInvalidResourceHandle);
  return copy_rows(to, to_pitch, from, from_pitch, width, height, kind);
}

EMU_API cudaError_t cudaMemset(void* to, int value, size_t bytes) { return fill(to, value, bytes); }

EMU_API cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const cudart::InStream in_stream(stream);
  if (!in_stream) return cudart::keep(cudaErrorInvalidResourceHandle);
  return fill(to, value, bytes);
}

EMU_API cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return fill_rows(to, pitch, value, width, height);
}

EMU_API cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width,
                                      size_t height, cudaStream_t stream) {
  const cudart::InStream in_stream(stream);
  if (!in_stream) return cudart::keep(cudaErrorInvalidResourceHandle);
  return fill_rows(to, pitch, value, width, height);
}
