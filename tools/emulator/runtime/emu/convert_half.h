// cvt from and to formats below 32 bits, and the packing forms.
#pragma once

#include "emu/convert.h"
#include "emu/half.h"

namespace emu {

template <class D, class F, unsigned M>
EMU_OP D half_to_int(uint16_t a) { return float_to_int<D, M, float>(decode<F>(a)); }
template <class F, unsigned M, class S>
EMU_OP uint16_t int_to_half(S a) {
  Sum<double> sum = split_int<S>(a);
  return half_of<F, M>(to_odd(sum.value, sum.lost));
}
// NaNs as recorded on an H200: f64 gets sign and payload, and so does f32 from bf16 unless .ftz.
template <class D, class F, unsigned M>
EMU_OP D half_to_float(uint16_t a) {
  if constexpr (sizeof(D) == 4 && F::mantissa == BF16::mantissa && M == 0) {
    return from_bits<float>(uint32_t(a) << 16);
  }
  D value = finish<M, D>(D(decode<F>(a)));
  if constexpr (sizeof(D) == 8 && (M & sat) == 0) {
    uint64_t payload = uint64_t(a & ((1u << F::mantissa) - 1)) << (52 - F::mantissa);
    uint64_t nan = uint64_t(a >> 15) << 63 | 0x7ff8000000000000u | payload;
    value = (a & 0x7fffu) > F::infinity ? from_bits<double>(nan) : value;
  }
  return value;
}
// `ftz` concerns the f32 side alone, and does nothing on the way to f16.
template <class F, unsigned M, class S>
EMU_OP uint16_t float_to_half(S a) {
  constexpr unsigned of_source = F::mantissa == F16::mantissa ? M & ~ftz : M;
  uint16_t value = half_of<F, (M & ~ftz)>(flush<of_source>(a));
  if constexpr (sizeof(S) == 8 && (M & sat) == 0) value = a != a ? narrow_nan<F>(a) : value;
  return value;
}
template <class D, class F, unsigned M>
EMU_OP uint16_t half_to_half(uint16_t a) { return half_of<D, M>(decode<F>(a)); }
template <class F, unsigned M>
EMU_OP uint16_t half_to_integral(uint16_t a) { return half_of<F, M>(integral<M>(decode<F>(a))); }

// f32 with ten bits of mantissa. An H200's rna cuts a NaN like a number.
template <unsigned M>
EMU_OP uint32_t float_to_tf32(float a) {
  if constexpr ((M & relu) != 0) a = a <= 0 ? 0.0f : a;
  uint32_t rounded = encode<TF32, M>(a) << 13;
  uint32_t cut = to_bits(a) & ~0x1fffu;
  return a != a && rounding_of(M) == rna && (M & satfinite) == 0 ? cut : rounded;
}

// The first source goes into the high half.
template <class F, unsigned M>
EMU_OP uint32_t floats_to_pair(float a, float b) {
  return uint32_t(float_to_half<F, M, float>(a)) << 16 | float_to_half<F, M, float>(b);
}

// fp8 in pairs.
template <class F, unsigned M>
EMU_OP uint16_t floats_to_fp8(float a, float b) {
  if constexpr ((M & relu) != 0) {
    a = a <= 0 ? 0.0f : a;
    b = b <= 0 ? 0.0f : b;
  }
  return uint16_t(uint32_t(encode<F, M>(a)) << 8 | encode<F, M>(b));
}
template <class F, unsigned M>
EMU_OP uint16_t pair_to_fp8(uint32_t pair) {
  return floats_to_fp8<F, M>(decode<F16>(pair >> 16),
                             decode<F16>(pair & 0xffff));
}
template <class F, unsigned M>
EMU_OP uint32_t fp8_to_pair(uint16_t pair) {
  return uint32_t(half_of<F16, M>(decode<F>(uint32_t(pair) >> 8))) << 16 |
         half_of<F16, M>(decode<F>(pair & 0xffu));
}

// Saturates two integers into `Width` bits each; the second lies lowest, `above` is shifted up.
template <bool Signed, int Width>
EMU_OP uint32_t saturate(int32_t a) {
  constexpr int32_t top = (1 << (Signed ? Width - 1 : Width)) - 1;
  constexpr int32_t bottom = Signed ? -top - 1 : 0;
  return uint32_t(max(min(a, top), bottom)) & ((1u << Width) - 1);
}
template <bool Signed, int Width>
EMU_OP uint32_t pack_saturated(int32_t a, int32_t b) {
  return saturate<Signed, Width>(a) << Width | saturate<Signed, Width>(b);
}
template <bool Signed, int Width>
EMU_OP uint32_t pack_saturated_above(int32_t a, int32_t b, uint32_t above) {
  return above << (2 * Width) | pack_saturated<Signed, Width>(a, b);
}

}  // namespace emu
