// The `.approx` functions, as a GPU has them: a parabola in each part of the input, with the scaling
// around it that ptxas adds. Of an H200's results at least nine in ten come out bit for bit, lg2
// between 1/2 and 2 and sines and cosines less often; others differ by a unit in the last place, or
// near a zero by the few 2^-24 by which the unit itself is off. Special values and flushing are the
// documented ones.
#pragma once

#include "emu/approx_tables.h"
#include "emu/half.h"

namespace emu {

// The parabola of a part at a place in the part, 0 to 1.
EMU_OP double parabola(const double* part, double at) { return part[0] + at * (part[1] + at * part[2]); }
// The parabola at `at`, which counts in parts.
template <int kParts>
EMU_OP double parabola_at(const double (&table)[kParts][3], double at) {
  // A NaN is in the first part.
  const int part = int(at >= 0 ? (at < kParts - 1 ? at : kParts - 1) : 0);
  return parabola(table[part], at - part);
}
// A positive normal number as mantissa, 1 to 2, and exponent.
struct Parted {
  double mantissa;
  int64_t exponent;
};
EMU_OP Parted part_of(double a) {
  const uint64_t bits = to_bits(a);
  return {from_bits<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u), int64_t(bits >> 52) - 1023};
}
EMU_OP double power_of_two(int64_t exponent) { return from_bits<double>(uint64_t(exponent + 1023) << 52); }
// Rounds to f32 towards zero.
EMU_OP float cut(double a) { return from_bits<float>(encode<F32, rz>(a)); }
EMU_OP bool is_plain(float a) { return a > 0 && a < __builtin_inff(); }

// 2^a. The unit keeps 23 bits behind the point, of a negative number its complement.
EMU_OP double exp2_of(double a) {
  if (a != a) return a;
  const double bounded = a > 400 ? 400 : a < -400 ? -400 : a;
  const double size = __builtin_floor((bounded < 0 ? -bounded : bounded) * 0x1p23);
  const double fixed = (bounded >= 0 || size == 0 ? size : -(size + 1)) * 0x1p-23;
  const double whole = __builtin_floor(fixed);
  return parabola_at(k_ex2, (fixed - whole) * 64) * power_of_two(int64_t(whole));
}
EMU_OP double tanh_of(double a) {
  constexpr int first = -8, parts = 16;
  const double size = a < 0 ? -a : a;
  if (!(size >= 0x1p-8)) return a;
  const Parted in = part_of(size);
  const double at = (double(in.exponent - first) + (in.mantissa - 1)) * parts;
  const double result = size >= 16 ? 1 : parabola_at(k_tanh, at);
  return a < 0 ? -result : result;
}

template <unsigned M>
EMU_OP float rcp_approx(float a) {
  a = flush<M>(a);
  const float size = abs_float<0>(a);
  if (!is_plain(size)) return finish<M>(1 / a);
  const Parted in = part_of(size);
  const float result = float(parabola_at(k_rcp, (in.mantissa - 1) * 128));
  return finish<M>(copysign<float>(a, float(double(result) * power_of_two(-in.exponent))));
}
// A root, or its reciprocal, by a table of two binades.
template <int kParts>
EMU_OP double root_by(const double (&table)[kParts][3], float a, int64_t direction) {
  const Parted in = part_of(a);
  const int64_t odd = in.exponent & 1;
  const double result = float(parabola_at(table, (in.mantissa - 1 + double(odd)) * (kParts / 2)));
  return result * power_of_two(direction * ((in.exponent - odd) / 2));
}
template <unsigned M>
EMU_OP float rsqrt_approx(float a) {
  a = flush<M>(a);
  return finish<M>(float(is_plain(a) ? root_by(k_rsqrt, a, -1) : 1 / __builtin_sqrt(double(a))));
}
template <unsigned M>
EMU_OP float sqrt_approx(float a) {
  a = flush<M>(a);
  return finish<M>(float(is_plain(a) ? root_by(k_sqrt, a, 1) : __builtin_sqrt(double(a))));
}
// Without flushing, a result that may be subnormal is the square of that of half the exponent.
template <unsigned M>
EMU_OP float ex2_approx(float a) {
  a = flush<M>(a);
  if ((M & ftz) != 0 || !(a < -126)) return finish<M>(float(exp2_of(a)));
  const float half = float(exp2_of(a * 0.5f));
  return finish<M>(half * half);
}
template <unsigned M>
EMU_OP float lg2_approx(float a) {
  a = flush<M>(a);
  constexpr float infinity = __builtin_inff();
  if (a < 0 || a != a) return from_bits<float>(F32::nan);
  if (a == 0) return -infinity;
  if (a == infinity) return infinity;
  if (a == 1) return 0;
  // Subnormal numbers are scaled by 2^24, and the logarithm is put right after it is rounded.
  const bool small = a < 0x1p-126f;
  const Parted in = part_of(small ? double(a) * 0x1p24 : double(a));
  const double logarithm = parabola_at(k_lg2, (in.mantissa - 1) * 64);
  const float result =
      in.exponent == 0 ? float(logarithm) : cut(double(in.exponent) + logarithm + 0x1p-25);
  return small ? result - 24 : result;
}
template <unsigned M>
EMU_OP float tanh_approx(float a) { return finish<M>(float(tanh_of(a))); }
// Turns of an angle. The hardware multiplies by 1 / (2 pi) in f32, cutting, so large angles lose their
// place in the turn and from 2^24 turns on look like 0.
template <unsigned M>
EMU_OP double turns_of(float a) {
  constexpr double turn = 0x1.45f306p-3;  // 1 / (2 pi) in f32
  return flush<ftz>(cut(double(flush<M>(a)) * turn));
}
// Place in the turn, 0 to 1, of a number of turns, its sign aside.
EMU_OP double place_in_turn(double turns) {
  const double size = turns < 0 ? -turns : turns;
  return size - __builtin_floor(size);
}
// The unit's sine of a place from 0 to 1.25 turns.
EMU_OP double sine_at(double place) {
  return parabola_at(k_sine, (place < 1 ? place : place - 1) * 256);
}
template <unsigned M>
EMU_OP float sin_approx(float a) {
  const double turns = turns_of<M>(a);
  const double place = place_in_turn(turns);
  const double sine = place < 0x1p-25 ? 0 : sine_at(place);
  const double result = __builtin_signbit(turns) ? -sine : sine;
  return finish<M>(float(turns - turns == 0 ? result : turns - turns));
}
template <unsigned M>
EMU_OP float cos_approx(float a) {
  const double turns = turns_of<M>(a);
  const double place = place_in_turn(turns);
  const double cosine = place < 0x1p-13 ? 1 : sine_at(place + 0.25);
  return finish<M>(float(turns - turns == 0 ? cosine : turns - turns));
}
// a times the reciprocal of b, which vanishes for |b| above 2^126. Subnormal divisors are scaled.
template <unsigned M>
EMU_OP float div_approx(float a, float b) {
  a = flush<M>(a);
  b = flush<M>(b);
  const bool small = abs_float<0>(b) < 0x1p-126f;
  const float scale = small ? 0x1p24f : 1.0f;
  return finish<M>((a * scale) * rcp_approx<ftz>(b * scale));
}
// The same where |b| above 2^126 is scaled, too.
template <unsigned M>
EMU_OP float div_full(float a, float b) {
  a = flush<M>(a);
  b = flush<M>(b);
  const float size = abs_float<0>(b);
  const float scale = size > 0x1p126f ? 0.25f : size < 0x1p-126f ? 0x1p24f : 1.0f;
  return finish<M>((a * scale) * rcp_approx<ftz>(b * scale));
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

// The same results cut to halves; what is beyond all halves is infinite.
template <class F, unsigned M>
EMU_OP uint16_t cut_half(double a) {
  const float single = float(a);
  const bool beyond = single >= float(decode<F>(F::largest)) * (1 + 0x1p-11f);
  return beyond ? uint16_t(F::infinity) : half_of<F, M | rz>(double(single));
}
template <class F, unsigned M>
EMU_OP uint16_t ex2_half(uint16_t a) { return cut_half<F, M>(exp2_of(value_of<F, M>(a))); }
template <class F, unsigned M>
EMU_OP uint16_t tanh_half(uint16_t a) { return cut_half<F, M>(tanh_of(value_of<F, M>(a))); }

}  // namespace emu
