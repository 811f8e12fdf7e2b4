// Arithmetic of f16 and bf16, alone and in pairs. Operands become exact in a wider type, every
// result is rounded once. A NaN result is 0x7fff, of neg and abs too. ftz as in float.h.
#pragma once

#include "emu/compare.h"
#include "emu/integer.h"
#include "emu/rounding.h"

namespace emu {

template <class F, unsigned M>
EMU_OP typename F::Raw flush_half(uint32_t raw) {
  if constexpr ((M & ftz) != 0) {
    return typename F::Raw((raw & F::infinity) == 0 ? raw & 0x8000u : raw);
  } else {
    return typename F::Raw(raw);
  }
}
template <class F, unsigned M>
EMU_OP typename F::Exact value_of(uint16_t raw) {
  return decode<F>(flush_half<F, M>(raw));
}
// Rounds and applies the modifiers. -0 is not positive: relu and sat make it +0.
template <class F, unsigned M, class T>
EMU_OP typename F::Raw half_of(T odd) {
  if constexpr ((M & sat) != 0) odd = odd > 0 ? (odd < 1 ? odd : T(1)) : T(0);
  if constexpr ((M & relu) != 0) odd = odd <= 0 ? T(0) : odd;
  uint32_t value = encode<F, M>(odd);
  if constexpr ((M & ftz) != 0) {
    constexpr int lift = 10;
    uint32_t lifted = encode<F, M>(odd * T(1 << lift)) & 0x7fffu;
    value = lifted < uint32_t(1 + lift) << F::mantissa ? value & 0x8000u : value;
  }
  return typename F::Raw(value);
}

template <class F, unsigned M>
EMU_OP uint16_t add_half(uint16_t a, uint16_t b) {
  return half_of<F, M>(odd_sum<M>(value_of<F, M>(a), value_of<F, M>(b)));
}
template <class F, unsigned M>
EMU_OP uint16_t sub_half(uint16_t a, uint16_t b) {
  return half_of<F, M>(odd_sum<M>(value_of<F, M>(a), -value_of<F, M>(b)));
}
template <class F, unsigned M>
EMU_OP uint16_t mul_half(uint16_t a, uint16_t b) {
  return half_of<F, M>(value_of<F, M>(a) * value_of<F, M>(b));
}
template <class F, unsigned M>
EMU_OP uint16_t fma_half(uint16_t a, uint16_t b, uint16_t c) {
  return half_of<F, M>(odd_sum<M>(value_of<F, M>(a) * value_of<F, M>(b), value_of<F, M>(c)));
}
template <class F>
EMU_OP uint16_t canonical_half(uint32_t a) {
  return uint16_t((a & 0x7fffu) > F::infinity ? F::nan : a);
}
template <class F, unsigned M>
EMU_OP uint16_t neg_half(uint16_t a) { return canonical_half<F>(flush_half<F, M>(a) ^ 0x8000u); }
template <class F, unsigned M>
EMU_OP uint16_t abs_half(uint16_t a) { return canonical_half<F>(flush_half<F, M>(a) & 0x7fffu); }

template <class F, unsigned M, bool Max>
EMU_OP uint16_t extreme_half(uint16_t a, uint16_t b) {
  using T = typename F::Exact;
  return encode<F, rn>(extreme_float<(M & ~ftz), T, Max>(value_of<F, M>(a), value_of<F, M>(b)));
}
template <class F, unsigned M>
EMU_OP uint16_t min_half(uint16_t a, uint16_t b) { return extreme_half<F, M, false>(a, b); }
template <class F, unsigned M>
EMU_OP uint16_t max_half(uint16_t a, uint16_t b) { return extreme_half<F, M, true>(a, b); }

template <uint16_t Function(uint16_t)>
EMU_OP uint32_t each_half(uint32_t a) {
  return uint32_t(Function(uint16_t(a))) | uint32_t(Function(uint16_t(a >> 16))) << 16;
}
template <uint16_t Function(uint16_t, uint16_t)>
EMU_OP uint32_t each_half(uint32_t a, uint32_t b) {
  return uint32_t(Function(uint16_t(a), uint16_t(b))) |
         uint32_t(Function(uint16_t(a >> 16), uint16_t(b >> 16))) << 16;
}
template <uint16_t Function(uint16_t, uint16_t, uint16_t)>
EMU_OP uint32_t each_half(uint32_t a, uint32_t b, uint32_t c) {
  return uint32_t(Function(uint16_t(a), uint16_t(b), uint16_t(c))) |
         uint32_t(Function(uint16_t(a >> 16), uint16_t(b >> 16), uint16_t(c >> 16))) << 16;
}

// An integer that is ordered like the number; both zeros are 0.
template <class F, unsigned M>
EMU_OP int32_t rank_of(uint16_t a) {
  int32_t size = flush_half<F, M>(a) & 0x7fff;
  return (a & 0x8000) != 0 ? -size : size;
}
template <class F, Compare C, unsigned M>
EMU_OP bool compare_half(uint16_t a, uint16_t b) {
  int32_t first = rank_of<F, M>(a);
  int32_t second = rank_of<F, M>(b);
  constexpr int32_t most = F::infinity;
  bool ordered = (max(first, -first) <= most) & (max(second, -second) <= most);
  if constexpr (C == Compare::num) return ordered;
  if constexpr (C == Compare::nan) return !ordered;
  bool held = holds<ordered_form(C), int32_t>(first, second);
  return is_unordered(C) ? held | !ordered : held & ordered;
}
template <class F, Compare C, unsigned M>
EMU_OP bool setp_half(uint16_t a, uint16_t b) { return compare_half<F, C, M>(a, b); }
template <class F, Compare C, unsigned M>
EMU_OP bool setp_not_half(uint16_t a, uint16_t b) { return !compare_half<F, C, M>(a, b); }
template <class F, Compare C, unsigned M, With W>
EMU_OP bool setp_half_with(uint16_t a, uint16_t b, bool c) {
  return combine<W>(compare_half<F, C, M>(a, b), c);
}
template <class F, Compare C, unsigned M, With W>
EMU_OP bool setp_not_half_with(uint16_t a, uint16_t b, bool c) {
  return combine<W>(!compare_half<F, C, M>(a, b), c);
}
// Of a pair, p answers for the low half and q for the high one.
template <class F, Compare C, unsigned M, int Half>
EMU_OP bool setp_pair(uint32_t a, uint32_t b) {
  return compare_half<F, C, M>(uint16_t(a >> (16 * Half)), uint16_t(b >> (16 * Half)));
}
template <class F, Compare C, unsigned M, int Half, With W>
EMU_OP bool setp_pair_with(uint32_t a, uint32_t b, bool c) {
  return combine<W>(setp_pair<F, C, M, Half>(a, b), c);
}

// set with an integer result, or with 1.0 in the format itself.
template <class D, class F, Compare C, unsigned M>
EMU_OP D set_half(uint16_t a, uint16_t b) { return truth<D>(compare_half<F, C, M>(a, b)); }
template <class F, Compare C, unsigned M>
EMU_OP uint16_t set_half_one(uint16_t a, uint16_t b) {
  return compare_half<F, C, M>(a, b) ? uint16_t(F::bias << F::mantissa) : uint16_t(0);
}

// f16 or bf16 into f32 arithmetic.
template <class F, unsigned M>
EMU_OP float add_mixed(uint16_t a, float c) { return add_float<M, float>(decode<F>(a), c); }
template <class F, unsigned M>
EMU_OP float sub_mixed(uint16_t a, float c) { return sub_float<M, float>(decode<F>(a), c); }
template <class F, unsigned M>
EMU_OP float fma_mixed(uint16_t a, uint16_t b, float c) {
  return fma_float<M, float>(decode<F>(a), decode<F>(b), c);
}

}  // namespace emu
