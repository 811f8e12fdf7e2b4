// The frames between the host process and a runner of a GPU, each of one fixed size and sent as one
// packet of a SOCK_SEQPACKET pair. tools/cuda/protocol.py is the same in Python; a test compares the
// two.
//
//   host process          runner
//                    <-   ReplyFrame ready             the context is there
//   StartFrame       ->
//                    <-   ReplyFrame ready | refused   `address`: where the arena starts
//   StartFrame       ->                                at any time: the same candidate in other
//                    <-   ReplyFrame ready             memory, where it is not SharedBy::host
//   CallFrame        ->
//                    <-   ReplyFrame done              any number of times
//   CaptureFrame     ->
//                    <-   ReplyFrame done              `number`: a Captured, `detail` says why
//   ArmFrame         ->
//                    <-   ReplyFrame done
//   GoFrame          ->
//                    <-   ReplyFrame done              once for each ArmFrame
//
// Each order is answered by exactly one reply with its sequence. Any other reply (died, denied,
// broken, faulted, forbidden) is the runner's last.
//
// Offsets are bytes from the arena's start. The buffers of slot 0 are where the frame says; those of
// slot s lie s * slot_stride further on.
#pragma once

#include <cstdint>

#include "reply.h"

namespace gpu {

using runner::kMaxFloats;
using runner::kMaxIntegers;
constexpr uint32_t kMaxRegions = kMaxIntegers;
constexpr uint32_t kMaxSteps = 256;
constexpr uint32_t kHandleBytes = 64;
constexpr uint32_t kPathBytes = 1024;
constexpr uint64_t kAlignment = 16;  // of every offset of an ArmFrame

enum class Order : uint32_t { start = 1, call = 2, capture = 3, arm = 4, go = 5 };

enum class SharedBy : uint32_t {
  ipc = 0,   // `handle` names the host process's own device memory
  host = 1,  // a memory file: the runner copies `copied_bytes` in before an order and out after it
};

enum class Captured : uint32_t {
  yes = 0,
  host_inclusive = 1,  // `solve` reads results back: it is called anew in each step
};

// The number of the reply to an ArmFrame.
enum class Armed : uint32_t {
  yes = 0,
  not_stepwise = 1,  // the GPU cannot be shown memory of this host; `address`: the CUresult
};

// The number of a reply `forbidden`.
enum class Forbidden : uint32_t {
  large_copy = 1,    // more brought from the host in one copy than a table takes
  host_copy = 2,     // from device to host
  large_copies = 3,  // more brought from the host in one call of `solve`
  unjoined = 4,      // work of a stream that neither host nor default stream has waited for
};

constexpr uint32_t kFlush = 1;  // flags of an ArmFrame: write through L2 before each call
constexpr uint32_t kSolve = 2;  // call `solve`; without it, a batch is all the rest
constexpr uint32_t kHost = 4;   // call it uncaptured
// Ask for each key when it is needed: question 2 i + 1 for that of step i's inputs, with the tags of
// the step before, question 2 i + 2 for that of step i's tags. Not with both kHost and kSolve.
constexpr uint32_t kStepwise = 8;

struct Head {
  uint32_t kind;  // Order
  uint32_t pad;
  uint64_t sequence;  // echoed in the reply
};

// How to call `solve`.
struct Solve {
  uint64_t integers[kMaxIntegers];  // in order of the signature; pointers are arena offsets
  uint64_t floats[kMaxFloats];      // in order; a float in the low half
  uint32_t pointers;                // bit i: integers[i] is an arena offset
  uint32_t device_to_host;          // may `solve` copy from device to host?
  uint64_t scratch_offset;  // where `solve`'s own allocations lie
  uint64_t scratch_bytes;   // overwritten before each call that is not captured
  uint64_t scratch_quota;   // the most that may be held at once; the rest is room to vary where
  uint64_t scratch_seed;    // decides where the first allocation lies
  uint64_t copied_bytes;    // SharedBy::host alone: from the arena's start
};

struct StartFrame {
  Head head;
  uint8_t handle[kHandleBytes];        // CUipcMemHandle
  uint8_t flush_handle[kHandleBytes];  // of what is written before calls: one piece for all runners
  uint64_t arena_bytes;
  uint64_t flush_bytes;  // 0: no call will be timed
  uint32_t shared_by;    // SharedBy
  uint32_t pad;
  char candidate[kPathBytes];  // zero-terminated
};

struct CallFrame {
  Head head;
  Solve solve;
};

struct CaptureFrame {
  Head head;
  Solve solve;  // of slot 0
  uint64_t slot_stride;
  uint32_t slots;  // at most kMaxSteps
  uint32_t pad;
};

// An input that is opened before a call: `offset` becomes what is sealed at `sealed_offset`.
struct SealedInput {
  uint64_t offset;
  uint64_t sealed_offset;
  uint64_t bytes;
  uint32_t index;  // of the buffer, in the cipher's counter
  uint32_t pad;
};

// An output that is tagged after a call.
struct TaggedOutput {
  uint64_t offset;
  uint64_t bytes;
  uint32_t index;  // of the buffer, in the cipher's counter
  uint32_t pad;
};

// One step for each entry of `order`. The tag of output o in step i is the 64-bit word
// i * output_count + o at tag_offset.
struct ArmFrame {
  Head head;
  uint32_t steps;  // at most kMaxSteps
  uint32_t flags;
  uint8_t order[kMaxSteps];  // slots
  uint32_t key[4];
  uint32_t input_count;
  uint32_t output_count;
  SealedInput inputs[kMaxRegions];
  TaggedOutput outputs[kMaxRegions];
  uint64_t slot_stride;
  uint64_t tag_offset;
  uint64_t copied_bytes;  // SharedBy::host alone
};

struct GoFrame {
  Head head;
};

}  // namespace gpu
