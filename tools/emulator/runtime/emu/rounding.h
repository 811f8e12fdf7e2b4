// Floating-point formats and correct rounding into them, in any mode.
//
// A result is first formed in double with its lowest bit set if anything was lost ("round to odd");
// rounding that to a format at least two bits narrower is the same as rounding the exact value
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
// rounding to odd", IEEE Transactions on Computers 57, 2008).
#pragma once

#include "emu/values.h"

namespace emu {

// Modifiers of an opcode, or-ed together; the low three bits are the rounding.
enum Modifier : unsigned {
  rn = 0,   // to nearest, ties to even
  rz = 1,   // towards zero
  rm = 2,   // downwards
  rp = 3,   // upwards
  rna = 4,  // to nearest, ties away from zero
  rounding_mask = 7,
  ftz = 8,         // subnormal inputs and results become zeros of their sign
  sat = 16,        // clamp to [0, 1], NaN to +0
  relu = 32,       // clamp below at +0
  nan = 64,        // min and max: a NaN wins
  xorsign = 128,   // min and max of magnitudes, sign from the exclusive or
  magnitude = 256, // min and max of magnitudes
  satfinite = 512, // overflow and infinity become the largest finite value
};
constexpr unsigned rounding_of(unsigned modifiers) { return modifiers & rounding_mask; }

// Encodings: sign, exponent, `mantissa` bits.
struct F16 {
  using Raw = uint16_t;
  static constexpr int width = 16, mantissa = 10, bias = 15;
  static constexpr uint32_t infinity = 0x7c00, largest = 0x7bff, nan = 0x7fff;
};
struct BF16 {
  using Raw = uint16_t;
  static constexpr int width = 16, mantissa = 7, bias = 127;
  static constexpr uint32_t infinity = 0x7f80, largest = 0x7f7f, nan = 0x7fff;
};
struct F32 {
  using Raw = uint32_t;
  static constexpr int width = 32, mantissa = 23, bias = 127;
  static constexpr uint32_t infinity = 0x7f800000, largest = 0x7f7fffff, nan = 0x7fffffff;
};
// As stored before being shifted into the high bits of a 32-bit register.
struct TF32 {
  using Raw = uint32_t;
  static constexpr int width = 19, mantissa = 10, bias = 127;
  static constexpr uint32_t infinity = 0x3fc00, largest = 0x3fbff, nan = 0x3ffff;
};
struct E5M2 {
  using Raw = uint8_t;
  static constexpr int width = 8, mantissa = 2, bias = 15;
  static constexpr uint32_t infinity = 0x7c, largest = 0x7b, nan = 0x7f;
};
// No infinity: the code after the largest finite value is NaN.
struct E4M3 {
  using Raw = uint8_t;
  static constexpr int width = 8, mantissa = 3, bias = 7;
  static constexpr uint32_t infinity = 0x7f, largest = 0x7e, nan = 0x7f;
};

template <class F>
EMU_OP double decode(typename F::Raw raw) {
  uint64_t sign = uint64_t(raw >> (F::width - 1) & 1) << 63;
  uint64_t code = raw & ((1u << (F::width - 1)) - 1);
  // Scaling by a power of two moves the exponent and normalises subnormals exactly.
  double scaled = __builtin_bit_cast(double, code << (52 - F::mantissa)) *
                  __builtin_bit_cast(double, uint64_t(2046 - F::bias) << 52);
  uint64_t value = __builtin_bit_cast(uint64_t, scaled);
  value = code >= F::infinity ? (code == F::infinity && F::infinity != F::nan
                                     ? 0x7ff0000000000000u
                                     : 0x7ff8000000000000u)
                              : value;
  return __builtin_bit_cast(double, sign | value);
}

// `value` in format F.
template <class F, unsigned M>
EMU_OP typename F::Raw encode(double value) {
  using Raw = typename F::Raw;
  constexpr unsigned rounding = rounding_of(M);
  uint64_t bits = __builtin_bit_cast(uint64_t, value);
  uint64_t size = bits & 0x7fffffffffffffffu;
  uint64_t negative = bits >> 63;
  int64_t exponent = int64_t(size >> 52);
  uint64_t significand = (size & 0xfffffffffffffu) | uint64_t(exponent != 0) << 52;
  exponent = exponent == 0 ? 1 : exponent;
  // Bits to drop: more below the smallest normal number of F, all (53 and a guard) far below.
  int64_t below = (1024 - F::bias) - exponent;
  below = below < 0 ? 0 : below > F::mantissa + 2 ? F::mantissa + 2 : below;
  uint64_t drop = uint64_t(52 - F::mantissa + below);
  uint64_t half = uint64_t(1) << (drop - 1);
  uint64_t up = rounding == rn    ? half - 1 + (significand >> drop & 1)
                : rounding == rna ? half
                : rounding == rm  ? (half * 2 - 1) & (0 - negative)
                : rounding == rp  ? (half * 2 - 1) & (negative - 1)
                                  : 0;
  // The leading bit of the significand carries into the exponent field.
  int64_t lift = exponent - (1024 - F::bias);
  uint64_t code = ((significand + up) >> drop) + (uint64_t(lift < 0 ? 0 : lift) << F::mantissa);
  if constexpr ((M & satfinite) != 0) {
    code = code > F::largest ? F::largest : code;
  } else {
    uint64_t limit = F::infinity;
    if constexpr (rounding == rz) limit = F::largest;
    if constexpr (rounding == rm) limit = negative != 0 ? F::infinity : F::largest;
    if constexpr (rounding == rp) limit = negative != 0 ? F::largest : F::infinity;
    limit = size == 0x7ff0000000000000u ? F::infinity : limit;
    code = code > F::largest ? limit : code;
  }
  code |= negative << (F::width - 1);
  return Raw(size > 0x7ff0000000000000u ? F::nan : code);
}

// A sum and what its rounding lost.
struct Sum {
  double value;
  double lost;
};
EMU_OP Sum exact_sum(double a, double b) {
  double value = a + b;
  double part = value - a;
  return {value, (a - (value - part)) + (b - part)};
}
// `lost` needs only its sign.
EMU_OP double to_odd(double value, double lost) {
  uint64_t bits = __builtin_bit_cast(uint64_t, value);
  int64_t away = int64_t(lost > 0) - int64_t(lost < 0);
  away = value > 0 ? away : -away;
  return __builtin_bit_cast(double, bits + ((bits & 1) != 0 ? 0 : uint64_t(away)));
}

// a + b, to be rounded once more. An exact zero of unlike zeros is negative when rounding down.
template <unsigned M>
EMU_OP double odd_sum(double a, double b) {
  Sum sum = exact_sum(a, b);
  double odd = to_odd(sum.value, sum.lost);
  if constexpr (rounding_of(M) == rm) {
    uint64_t signs = (__builtin_bit_cast(uint64_t, a) | __builtin_bit_cast(uint64_t, b)) >> 63 << 63;
    odd = sum.value == 0 ? __builtin_bit_cast(double, signs) : odd;
  }
  return odd;
}
// For operands of at most 26 significant bits and no overflow in double.
EMU_OP double odd_quotient(double a, double b) {
  double quotient = a / b;
  double rest = __builtin_fma(-quotient, b, a);
  return to_odd(quotient, b < 0 ? -rest : rest);
}
EMU_OP double odd_root(double a) {
  double root = __builtin_sqrt(a);
  return to_odd(root, __builtin_fma(-root, root, a));
}

}  // namespace emu
