// What streams and events ask of a GPU: nothing but that waits are noted.
#include "cudart/stream_device.h"

#include "api.h"

cudart::Streams& shim::streams() {
  static cudart::Streams all;
  return all;
}

cudaError_t shim::in_stream(cudaStream_t stream, const cudart::Streams::Work& work) {
  uint32_t number = 0;
  if (!cudart::find_stream(stream, &number)) return keep(cudaErrorInvalidResourceHandle);
  return static_cast<cudaError_t>(streams().add(number, work));
}

namespace cudart {

uint32_t open_stream(bool blocking) { return shim::streams().open(blocking); }
void close_stream(uint32_t stream) { shim::streams().close(stream); }
StreamPoint record_stream(uint32_t stream) { return shim::streams().record(stream); }
void wait_for_point(uint32_t stream, StreamPoint point) { shim::streams().wait(stream, point); }

cudaError_t synchronise(StreamPoint point) {
  shim::streams().synchronise(point);
  return shim::wait();
}

cudaError_t synchronise_all() {
  shim::streams().synchronise_all();
  return shim::wait();
}

cudaError_t remember(cudaError_t error, const char*) { return shim::keep(error); }

}  // namespace cudart
