// What streams and events ask of the emulated device.
#include "cudart/stream_device.h"

#include "api.h"

namespace cudart {

uint32_t open_stream(bool blocking) { return emu::open_stream(blocking); }
void close_stream(uint32_t stream) { emu::close_stream(stream); }
StreamPoint record_stream(uint32_t stream) { return {stream, emu::record_stream(stream)}; }
void wait_for_point(uint32_t stream, StreamPoint point) {
  emu::wait_for_stream(stream, point.stream, point.end);
}
cudaError_t synchronise(StreamPoint point) { return keep(emu::synchronise(point.stream, point.end)); }
cudaError_t synchronise_all() { return keep(emu::synchronise(emu::kEveryStream, 0)); }
cudaError_t remember(cudaError_t error, const char* call) { return keep(error, call); }

InStream::InStream(cudaStream_t handle) {
  uint32_t stream = kDefaultStream;
  is_known_ = find_stream(handle, &stream);
  emu::use_stream(stream);
}

InStream::~InStream() { emu::use_stream(kDefaultStream); }

}  // namespace cudart
