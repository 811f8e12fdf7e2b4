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

struct Terms {
  const Factor& a;
  const Factor& b;
  uint32_t row, column;
  int fraction;  // bits of a product below its exponent
  int bits;
  int least;
};

void align(const Terms& x, const uint32_t* order, uint32_t count, Row& r) {
  for (uint32_t j = 0; j < kAtOnce; ++j) r.most[j] = std::max(r.most[j], x.least);
  for (uint32_t q = 0; q < count; ++q) {
    const int32_t exponent = x.a.exponent[order[q]][x.row];
    const int32_t* other = x.b.exponent[order[q]] + x.column;
    for (uint32_t j = 0; j < kAtOnce; ++j) r.most[j] = std::max(r.most[j], exponent + other[j]);
  }
}

void add_block(const Terms& x, const uint32_t* order, uint32_t count, Row& r) {
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

// What has an infinity or NaN among its terms; finite terms do not matter beside them.
double special_sum(const SumOf& p, const Factor& a, const Factor& b, uint32_t i, uint32_t j,
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

}  // namespace

void add_products(const SumOf& p, const TensorRounding& rounding, const Factor& a, const Factor& b,
                  Sums& sums) {
  bool special = a.special || b.special;
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
        const Terms x = {a, b, i, column, fraction, rounding.bits, least};
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
        add_block(x, order + first, block, r);
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
      const double sum = special_sum(p, a, b, i, j, value_of(p.c, before[j]), &found);
      if (found) row[j] = round_sum(sum, p.d, rounding.kept_bits);
    }
  }
}

}  // namespace emu
