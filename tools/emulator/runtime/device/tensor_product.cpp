// D = A x B + C of a warp, rounded as tensor cores round.
#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

#include "device/fragments.h"
#include "device/state.h"
#include "device/tensor_rounding.h"
#include "emu/arith.h"

namespace emu {
namespace {

constexpr uint32_t kMostRows = 32, kMostColumns = 32, kMostDepth = 32;
constexpr int kOfZero = -4096;  // exponent below all others

// A floating format: value = significand x 2^(exponent - fraction).
struct Format {
  int fraction, exponent_bits, bias;
  bool has_infinity;
};

Format format_of(Element element) {
  switch (element) {
    case Element::f16: return {10, 5, 15, true};
    case Element::bf16: return {7, 8, 127, true};
    case Element::tf32: return {10, 8, 127, true};
    case Element::e4m3: return {3, 4, 7, false};
    case Element::e5m2: return {2, 5, 15, true};
    default: return {23, 8, 127, true};
  }
}

struct Number {
  int32_t significand;
  int32_t exponent;
  bool special;  // infinite or no number
};

Number split(const Format& f, uint32_t bits) {
  const int most = (1 << f.exponent_bits) - 1;
  const int field = static_cast<int>(bits >> f.fraction) & most;
  const int fraction = static_cast<int>(bits) & ((1 << f.fraction) - 1);
  const int size = fraction | (field != 0 ? 1 << f.fraction : 0);
  const bool negative = (bits >> (f.fraction + f.exponent_bits) & 1) != 0;
  const bool special =
      field == most && (f.has_infinity || fraction == (1 << f.fraction) - 1);
  return {negative ? -size : size, size == 0 ? kOfZero : std::max(field, 1) - f.bias, special};
}

double value_of(Element element, uint32_t bits) {
  const Format f = format_of(element);
  const Number n = split(f, bits);
  if (!n.special) return std::ldexp(n.significand, n.significand == 0 ? 0 : n.exponent - f.fraction);
  const bool infinite = f.has_infinity && (bits & ((1u << f.fraction) - 1)) == 0;
  const bool negative = (bits >> (f.fraction + f.exponent_bits) & 1) != 0;
  return infinite ? (negative ? -INFINITY : INFINITY) : NAN;
}

// Bits of one element of a lane's registers; tf32 is the upper 19 of them.
uint32_t element_bits(Element element, const void* const* registers, uint32_t lane, uint32_t index) {
  const uint32_t packed = packed_in(element);
  const uint32_t word = static_cast<const uint32_t*>(registers[index / packed])[lane];
  if (element == Element::tf32) return word >> 13;
  if (packed == 1) return word;
  const uint32_t bits = 32 / packed;
  return word >> (index % packed * bits) & ((1u << bits) - 1);
}

// A factor, `first` index outside: rows of A, columns of B inside so that loops over them are vectors.
struct Factor {
  alignas(64) int32_t significand[kMostDepth][kMostColumns];
  alignas(64) int32_t exponent[kMostDepth][kMostColumns];
  uint32_t bits[kMostDepth][kMostColumns];
  bool special = false;
};

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
    const uint32_t bits = element_bits(element, registers, lane, index);
    const Number number = split(f, bits);
    const Cell at = role == Role::a ? flip(cell) : cell;
    to.bits[at.row][at.column] = bits;
    to.significand[at.row][at.column] = number.significand;
    to.exponent[at.row][at.column] = number.exponent;
    to.special |= number.special;
  });
}

float cut_to_float(double exact, int kept_bits) {
  if (std::fabs(exact) >= 0x1p128) return static_cast<float>(std::copysign(INFINITY, exact));
  const float nearest = static_cast<float>(exact);
  uint32_t bits = to_bits(nearest);
  bits -= std::fabs(static_cast<double>(nearest)) > std::fabs(exact) ? 1u : 0u;
  bits &= ~0u << (23 - kept_bits);
  return from_bits<float>((bits & 0x7fffffffu) == 0 ? 0u : bits);
}

uint32_t round_sum(double exact, Element to, int kept_bits) {
  if (exact != exact) return to == Element::f16 ? 0x7fffu : 0x7fffffffu;
  if (to == Element::f32) return to_bits(cut_to_float(exact, kept_bits));
  const uint32_t half = encode<F16, rn>(exact);
  return half;
}

// Columns of a row of D that are worked on at once.
constexpr uint32_t kAtOnce = 8;

struct Row {
  int64_t sum[kAtOnce];
  int32_t part[kAtOnce];
  int32_t most[kAtOnce];  // the largest exponent
};

struct Block {
  const Factor& a;
  const Factor& b;
  uint32_t row, column;
  int fraction;  // bits of a product below its exponent
  int bits;
  int least;
};

void align(const Block& x, const uint32_t* order, uint32_t count, Row& r) {
  for (uint32_t j = 0; j < kAtOnce; ++j) r.most[j] = std::max(r.most[j], x.least);
  for (uint32_t q = 0; q < count; ++q) {
    const int32_t exponent = x.a.exponent[order[q]][x.row];
    const int32_t* other = x.b.exponent[order[q]] + x.column;
    for (uint32_t j = 0; j < kAtOnce; ++j) r.most[j] = std::max(r.most[j], exponent + other[j]);
  }
}

void add_products(const Block& x, const uint32_t* order, uint32_t count, Row& r) {
  const int lift = x.bits - x.fraction;
  // Sixteen products of at most 2^27 fit into 31 bits.
  for (uint32_t first = 0; first < count; first += 16) {
    std::fill(r.part, r.part + kAtOnce, 0);
    for (uint32_t q = first; q < std::min(count, first + 16); ++q) {
      const int32_t factor = x.a.significand[order[q]][x.row];
      const int32_t exponent = x.a.exponent[order[q]][x.row];
      const int32_t* others = x.b.significand[order[q]] + x.column;
      const int32_t* exponents = x.b.exponent[order[q]] + x.column;
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        const int32_t product = factor * others[j];
        const int32_t sign = product >> 31;
        const int32_t drop = std::min(31, r.most[j] - exponent - exponents[j]);
        const int32_t size = (((product ^ sign) - sign) << lift) >> drop;
        r.part[j] += (size ^ sign) - sign;
      }
    }
    for (uint32_t j = 0; j < kAtOnce; ++j) r.sum[j] += r.part[j];
  }
}

// For exponents of products and sums, which double has.
double power_of_two(int exponent) {
  return from_bits<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// The accumulator, which has more bits than are kept where fp8 is multiplied.
int64_t aligned(const Number& c, int fraction, int bits, int most) {
  const int drop = std::min(63, fraction - bits + most - c.exponent);
  const int64_t size = std::abs(static_cast<int64_t>(c.significand));
  const int64_t kept = drop >= 0 ? size >> drop : size << -drop;
  return c.significand < 0 ? -kept : kept;
}

struct Sums {
  alignas(64) uint32_t bits[kMostRows][kMostColumns];
};

// What has an infinity or NaN among its terms; finite terms do not matter beside them.
double special_sum(const Product& p, const Factor& a, const Factor& b, uint32_t i, uint32_t j,
                   double c, bool* found) {
  double sum = c;
  *found = !std::isfinite(c);
  for (uint32_t q = 0; q < p.k; ++q) {
    const double x = value_of(p.a, a.bits[q][i]), y = value_of(p.b, b.bits[q][j]);
    *found = *found || !std::isfinite(x) || !std::isfinite(y);
    sum += x * y;
  }
  return sum;
}

void multiply_floats(const Product& p, const void* const* a, const void* const* b,
                     const void* const* c, void* const* d) {
  const DeviceFacts& facts = device().facts;
  const TensorRounding rounding = tensor_rounding(facts.compute_major, facts.compute_minor, p.a);
  const Shape shape = {p.m, p.n, p.k};
  static thread_local Factor left, right;
  static thread_local Sums sums;
  left.special = right.special = false;
  unpack(left, Role::a, shape, p.a, a);
  unpack(right, Role::b, shape, p.b, b);
  bool special = left.special || right.special;
  each_element(Role::accumulator, shape, p.c, [&](uint32_t lane, uint32_t index, Cell cell) {
    sums.bits[cell.row][cell.column] = element_bits(p.c, c, lane, index);
  });

  uint32_t order[kMostDepth];
  uint32_t filled = 0;
  for (uint32_t part = 0; part < 2; ++part) {
    for (uint32_t q = 0; q < p.k; ++q) {
      if ((rounding.by_pairs ? q >> 1 & 1 : 0u) == part) order[filled++] = q;
    }
  }
  uint32_t block = std::min({rounding.products, p.step, p.k});
  if (rounding.by_pairs) block = std::min(block, p.k / 2);
  const int fraction = format_of(p.a).fraction + format_of(p.b).fraction;
  const int least = p.d == Element::f16 ? rounding.least_exponent_f16 : rounding.least_exponent;
  for (uint32_t i = 0; i < p.m; ++i) {
    uint32_t before[kMostColumns];
    std::copy(sums.bits[i], sums.bits[i] + p.n, before);
    uint32_t* row = sums.bits[i];
    for (uint32_t column = 0; column < p.n; column += kAtOnce) {
      Element held = p.c;
      for (uint32_t first = 0; first < p.k; first += block) {
        const Block x = {left, right, i, column, fraction, rounding.bits, least};
        const Format f = format_of(held);
        Row r;
        Number carried[kAtOnce];
        for (uint32_t j = 0; j < kAtOnce; ++j) {
          carried[j] = split(f, row[column + j]);
          special |= carried[j].special;
          r.sum[j] = 0;
          r.most[j] = carried[j].exponent;
        }
        align(x, order + first, block, r);
        add_products(x, order + first, block, r);
        for (uint32_t j = 0; j < kAtOnce; ++j) {
          // A sum that has left the range stays what it is.
          if (carried[j].special) continue;
          const int64_t sum = r.sum[j] + aligned(carried[j], f.fraction, x.bits, r.most[j]);
          const double exact = static_cast<double>(sum) * power_of_two(r.most[j] - x.bits);
          row[column + j] = round_sum(exact, p.d, rounding.kept_bits);
        }
        held = p.d;
      }
    }
    for (uint32_t j = 0; special && j < p.n; ++j) {
      bool found = false;
      const double sum = special_sum(p, left, right, i, j, value_of(p.c, before[j]), &found);
      if (found) row[j] = round_sum(sum, p.d, rounding.kept_bits);
    }
  }
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

}  // namespace

void multiply(const Product& product, const void* const* a, const void* const* b,
              const void* const* c, void* const* d) {
  switch (product.d) {
    case Element::f64: return multiply_doubles(product, a, b, c, d);
    case Element::s32: return multiply_integers(product, a, b, c, d);
    default: return multiply_floats(product, a, b, c, d);
  }
}

}  // namespace emu
