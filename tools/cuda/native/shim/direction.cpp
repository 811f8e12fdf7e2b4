#include "copy.h"
#include "log.h"

namespace {

// What a `solve` may bring along: tables of coefficients, not results computed on the host.
constexpr size_t kTableBytes = size_t{1} << 20;
constexpr uint64_t kTablesBytes = uint64_t{4} << 20;

cudaMemcpyKind infer(const void* to, const void* from) {
  const bool to_device = shim::is_device_address(to);
  const bool from_device = shim::is_device_address(from);
  if (to_device) return from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

}  // namespace

namespace shim {

cudaError_t direction(const void* to, const void* from, cudaMemcpyKind kind,
                      cudaMemcpyKind* real) {
  *real = infer(to, from);
  if (kind == cudaMemcpyDefault || kind == *real) return cudaSuccess;
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDeviceToDevice
             ? keep(cudaErrorInvalidValue)
             : keep(cudaErrorInvalidMemcpyDirection);
}

void admit(const char* name, cudaMemcpyKind real, size_t bytes) {
  if (real == cudaMemcpyHostToDevice) {
    if (bytes > kTableBytes) forbid(gpu::Forbidden::large_copy, kTableBytes);
    saw().brought_bytes += bytes;
    if (saw().brought_bytes > kTablesBytes) forbid(gpu::Forbidden::large_copies, kTablesBytes);
  }
  if (real == cudaMemcpyDeviceToHost) {
    if (!call().device_to_host) forbid(gpu::Forbidden::host_copy, 0);
    saw().read_back = true;
  }
  if (real == cudaMemcpyHostToHost) return;
  note_copy(name, bytes, real != cudaMemcpyDeviceToDevice);
}

}  // namespace shim
