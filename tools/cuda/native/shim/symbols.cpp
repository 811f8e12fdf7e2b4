// `__device__` and `__constant__` variables by their host shadows.
#include "kernels.h"

namespace {

// Address of `bytes` bytes at `offset` of a variable; 0 where that is not inside it.
CUdeviceptr place(const void* symbol, size_t bytes, size_t offset) {
  const shim::Variable* variable = shim::variable_of(symbol);
  if (variable == nullptr || offset > variable->bytes || bytes > variable->bytes - offset) return 0;
  return variable->address + offset;
}

cudaError_t missing(const void* symbol) {
  return shim::keep(shim::variable_of(symbol) == nullptr ? cudaErrorInvalidSymbol
                                                         : cudaErrorInvalidValue);
}

}  // namespace

SHIM_API cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  const CUdeviceptr address = place(symbol, 0, 0);
  if (address == 0) return missing(symbol);
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

SHIM_API cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  const shim::Variable* variable = shim::variable_of(symbol);
  if (variable == nullptr) return missing(symbol);
  *bytes = variable->bytes;
  return cudaSuccess;
}

SHIM_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes,
                                       size_t offset, cudaMemcpyKind kind) {
  const CUdeviceptr address = place(symbol, bytes, offset);
  if (address == 0) return missing(symbol);
  return shim::copy(reinterpret_cast<void*>(address), from, bytes, kind);
}

SHIM_API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                            size_t offset, cudaMemcpyKind kind,
                                            cudaStream_t stream) {
  return shim::in_stream(stream,
                         [=] { return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind); });
}

SHIM_API cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                         cudaMemcpyKind kind) {
  const CUdeviceptr address = place(symbol, bytes, offset);
  if (address == 0) return missing(symbol);
  return shim::copy(to, reinterpret_cast<const void*>(address), bytes, kind);
}

SHIM_API cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes,
                                              size_t offset, cudaMemcpyKind kind,
                                              cudaStream_t stream) {
  return shim::in_stream(stream,
                         [=] { return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind); });
}
