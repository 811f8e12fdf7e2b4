// Which bits of a value are undefined, for kernels that compute them beside their values: a set bit
// is undefined. Registers have an array of such bits, as wide as themselves, and an array that says
// where an undefined value comes from. A lane rule takes a value and its undefined bits for each
// argument of the operation it is named after; operations without one lose all bits for one of any.
#pragma once

#include "emu/bits.h"
#include "emu/tensor.h"
#include "emu/warp.h"

namespace emu {

// What an undefined value decides. In the order of ReasonNumber::decides_...
enum class Use : uint32_t { address, branch, access, atomic, collective, operand, output };

// A fault, unless the launch is sampled.
void raise_undefined(Warp* w, uint32_t site, int lane, uint32_t origin, Use use);

// A fault where one of the lanes has an undefined value for what may not be undefined.
inline void decide(Warp* w, uint32_t site, Mask lanes, Mask undefined, const uint32_t* origins,
                   Use use) {
  if ((undefined &= lanes) == 0) return;
  const int lane = __builtin_ctz(undefined);
  raise_undefined(w, site, lane, origins[lane], use);
}
template <class T>
[[gnu::noinline]] Mask undefined_lanes(const T* bits) {
  Mask found = 0;
  for (int i = 0; i < kLanes; ++i) found |= Mask(bits[i] != 0) << i;
  return found;
}
template <class T>
void decide(Warp* w, uint32_t site, Mask lanes, const T* bits, const uint32_t* origins, Use use) {
  decide(w, site, lanes, undefined_lanes(bits), origins, use);
}

template <class T>
[[gnu::noinline]] void define(Mask lanes, T* bits) {
  for (int i = 0; i < kLanes; ++i) bits[i] = lanes >> i & 1 ? T(0) : bits[i];
}
inline void define(Mask lanes, Mask& bits) { bits &= ~lanes; }

// While it lives, what moves data moves undefined bits instead.
class MovesUndefined {
 public:
  explicit MovesUndefined(Warp* w, Mask lanes) : w_(w), lanes_(lanes) {
    w_->pass = Pass::undefined;
    for (uint32_t& origin : w_->origins) origin = ~uint32_t{0};
  }
  ~MovesUndefined() { w_->pass = Pass::values; }
  MovesUndefined(const MovesUndefined&) = delete;
  MovesUndefined& operator=(const MovesUndefined&) = delete;

  // The origins of a register that is read: the first one with undefined bits counts.
  void give(Mask undefined, const uint32_t* origins) {
    undefined &= lanes_ & ~given_;
    given_ |= undefined;
    for (Mask rest = undefined; rest; rest &= rest - 1) {
      const int i = __builtin_ctz(rest);
      w_->origins[i] = origins[i];
    }
  }
  template <class T>
  void give(const T* bits, const uint32_t* origins) { give(undefined_lanes(bits), origins); }
  // All lanes get what one of them gave.
  void share() {
    if (given_ == 0) return;
    const uint32_t origin = w_->origins[__builtin_ctz(given_)];
    for (uint32_t& each : w_->origins) each = origin;
  }
  // The origins of a register that is written. A lane of a matrix holds what another lane has read.
  void take(uint32_t* origins) const {
    uint32_t any = ~uint32_t{0};
    for (uint32_t origin : w_->origins) any = any != ~uint32_t{0} ? any : origin;
    for (Mask rest = lanes_; rest; rest &= rest - 1) {
      const int i = __builtin_ctz(rest);
      origins[i] = w_->origins[i] != ~uint32_t{0} ? w_->origins[i] : any;
    }
  }
  void of_origins() { w_->pass = Pass::origins; }

 private:
  Warp* w_;
  Mask lanes_;
  Mask given_ = 0;
};

// A group of lanes has one result, undefined where one of their values is. Returns whose it is.
template <class Members>
Mask spoil(Mask lanes, Mask undefined, Members members, uint32_t* out) {
  Mask spoilt = 0;
  for (Mask rest = lanes; rest; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const bool lost = (members[i] & lanes & undefined) != 0;
    spoilt |= Mask(lost) << i;
    if (out) out[i] = lost ? ~uint32_t{0} : 0;
  }
  return spoilt;
}
template <class T, class Members>
Mask spoil(Mask lanes, const T* bits, Members members, uint32_t* out) {
  return spoil(lanes, undefined_lanes(bits), members, out);
}

// An element of D is undefined where one of its row of A, its column of B, or of C is.
void multiply_undefined(Warp* w, const Product& product, const void* const* a, const void* const* b,
                        const void* const* c, void* const* d);

// `exch`: what memory held moves to `out`, and `in` to memory. Shared addresses come zero-extended.
void exchange_undefined(Warp* w, uint32_t site, Mask lanes, Space space, const uint64_t* address,
                        int64_t offset, const uint32_t* in, uint32_t* out);
void exchange_undefined(Warp* w, uint32_t site, Mask lanes, Space space, const uint64_t* address,
                        int64_t offset, const uint64_t* in, uint64_t* out);

namespace undefined {

template <class T>
struct UnsignedLike { using type = Bits<T>; };
template <>
struct UnsignedLike<bool> { using type = bool; };
template <class T>
using U = typename UnsignedLike<T>::type;

template <class T>
EMU_OP T any(bool lost) { return lost ? T(~T(0)) : T(0); }
template <>
EMU_OP bool any(bool lost) { return lost; }

// A carry may change all bits above the lowest undefined one.
template <class T>
EMU_OP T upward(T bits) { return T(bits | (T(0) - bits)); }

template <class T>
EMU_OP U<T> mov(U<T>, U<T> da) { return da; }
template <class T>
EMU_OP U<T> bit_not(U<T>, U<T> da) { return da; }
// A zero that is known makes a zero, a one a one.
template <class T>
EMU_OP U<T> bit_and(U<T> a, U<T> da, U<T> b, U<T> db) {
  return U<T>((da & (b | db)) | (db & (a | da)));
}
template <class T>
EMU_OP U<T> bit_or(U<T> a, U<T> da, U<T> b, U<T> db) {
  return U<T>((da & (~b | db)) | (db & (~a | da)));
}
template <>
EMU_OP bool bit_or<bool>(bool a, bool da, bool b, bool db) {
  return (da && (!b || db)) || (db && (!a || da));
}
template <class T>
EMU_OP U<T> bit_xor(U<T>, U<T> da, U<T>, U<T> db) { return U<T>(da | db); }
// Undefined where both a zero and a one are possible.
EMU_OP uint32_t lop3(uint32_t a, uint32_t da, uint32_t b, uint32_t db, uint32_t c, uint32_t dc,
                     uint32_t table, uint32_t dtable) {
  uint32_t zero = 0, one = 0;
  for (uint32_t row = 0; row < 8; ++row) {
    const uint32_t possible = (da | ~(a ^ (0 - (row >> 2 & 1)))) & (db | ~(b ^ (0 - (row >> 1 & 1)))) &
                              (dc | ~(c ^ (0 - (row & 1))));
    (table >> row & 1 ? one : zero) |= possible;
  }
  return (zero & one) | any<uint32_t>(dtable != 0);
}

template <class T>
EMU_OP U<T> shl(U<T>, U<T> da, uint32_t n, uint32_t dn) {
  return U<T>(emu::shl<U<T>>(da, n) | any<U<T>>(dn != 0));
}
// The sign that is shifted in is as undefined as the top bit.
template <class T>
EMU_OP U<T> shr(U<T>, U<T> da, uint32_t n, uint32_t dn) {
  return U<T>(U<T>(emu::shr<T>(T(da), n)) | any<U<T>>(dn != 0));
}
EMU_OP uint32_t shf_l_wrap(uint32_t, uint32_t dl, uint32_t, uint32_t dh, uint32_t n, uint32_t dn) {
  return emu::shf_l_wrap(dl, dh, n) | any<uint32_t>(dn != 0);
}
EMU_OP uint32_t shf_r_wrap(uint32_t, uint32_t dl, uint32_t, uint32_t dh, uint32_t n, uint32_t dn) {
  return emu::shf_r_wrap(dl, dh, n) | any<uint32_t>(dn != 0);
}
EMU_OP uint32_t shf_l_clamp(uint32_t, uint32_t dl, uint32_t, uint32_t dh, uint32_t n, uint32_t dn) {
  return emu::shf_l_clamp(dl, dh, n) | any<uint32_t>(dn != 0);
}
EMU_OP uint32_t shf_r_clamp(uint32_t, uint32_t dl, uint32_t, uint32_t dh, uint32_t n, uint32_t dn) {
  return emu::shf_r_clamp(dl, dh, n) | any<uint32_t>(dn != 0);
}

template <class T>
EMU_OP U<T> brev(U<T>, U<T> da) { return emu::brev<U<T>>(da); }
template <class T>
EMU_OP U<T> bfe(U<T>, U<T> da, uint32_t p, uint32_t dp, uint32_t n, uint32_t dn) {
  return U<T>(U<T>(emu::bfe<T>(T(da), p, n)) | any<U<T>>((dp | dn) != 0));
}
template <class T>
EMU_OP U<T> bfi(U<T>, U<T> da, U<T>, U<T> db, uint32_t p, uint32_t dp, uint32_t n, uint32_t dn) {
  return U<T>(emu::bfi<T>(T(da), T(db), p, n) | any<U<T>>((dp | dn) != 0));
}
template <class T, bool Wrapped>
EMU_OP U<T> szext(U<T>, U<T> da, uint32_t n, uint32_t dn) {
  return U<T>(U<T>(emu::szext<T, Wrapped>(T(da), n)) | any<U<T>>(dn != 0));
}
EMU_OP uint32_t prmt(uint32_t, uint32_t dl, uint32_t, uint32_t dh, uint32_t s, uint32_t ds) {
  return emu::prmt(dl, dh, s) | any<uint32_t>((ds & 0xffff) != 0);
}

// Without a condition, bits in which both agree are the same.
template <class T>
EMU_OP U<T> selp(U<T> a, U<T> da, U<T> b, U<T> db, bool p, bool dp) {
  return dp ? U<T>(da | db | (a ^ b)) : p ? da : db;
}

template <class T>
EMU_OP U<T> add(U<T>, U<T> da, U<T>, U<T> db) { return upward(U<T>(da | db)); }
template <class T>
EMU_OP U<T> sub(U<T>, U<T> da, U<T>, U<T> db) { return upward(U<T>(da | db)); }
template <class T>
EMU_OP U<T> neg(U<T>, U<T> da) { return upward(da); }
// A factor that is known to be zero makes a zero.
template <class T>
EMU_OP bool lost(U<T> a, U<T> da, U<T> b, U<T> db) {
  return (da != 0 && (b | db) != 0) || (db != 0 && (a | da) != 0);
}
template <class T>
EMU_OP U<T> mul_lo(U<T> a, U<T> da, U<T> b, U<T> db) {
  return lost<T>(a, da, b, db) ? upward(U<T>(da | db)) : U<T>(0);
}
template <class T>
EMU_OP U<T> mad_lo(U<T> a, U<T> da, U<T> b, U<T> db, U<T>, U<T> dc) {
  return upward(U<T>(mul_lo<T>(a, da, b, db) | dc));
}
template <class T>
EMU_OP U<Wide<T>> mul_wide(U<T> a, U<T> da, U<T> b, U<T> db) {
  return lost<T>(a, da, b, db) ? upward(U<Wide<T>>(U<T>(da | db))) : U<Wide<T>>(0);
}
template <class T>
EMU_OP U<Wide<T>> mad_wide(U<T> a, U<T> da, U<T> b, U<T> db, U<Wide<T>>, U<Wide<T>> dc) {
  return upward(U<Wide<T>>(mul_wide<T>(a, da, b, db) | dc));
}

template <class D, class S>
EMU_OP U<D> cvt_int(U<S>, U<S> da) { return U<D>(D(S(da))); }

// Halves of a word that are computed apart.
EMU_OP uint32_t halves(uint32_t bits) {
  return (bits & 0xffff ? 0xffffu : 0u) | (bits >> 16 ? 0xffff0000u : 0u);
}
EMU_OP uint32_t pair(uint32_t high, uint32_t low) {
  return (high ? 0xffff0000u : 0u) | (low ? 0xffffu : 0u);
}

}  // namespace undefined
}  // namespace emu
