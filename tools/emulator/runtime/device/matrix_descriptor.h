// The matrix descriptors of wgmma: where a matrix lies in shared memory.
#pragma once

#include <cstdint>
#include <vector>

#include "device/asynchronous.h"

namespace emu {

constexpr uint32_t kSwizzleUnit = 16;  // bytes that a swizzle moves as one

// What is wrong with one; none: it can be read, if its bytes exist.
enum class DescriptorFlaw { none, reserved_bits, misaligned };

struct MatrixDescriptor {
  uint32_t start, leading, stride;  // bytes
  uint32_t base;                    // offset, in 128 bytes, of the pattern's start
  uint32_t row_bytes;               // of the swizzle's pattern, which has 8 rows; 16: none

  static MatrixDescriptor decode(uint64_t bits);
  uint32_t pattern_bytes() const { return 8 * row_bytes; }
};
DescriptorFlaw flaw_of(uint64_t bits);

// The part of a matrix that is read: 16 bytes at a time, along K or across it.
struct MatrixPart {
  uint32_t first, lines;  // rows of A or columns of B, multiples of 8
  uint32_t depth;         // elements along K
  bool across;            // 8 neighbours of 2 bytes along M or N
  bool operator==(const MatrixPart&) const = default;
};

// Runs of shared memory, in the order of the part's bytes: line after line of 32 bytes, or, across,
// depth after depth of `lines` elements.
std::vector<Piece> pieces_of(const MatrixDescriptor& matrix, const MatrixPart& part);

}  // namespace emu
