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

namespace {

cudaError_t release(void* pointer) {
  if (pointer == nullptr || shim::scratch().release(shim::to_device(pointer))) return cudaSuccess;
  return shim::keep(cudaErrorInvalidValue);
}

}  // namespace

// CUDA waits for the device here; the next call's work cannot reach what is released, so that waiting is
// only noted.
SHIM_API cudaError_t cudaFree(void* pointer) {
  shim::streams().synchronise_all();
  return release(pointer);
}

SHIM_API cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return shim::in_stream(stream, [=] { return cudaMalloc(pointer, bytes); });
}

SHIM_API cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return shim::in_stream(stream, [=] { return release(pointer); });
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
