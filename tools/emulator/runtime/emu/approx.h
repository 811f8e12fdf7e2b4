// The `.approx` functions. They are computed in double, so within about half an ulp of f32 where
// the hardware is allowed several; special values and flushing are the documented ones.
#pragma once

#include "emu/half.h"

namespace emu {

// 2^a: the fraction by the Taylor series of exp, the integer through the exponent field.
EMU_OP double exp2_of(double a) {
  double bounded = a > 1000 ? 1000 : a < -1000 ? -1000 : a;
  // Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
  double shifted = bounded + 0x1.8p52;
  double r = (bounded - (shifted - 0x1.8p52)) * 0x1.62e42fefa39efp-1;
  double p = 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  return p * from_bits<double>((to_bits(shifted) + 1023) << 52);
}
// log2 of a normal positive double, by the series of artanh around 1.
EMU_OP double log2_of(double a) {
  constexpr uint64_t half_root = 0x3fe6a09e667f3bcdu;  // sqrt(1/2)
  uint64_t power = (to_bits(a) - half_root + (uint64_t(1023) << 52)) >> 52;
  double exponent = from_bits<double>(0x4330000000000000u | power) - (0x1p52 + 1023);
  double m = from_bits<double>(to_bits(a) - ((power - 1023) << 52));
  double s = (m - 1) / (m + 1);
  double z = s * s;
  double p = 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1;
  return exponent + s * p * 0x1.71547652b82fep1;  // 2 / ln 2
}
EMU_OP double tanh_of(double a) {
  double bounded = a > 20 ? 20 : a < -20 ? -20 : a;
  double power = exp2_of(bounded * 0x1.71547652b82fep1);
  double z = a * a;
  // Near zero the quotient cancels; the Taylor series does not.
  double near = a * (1 + z * (-1.0 / 3 + z * (2.0 / 15 + z * (-17.0 / 315 + z * (62.0 / 2835)))));
  return z < 0.0025 ? near : (power - 1) / (power + 1);
}

template <unsigned M>
EMU_OP float ex2_approx(float a) { return finish<M>(float(exp2_of(flush<M>(a)))); }
template <unsigned M>
EMU_OP float lg2_approx(float a) {
  a = flush<M>(a);
  constexpr float infinity = __builtin_inff();
  float logarithm = float(log2_of(a > 0 && a < infinity ? a : 1.0f));
  logarithm = a == infinity ? infinity : logarithm;
  logarithm = a == 0 ? -infinity : logarithm;
  return finish<M>(a < 0 || a != a ? from_bits<float>(F32::nan) : logarithm);
}
template <unsigned M>
EMU_OP float tanh_approx(float a) { return finish<M>(float(tanh_of(a))); }
// Angle within its turn. The hardware multiplies by 1 / (2 pi) in f32, cutting, so large angles lose
// their place in the turn and from 2^24 turns on look like 0.
template <unsigned M>
EMU_OP double angle_of(float a) {
  constexpr double turn = 0x1.45f306p-3;  // 1 / (2 pi) in f32
  double exact = double(flush<M>(a)) * turn;
  double turns = flush<ftz>(from_bits<float>(encode<F32, rz>(exact)));
  double part = turns - __builtin_rint(turns);
  return (part == 0 ? __builtin_copysign(0.0, turns) : part) * 0x1.921fb54442d18p2;
}
template <unsigned M>
EMU_OP float sin_approx(float a) { return finish<M>(float(__builtin_sin(angle_of<M>(a)))); }
template <unsigned M>
EMU_OP float cos_approx(float a) { return finish<M>(float(__builtin_cos(angle_of<M>(a)))); }
template <unsigned M>
EMU_OP float rsqrt_approx(float a) {
  return finish<M>(float(1 / __builtin_sqrt(double(flush<M>(a)))));
}
// a times the reciprocal of b, which vanishes for |b| above 2^126.
template <unsigned M>
EMU_OP float div_approx(float a, float b) {
  a = flush<M>(a);
  b = flush<M>(b);
  float divisor = abs_float<0>(b);
  float quotient = a / b;
  float lost = a * copysign<float>(b, 0.0f);
  return finish<M>(divisor > 0x1p126f ? lost : quotient);
}

// Reads and writes the high word alone, subnormals as zero.
EMU_OP double high_word(double a) {
  uint64_t bits = to_bits(a);
  uint64_t size = bits & 0x7fffffffffffffffu;
  bits = (size < 0x0010000000000000u) ? bits & kSignBit<double> : bits;
  return from_bits<double>(bits & ~uint64_t(0xffffffff));
}
EMU_OP double gross(double result) {
  // Rounds to the 20 bits of mantissa of the high word; a carry moves into the exponent.
  uint64_t bits = to_bits(result);
  uint64_t finite = (bits & 0x7ff0000000000000u) == 0x7ff0000000000000u ? 0 : 0x80000000u;
  return high_word(from_bits<double>(bits + finite));
}
// NaN comes out as recorded on an H200; one with nothing in its high word goes in as infinity.
EMU_OP double gross_nan(double result) {
  return result != result ? from_bits<double>(0x7fffffff00000000u) : gross(result);
}
EMU_OP double rcp_gross(double a) { return gross_nan(1 / high_word(a)); }
EMU_OP double rsqrt_gross(double a) { return gross_nan(1 / __builtin_sqrt(high_word(a))); }
EMU_OP double rsqrt_approx_f64(double a) { return 1 / __builtin_sqrt(a); }

template <class F, unsigned M>
EMU_OP uint16_t ex2_half(uint16_t a) { return half_of<F, M>(exp2_of(value_of<F, M>(a))); }
template <class F, unsigned M>
EMU_OP uint16_t tanh_half(uint16_t a) { return half_of<F, M>(tanh_of(value_of<F, M>(a))); }

}  // namespace emu
