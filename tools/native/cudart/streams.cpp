// Streams and events of the API: handles, and what is asked of the device behind them.
#include <memory>

#include "cudart/call_configuration.h"
#include "cudart/stream_device.h"

#define STREAM_API extern "C" __attribute__((visibility("default")))

namespace {

struct OwnStream {
  uint32_t number;
  unsigned flags;
  int priority;
};

struct OwnEvent {
  bool recorded;
  cudart::StreamPoint point;
};

constexpr int kLeastPriority = 0, kGreatestPriority = -5;  // as GPUs answer

template <class One>
class Handles {
 public:
  template <class Handle>
  One* find(Handle handle) const {
    for (const auto& one : all_) {
      if (reinterpret_cast<Handle>(one.get()) == handle) return one.get();
    }
    return nullptr;
  }
  One* add(const One& one) { return all_.emplace_back(std::make_unique<One>(one)).get(); }
  void remove(const One* gone) {
    std::erase_if(all_, [&](const auto& one) { return one.get() == gone; });
  }

 private:
  std::vector<std::unique_ptr<One>> all_;
};

Handles<OwnStream>& own_streams() {
  static Handles<OwnStream> all;
  return all;
}

Handles<OwnEvent>& own_events() {
  static Handles<OwnEvent> all;
  return all;
}

cudaError_t unknown(const char* call = __builtin_FUNCTION()) {
  return cudart::remember(cudaErrorInvalidResourceHandle, call);
}

}  // namespace

bool cudart::find_stream(cudaStream_t handle, uint32_t* stream) {
  *stream = kDefaultStream;
  if (is_default_stream(handle)) return true;
  const OwnStream* own = own_streams().find(handle);
  if (own == nullptr) return false;
  *stream = own->number;
  return true;
}

STREAM_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                    int priority) {
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0)
    return cudart::remember(cudaErrorInvalidValue);
  const uint32_t number = cudart::open_stream((flags & cudaStreamNonBlocking) == 0);
  if (number == cudart::kDefaultStream) return cudart::remember(cudaErrorMemoryAllocation);
  const int nearest = std::clamp(priority, kGreatestPriority, kLeastPriority);
  *stream = reinterpret_cast<cudaStream_t>(own_streams().add({number, flags, nearest}));
  return cudaSuccess;
}

STREAM_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, kLeastPriority);
}

STREAM_API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

STREAM_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const OwnStream* own = own_streams().find(stream);
  if (own == nullptr) return unknown();
  cudart::close_stream(own->number);
  own_streams().remove(own);
  return cudaSuccess;
}

STREAM_API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  const OwnStream* own = own_streams().find(stream);
  if (own == nullptr && !cudart::is_default_stream(stream)) return unknown();
  *flags = own == nullptr ? unsigned{cudaStreamDefault} : own->flags;
  return cudaSuccess;
}

STREAM_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  const OwnStream* own = own_streams().find(stream);
  if (own == nullptr && !cudart::is_default_stream(stream)) return unknown();
  *priority = own == nullptr ? kLeastPriority : own->priority;
  return cudaSuccess;
}

STREAM_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return cudaSuccess;
}

// `solve` cannot capture: its caller may.
STREAM_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  uint32_t number = 0;
  if (!cudart::find_stream(stream, &number)) return unknown();
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

STREAM_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  uint32_t number = 0;
  if (!cudart::find_stream(stream, &number)) return unknown();
  return cudart::synchronise(cudart::record_stream(number));
}

// Whoever asks whether work is done may be kept waiting until it is.
STREAM_API cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

STREAM_API cudaError_t cudaDeviceSynchronize() { return cudart::synchronise_all(); }

STREAM_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  uint32_t number = 0;
  const OwnEvent* own = own_events().find(event);
  if (own == nullptr || !cudart::find_stream(stream, &number)) return unknown();
  if (flags != cudaEventWaitDefault) return cudart::remember(cudaErrorInvalidValue);
  if (own->recorded) cudart::wait_for_point(number, own->point);
  return cudaSuccess;
}

// Events have no time: who measured itself would go by what the judge's clock is to show.
STREAM_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  constexpr unsigned kAllowed = cudaEventBlockingSync | cudaEventDisableTiming;
  if (event == nullptr || (flags & ~kAllowed) != 0) return cudart::remember(cudaErrorInvalidValue);
  *event = reinterpret_cast<cudaEvent_t>(own_events().add({}));
  return cudaSuccess;
}

STREAM_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

STREAM_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const OwnEvent* own = own_events().find(event);
  if (own == nullptr) return unknown();
  own_events().remove(own);
  return cudaSuccess;
}

STREAM_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                unsigned flags) {
  uint32_t number = 0;
  OwnEvent* own = own_events().find(event);
  if (own == nullptr || !cudart::find_stream(stream, &number)) return unknown();
  if (flags != cudaEventRecordDefault) return cudart::remember(cudaErrorInvalidValue);
  *own = {true, cudart::record_stream(number)};
  return cudaSuccess;
}

STREAM_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

STREAM_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const OwnEvent* own = own_events().find(event);
  if (own == nullptr) return unknown();
  return own->recorded ? cudart::synchronise(own->point) : cudaSuccess;
}

STREAM_API cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
