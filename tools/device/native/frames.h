// The frames between the orchestrator and a runner, each of one fixed size and sent as one packet of
// a SOCK_SEQPACKET pair. tools/device/protocol.py is the same in Python; a test compares the two.
//
//   orchestrator          runner
//   StartFrame       ->
//                    <-   ReplyFrame ready | refused
//   CallFrame        ->
//                    <-   ReplyFrame done            any number of times
//
// A runner is two processes. The device part holds arena, report and kernels and talks to the
// orchestrator; the host part holds the candidate and talks to the device part alone, over a link:
//
//   device part           host part
//   emu_greet()      ->
//                    <-   requests (emu/link.h), each answered, whenever the candidate calls CUDA
//                    <-   ReplyFrame ready             kConfined: the candidate is opened next
//                    <-   ReplyFrame ready | refused   kLoaded
//   HostCall         ->
//                    <-   ReplyFrame done
//
// The device part passes on what the host part says when it makes sense, and `forged` when it does
// not; once the candidate may have written it, without its text, but for the dynamic linker's
// `refused`. A part that dies by a signal sends `died` as its last words; a fault of the emulated device
// is in the report instead, with exit status emu::kFaultExit.
#pragma once

#include <cstdint>

#include "emu/host.h"
#include "reply.h"

namespace runner {

constexpr uint32_t kMaxBuffers = kMaxIntegers;

struct StartFrame {
  uint64_t arena_bytes;
  uint64_t report_bytes;
  emu::DeviceFacts facts;
};

struct CallFrame {
  uint64_t sequence;                // echoed in the reply
  uint64_t integers[kMaxIntegers];  // in order of the signature; pointers are arena offsets
  uint64_t floats[kMaxFloats];      // in order; a float in the low half
  uint32_t pointers;                // bit i: integers[i] is an arena offset
  uint32_t buffer_count;
  emu::CallBuffer buffers[kMaxBuffers];
  uint64_t schedule_seed;
  uint64_t scratch_bytes;
  uint64_t fuel;
  uint32_t level;
  uint32_t device_to_host;
  uint64_t sample_cost;
  uint64_t certain_offset;
  uint64_t certain_bytes;
};

// The sequence of the host part's two `ready`.
constexpr uint64_t kConfined = 0;
constexpr uint64_t kLoaded = 1;

// One call of `solve`, as the host part is told of it.
struct HostCall {
  uint64_t sequence;
  uint64_t integers[kMaxIntegers];
  uint64_t floats[kMaxFloats];
};

}  // namespace runner
