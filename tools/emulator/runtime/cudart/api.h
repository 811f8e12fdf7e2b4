// What the files of our CUDA runtime API share. Prototypes, enumerators and structures are the
// toolkit's own, so that a wrong signature does not compile.
#pragma once

#include <cuda_runtime_api.h>

#include "cudart/call_configuration.h"
#include "emu/host.h"

#define EMU_API extern "C" __attribute__((visibility("default")))

namespace cudart {

// Remembers a failure for cudaGetLastError, tells the device of it, and hands it through. `call`: the
// function of the API that returns it; `kernel`: that it is about, or -1.
cudaError_t keep(cudaError_t error, const char* call = __builtin_FUNCTION(), int kernel = -1);
inline cudaError_t keep(emu::CudaError error, const char* call = __builtin_FUNCTION(),
                        int kernel = -1) {
  return keep(static_cast<cudaError_t>(error), call, kernel);
}

// Index of the kernel behind the host stub `function` or its cudaKernel_t; -1: unknown.
int kernel_of(const void* function);
// Has it asked for clusters of more blocks than every chip takes?
bool takes_large_clusters(int kernel);
// Index of the module variable behind the host shadow `symbol`; -1: unknown.
int variable_of(const void* symbol);

// While it lives, the device is asked on behalf of this stream; false where no stream has the handle.
class InStream {
 public:
  explicit InStream(cudaStream_t handle);
  ~InStream();
  InStream(const InStream&) = delete;
  InStream& operator=(const InStream&) = delete;
  explicit operator bool() const { return is_known_; }

 private:
  bool is_known_;
};

inline uint64_t to_device(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Copies in the direction of `kind`, after checking that the pointers lie where it says. `part`: a
// later row of a copy that has been counted.
cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, bool part = false,
                 const char* call = __builtin_FUNCTION());

}  // namespace cudart
