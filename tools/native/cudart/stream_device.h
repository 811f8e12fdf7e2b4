// What streams and events of the API ask of the device behind it: each of our CUDA runtimes has its own.
#pragma once

#include <cuda_runtime_api.h>

#include "cudart/streams.h"

namespace cudart {

// Returns kDefaultStream where there are too many.
uint32_t open_stream(bool blocking);
void close_stream(uint32_t stream);
StreamPoint record_stream(uint32_t stream);
void wait_for_point(uint32_t stream, StreamPoint point);
// The host waits for the point, or for everything.
cudaError_t synchronise(StreamPoint point);
cudaError_t synchronise_all();
// Remembers a failure for cudaGetLastError, and hands it through; `call`: the function that returns it.
cudaError_t remember(cudaError_t error, const char* call = __builtin_FUNCTION());

// The number behind a handle: false where no stream has it.
bool find_stream(cudaStream_t handle, uint32_t* stream);

}  // namespace cudart
