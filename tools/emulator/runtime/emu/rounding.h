// Floating-point formats and correct rounding into them, in any mode.
//
// A result is first formed in a wider type with its lowest bit set if anything was lost ("round to odd");
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
  // Products of two are exact in this type.
  using Exact = float;
  static constexpr int width = 16, mantissa = 10, bias = 15;
  static constexpr uint32_t infinity = 0x7c00, largest = 0x7bff, nan = 0x7fff;
};
struct BF16 {
  using Raw = uint16_t;
  using Exact = double;
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

// Exact for every format of at most 16 bits. Multiplying by a power of two moves the exponent and
// normalises subnormals.
template <class F>
EMU_OP float decode(uint32_t raw) {
  uint32_t sign = (raw >> (F::width - 1) & 1) << 31;
  uint32_t code = raw & ((1u << (F::width - 1)) - 1);
  float scaled = from_bits<float>(code << (23 - F::mantissa)) *
                 from_bits<float>(uint32_t(254 - F::bias) << 23);
  uint32_t value = to_bits(scaled);
  if constexpr (F::infinity != F::nan) value = code == F::infinity ? F32::infinity : value;
  constexpr uint32_t first_nan = F::infinity + (F::infinity != F::nan ? 1 : 0);
  value = code >= first_nan ? F32::nan : value;
  return from_bits<float>(sign | value);
}

// What the format of T looks like from outside.
template <class T>
struct Layout;
template <>
struct Layout<float> { static constexpr int mantissa = 23, bias = 127; };
template <>
struct Layout<double> { static constexpr int mantissa = 52, bias = 1023; };

// `value` in format F, which is narrower than T.
template <class F, unsigned M, class T>
EMU_OP typename F::Raw encode(T value) {
  using U = Bits<T>;
  constexpr unsigned rounding = rounding_of(M);
  constexpr int mantissa = Layout<T>::mantissa;
  // The biased exponent in T of the smallest normal number of F.
  constexpr U normal = U(Layout<T>::bias + 1 - F::bias);
  constexpr U infinite = U(~U(0)) << mantissa & U(~U(0)) >> 1;
  U bits = to_bits(value);
  U size = bits & U(~U(0)) >> 1;
  U negative = bits >> (kBits<T> - 1);
  U exponent = size >> mantissa;
  U leading = exponent == 0 ? U(0) : U(1) << mantissa;
  U significand = (size & ((U(1) << mantissa) - 1)) | leading;
  exponent = exponent == 0 ? U(1) : exponent;
  // Bits to drop: more below the smallest normal number, all and a guard far below.
  U below = exponent < normal ? normal - exponent : U(0);
  below = below > F::mantissa + 2 ? U(F::mantissa + 2) : below;
  U drop = U(mantissa - F::mantissa) + below;
  U kept = significand >> drop;
  U halves = significand >> (drop - 1);
  U half = halves & 1;
  U more = halves << (drop - 1) != significand ? U(1) : U(0);
  U up = rounding == rn    ? half & (more | kept)
         : rounding == rna ? half
         : rounding == rm  ? (half | more) & negative
         : rounding == rp  ? (half | more) & (negative ^ 1)
                           : U(0);
  // The leading bit of the significand carries into the exponent field.
  U lift = exponent > normal ? exponent - normal : U(0);
  U code = kept + up + (lift << F::mantissa);
  if constexpr ((M & satfinite) != 0) {
    code = code > F::largest ? U(F::largest) : code;
  } else {
    U limit = F::infinity;
    if constexpr (rounding == rz) limit = F::largest;
    if constexpr (rounding == rm) limit = negative != 0 ? F::infinity : F::largest;
    if constexpr (rounding == rp) limit = negative != 0 ? F::largest : F::infinity;
    limit = size == infinite ? U(F::infinity) : limit;
    code = code > F::largest ? limit : code;
  }
  code |= negative << (F::width - 1);
  code = size > infinite ? U(F::nan) : code;
  return typename F::Raw(code);
}

// A sum and what its rounding lost.
template <class T>
struct Sum {
  T value;
  T lost;
};
template <class T>
EMU_OP Sum<T> exact_sum(T a, T b) {
  T value = a + b;
  T part = value - a;
  return {value, (a - (value - part)) + (b - part)};
}
// `lost` needs only its sign.
template <class T>
EMU_OP T to_odd(T value, T lost) {
  using U = Bits<T>;
  U bits = to_bits(value);
  U up = lost > 0 ? U(1) : U(0);
  U down = lost < 0 ? U(1) : U(0);
  U away = value > 0 ? up - down : down - up;
  return from_bits<T>((bits & 1) != 0 ? bits : bits + away);
}

// a + b, to be rounded once more. An exact zero of unlike zeros is negative when rounding down.
template <unsigned M, class T>
EMU_OP T odd_sum(T a, T b) {
  Sum<T> sum = exact_sum(a, b);
  T odd = to_odd(sum.value, sum.lost);
  if constexpr (rounding_of(M) == rm) {
    constexpr Bits<T> sign = Bits<T>(1) << (kBits<T> - 1);
    Bits<T> signs = (to_bits(a) | to_bits(b)) & sign;
    odd = sum.value == 0 ? from_bits<T>(signs) : odd;
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
