// Sums of products as tensor cores round them, of matrices whose elements are encodings.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/tensor_rounding.h"
#include "emu/tensor.h"

namespace emu {

constexpr uint32_t kMostRows = 32, kMostColumns = 32, kMostDepth = 32;

// A factor of a sum, `k` outside: rows of A, columns of B inside so that loops over them are vectors.
struct Factor {
  alignas(64) int32_t significand[kMostDepth][kMostColumns];
  alignas(64) int32_t exponent[kMostDepth][kMostColumns];
  uint32_t bits[kMostDepth][kMostColumns];
  bool special = false;
};

struct Sums {
  alignas(64) uint32_t bits[kMostRows][kMostColumns];
};

// What is summed: A m x k, B k x n, C and D m x n, in columns of multiples of 8.
struct SumOf {
  uint32_t m, n, k;
  Element a, b, c, d;
  uint32_t step;  // products along k of one hardware instruction
};

// A floating format: value = significand x 2^(exponent - fraction).
struct Format {
  int fraction, exponent_bits, bias;
  bool has_infinity;
};
inline Format format_of(Element element) {
  switch (element) {
    case Element::f16: return {10, 5, 15, true};
    case Element::bf16: return {7, 8, 127, true};
    case Element::tf32: return {10, 8, 127, true};
    case Element::e4m3: return {3, 4, 7, false};
    case Element::e5m2: return {2, 5, 15, true};
    default: return {23, 8, 127, true};
  }
}

inline constexpr int kOfZero = -4096;  // exponent below all others

struct Number {
  int32_t significand;
  int32_t exponent;
  bool special;  // infinite or no number
};

inline Number split(const Format& f, uint32_t bits) {
  const int most = (1 << f.exponent_bits) - 1;
  const int field = static_cast<int>(bits >> f.fraction) & most;
  const int fraction = static_cast<int>(bits) & ((1 << f.fraction) - 1);
  const int size = fraction | (field != 0 ? 1 << f.fraction : 0);
  const bool negative = (bits >> (f.fraction + f.exponent_bits) & 1) != 0;
  const bool special =
      field == most && (f.has_infinity || fraction == (1 << f.fraction) - 1);
  return {negative ? -size : size, size == 0 ? kOfZero : std::max(field, 1) - f.bias, special};
}

// An element of a factor: `depth` along k, `at` a row of A or a column of B.
inline void put_element(Factor& to, const Format& format, uint32_t depth, uint32_t at, uint32_t bits) {
  const Number number = split(format, bits);
  to.bits[depth][at] = bits;
  to.significand[depth][at] = number.significand;
  to.exponent[depth][at] = number.exponent;
  to.special |= number.special;
}

// D over C, in place.
void add_products(const SumOf& p, const TensorRounding& rounding, const Factor& a, const Factor& b,
                  Sums& sums);

}  // namespace emu
