// Logic, shifts, bit fields, byte permutation and moves.
#pragma once

#include "emu/integer.h"

namespace emu {

template <class T>
EMU_OP T bit_and(T a, T b) { return T(a & b); }
template <class T>
EMU_OP T bit_or(T a, T b) { return T(a | b); }
template <class T>
EMU_OP T bit_xor(T a, T b) { return T(a ^ b); }
template <class T>
EMU_OP T bit_not(T a) { return T(~a); }
template <>
EMU_OP bool bit_not(bool a) { return !a; }
// C's logical not of an integer: 1 for zero, else 0.
template <class T>
EMU_OP T logical_not(T a) { return T(a == 0); }

// Any function of three bits: bit (4a + 2b + c) of `table` is its value. Given a literal table the
// dead terms disappear.
EMU_OP uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t with_a = ((table & 0x10 ? ~b & ~c : 0) | (table & 0x20 ? ~b & c : 0) |
                     (table & 0x40 ? b & ~c : 0) | (table & 0x80 ? b & c : 0));
  uint32_t without_a = ((table & 0x01 ? ~b & ~c : 0) | (table & 0x02 ? ~b & c : 0) |
                        (table & 0x04 ? b & ~c : 0) | (table & 0x08 ? b & c : 0));
  return (a & with_a) | (~a & without_a);
}
EMU_OP bool lop3_or(uint32_t a, uint32_t b, uint32_t c, uint32_t table, bool q) {
  return (lop3(a, b, c, table) != 0) | q;
}
EMU_OP bool lop3_and(uint32_t a, uint32_t b, uint32_t c, uint32_t table, bool q) {
  return (lop3(a, b, c, table) != 0) & q;
}
EMU_OP uint32_t lop3_value(uint32_t a, uint32_t b, uint32_t c, uint32_t table, bool) {
  return lop3(a, b, c, table);
}

// Amounts beyond the width shift everything out.
template <class T>
EMU_OP T shl(T a, uint32_t amount) {
  T shifted = T(Wrap<T>(a) << (amount & (kBits<T> - 1)));
  return amount >= uint32_t(kBits<T>) ? T(0) : shifted;
}
template <class T>
EMU_OP T shr(T a, uint32_t amount) {
  uint32_t most = uint32_t(kBits<T> - 1);
  T shifted = T(a >> (amount > most ? most : amount));
  return !kSigned<T> && amount > most ? T(0) : shifted;
}

// Funnel shifts of the 64 bits hi:lo; `wrap` takes the amount modulo 32, `clamp` stops at 32.
EMU_OP uint32_t shf_l_wrap(uint32_t lo, uint32_t hi, uint32_t amount) {
  return uint32_t(((uint64_t(hi) << 32 | lo) << (amount & 31)) >> 32);
}
EMU_OP uint32_t shf_r_wrap(uint32_t lo, uint32_t hi, uint32_t amount) {
  return uint32_t((uint64_t(hi) << 32 | lo) >> (amount & 31));
}
EMU_OP uint32_t shf_l_clamp(uint32_t lo, uint32_t hi, uint32_t amount) {
  return uint32_t(((uint64_t(hi) << 32 | lo) << (amount > 32 ? 32 : amount)) >> 32);
}
EMU_OP uint32_t shf_r_clamp(uint32_t lo, uint32_t hi, uint32_t amount) {
  return uint32_t((uint64_t(hi) << 32 | lo) >> (amount > 32 ? 32 : amount));
}

// Counts by halving and without a multiplication, which g++ would recognise and turn into the CPU's
// scalar instruction.
EMU_OP uint32_t popc32(uint32_t a) {
  a -= a >> 1 & 0x55555555u;
  a = (a & 0x33333333u) + (a >> 2 & 0x33333333u);
  a = (a + (a >> 4)) & 0x0f0f0f0fu;
  a += a >> 8;
  return (a + (a >> 16)) & 0x3f;
}
template <class T>
EMU_OP uint32_t popc(T a) {
  if constexpr (sizeof(T) == 8) {
    return popc32(uint32_t(a)) + popc32(uint32_t(a >> 32));
  } else {
    return popc32(a);
  }
}
// Copies the highest set bit into every bit below it.
template <class T>
EMU_OP T smear(T a) {
  a |= a >> 1;
  a |= a >> 2;
  a |= a >> 4;
  a |= a >> 8;
  a |= a >> 16;
  if constexpr (sizeof(T) == 8) a |= a >> 32;
  return a;
}
template <class T>
EMU_OP uint32_t clz(T a) { return uint32_t(kBits<T>) - popc<T>(smear<T>(a)); }

// Position of the highest bit that differs from the sign; all ones if there is none.
template <class T>
EMU_OP uint32_t bfind(T a) {
  Bits<T> magnitude = Bits<T>(a < 0 ? ~Bits<T>(a) : Bits<T>(a));
  return uint32_t(kBits<T> - 1) - clz<Bits<T>>(magnitude);
}
template <class T>
EMU_OP uint32_t bfind_shiftamt(T a) {
  uint32_t position = bfind<T>(a);
  return position == ~0u ? ~0u : uint32_t(kBits<T> - 1) - position;
}

EMU_OP uint32_t brev32(uint32_t a) {
  a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
  a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
  a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
  a = (a >> 8 & 0x00ff00ffu) | (a & 0x00ff00ffu) << 8;
  return a >> 16 | a << 16;
}
template <class T>
EMU_OP T brev(T a) {
  if constexpr (sizeof(T) == 8) {
    return uint64_t(brev32(uint32_t(a))) << 32 | brev32(uint32_t(a >> 32));
  } else {
    return brev32(a);
  }
}

// A mask of `length` ones, all ones from the type's width on.
template <class T>
EMU_OP T ones(uint32_t length) {
  return length >= uint32_t(kBits<T>) ? T(~T(0)) : T((T(1) << (length & (kBits<T> - 1))) - 1);
}

// PTX wants positions and lengths of fields below 256. Of larger ones an H200 takes the low byte, for
// 64-bit fields the whole number.
template <class T>
constexpr uint32_t kPlaceBits = kBits<T> == 32 ? 0xff : ~0u;

// Field of `length` bits at `position`, sign-extended from the field's top bit
// or, where the field leaves the register, from the register's.
template <class T>
EMU_OP T bfe(T a, uint32_t position, uint32_t length) {
  using U = Bits<T>;
  constexpr U last = kBits<T> - 1;
  U first = U(position & kPlaceBits<T>);
  U count = U(length & kPlaceBits<T>);
  U kept = count > last ? ~U(0) : (U(1) << (count & last)) - 1;
  U field = first > last ? U(0) : U(a) >> (first & last);
  if constexpr (kSigned<T>) {
    U top = first + count - 1;
    top = top > last ? last : top;
    U sign = count == 0 ? U(0) : U(0) - (U(a) >> top & 1);
    // What lies above the register counts as sign.
    kept = first > last ? U(0) : kept & ~U(0) >> (first & last);
    return T((field & kept) | (sign & ~kept));
  }
  return T(field & kept);
}
template <class T>
EMU_OP T bfi(T field, T base, uint32_t position, uint32_t length) {
  constexpr T last = kBits<T> - 1;
  T first = T(position & kPlaceBits<T>);
  T count = T(length & kPlaceBits<T>);
  T mask = count > last ? ~T(0) : (T(1) << (count & last)) - 1;
  mask = first > last ? T(0) : mask << (first & last);
  return T((base & ~mask) | (field << (first & last) & mask));
}

// Sign- or zero-extends from bit `length` - 1.
template <class T, bool Wrapped>
EMU_OP T szext(T a, uint32_t length) {
  length = Wrapped ? length & 31 : (length > 32 ? 32 : length);
  uint32_t kept = ones<uint32_t>(length);
  uint32_t sign = length == 0 ? 0 : uint32_t(a) >> (length - 1) & 1;
  return T((uint32_t(a) & kept) | (kSigned<T> && sign ? ~kept : 0));
}
// `length` ones from bit `position` on.
template <bool Wrapped>
EMU_OP uint32_t bmsk(uint32_t position, uint32_t length) {
  if (Wrapped) {
    position &= 31;
    length &= 31;
  }
  return shl<uint32_t>(ones<uint32_t>(length), position);
}

// Position of the n-th set bit counted from `base` upwards (n > 0) or downwards (n < 0), or of the
// base bit itself (n = 0); all ones if there is none.
EMU_OP uint32_t fns(uint32_t mask, uint32_t base, int32_t n) {
  if (base > 31) return ~0u;
  if (n == 0) return mask >> base & 1 ? base : ~0u;
  int step = n > 0 ? 1 : -1;
  int64_t left = n > 0 ? int64_t(n) : -int64_t(n);
  for (int position = int(base); position >= 0 && position < 32; position += step) {
    if ((mask >> position & 1) != 0 && --left == 0) return uint32_t(position);
  }
  return ~0u;
}

// Byte `selector` & 7 of hi:lo, or its sign bit in all eight places if bit 3 is set.
EMU_OP uint32_t pick_byte(uint64_t pair, uint32_t selector) {
  uint32_t byte = uint32_t(pair >> (8 * (selector & 7))) & 0xff;
  return (selector & 8) != 0 ? (0 - (byte >> 7)) & 0xff : byte;
}
EMU_OP uint32_t prmt(uint32_t lo, uint32_t hi, uint32_t selectors) {
  uint64_t pair = uint64_t(hi) << 32 | lo;
  return pick_byte(pair, selectors) | pick_byte(pair, selectors >> 4) << 8 |
         pick_byte(pair, selectors >> 8) << 16 | pick_byte(pair, selectors >> 12) << 24;
}
// Four bytes upwards or downwards from one, cyclically.
EMU_OP uint32_t prmt_f4e(uint32_t lo, uint32_t hi, uint32_t first) {
  first &= 3;
  return uint32_t((uint64_t(hi) << 32 | lo) >> (8 * first));
}
EMU_OP uint32_t prmt_b4e(uint32_t lo, uint32_t hi, uint32_t first) {
  first &= 3;
  return prmt(lo, hi, first | ((first - 1) & 7) << 4 | ((first - 2) & 7) << 8 |
                          ((first - 3) & 7) << 12);
}
// One byte, or one halfword, in all places.
EMU_OP uint32_t prmt_rc8(uint32_t lo, uint32_t, uint32_t byte) {
  return (lo >> (8 * (byte & 3)) & 0xff) * 0x01010101u;
}
EMU_OP uint32_t prmt_rc16(uint32_t lo, uint32_t, uint32_t halfword) {
  return (lo >> (16 * (halfword & 1)) & 0xffff) * 0x00010001u;
}
// Byte i clamped from below by i's first (ecl) or from above (ecr).
EMU_OP uint32_t prmt_ecl(uint32_t lo, uint32_t hi, uint32_t edge) {
  edge &= 3;
  return prmt(lo, hi, max<uint32_t>(0, edge) | max<uint32_t>(1, edge) << 4 |
                          max<uint32_t>(2, edge) << 8 | 3u << 12);
}
EMU_OP uint32_t prmt_ecr(uint32_t lo, uint32_t hi, uint32_t edge) {
  edge &= 3;
  return prmt(lo, hi, min<uint32_t>(1, edge) << 4 | min<uint32_t>(2, edge) << 8 |
                          min<uint32_t>(3, edge) << 12);
}

template <class T>
EMU_OP T mov(T a) { return a; }
template <class T>
EMU_OP T selp(T a, T b, bool condition) { return condition ? a : b; }
// a where c is not negative; b also where c is NaN.
template <class T, class C>
EMU_OP T slct(T a, T b, C c) { return c >= 0 ? a : b; }

}  // namespace emu
