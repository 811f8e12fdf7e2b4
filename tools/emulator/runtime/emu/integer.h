// Integer arithmetic. It wraps; division by zero gives all ones, as the hardware does (PTX leaves
// it open).
#pragma once

#include "emu/values.h"

namespace emu {

template <class T>
EMU_OP T add(T a, T b) { return T(Wrap<T>(a) + Wrap<T>(b)); }
template <class T>
EMU_OP T sub(T a, T b) { return T(Wrap<T>(a) - Wrap<T>(b)); }
template <class T>
EMU_OP T mul_lo(T a, T b) { return T(Wrap<T>(a) * Wrap<T>(b)); }
template <class T>
EMU_OP Wide<T> mul_wide(T a, T b) { return Wide<T>(Wide<T>(a) * Wide<T>(b)); }
template <class T>
EMU_OP T mul_hi(T a, T b) { return T((Wide<T>(a) * Wide<T>(b)) >> kBits<T>); }
// The uint32_t product of two uint16_t must not be computed in signed int.
template <>
EMU_OP uint16_t mul_hi(uint16_t a, uint16_t b) { return uint16_t(uint32_t(a) * uint32_t(b) >> 16); }

template <class T>
EMU_OP T mad_lo(T a, T b, T c) { return add<T>(mul_lo<T>(a, b), c); }
template <class T>
EMU_OP T mad_hi(T a, T b, T c) { return add<T>(mul_hi<T>(a, b), c); }
template <class T>
EMU_OP Wide<T> mad_wide(T a, T b, Wide<T> c) { return add<Wide<T>>(mul_wide<T>(a, b), c); }

template <class T>
EMU_OP T neg(T a) { return T(Wrap<T>(0) - Wrap<T>(a)); }
template <class T>
EMU_OP T abs(T a) { return a < 0 ? neg(a) : a; }
template <class T>
EMU_OP T min(T a, T b) { return a < b ? a : b; }
template <class T>
EMU_OP T max(T a, T b) { return a > b ? a : b; }
template <class T>
EMU_OP T min_relu(T a, T b) { return max<T>(min<T>(a, b), 0); }
template <class T>
EMU_OP T max_relu(T a, T b) { return max<T>(max<T>(a, b), 0); }

// Clamped to the range of T.
template <class T>
EMU_OP T clamp(Wide<T> value) {
  return value > kMax<T> ? kMax<T> : value < kMin<T> ? kMin<T> : T(value);
}
template <class T>
EMU_OP T add_sat(T a, T b) { return clamp<T>(Wide<T>(a) + b); }
template <class T>
EMU_OP T sub_sat(T a, T b) { return clamp<T>(Wide<T>(a) - b); }
template <class T>
EMU_OP T mad_hi_sat(T a, T b, T c) { return clamp<T>(Wide<T>(mul_hi<T>(a, b)) + c); }

// |a - b| + c.
template <class T>
EMU_OP T sad(T a, T b, T c) { return add<T>(a < b ? sub<T>(b, a) : sub<T>(a, b), c); }

// 32-bit quotients are exact through double: the error of the rounded quotient, at most 2^-21 / |b|,
// is smaller than its distance from the next integer, at least 1 / |b|.
EMU_OP double as_double(uint32_t value) {
  return __builtin_bit_cast(double, 0x4330000000000000u | value) - 0x1p52;
}
EMU_OP uint32_t low_word(double integer) {
  return uint32_t(__builtin_bit_cast(uint64_t, integer + 0x1p52));
}
EMU_OP uint32_t div_u32(uint32_t a, uint32_t b) {
  uint32_t quotient = low_word(__builtin_floor(as_double(a) / as_double(b == 0 ? 1 : b)));
  return b == 0 ? ~0u : quotient;
}
EMU_OP uint32_t rem_u32(uint32_t a, uint32_t b) {
  return b == 0 ? ~0u : a - div_u32(a, b) * b;
}
EMU_OP int32_t div_s32(int32_t a, int32_t b) {
  uint32_t quotient = div_u32(uint32_t(abs(a)), uint32_t(abs(b)));
  return b == 0 ? -1 : int32_t((a < 0) != (b < 0) ? 0 - quotient : quotient);
}
EMU_OP int32_t rem_s32(int32_t a, int32_t b) {
  return b == 0 ? -1 : int32_t(uint32_t(a) - uint32_t(div_s32(a, b)) * uint32_t(b));
}

template <class T>
EMU_OP T div(T a, T b) {
  if constexpr (sizeof(T) == 4 && kSigned<T>) {
    return div_s32(a, b);
  } else if constexpr (sizeof(T) == 4) {
    return div_u32(a, b);
  } else if constexpr (sizeof(T) == 2) {
    return T(b == 0 ? T(-1) : T(a / b));
  } else {
    if (b == 0) return T(-1);
    if (kSigned<T> && b == T(-1)) return neg(a);
    return a / b;
  }
}
template <class T>
EMU_OP T rem(T a, T b) {
  if constexpr (sizeof(T) == 4 && kSigned<T>) {
    return rem_s32(a, b);
  } else if constexpr (sizeof(T) == 4) {
    return rem_u32(a, b);
  } else if constexpr (sizeof(T) == 2) {
    return T(b == 0 ? T(-1) : T(a % b));
  } else {
    if (b == 0) return T(-1);
    if (kSigned<T> && b == T(-1)) return 0;
    return a % b;
  }
}

// 24-bit products: the low or the high 32 bits of 48. Bits above the 24th are ignored.
template <class T>
EMU_OP Wide<T> product24(T a, T b) {
  return Wide<T>(T(Bits<T>(a) << 8) >> 8) * (T(Bits<T>(b) << 8) >> 8);
}
template <class T>
EMU_OP T mul24_lo(T a, T b) { return T(product24(a, b)); }
template <class T>
EMU_OP T mul24_hi(T a, T b) { return T(product24(a, b) >> 16); }
template <class T>
EMU_OP T mad24_lo(T a, T b, T c) { return add<T>(mul24_lo(a, b), c); }
template <class T>
EMU_OP T mad24_hi(T a, T b, T c) { return add<T>(mul24_hi(a, b), c); }
EMU_OP int32_t mad24_hi_sat(int32_t a, int32_t b, int32_t c) {
  return clamp<int32_t>(int64_t(mul24_hi(a, b)) + c);
}

// Extended precision. The carry of a subtraction is its borrow.
template <class T>
EMU_OP T add_carry(T a, T b, bool carry) { return T(a + b + carry); }
template <class T>
EMU_OP bool carry_of_add(T a, T b) { return T(a + b) < a; }
template <class T>
EMU_OP bool carry_of_add_carry(T a, T b, bool carry) {
  return (T(a + b) < a) | (T(a + b + carry) < T(a + b));
}
template <class T>
EMU_OP T sub_borrow(T a, T b, bool borrow) { return T(a - b - borrow); }
template <class T>
EMU_OP bool borrow_of_sub(T a, T b) { return a < b; }
template <class T>
EMU_OP bool borrow_of_sub_borrow(T a, T b, bool borrow) { return (a < b) | ((a == b) & borrow); }

template <class T>
EMU_OP T mad_lo_carry(T a, T b, T c, bool carry) {
  return T(add_carry<Bits<T>>(Bits<T>(mul_lo<T>(a, b)), Bits<T>(c), carry));
}
template <class T>
EMU_OP T mad_hi_carry(T a, T b, T c, bool carry) {
  return T(add_carry<Bits<T>>(Bits<T>(mul_hi<T>(a, b)), Bits<T>(c), carry));
}
template <class T>
EMU_OP bool carry_of_mad_lo(T a, T b, T c) {
  return carry_of_add<Bits<T>>(Bits<T>(mul_lo<T>(a, b)), Bits<T>(c));
}
template <class T>
EMU_OP bool carry_of_mad_hi(T a, T b, T c) {
  return carry_of_add<Bits<T>>(Bits<T>(mul_hi<T>(a, b)), Bits<T>(c));
}
template <class T>
EMU_OP bool carry_of_mad_lo_carry(T a, T b, T c, bool carry) {
  return carry_of_add_carry<Bits<T>>(Bits<T>(mul_lo<T>(a, b)), Bits<T>(c), carry);
}
template <class T>
EMU_OP bool carry_of_mad_hi_carry(T a, T b, T c, bool carry) {
  return carry_of_add_carry<Bits<T>>(Bits<T>(mul_hi<T>(a, b)), Bits<T>(c), carry);
}

// Dot products of bytes, or of two halfwords with the low or high pair of bytes.
template <bool Signed, int Width, int Index>
EMU_OP uint32_t part(uint32_t a) {
  uint32_t top = a << (32 - Width * (Index + 1));
  return Signed ? uint32_t(int32_t(top) >> (32 - Width)) : top >> (32 - Width);
}
template <bool A, bool B>
EMU_OP uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c) {
  return c + part<A, 8, 0>(a) * part<B, 8, 0>(b) + part<A, 8, 1>(a) * part<B, 8, 1>(b) +
         part<A, 8, 2>(a) * part<B, 8, 2>(b) + part<A, 8, 3>(a) * part<B, 8, 3>(b);
}
template <bool A, bool B, int First>
EMU_OP uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c) {
  return c + part<A, 16, 0>(a) * part<B, 8, First>(b) +
         part<A, 16, 1>(a) * part<B, 8, First + 1>(b);
}

// |a - b| of each byte, or their sum added to c.
template <bool Signed, bool Sums>
EMU_OP uint32_t vabsdiff4(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d0 = sad(int32_t(part<Signed, 8, 0>(a)), int32_t(part<Signed, 8, 0>(b)), 0);
  uint32_t d1 = sad(int32_t(part<Signed, 8, 1>(a)), int32_t(part<Signed, 8, 1>(b)), 0);
  uint32_t d2 = sad(int32_t(part<Signed, 8, 2>(a)), int32_t(part<Signed, 8, 2>(b)), 0);
  uint32_t d3 = sad(int32_t(part<Signed, 8, 3>(a)), int32_t(part<Signed, 8, 3>(b)), 0);
  return Sums ? c + d0 + d1 + d2 + d3 : d0 | d1 << 8 | d2 << 16 | d3 << 24;
}

// Two 16-bit operations in one register.
template <class T, T Function(T, T)>
EMU_OP uint32_t each_halfword(uint32_t a, uint32_t b) {
  uint32_t low = Bits<T>(Function(T(a), T(b)));
  uint32_t high = Bits<T>(Function(T(a >> 16), T(b >> 16)));
  return low | high << 16;
}

}  // namespace emu
