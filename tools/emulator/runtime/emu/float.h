// Arithmetic of f32 and f64.
//
// NaN: an f32 result that is NaN is 0x7fffffff, of neg and abs too, as recorded on an H200; f64 keeps
// the payload the CPU propagates (PTX leaves it open). copysign, mov and selp only move bits.
//
// ftz flushes a result that is below the smallest normal number after rounding it as if exponents had
// no end, as recorded on an H200: 2^-126 (1 - 2^-24) becomes 0 although the nearest number is 2^-126.
#pragma once

#include "emu/rounding.h"

namespace emu {

template <class T>
constexpr T kSmallestNormal = T(sizeof(T) == 4 ? 0x1p-126 : 0x1p-1022);

EMU_OP bool sign_of(float a) { return to_bits(a) >> 31 != 0; }
EMU_OP bool sign_of(double a) { return to_bits(a) >> 63 != 0; }
EMU_OP float canonical(float a) { return a != a ? from_bits<float>(F32::nan) : a; }
EMU_OP double canonical(double a) { return a; }

// Of f64 there is no flushing.
template <unsigned M, class T>
EMU_OP T flush(T a) {
  if constexpr ((M & ftz) != 0 && sizeof(T) == 4) {
    uint32_t bits = to_bits(a);
    return from_bits<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
  } else {
    return a;
  }
}
// What every result passes through.
template <unsigned M, class T>
EMU_OP T finish(T a) {
  a = flush<M>(a);
  if constexpr ((M & sat) != 0) return a > 0 ? (a < 1 ? a : T(1)) : T(0);
  return canonical(a);
}
// Moves what may be subnormal among normal numbers, where it is rounded like any other.
template <class T>
constexpr T kLift = T(0x1p24);
// `value`, or zero where the same result, lifted, says that it is subnormal.
template <unsigned M>
EMU_OP float flush_tiny(float value, float lifted) {
  if constexpr ((M & ftz) == 0) return value;
  bool tiny = (to_bits(lifted) & 0x7fffffffu) < to_bits(0x1p-126f * kLift<float>);
  return from_bits<float>(tiny ? to_bits(value) & 0x80000000u : to_bits(value));
}
template <unsigned M>
EMU_OP float finish_odd(double odd) {
  float value = from_bits<float>(encode<F32, M>(odd));
  float lifted = from_bits<float>(encode<F32, M>(odd * kLift<double>));
  return finish<M>(flush_tiny<M>(value, lifted));
}

// f64 in another mode than to nearest: rare, so the CPU's own mode is switched around it.
enum class Directed { add, mul, fma, div, sqrt };
double directed_f64(Directed operation, unsigned rounding, double a, double b, double c);

template <unsigned M, class T>
EMU_OP T add_float(T a, T b) {
  if constexpr (rounding_of(M) == rn) {
    return finish<M, T>(flush<M>(a) + flush<M>(b));
  } else if constexpr (sizeof(T) == 4) {
    return finish_odd<M>(odd_sum<M, double>(flush<M>(a), flush<M>(b)));
  } else {
    return directed_f64(Directed::add, rounding_of(M), a, b, 0);
  }
}
template <unsigned M, class T>
EMU_OP T sub_float(T a, T b) { return add_float<M, T>(a, -b); }
template <unsigned M, class T>
EMU_OP T mul_float(T a, T b) {
  if constexpr (rounding_of(M) == rn) {
    a = flush<M>(a);
    b = flush<M>(b);
    if constexpr (sizeof(T) == 4) return finish<M, T>(flush_tiny<M>(a * b, a * kLift<T> * b));
    return finish<M, T>(a * b);
  } else if constexpr (sizeof(T) == 4) {
    return finish_odd<M>(double(flush<M>(a)) * double(flush<M>(b)));
  } else {
    return directed_f64(Directed::mul, rounding_of(M), a, b, 0);
  }
}
EMU_OP float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EMU_OP double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
template <unsigned M, class T>
EMU_OP T fma_float(T a, T b, T c) {
  if constexpr (rounding_of(M) == rn) {
    a = flush<M>(a);
    b = flush<M>(b);
    c = flush<M>(c);
    T value = fused(a, b, c);
    if constexpr (sizeof(T) == 4) {
      value = flush_tiny<M>(value, fused(a * kLift<T>, b, c * kLift<T>));
    }
    return finish<M, T>(value);
  } else if constexpr (sizeof(T) == 4) {
    return finish_odd<M>(odd_sum<M, double>(double(flush<M>(a)) * double(flush<M>(b)), flush<M>(c)));
  } else {
    return directed_f64(Directed::fma, rounding_of(M), a, b, c);
  }
}
template <unsigned M, class T>
EMU_OP T div_float(T a, T b) {
  if constexpr (rounding_of(M) == rn) {
    return finish<M, T>(flush<M>(a) / flush<M>(b));
  } else if constexpr (sizeof(T) == 4) {
    return finish_odd<M>(odd_quotient(flush<M>(a), flush<M>(b)));
  } else {
    return directed_f64(Directed::div, rounding_of(M), a, b, 0);
  }
}
template <unsigned M, class T>
EMU_OP T rcp_float(T a) { return div_float<M, T>(1, a); }
EMU_OP float root(float a) { return __builtin_sqrtf(a); }
EMU_OP double root(double a) { return __builtin_sqrt(a); }
template <unsigned M, class T>
EMU_OP T sqrt_float(T a) {
  if constexpr (rounding_of(M) == rn) {
    return finish<M, T>(root(flush<M>(a)));
  } else if constexpr (sizeof(T) == 4) {
    return finish_odd<M>(odd_root(flush<M>(a)));
  } else {
    return directed_f64(Directed::sqrt, rounding_of(M), a, 0, 0);
  }
}

// slct.ftz: a subnormal condition counts as zero.
template <class T>
EMU_OP T slct_ftz(T a, T b, float c) { return flush<ftz>(c) >= 0 ? a : b; }

template <class T>
constexpr Bits<T> kSignBit = Bits<T>(1) << (kBits<T> - 1);

template <unsigned M, class T>
EMU_OP T neg_float(T a) { return canonical(from_bits<T>(to_bits(flush<M>(a)) ^ kSignBit<T>)); }
template <unsigned M, class T>
EMU_OP T abs_float(T a) { return canonical(from_bits<T>(to_bits(flush<M>(a)) & ~kSignBit<T>)); }
// The sign of a on the value of b.
template <class T>
EMU_OP T copysign(T a, T b) {
  return from_bits<T>((to_bits(a) & kSignBit<T>) | (to_bits(b) & ~kSignBit<T>));
}

// A NaN loses against a number unless `.NaN`; -0 is smaller than +0.
template <unsigned M, class T, bool Max>
EMU_OP T extreme_float(T a, T b) {
  a = flush<M>(a);
  b = flush<M>(b);
  Bits<T> sign = (M & xorsign) != 0 ? (to_bits(a) ^ to_bits(b)) & kSignBit<T> : 0;
  if constexpr ((M & (xorsign | magnitude)) != 0) {
    a = abs_float<0>(a);
    b = abs_float<0>(b);
  }
  // Equal values differ at most in the sign of zero.
  T equal = from_bits<T>(Max ? to_bits(a) & to_bits(b) : to_bits(a) | to_bits(b));
  T chosen = (Max ? a > b : a < b) ? a : b;
  chosen = a == b ? equal : chosen;
  chosen = b != b ? a : chosen;
  bool none = (M & nan) != 0 ? (a != a) | (b != b) : (a != a) & (b != b);
  chosen = from_bits<T>(to_bits(chosen) | sign);
  return none ? canonical(a != a ? a : b) : chosen;
}
template <unsigned M, class T>
EMU_OP T min_float(T a, T b) { return extreme_float<M, T, false>(a, b); }
template <unsigned M, class T>
EMU_OP T max_float(T a, T b) { return extreme_float<M, T, true>(a, b); }
template <unsigned M, class T>
EMU_OP T min3_float(T a, T b, T c) { return min_float<M, T>(min_float<M, T>(a, b), c); }
template <unsigned M, class T>
EMU_OP T max3_float(T a, T b, T c) { return max_float<M, T>(max_float<M, T>(a, b), c); }

template <class T>
EMU_OP bool testp_finite(T a) { return (to_bits(a) & ~kSignBit<T>) < to_bits(T(__builtin_inf())); }
template <class T>
EMU_OP bool testp_infinite(T a) { return (to_bits(a) & ~kSignBit<T>) == to_bits(T(__builtin_inf())); }
template <class T>
EMU_OP bool testp_number(T a) { return a == a; }
template <class T>
EMU_OP bool testp_notanumber(T a) { return a != a; }
// Zero counts as normal.
template <class T>
EMU_OP bool testp_normal(T a) {
  Bits<T> size = to_bits(a) & ~kSignBit<T>;
  return (size == 0) | ((size >= to_bits(kSmallestNormal<T>)) & (size < to_bits(T(__builtin_inf()))));
}
template <class T>
EMU_OP bool testp_subnormal(T a) {
  return (to_bits(a) & ~kSignBit<T>) < to_bits(kSmallestNormal<T>) && a != 0;
}

// Two f32 in one 64-bit register.
template <float Function(float, float)>
EMU_OP uint64_t each_f32(uint64_t a, uint64_t b) {
  uint64_t low = to_bits(Function(from_bits<float>(a), from_bits<float>(b)));
  uint64_t high = to_bits(Function(from_bits<float>(a >> 32), from_bits<float>(b >> 32)));
  return low | high << 32;
}
template <float Function(float, float, float)>
EMU_OP uint64_t each_f32(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t low =
      to_bits(Function(from_bits<float>(a), from_bits<float>(b), from_bits<float>(c)));
  uint64_t high = to_bits(
      Function(from_bits<float>(a >> 32), from_bits<float>(b >> 32), from_bits<float>(c >> 32)));
  return low | high << 32;
}

}  // namespace emu
