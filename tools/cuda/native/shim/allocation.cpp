// Device memory of `solve`'s own, within the quota of the call.
#include "api.h"
#include "log.h"
#include "scratch.h"

bool shim::allocated(const void* pointer, size_t bytes) {
  return scratch().allows(to_device(pointer), bytes);
}

SHIM_API cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  if (pointer == nullptr) return shim::keep(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const uint64_t address = shim::scratch().allocate(bytes);
  if (address == 0) {
    shim::note_allocation_failure(bytes);
    return shim::keep(cudaErrorMemoryAllocation);
  }
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

SHIM_API cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr || shim::scratch().release(shim::to_device(pointer))) return cudaSuccess;
  return shim::keep(cudaErrorInvalidValue);
}

SHIM_API cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  if (!shim::is_default_stream(stream)) return shim::keep(cudaErrorInvalidResourceHandle);
  return cudaMalloc(pointer, bytes);
}

SHIM_API cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  if (!shim::is_default_stream(stream)) return shim::keep(cudaErrorInvalidResourceHandle);
  return cudaFree(pointer);
}

SHIM_API cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  constexpr size_t kPitch = 512;  // what current GPUs give
  if (pitch == nullptr) return shim::keep(cudaErrorInvalidValue);
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return cudaMalloc(pointer, *pitch * height);
}

SHIM_API cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = shim::scratch().free_bytes();
  return shim::keep(shim::driver().cuDeviceTotalMem(total_bytes, shim::link().device));
}
