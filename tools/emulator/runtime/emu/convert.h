// cvt between integers and floats of every width.
#pragma once

#include "emu/float.h"
#include "emu/integer.h"

namespace emu {

template <class D, class S>
EMU_OP D cvt_int(S a) { return D(a); }
// Clamped to the range of D.
template <class D, class S>
EMU_OP D cvt_int_sat(S a) {
  if constexpr (kSigned<S>) {
    if constexpr (!kSigned<D>) {
      Bits<S> positive = Bits<S>(a < 0 ? S(0) : a);
      return sizeof(S) > sizeof(D) && positive > Bits<S>(kMax<D>) ? kMax<D> : D(positive);
    } else if constexpr (sizeof(S) > sizeof(D)) {
      return a > S(kMax<D>) ? kMax<D> : a < S(kMin<D>) ? kMin<D> : D(a);
    } else {
      return D(a);
    }
  } else if constexpr (sizeof(S) > sizeof(D) || (kSigned<D> && sizeof(S) == sizeof(D))) {
    return a > S(kMax<D>) ? kMax<D> : D(a);
  } else {
    return D(a);
  }
}

// To an integer of the same type, in the mode of M.
template <unsigned M>
EMU_OP float integral(float a) {
  if constexpr (rounding_of(M) == rz) return __builtin_truncf(a);
  if constexpr (rounding_of(M) == rm) return __builtin_floorf(a);
  if constexpr (rounding_of(M) == rp) return __builtin_ceilf(a);
  return __builtin_rintf(a);
}
template <unsigned M>
EMU_OP double integral(double a) {
  if constexpr (rounding_of(M) == rz) return __builtin_trunc(a);
  if constexpr (rounding_of(M) == rm) return __builtin_floor(a);
  if constexpr (rounding_of(M) == rp) return __builtin_ceil(a);
  return __builtin_rint(a);
}

// Clamped to the range of D. NaN gives 0, or the top bit alone where f64 or a 64-bit D is involved.
template <class D, unsigned M, class T>
EMU_OP D float_to_int(T a) {
  T rounded = integral<M>(flush<M>(a));
  constexpr T beyond = T(kSigned<D> ? kMin<D> : D(1) << (kBits<D> - 1)) * T(kSigned<D> ? -1 : 2);
  constexpr T least = T(kSigned<D> ? -beyond : T(0));
  constexpr D of_nan = sizeof(T) == 8 || sizeof(D) == 8 ? D(Bits<D>(1) << (kBits<D> - 1)) : D(0);
  bool inside = (rounded >= least) & (rounded < beyond);
  D value = D(inside ? rounded : T(0));
  value = rounded >= beyond ? kMax<D> : value;
  value = rounded < least ? kMin<D> : value;
  return a != a ? of_nan : value;
}

// Any integer as a double that rounds like it.
template <class S>
EMU_OP Sum<double> split_int(S a) {
  if constexpr (sizeof(S) == 8) {
    double high = kSigned<S> ? double(int32_t(a >> 32)) : as_double(uint32_t(a >> 32));
    return exact_sum(high * 0x1p32, as_double(uint32_t(a)));
  } else if constexpr (kSigned<S> || sizeof(S) < 4) {
    return {double(int32_t(a)), 0};
  } else {
    return {as_double(a), 0};
  }
}
// The neighbour of a nearest value that a directed mode asks for.
template <unsigned M>
EMU_OP double step(Sum<double> sum) {
  int64_t up = rounding_of(M) == rp   ? int64_t(sum.lost > 0)
               : rounding_of(M) == rm ? -int64_t(sum.lost < 0)
                                      : 0;
  int64_t away = sum.value > 0 ? up : -up;
  if constexpr (rounding_of(M) == rz) {
    away = -int64_t(sum.value > 0 ? sum.lost < 0 : sum.lost > 0);
  }
  return from_bits<double>(to_bits(sum.value) + uint64_t(away));
}
template <class T, unsigned M, class S>
EMU_OP T int_to_float(S a) {
  if constexpr (rounding_of(M) == rn) {
    return finish<M, T>(T(a));
  } else if constexpr (sizeof(T) == 8) {
    return finish<M, T>(step<M>(split_int<S>(a)));
  } else {
    Sum<double> sum = split_int<S>(a);
    return finish_odd<M>(to_odd(sum.value, sum.lost));
  }
}

// A NaN in a narrower format: sign and leading payload of a double stay, and it becomes quiet.
template <class F>
EMU_OP typename F::Raw narrow_nan(double a) {
  uint64_t bits = to_bits(a);
  uint32_t payload = uint32_t(bits >> (52 - F::mantissa)) & ((1u << F::mantissa) - 1);
  uint32_t quiet = 1u << (F::mantissa - 1);
  return typename F::Raw(uint32_t(bits >> 63) << (F::width - 1) | F::infinity | quiet | payload);
}

// NaNs as recorded on an H200: cvt.f32.f32 is a move, .ftz canonicalises.
template <class D, unsigned M, class S>
EMU_OP D float_to_float(S a) {
  if constexpr (M == 0 && sizeof(D) == sizeof(S)) return a;
  S source = flush<M>(a);
  if constexpr ((M & ftz) != 0 && sizeof(S) == 4) source = canonical(source);
  if constexpr (sizeof(D) < sizeof(S)) {
    float nearest = flush_tiny<M>(float(source), float(source * kLift<double>));
    float value = rounding_of(M) == rn ? finish<M>(nearest) : finish_odd<M>(source);
    bool keeps_nan = (M & sat) == 0 && source != source;
    return keeps_nan ? from_bits<float>(narrow_nan<F32>(source)) : value;
  } else {
    return finish<M, D>(D(source));
  }
}
// cvt.rni and its like: the result is an integer.
template <class D, unsigned M, class S>
EMU_OP D float_to_integral(S a) { return finish<M, D>(D(integral<M>(flush<M>(a)))); }

}  // namespace emu
