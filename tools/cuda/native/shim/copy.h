// The direction of a copy, and what a candidate may bring along.
#pragma once

#include "api.h"

namespace shim {

// The real direction of a copy declared as `kind`; an error where they do not agree.
cudaError_t direction(const void* to, const void* from, cudaMemcpyKind kind, cudaMemcpyKind* real);

// Ends the process where a copy of `bytes` bytes that way is not allowed, and notes it otherwise.
void admit(const char* name, cudaMemcpyKind real, size_t bytes);

}  // namespace shim
