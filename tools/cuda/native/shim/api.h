// What the files of the shim share. Prototypes, enumerators and structures are the toolkit's own, so
// that a wrong signature does not compile.
#pragma once

#include <cuda_runtime_api.h>

#include "cudart/call_configuration.h"
#include "cudart/streams.h"

#include "shim.h"

#define SHIM_API extern "C" __attribute__((visibility("default")))

namespace shim {

const gpu::ShimLink& link();
inline const gpu::Driver& driver() { return *link().driver; }
// What holds for the call of `solve` under way.
const gpu::ShimCall& call();
gpu::ShimSaw& saw();
[[noreturn]] void forbid(gpu::Forbidden what, uint64_t most_bytes);

// Remembers a failure for cudaGetLastError, and hands it through. Runtime and driver share numbers.
cudaError_t keep(cudaError_t error);
inline cudaError_t keep(CUresult error) { return keep(static_cast<cudaError_t>(error)); }

// Work of all streams runs on the runner's, in the order in which it is asked for.
cudart::Streams& streams();
// Does it for a stream of the candidate's.
cudaError_t in_stream(cudaStream_t stream, const cudart::Streams::Work& work);

inline CUdeviceptr to_device(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
// Is it in the arena or a variable of the candidate's?
bool is_device_address(const void* pointer);
// False: memory of `solve`'s own that no live allocation covers.
bool allocated(const void* pointer, size_t bytes);

// Host memory that a copy may read whenever it runs; null: there is none.
const void* staged(const void* from, size_t bytes);
// As staged, for rows `pitch` bytes apart, which then lie side by side.
const void* staged_rows(const void* from, size_t pitch, size_t width, size_t height);

// Copies in the direction of `kind`, after checking that the pointers lie where it says.
cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
// While it lives, the report says that the GPU is waited for.
class Waiting {
 public:
  Waiting() { ++link().report->waiting; }
  ~Waiting() { --link().report->waiting; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
};

// Waits for all that `solve` has asked for; a captured call only notes it.
cudaError_t wait();

}  // namespace shim
