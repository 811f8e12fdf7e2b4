// Sums of products: aligned to the largest exponent, cut off, added exactly (tensor_rounding.h).
#include "device/tensor_sums.h"

#include <algorithm>
#include <cmath>

#include "emu/arith.h"

namespace emu {
namespace {

double value_of(Element element, uint32_t bits) {
  const Format f = format_of(element);
  const Number n = split(f, bits);
  if (!n.special) return std::ldexp(n.significand, n.significand == 0 ? 0 : n.exponent - f.fraction);
  const bool infinite = f.has_infinity && (bits & ((1u << f.fraction) - 1)) == 0;
  const bool negative = (bits >> (f.fraction + f.exponent_bits) & 1) != 0;
  return infinite ? (negative ? -INFINITY : INFINITY) : NAN;
}

float cut_to_float(double exact, int kept_bits) {
  if (std::fabs(exact) >= 0x1p128) return static_cast<float>(std::copysign(INFINITY, exact));
  const float nearest = static_cast<float>(exact);
  uint32_t bits = to_bits(nearest);
  bits -= std::fabs(static_cast<double>(nearest)) > std::fabs(exact) ? 1u : 0u;
  bits &= ~0u << (23 - kept_bits);
  return from_bits<float>((bits & 0x7fffffffu) == 0 ? 0u : bits);
}

uint32_t nearest_half(double exact) {
  return exact != exact ? 0x7fffu : static_cast<uint32_t>(encode<F16, rn>(exact));
}

uint32_t nearest_float(float exact) { return exact != exact ? 0x7fffffffu : to_bits(exact); }

uint32_t round_sum(double exact, Element to, int kept_bits) {
  if (to == Element::f32) return exact != exact ? 0x7fffffffu : to_bits(cut_to_float(exact, kept_bits));
  const uint32_t half = nearest_half(exact);
  return half == 0x8000u ? 0u : half;
}

// Columns of a row of D that are worked on at once.
constexpr uint32_t kAtOnce = 8;

struct RowSums {
  int64_t sum[kAtOnce];
  int32_t part[kAtOnce];
  int32_t most[kAtOnce];  // the largest exponent
};

// A block of products, of one row and some columns.
struct Terms {
  const SumOf& p;
  const TensorRounding& rounding;
  const Factor& a;
  const Factor& b;
  const uint32_t* order;  // places along k
  uint32_t count;
  uint32_t row, column;
  Element sum;

  int fraction() const { return format_of(p.a).fraction + format_of(p.b).fraction; }
  int least() const {
    return sum == Element::f16 ? rounding.least_exponent_f16 : rounding.least_exponent;
  }
};

void align(const Terms& x, RowSums& r) {
  const int least = x.least();
  for (uint32_t j = 0; j < kAtOnce; ++j) r.most[j] = std::max(r.most[j], least);
  for (uint32_t q = 0; q < x.count; ++q) {
    const int32_t exponent = x.a.exponent[x.order[q]][x.row];
    const int32_t* other = x.b.exponent[x.order[q]] + x.column;
    for (uint32_t j = 0; j < kAtOnce; ++j) r.most[j] = std::max(r.most[j], exponent + other[j]);
  }
}

void add_aligned(const Terms& x, RowSums& r) {
  const int lift = x.rounding.bits - x.fraction();
  // Sixteen products of at most 2^27 fit into 31 bits.
  for (uint32_t first = 0; first < x.count; first += 16) {
    std::fill(r.part, r.part + kAtOnce, 0);
    for (uint32_t q = first; q < std::min(x.count, first + 16); ++q) {
      const int32_t factor = x.a.significand[x.order[q]][x.row];
      const int32_t exponent = x.a.exponent[x.order[q]][x.row];
      const int32_t* others = x.b.significand[x.order[q]] + x.column;
      const int32_t* exponents = x.b.exponent[x.order[q]] + x.column;
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

// What has an infinity or NaN among its terms; finite terms do not matter beside them.
double special_sum(const Terms& x, uint32_t j, uint32_t held, bool* found) {
  double sum = value_of(x.sum, held);
  *found = !std::isfinite(sum);
  for (uint32_t q = 0; q < x.count; ++q) {
    const double one = value_of(x.p.a, x.a.bits[x.order[q]][x.row]);
    const double other = value_of(x.p.b, x.b.bits[x.order[q]][x.column + j]);
    *found = *found || !std::isfinite(one) || !std::isfinite(other);
    sum += one * other;
  }
  return sum;
}

// Adds a block of products to sums, in place.
void add_block(const Terms& x, uint32_t* sums) {
  const Format f = format_of(x.sum);
  const int bits = x.rounding.bits, kept_bits = x.rounding.kept_bits;
  const bool special_factors = x.a.special || x.b.special;
  RowSums r;
  Number carried[kAtOnce];
  for (uint32_t j = 0; j < kAtOnce; ++j) {
    carried[j] = split(f, sums[j]);
    r.sum[j] = 0;
    r.most[j] = carried[j].exponent;
  }
  align(x, r);
  add_aligned(x, r);
  for (uint32_t j = 0; j < kAtOnce; ++j) {
    if (special_factors || carried[j].special) {
      bool found = false;
      const double sum = special_sum(x, j, sums[j], &found);
      if (found) {
        sums[j] = round_sum(sum, x.sum, kept_bits);
        continue;
      }
    }
    const int64_t sum = r.sum[j] + aligned(carried[j], f.fraction, bits, r.most[j]);
    const double exact = static_cast<double>(sum) * power_of_two(r.most[j] - bits);
    sums[j] = round_sum(exact, x.sum, kept_bits);
  }
}

// Two sums as an instruction of its own adds them.
uint32_t add_nearest(Element type, uint32_t one, uint32_t other) {
  if (type == Element::f16) return nearest_half(value_of(type, one) + value_of(type, other));
  return nearest_float(from_bits<float>(one) + from_bits<float>(other));
}

// Places along k, in the order they are multiplied in: where fp8 is widened, the first two of each four
// neighbours come before the others.
void order_products(uint32_t k, bool widened, uint32_t* order) {
  uint32_t filled = 0;
  for (uint32_t part = 0; part < 2; ++part) {
    for (uint32_t q = 0; q < k; ++q) {
      if ((widened ? q >> 1 & 1 : 0u) == part) order[filled++] = q;
    }
  }
}

}  // namespace

void add_products(const SumOf& p, const TensorRounding& rounding, const Factor& a, const Factor& b,
                  Sums& sums) {
  uint32_t order[kMostDepth];
  order_products(p.k, rounding.widened, order);
  uint32_t block = std::min({rounding.products, p.step, p.k});
  if (rounding.widened) block = std::min(block, p.k / 2);
  // Where C and D are unlike, C is widened to f32 before and D narrowed after.
  const Element sum = p.c == p.d ? p.d : Element::f32;
  for (uint32_t i = 0; i < p.m; ++i) {
    uint32_t* row = sums.bits[i];
    uint32_t before[kMostColumns];
    for (uint32_t j = 0; j < p.n; ++j) {
      if (p.c != sum) row[j] = nearest_float(static_cast<float>(value_of(p.c, row[j])));
      before[j] = row[j];
      if (rounding.widened) row[j] = 0;
    }
    for (uint32_t column = 0; column < p.n; column += kAtOnce) {
      for (uint32_t first = 0; first < p.k; first += block) {
        add_block({p, rounding, a, b, order + first, block, i, column, sum}, row + column);
      }
    }
    for (uint32_t j = 0; j < p.n; ++j) {
      if (rounding.widened) row[j] = add_nearest(sum, row[j], before[j]);
      if (p.d != sum) row[j] = nearest_half(value_of(sum, row[j]));
    }
  }
}

}  // namespace emu
