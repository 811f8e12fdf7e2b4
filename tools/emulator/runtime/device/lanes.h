// Lane addresses of one memory instruction, and moving values between memory and lane arrays.
#pragma once

#include <cstdint>
#include <cstring>

#include "emu/warp.h"

namespace emu {

constexpr Mask kFull = ~Mask{0};

// Memory is bytes to everybody; lanes read it as what they please.
template <class T>
struct Raw {
  using type [[gnu::may_alias]] = T;
};

template <class T>
inline T raw_load(const uint8_t* from) {
  return *reinterpret_cast<const typename Raw<T>::type*>(from);
}

template <class T>
inline void raw_store(uint8_t* to, T value) {
  *reinterpret_cast<typename Raw<T>::type*>(to) = value;
}

// Addresses of all lanes; those outside the mask repeat an active one, so that loops over all 32
// need no mask. U is uint64_t, or uint32_t where addresses wrap.
template <class U>
struct Lanes {
  alignas(64) U address[kLanes];
  U low, high;  // smallest and largest
  U bits;       // low bits are those set in any address: alignment
  bool consecutive;

  Lanes(const U* from, int64_t offset, Mask lanes, uint32_t step) {
    U shift = static_cast<U>(offset);
    if (lanes == kFull) {
      for (int i = 0; i < kLanes; ++i) address[i] = static_cast<U>(from[i] + shift);
    } else {
      U first = static_cast<U>(from[__builtin_ctz(lanes)] + shift);
      for (int i = 0; i < kLanes; ++i) {
        address[i] = (lanes >> i & 1) != 0 ? static_cast<U>(from[i] + shift) : first;
      }
    }
    U base = address[0];
    U apart = 0;
    U differ = 0;
    for (int i = 0; i < kLanes; ++i) {
      apart |= address[i] ^ static_cast<U>(base + static_cast<U>(i) * step);
      differ |= address[i] ^ base;
    }
    bits = base | differ;
    low = high = base;
    consecutive = apart == 0 && static_cast<U>(base + U{kLanes} * step) > base;
    if (consecutive) high = address[kLanes - 1];
    if (consecutive || differ == 0) return;
    for (int i = 0; i < kLanes; ++i) low = address[i] < low ? address[i] : low;
    for (int i = 0; i < kLanes; ++i) high = address[i] > high ? address[i] : high;
  }

  bool uniform() const { return low == high; }
};

// Addresses are aligned: the checks have passed.
template <class T, int N, class U>
void gather(const uint8_t* memory, const Lanes<U>& at, Mask lanes, T* const (&out)[N]) {
  for (int n = 0; n < N; ++n) {
    T* to = out[n];
    if (to == nullptr) continue;
    const uint8_t* from = memory + n * sizeof(T);
    alignas(64) T value[kLanes];
    if (at.low == at.high) {
      T one = raw_load<T>(from + at.low);
      for (int i = 0; i < kLanes; ++i) value[i] = one;
    } else if (N == 1 && at.consecutive) {
      std::memcpy(value, from + at.low, sizeof value);
    } else {
      for (int i = 0; i < kLanes; ++i) value[i] = raw_load<T>(from + at.address[i]);
    }
    if (lanes == kFull) {
      std::memcpy(to, value, sizeof value);
    } else {
      for (int i = 0; i < kLanes; ++i) to[i] = (lanes >> i & 1) != 0 ? value[i] : to[i];
    }
  }
}

// Where lanes write one address, the highest lane wins.
template <class T, int N, class U>
void scatter(uint8_t* memory, const Lanes<U>& at, Mask lanes, const T* const (&in)[N]) {
  if (N == 1 && at.consecutive && lanes == kFull) {
    std::memcpy(memory + at.low, in[0], sizeof(T) * kLanes);
    return;
  }
  if (lanes == kFull) {
    for (int i = 0; i < kLanes; ++i) {
      for (int n = 0; n < N; ++n) raw_store<T>(memory + at.address[i] + n * sizeof(T), in[n][i]);
    }
    return;
  }
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int i = __builtin_ctz(rest);
    uint8_t* to = memory + at.address[i];
    for (int n = 0; n < N; ++n) raw_store<T>(to + n * sizeof(T), in[n][i]);
  }
}

}  // namespace emu
