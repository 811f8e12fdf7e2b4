// How values are stored and reinterpreted: raw bits of a register against typed values of an
// operation. Everything here and in the headers beside it works on one lane, without branches where
// it can, so that a loop over 32 lanes becomes vector code.
#pragma once

#include <cstdint>

// A lane function must dissolve into the loop around it even at -O1.
#define EMU_OP [[gnu::always_inline]] inline

namespace emu {

template <int Bytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> { using type = uint8_t; };
template <>
struct UnsignedOf<2> { using type = uint16_t; };
template <>
struct UnsignedOf<4> { using type = uint32_t; };
template <>
struct UnsignedOf<8> { using type = uint64_t; };

// Unsigned integer of T's width.
template <class T>
using Bits = typename UnsignedOf<sizeof(T)>::type;

template <int Bytes>
struct SignedOf;
template <>
struct SignedOf<1> { using type = int8_t; };
template <>
struct SignedOf<2> { using type = int16_t; };
template <>
struct SignedOf<4> { using type = int32_t; };
template <>
struct SignedOf<8> { using type = int64_t; };

template <class T>
constexpr bool kSigned = T(-1) < T(0);
template <class T>
constexpr bool kFloating = false;
template <>
inline constexpr bool kFloating<float> = true;
template <>
inline constexpr bool kFloating<double> = true;
template <class T>
constexpr int kBits = int(sizeof(T)) * 8;

// Unsigned type in which T's arithmetic wraps: small types would be promoted to signed int.
template <class T>
using Wrap = typename UnsignedOf<(sizeof(T) < 4 ? 4 : int(sizeof(T)))>::type;

// Twice T's width, same signedness.
template <class T>
struct WideOf;
template <>
struct WideOf<uint16_t> { using type = uint32_t; };
template <>
struct WideOf<int16_t> { using type = int32_t; };
template <>
struct WideOf<uint32_t> { using type = uint64_t; };
template <>
struct WideOf<int32_t> { using type = int64_t; };
template <>
struct WideOf<uint64_t> { using type = unsigned __int128; };
template <>
struct WideOf<int64_t> { using type = __int128; };
template <class T>
using Wide = typename WideOf<T>::type;

template <class T>
constexpr T kMax = T(kSigned<T> ? Bits<T>(~Bits<T>(0)) >> 1 : ~Bits<T>(0));
template <class T>
constexpr T kMin = T(kSigned<T> ? Bits<T>(1) << (kBits<T> - 1) : Bits<T>(0));

// Reads a T from the low bits of a register.
template <class T, class Raw>
EMU_OP T from_bits(Raw raw) {
  return __builtin_bit_cast(T, Bits<T>(raw));
}

EMU_OP uint32_t to_bits(float value) { return __builtin_bit_cast(uint32_t, value); }
EMU_OP uint64_t to_bits(double value) { return __builtin_bit_cast(uint64_t, value); }
template <class T>
EMU_OP Bits<T> to_bits(T value) {
  return Bits<T>(value);
}

// Fills a register of type Raw: integers keep their value, so signed ones extend their sign.
template <class Raw, class T>
EMU_OP Raw to_register(T value) {
  if constexpr (kFloating<T>) {
    return Raw(to_bits(value));
  } else {
    return Raw(value);
  }
}

}  // namespace emu
