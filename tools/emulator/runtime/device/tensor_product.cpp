// D = A x B + C of a warp, rounded as tensor cores round.
#include <algorithm>
#include <deque>
#include <vector>

#include "device/fragments.h"
#include "device/state.h"
#include "device/tensor_sums.h"
#include "emu/arith.h"
#include "emu/undefined.h"

namespace emu {
namespace {

// Bits of one element of a lane's registers; tf32 is the upper 19 of them.
uint32_t element_bits(Element element, const void* const* registers, uint32_t lane, uint32_t index) {
  const uint32_t packed = packed_in(element);
  const uint32_t word = static_cast<const uint32_t*>(registers[index / packed])[lane];
  if (element == Element::tf32) return word >> 13;
  if (packed == 1) return word;
  const uint32_t bits = 32 / packed;
  return word >> (index % packed * bits) & ((1u << bits) - 1);
}

struct Shape {
  uint32_t m, n, k;
};

// Where each element of each lane belongs; worked out once for each kind of fragment.
struct Places {
  Role role;
  Shape shape;
  uint32_t packed;
  std::vector<Cell> cells;  // of lane after lane, for one index after the other
};

const Places& places(Role role, const Shape& s, Element element) {
  static std::deque<Places> known;
  const uint32_t packed = packed_in(element);
  for (const Places& one : known) {
    if (one.role == role && one.shape.m == s.m && one.shape.n == s.n && one.shape.k == s.k &&
        one.packed == packed) {
      return one;
    }
  }
  Places made{role, s, packed, {}};
  const uint32_t count = role == Role::a ? s.m * s.k : role == Role::b ? s.k * s.n : s.m * s.n;
  for (uint32_t index = 0; index < count / kLanes; ++index) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      made.cells.push_back(cell_of(role, s.m, s.n, s.k, element, lane, index));
    }
  }
  known.push_back(std::move(made));
  return known.back();
}

template <class Visit>
void each_element(Role role, const Shape& s, Element element, Visit visit) {
  const std::vector<Cell>& cells = places(role, s, element).cells;
  const uint32_t count = static_cast<uint32_t>(cells.size()) / kLanes;
  for (uint32_t index = 0; index < count; ++index) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      visit(lane, index, cells[index * kLanes + lane]);
    }
  }
}

// A transposed, B as it is: `k` outside.
void unpack(Factor& to, Role role, const Shape& s, Element element, const void* const* registers) {
  const Format f = format_of(element);
  each_element(role, s, element, [&](uint32_t lane, uint32_t index, Cell cell) {
    const Cell at = role == Role::a ? flip(cell) : cell;
    put_element(to, f, at.row, at.column, element_bits(element, registers, lane, index));
  });
}

void multiply_floats(const Product& p, const void* const* a, const void* const* b,
                     const void* const* c, void* const* d) {
  const DeviceFacts& facts = device().facts;
  const Shape shape = {p.m, p.n, p.k};
  static thread_local Factor left, right;
  static thread_local Sums sums;
  left.special = right.special = false;
  unpack(left, Role::a, shape, p.a, a);
  unpack(right, Role::b, shape, p.b, b);
  each_element(Role::accumulator, shape, p.c, [&](uint32_t lane, uint32_t index, Cell cell) {
    sums.bits[cell.row][cell.column] = element_bits(p.c, c, lane, index);
  });
  add_products({p.m, p.n, p.k, p.a, p.b, p.c, p.d, p.step},
               tensor_rounding(facts.compute_major, facts.compute_minor, p.a), left, right, sums);
  each_element(Role::accumulator, shape, p.d, [&](uint32_t lane, uint32_t index, Cell cell) {
    const uint32_t bits = sums.bits[cell.row][cell.column];
    if (p.d == Element::f32) {
      static_cast<uint32_t*>(d[index])[lane] = bits;
      return;
    }
    uint32_t& word = static_cast<uint32_t*>(d[index / 2])[lane];
    word = index % 2 == 0 ? bits : (word & 0xffffu) | bits << 16;
  });
}

void multiply_integers(const Product& p, const void* const* a, const void* const* b,
                       const void* const* c, void* const* d) {
  const Shape shape = {p.m, p.n, p.k};
  int32_t left[kMostRows][kMostDepth], right[kMostDepth][kMostColumns];
  int64_t sums[kMostRows][kMostColumns];
  auto integer = [](Element element, uint32_t bits) {
    return element == Element::s8 ? static_cast<int32_t>(static_cast<int8_t>(bits))
                                  : static_cast<int32_t>(bits);
  };
  each_element(Role::a, shape, p.a, [&](uint32_t lane, uint32_t index, Cell at) {
    left[at.row][at.column] = integer(p.a, element_bits(p.a, a, lane, index));
  });
  each_element(Role::b, shape, p.b, [&](uint32_t lane, uint32_t index, Cell at) {
    right[at.row][at.column] = integer(p.b, element_bits(p.b, b, lane, index));
  });
  each_element(Role::accumulator, shape, p.c, [&](uint32_t lane, uint32_t index, Cell at) {
    sums[at.row][at.column] = static_cast<int32_t>(element_bits(p.c, c, lane, index));
  });
  for (uint32_t i = 0; i < p.m; ++i) {
    for (uint32_t q = 0; q < p.k; ++q) {
      for (uint32_t j = 0; j < p.n; ++j) sums[i][j] += left[i][q] * right[q][j];
    }
  }
  each_element(Role::accumulator, shape, p.d, [&](uint32_t lane, uint32_t index, Cell at) {
    int64_t sum = sums[at.row][at.column];
    if (p.saturates) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
    static_cast<uint32_t*>(d[index])[lane] = static_cast<uint32_t>(sum);
  });
}

// A chain of fma along k.
void multiply_doubles(const Product& p, const void* const* a, const void* const* b,
                      const void* const* c, void* const* d) {
  const Shape shape = {p.m, p.n, p.k};
  double left[16][16], right[16][8], sums[16][8];
  auto held = [](const void* const* registers, uint32_t lane, uint32_t index) {
    return from_bits<double>(static_cast<const uint64_t*>(registers[index])[lane]);
  };
  each_element(Role::a, shape, p.a, [&](uint32_t lane, uint32_t index, Cell at) {
    left[at.row][at.column] = held(a, lane, index);
  });
  each_element(Role::b, shape, p.b, [&](uint32_t lane, uint32_t index, Cell at) {
    right[at.row][at.column] = held(b, lane, index);
  });
  each_element(Role::accumulator, shape, p.c, [&](uint32_t lane, uint32_t index, Cell at) {
    sums[at.row][at.column] = held(c, lane, index);
  });
  for (uint32_t i = 0; i < p.m; ++i) {
    for (uint32_t q = 0; q < p.k; ++q) {
      for (uint32_t j = 0; j < p.n; ++j) {
        sums[i][j] = __builtin_fma(left[i][q], right[q][j], sums[i][j]);
      }
    }
  }
  each_element(Role::accumulator, shape, p.d, [&](uint32_t lane, uint32_t index, Cell at) {
    static_cast<uint64_t*>(d[index])[lane] = to_bits(sums[at.row][at.column]);
  });
}

// Which elements of a matrix are undefined, and where they come from.
struct Undefined {
  bool any = false;
  uint32_t origin = kNone;

  void take(bool undefined, uint32_t from) {
    if (!undefined || any) return;
    any = true;
    origin = from;
  }
};

bool is_undefined(Element element, const void* const* registers, uint32_t lane, uint32_t index) {
  if (bytes_of(element) == 8) return static_cast<const uint64_t*>(registers[index])[lane] != 0;
  return element_bits(element, registers, lane, index) != 0;
}

}  // namespace

void multiply_undefined(Warp* w, const Product& p, const void* const* a, const void* const* b,
                        const void* const* c, void* const* d) {
  const Shape shape = {p.m, p.n, p.k};
  Undefined rows[kMostRows], columns[kMostColumns], cells[kMostRows][kMostColumns];
  each_element(Role::a, shape, p.a, [&](uint32_t lane, uint32_t index, Cell at) {
    rows[at.row].take(is_undefined(p.a, a, lane, index), w->origins[lane]);
  });
  each_element(Role::b, shape, p.b, [&](uint32_t lane, uint32_t index, Cell at) {
    columns[at.column].take(is_undefined(p.b, b, lane, index), w->origins[lane]);
  });
  each_element(Role::accumulator, shape, p.c, [&](uint32_t lane, uint32_t index, Cell at) {
    cells[at.row][at.column].take(is_undefined(p.c, c, lane, index), w->origins[lane]);
  });
  const uint32_t bytes = bytes_of(p.d), in_one = packed_in(p.d);
  uint32_t origins[kLanes];
  std::fill(std::begin(origins), std::end(origins), kNone);
  each_element(Role::accumulator, shape, p.d, [&](uint32_t lane, uint32_t index, Cell at) {
    const Undefined& row = rows[at.row];
    const Undefined& column = columns[at.column];
    const Undefined& cell = cells[at.row][at.column];
    const bool any = row.any || column.any || cell.any;
    if (any) origins[lane] = row.any ? row.origin : column.any ? column.origin : cell.origin;
    if (bytes == 8) {
      static_cast<uint64_t*>(d[index])[lane] = any ? ~uint64_t{0} : 0;
      return;
    }
    const uint32_t ones = bytes == 4 ? ~0u : (1u << 8 * bytes) - 1;
    const uint32_t shift = index % in_one * 8 * bytes;
    uint32_t& word = static_cast<uint32_t*>(d[index / in_one])[lane];
    word = (word & ~(ones << shift)) | (any ? ones << shift : 0);
  });
  std::copy(origins, origins + kLanes, w->origins);
}

void multiply(const Product& product, const void* const* a, const void* const* b,
              const void* const* c, void* const* d) {
  switch (product.d) {
    case Element::f64: return multiply_doubles(product, a, b, c, d);
    case Element::s32: return multiply_integers(product, a, b, c, d);
    default: return multiply_floats(product, a, b, c, d);
  }
}

}  // namespace emu
