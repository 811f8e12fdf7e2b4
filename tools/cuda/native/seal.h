// What the kernels of seal.cu are given, by value: other kernels are not given it. One that searches
// its process's memory may find it, but for the keys that are handed out while it runs.
// tools/cuda/protocol.py is the same in Python; a test compares the two.
#pragma once

#include <cstdint>

namespace gpu {

constexpr uint32_t kSealRegions = 24;
constexpr uint32_t kTagWords = 65536;  // of an output at most
constexpr uint32_t kSealSlots = 256;

struct SealRegion {
  uint64_t to;  // device addresses; of a tag: the 64-bit word it is added to, or 0: to none
  uint64_t from;
  uint64_t bytes;
  uint32_t index;  // of the buffer
  uint32_t pad;
};

struct SealCall {
  SealRegion regions[kSealRegions];
  uint32_t key[2];
  uint32_t slot;
  uint32_t count;
  uint32_t handed;  // not 0: the key is the one that was handed out last
  uint32_t pad;
};

// Where the keys of a stepwise batch come, one at a time: question n is asked where `asked` is n, and
// answered by `key` where `handed` is n.
struct KeyRelease {
  uint64_t asked;
  uint64_t handed;
  uint32_t key[2];
};

// A question takes at least so long, whenever it is answered: more than a usual answer takes, so that
// nothing is gained by asking early in our name.
constexpr uint64_t kLeastQuestionNs = 25'000;

// One question for a key, with tags that are written before it is asked.
struct KeyQuestion {
  uint64_t key_release;  // address of a KeyRelease, in host memory that the host process maps too
  uint64_t number;
  uint64_t tags_to;  // in the same memory
  uint64_t tags_from;
  uint64_t tag_count;
};

// One buffer of many slots, and a row of the host process's for each of them: contents, or a tag.
struct SlotsCall {
  uint64_t column;  // device address of the buffer in slot 0
  uint64_t column_stride;  // bytes, from slot to slot
  uint64_t rows;  // device address of the row of the first of `slots`
  uint64_t row_stride;  // bytes, from row to row
  uint64_t bytes;  // of the buffer
  uint32_t index;  // of the buffer
  uint32_t count;  // of slots
  uint32_t keys[kSealSlots][2];  // one for each of `slots`
  uint8_t slots[kSealSlots];
};

}  // namespace gpu
