// Sums of products as tensor cores round them, of matrices whose elements are encodings.
#pragma once

#include <cstdint>

#include "device/tensor_rounding.h"
#include "emu/tensor.h"

namespace emu {

constexpr uint32_t kMostRows = 32, kMostColumns = 32, kMostDepth = 32;

// Two factors of a sum, `k` outside: rows of A, columns of B inside so that loops over them are vectors.
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
Format format_of(Element element);

// An element of a factor: `depth` along k, `at` a row of A or a column of B.
void put_element(Factor& to, const Format& format, uint32_t depth, uint32_t at, uint32_t bits);

// D over C, in place.
void add_products(const SumOf& p, const TensorRounding& rounding, const Factor& a, const Factor& b,
                  Sums& sums);

}  // namespace emu
