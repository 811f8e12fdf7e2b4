// Copies.
#include "copy.h"

#include <cstring>

namespace {

// A captured call cannot read results back: the runner calls it uncaptured once it has seen that.
constexpr CUresult kNotCaptured = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

CUresult read_back(void* to, const void* from, size_t bytes) {
  if (shim::call().captured) return kNotCaptured;
  const CUstream stream = shim::link().stream;
  const shim::Waiting waiting;
  const CUresult error =
      shim::driver().cuMemcpyDtoHAsync(to, shim::to_device(from), bytes, stream);
  return error == CUDA_SUCCESS ? shim::driver().cuStreamSynchronize(stream) : error;
}

CUresult bring(void* to, const void* from, size_t bytes) {
  // Pageable memory may be read after the call returns; CUDA's own runtime stages it, too.
  const CUstream stream = shim::link().stream;
  const shim::Waiting waiting;
  if (!shim::call().captured)
    return shim::driver().cuMemcpyHtoDAsync(shim::to_device(to), from, bytes, stream);
  const void* kept = shim::staged(from, bytes);
  if (kept == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  return shim::driver().cuMemcpyHtoDAsync(shim::to_device(to), kept, bytes, stream);
}

CUmemorytype side(bool device) { return device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST; }

CUresult copy_rows(CUDA_MEMCPY2D rows, cudaMemcpyKind real) {
  if (real == cudaMemcpyDeviceToHost && shim::call().captured) return kNotCaptured;
  if (real == cudaMemcpyHostToDevice && shim::call().captured) {
    rows.srcHost = shim::staged_rows(rows.srcHost, rows.srcPitch, rows.WidthInBytes, rows.Height);
    rows.srcPitch = rows.WidthInBytes;
    if (rows.srcHost == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const shim::Waiting waiting;
  const CUresult error = shim::driver().cuMemcpy2DAsync(&rows, shim::link().stream);
  if (error != CUDA_SUCCESS || real != cudaMemcpyDeviceToHost) return error;
  return shim::driver().cuStreamSynchronize(shim::link().stream);
}

}  // namespace

cudaError_t shim::copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  cudaMemcpyKind real{};
  if (const cudaError_t error = direction(to, from, kind, &real)) return error;
  if (!allocated(to, bytes) || !allocated(from, bytes)) return keep(cudaErrorInvalidValue);
  admit("cudaMemcpy", real, bytes);
  switch (real) {
    case cudaMemcpyHostToDevice:
      return keep(bring(to, from, bytes));
    case cudaMemcpyDeviceToHost:
      return keep(read_back(to, from, bytes));
    case cudaMemcpyDeviceToDevice:
      return keep(
          driver().cuMemcpyDtoDAsync(to_device(to), to_device(from), bytes, link().stream));
    default:
      std::memmove(to, from, bytes);
      return cudaSuccess;
  }
}

SHIM_API cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return shim::copy(to, from, bytes, kind);
}

SHIM_API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                     cudaStream_t stream) {
  return shim::in_stream(stream, [=] { return shim::copy(to, from, bytes, kind); });
}

SHIM_API cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                  size_t width, size_t height, cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return shim::keep(cudaErrorInvalidValue);
  if (width == 0 || height == 0) return cudaSuccess;
  cudaMemcpyKind real{};
  if (const cudaError_t error = shim::direction(to, from, kind, &real)) return error;
  if (!shim::allocated(to, (height - 1) * to_pitch + width) ||
      !shim::allocated(from, (height - 1) * from_pitch + width))
    return shim::keep(cudaErrorInvalidValue);
  shim::admit("cudaMemcpy2D", real, width * height);
  if (real == cudaMemcpyHostToHost) {
    for (size_t row = 0; row < height; ++row)
      std::memmove(static_cast<char*>(to) + row * to_pitch,
                   static_cast<const char*>(from) + row * from_pitch, width);
    return cudaSuccess;
  }
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = side(real != cudaMemcpyHostToDevice);
  rows.srcHost = from;
  rows.srcDevice = shim::to_device(from);
  rows.srcPitch = from_pitch;
  rows.dstMemoryType = side(real != cudaMemcpyDeviceToHost);
  rows.dstHost = to;
  rows.dstDevice = shim::to_device(to);
  rows.dstPitch = to_pitch;
  rows.WidthInBytes = width;
  rows.Height = height;
  return shim::keep(copy_rows(rows, real));
}

SHIM_API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                       size_t from_pitch, size_t width, size_t height,
                                       cudaMemcpyKind kind, cudaStream_t stream) {
  return shim::in_stream(
      stream, [=] { return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind); });
}
