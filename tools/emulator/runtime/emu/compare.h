// Comparisons of numbers, and what predicates are combined with.
#pragma once

#include "emu/float.h"

namespace emu {

// The unordered ones (equ ... geu, nan) hold when an operand is NaN, the others then do not.
enum class Compare { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

constexpr bool is_unordered(Compare c) { return c >= Compare::equ && c <= Compare::geu; }
constexpr Compare ordered_form(Compare c) {
  return is_unordered(c) ? Compare(int(c) - int(Compare::equ)) : c;
}

template <Compare C, class T>
EMU_OP bool holds(T a, T b) {
  if constexpr (C == Compare::eq) return a == b;
  // Of integers and, with another meaning, of floats: `ne` is false for NaN.
  if constexpr (C == Compare::ne) return (a < b) | (a > b);
  if constexpr (C == Compare::lt) return a < b;
  if constexpr (C == Compare::le) return a <= b;
  if constexpr (C == Compare::gt) return a > b;
  if constexpr (C == Compare::ge) return a >= b;
  if constexpr (C == Compare::equ) return !((a < b) | (a > b));
  if constexpr (C == Compare::neu) return a != b;
  if constexpr (C == Compare::ltu) return !(a >= b);
  if constexpr (C == Compare::leu) return !(a > b);
  if constexpr (C == Compare::gtu) return !(a <= b);
  if constexpr (C == Compare::geu) return !(a < b);
  if constexpr (C == Compare::num) return (a == a) & (b == b);
  return (a != a) | (b != b);
}

enum class With { none, and_, or_, xor_ };
template <With W>
EMU_OP bool combine(bool compared, bool c) {
  if constexpr (W == With::and_) return compared & c;
  if constexpr (W == With::or_) return compared | c;
  if constexpr (W == With::xor_) return compared ^ c;
  return compared;
}

template <Compare C, unsigned M, class T>
EMU_OP bool compare(T a, T b) { return holds<C, T>(flush<M>(a), flush<M>(b)); }

// setp p|q: q is the combination with the opposite outcome.
template <Compare C, unsigned M, class T>
EMU_OP bool setp(T a, T b) { return compare<C, M, T>(a, b); }
template <Compare C, unsigned M, class T>
EMU_OP bool setp_not(T a, T b) { return !compare<C, M, T>(a, b); }
template <Compare C, unsigned M, With W, class T>
EMU_OP bool setp_with(T a, T b, bool c) { return combine<W>(compare<C, M, T>(a, b), c); }
template <Compare C, unsigned M, With W, class T>
EMU_OP bool setp_not_with(T a, T b, bool c) { return combine<W>(!compare<C, M, T>(a, b), c); }

// set: all ones, or 1.0.
template <class D>
EMU_OP D truth(bool value) {
  if constexpr (kFloating<D>) {
    return value ? D(1) : D(0);
  } else {
    return value ? D(~D(0)) : D(0);
  }
}
template <class D, Compare C, unsigned M, class T>
EMU_OP D set(T a, T b) { return truth<D>(compare<C, M, T>(a, b)); }

}  // namespace emu
