// What any runner can say, and how many arguments a call has. tools/device/protocol.py is the same in
// Python; a test compares the two.
#pragma once

#include <cstdint>

namespace runner {

constexpr uint32_t kMaxIntegers = 24;  // integers and pointers of one call
constexpr uint32_t kMaxFloats = 8;

enum class Reply : uint32_t {
  ready = 1,
  refused = 2,    // `number`: a Refusal, `detail`: the dynamic linker's reason, `address`: the CUresult
  done = 3,
  died = 4,       // `number`: the signal; `address`: where it points
  denied = 5,     // `number`: the system call, `detail`: its name
  broken = 6,     // `detail`: which of our own parts failed; `number`: the CUresult, if CUDA did
  forged = 7,     // the host part sent what none of ours would
  vanished = 8,   // the host part has hung up without a word
  faulted = 9,    // a GPU's context is lost; `number`: the CUresult, `detail`: its name
  forbidden = 10,  // `solve` asked CUDA for what its contract does not allow; `address`: the limit
};

enum class Refusal : uint32_t { linker = 0, no_solve = 1, driver = 2 };

struct ReplyFrame {
  uint32_t reply;  // Reply
  uint32_t number;
  uint64_t sequence;
  uint64_t address;  // of `ready`: where the arena starts
  // UTF-8, zero-terminated. Where the candidate may have written it, nobody reads more than words that
  // are known beforehand out of it.
  char detail[256];
};

}  // namespace runner
