// `__device__` and `__constant__` variables by their host shadows.
#include "api.h"

namespace {

// Address of `bytes` bytes at `offset` of a variable; 0 where that is not inside it.
uint64_t place(const void* symbol, size_t bytes, size_t offset) {
  const int variable = cudart::variable_of(symbol);
  if (variable < 0) return 0;
  const uint64_t size = emu::variable_bytes(static_cast<uint32_t>(variable));
  if (offset > size || bytes > size - offset) return 0;
  return emu::variable_address(static_cast<uint32_t>(variable)) + offset;
}

cudaError_t missing(const void* symbol, const char* call = __builtin_FUNCTION()) {
  return cudart::keep(
      cudart::variable_of(symbol) < 0 ? cudaErrorInvalidSymbol : cudaErrorInvalidValue, call);
}

cudaError_t write(const void* symbol, const void* from, size_t bytes, size_t offset,
                  cudaMemcpyKind kind, const char* call = __builtin_FUNCTION()) {
  const uint64_t address = place(symbol, bytes, offset);
  if (address == 0) return missing(symbol, call);
  return cudart::copy(reinterpret_cast<void*>(address), from, bytes, kind, false, call);
}

cudaError_t read(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                 const char* call = __builtin_FUNCTION()) {
  const uint64_t address = place(symbol, bytes, offset);
  if (address == 0) return missing(symbol, call);
  return cudart::copy(to, reinterpret_cast<const void*>(address), bytes, kind, false, call);
}

}  // namespace

EMU_API cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  const uint64_t address = place(symbol, 0, 0);
  if (address == 0) return missing(symbol);
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

EMU_API cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  const int variable = cudart::variable_of(symbol);
  if (variable < 0) return missing(symbol);
  *bytes = emu::variable_bytes(static_cast<uint32_t>(variable));
  return cudaSuccess;
}

EMU_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes,
                                       size_t offset, cudaMemcpyKind kind) {
  return write(symbol, from, bytes, offset, kind);
}

EMU_API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                            size_t offset, cudaMemcpyKind kind,
                                            cudaStream_t stream) {
  const cudart::InStream in_stream(stream);
  if (!in_stream) return cudart::keep(cudaErrorInvalidResourceHandle);
  return write(symbol, from, bytes, offset, kind);
}

EMU_API cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                         cudaMemcpyKind kind) {
  return read(to, symbol, bytes, offset, kind);
}

EMU_API cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes,
                                              size_t offset, cudaMemcpyKind kind,
                                              cudaStream_t stream) {
  const cudart::InStream in_stream(stream);
  if (!in_stream) return cudart::keep(cudaErrorInvalidResourceHandle);
  return read(to, symbol, bytes, offset, kind);
}
