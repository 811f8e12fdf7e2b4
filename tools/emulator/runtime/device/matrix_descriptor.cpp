// As PTX ISA 9.0 has them (matrix-descriptor format, strides, shared memory layouts of wgmma).
#include "device/matrix_descriptor.h"

namespace emu {
namespace {

constexpr uint64_t kReserved = uint64_t{0x3ff} << 52 | uint64_t{0x7} << 46 | uint64_t{0x3} << 30 |
                               uint64_t{0x3} << 14;

uint32_t field(uint64_t bits, int at, uint32_t width) {
  return static_cast<uint32_t>(bits >> at) & ((1u << width) - 1);
}

// The bits of an address that say which of 128 bytes it is in change those that say which 16 of them.
uint32_t swizzled(const MatrixDescriptor& m, uint32_t address) {
  const uint32_t units = m.row_bytes / kSwizzleUnit;
  return address ^ (((address >> 7) - m.base) & (units - 1)) << 4;
}

// `line` in rows of 32 bytes, `unit` the first or second half of one.
uint32_t along(const MatrixDescriptor& m, uint32_t line, uint32_t unit) {
  const uint32_t step = m.row_bytes == kSwizzleUnit ? m.leading : kSwizzleUnit;
  return m.start + line % 8 * m.row_bytes + line / 8 * m.stride + unit * step;
}

// `group` of 8 lines, at one `depth`.
uint32_t across(const MatrixDescriptor& m, uint32_t group, uint32_t depth) {
  const uint32_t units = m.row_bytes / kSwizzleUnit;
  if (units == 1) return m.start + depth % 8 * kSwizzleUnit + depth / 8 * m.leading + group * m.stride;
  return m.start + group % units * kSwizzleUnit + group / units * m.leading + depth % 8 * m.row_bytes +
         depth / 8 * m.stride;
}

}  // namespace

MatrixDescriptor MatrixDescriptor::decode(uint64_t bits) {
  constexpr uint32_t kRowBytes[] = {16, 128, 64, 32};
  return {field(bits, 0, 14) * kSwizzleUnit, field(bits, 16, 14) * kSwizzleUnit, field(bits, 32, 14) * kSwizzleUnit,
          field(bits, 49, 3), kRowBytes[field(bits, 62, 2)]};
}

// Patterns begin at multiples of their size; the start may lie inside the first row of one, because K
// goes on there. The base offset says that the pattern begins elsewhere.
DescriptorFlaw flaw_of(uint64_t bits) {
  if ((bits & kReserved) != 0) return DescriptorFlaw::reserved_bits;
  const MatrixDescriptor m = MatrixDescriptor::decode(bits);
  if (m.row_bytes == kSwizzleUnit) return DescriptorFlaw::none;
  const uint32_t within = (m.start - m.base * 128) % m.pattern_bytes();
  if (within >= m.row_bytes || m.stride % m.pattern_bytes() != 0) return DescriptorFlaw::misaligned;
  return DescriptorFlaw::none;
}

std::vector<Piece> pieces_of(const MatrixDescriptor& matrix, const MatrixPart& part) {
  std::vector<Piece> pieces;
  uint32_t filled = 0;
  auto add = [&](uint32_t address) {
    const uint32_t at = swizzled(matrix, address);
    if (!pieces.empty() && pieces.back().shared + pieces.back().bytes == at) {
      pieces.back().bytes += kSwizzleUnit;
    } else {
      pieces.push_back({at, filled, kSwizzleUnit});
    }
    filled += kSwizzleUnit;
  };
  if (part.across) {
    for (uint32_t depth = 0; depth < part.depth; ++depth) {
      for (uint32_t i = 0; i < part.lines / 8; ++i) add(across(matrix, part.first / 8 + i, depth));
    }
    return pieces;
  }
  for (uint32_t i = 0; i < part.lines; ++i) {
    for (uint32_t unit = 0; unit < 2; ++unit) add(along(matrix, part.first + i, unit));
  }
  return pieces;
}

}  // namespace emu
