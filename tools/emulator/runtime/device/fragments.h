// Which element of a matrix a lane holds where, as PTX gives it for mma. Fragments of wmma, which PTX
// leaves open, are the same pieces one after another, as ptxas makes the one of the other; an H200 has
// not confirmed that yet. Where there are more registers than elements, they repeat.
#pragma once

#include <cstdint>

#include "emu/tensor.h"

namespace emu {

struct Cell {
  uint32_t row, column;
};

inline uint32_t bytes_of(Element element) {
  switch (element) {
    case Element::f64: return 8;
    case Element::tf32:
    case Element::f32:
    case Element::s32: return 4;
    case Element::f16:
    case Element::bf16: return 2;
    default: return 1;
  }
}

// Elements a register holds.
inline uint32_t packed_in(Element element) {
  const uint32_t bytes = bytes_of(element);
  return bytes >= 4 ? 1 : 4 / bytes;
}

// Sixteen rows at a time, eight where there are no more; `k` runs along the row.
inline Cell cell_of_a(uint32_t rows, uint32_t k, uint32_t packed, uint32_t lane, uint32_t index) {
  const uint32_t height = rows < 16 ? 8 : 16;
  const uint32_t each = height * k / kLanes;
  const uint32_t piece = index / each, rest = index % each;
  const uint32_t number = rest / packed, half = height / 8;
  return {lane / 4 + 8 * (number % half) + height * piece,
          lane % 4 * packed + rest % packed + number / half * 4 * packed};
}

inline Cell flip(Cell cell) { return {cell.column, cell.row}; }

// Two neighbouring columns a lane, in pieces of 16 rows (or 8) and 8 columns.
inline Cell cell_of_sum(uint32_t rows, uint32_t columns, uint32_t lane, uint32_t index) {
  const uint32_t height = rows < 16 ? 8 : 16;
  const uint32_t each = height / 4;
  const uint32_t piece = index / each, rest = index % each;
  const uint32_t down = columns == 8 ? piece : 0, right = columns == 8 ? 0 : piece;
  return {lane / 4 + rest / 2 * 8 + height * down, lane % 4 * 2 + rest % 2 + 8 * right};
}

// Element `index` of a lane. A matrix with 32 columns of B is worked on the other way round.
inline Cell cell_of(Role role, uint32_t m, uint32_t n, uint32_t k, Element element, uint32_t lane,
                    uint32_t index) {
  const uint32_t packed = packed_in(element);
  const bool turned = n == 32;
  switch (role) {
    case Role::a:
      index %= m * k / kLanes;
      // Eight rows are held as columns of B are.
      return cell_of_a(turned ? 8 : m, k, packed, lane, index);
    case Role::b: {
      index %= n * k / kLanes;
      if (turned) return flip(cell_of_a(n, k, packed, lane, index));
      const uint32_t each = 8 * k / kLanes;
      const Cell cell = cell_of_a(8, k, packed, lane, index % each);
      return {cell.column, cell.row + 8 * (index / each)};
    }
    default:
      index %= m * n / kLanes;
      return turned ? flip(cell_of_sum(n, m, lane, index)) : cell_of_sum(m, n, lane, index);
  }
}

}  // namespace emu
