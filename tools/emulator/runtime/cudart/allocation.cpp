// Device memory of `solve`'s own, within the quota of the call.
#include "api.h"

namespace {

cudaError_t allocate(void** pointer, size_t bytes, const char* call = __builtin_FUNCTION()) {
  if (pointer == nullptr) return cudart::keep(cudaErrorInvalidValue, call);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const uint64_t address = emu::device_malloc(bytes);
  if (address == 0) return cudart::keep(cudaErrorMemoryAllocation, call);
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t release(void* pointer, const char* call = __builtin_FUNCTION()) {
  if (pointer == nullptr || emu::device_free(cudart::to_device(pointer))) return cudaSuccess;
  return cudart::keep(cudaErrorInvalidValue, call);
}

}  // namespace

EMU_API cudaError_t cudaMalloc(void** pointer, size_t bytes) { return allocate(pointer, bytes); }

EMU_API cudaError_t cudaFree(void* pointer) {
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) return error;
  return release(pointer);
}

EMU_API cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  const cudart::InStream in_stream(stream);
  if (!in_stream) return cudart::keep(cudaErrorInvalidResourceHandle);
  return allocate(pointer, bytes);
}

EMU_API cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  const cudart::InStream in_stream(stream);
  if (!in_stream) return cudart::keep(cudaErrorInvalidResourceHandle);
  return release(pointer);
}

EMU_API cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  constexpr size_t kPitch = 512;  // what current GPUs give
  if (pitch == nullptr) return cudart::keep(cudaErrorInvalidValue);
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return allocate(pointer, *pitch * height);
}

EMU_API cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = emu::facts().memory_bytes;
  return cudaSuccess;
}
