// Undefined bits of memory, where a kernel tracks them: moved between memory and lane arrays as loads
// and stores move values. Checks and counts are made with the values, maybe later: what lies outside
// is passed over here.
#pragma once

#include "device/lanes.h"
#include "device/run.h"

namespace emu {

// The number of the place where an undefined value was read that nobody has written.
uint32_t origin_of_read(Warp* w, uint32_t site, int lane, SpaceNumber space, uint64_t address,
                        uint32_t bytes);

// Eight bits of each byte, all set where nobody has written it; `origin` says where they come from, and
// stays as it is where nobody has stored an undefined value there.
uint8_t undefined_byte(uint64_t address, uint32_t* origin);
void undefine_byte(Warp* w, uint32_t site, int lane, uint64_t address, uint8_t bits, uint32_t origin);
// What is undefined there goes along with a copy of the host API.
void copy_undefined(uint64_t to, uint64_t from, uint64_t bytes);
void forget_undefined();
// Ends the call with a fault where an undefined value stands in an output.
void check_outputs();

void remember_origins(std::unordered_map<uint32_t, uint32_t>& origins, uint32_t address,
                      uint32_t bytes, uint32_t origin);
uint32_t known_origin(const std::unordered_map<uint32_t, uint32_t>& origins, uint32_t address,
                      uint32_t bytes);

template <class T, int N>
T undefined_any(T* const (&out)[N], int lane) {
  T any = 0;
  for (int n = 0; n < N; ++n) any = static_cast<T>(any | (out[n] == nullptr ? T{0} : out[n][lane]));
  return any;
}

template <class T, int N>
void undefined_of_shared(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                         T* const (&out)[N]) {
  const BlockRun& block = *run_of(w).block;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (uint64_t{at.address[lane]} + sizeof(T) * N > block.block.shared_bytes) continue;
    const uint8_t* known = block.shared_known.data() + at.address[lane];
    for (int n = 0; n < N; ++n) {
      if (out[n] == nullptr) continue;
      out[n][lane] = static_cast<T>(~raw_load<T>(known + static_cast<size_t>(n) * sizeof(T)));
    }
    if (undefined_any(out, lane) == 0) continue;
    const uint32_t origin = known_origin(block.origins, at.address[lane], sizeof(T) * N);
    w->origins[lane] = origin != kNone ? origin
                                       : origin_of_read(w, site, lane, SpaceNumber::shared,
                                                        at.address[lane], sizeof(T) * N);
  }
}

template <class T, int N>
void undefine_shared(Warp* w, Mask lanes, const Lanes<uint32_t>& at, const T* const (&in)[N]) {
  BlockRun& block = *run_of(w).block;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (uint64_t{at.address[lane]} + sizeof(T) * N > block.block.shared_bytes) continue;
    T any = 0;
    for (int n = 0; n < N; ++n) {
      any = static_cast<T>(any | in[n][lane]);
      raw_store<T>(block.shared_known.data() + at.address[lane] + static_cast<size_t>(n) * sizeof(T),
                   static_cast<T>(~in[n][lane]));
    }
    if (any == 0) continue;
    block.known_prefix = std::min(block.known_prefix, at.address[lane]);
    remember_origins(block.origins, at.address[lane], sizeof(T) * N, w->origins[lane]);
  }
}

// `own`: addresses in the lane's local memory, `at`: in the warp's.
template <class T, int N>
void undefined_of_local(Warp* w, uint32_t site, Mask lanes, const Lanes<uint32_t>& at,
                        const Lanes<uint32_t>& own, T* const (&out)[N]) {
  const WarpRun& run = run_of(w);
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (uint64_t{own.address[lane]} + sizeof(T) * N > w->launch->kernel->local_bytes) continue;
    for (int n = 0; n < N; ++n) {
      if (out[n] == nullptr) continue;
      out[n][lane] = raw_load<T>(run.local_undefined.data() + at.address[lane] +
                                 static_cast<size_t>(n) * sizeof(T));
    }
    if (undefined_any(out, lane) == 0) continue;
    const uint32_t origin = known_origin(run.local_origins, at.address[lane], sizeof(T) * N);
    w->origins[lane] = origin != kNone ? origin
                                       : origin_of_read(w, site, lane, SpaceNumber::local,
                                                        own.address[lane], sizeof(T) * N);
  }
}

template <class T, int N>
void undefine_local(Warp* w, Mask lanes, const Lanes<uint32_t>& at, const T* const (&in)[N]) {
  WarpRun& run = run_of(w);
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    T any = 0;
    for (int n = 0; n < N; ++n) {
      any = static_cast<T>(any | in[n][lane]);
      raw_store<T>(run.local_undefined.data() + at.address[lane] + static_cast<size_t>(n) * sizeof(T),
                   in[n][lane]);
    }
    if (any != 0) {
      remember_origins(run.local_origins, at.address[lane], sizeof(T) * N, w->origins[lane]);
    }
  }
}

template <class T, int N>
void undefined_of_global(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                         T* const (&out)[N]) {
  const Device& d = device();
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint64_t address = at.address[lane];
    for (int n = 0; n < N; ++n) {
      if (out[n] != nullptr) out[n][lane] = 0;
    }
    if (!d.contains(address) || all_set(d.initialised, address - d.base, sizeof(T) * N)) continue;
    const Allocation* one = find_allocation(address);
    if (one == nullptr || !one->tracked) continue;
    uint32_t origin = kNone;
    for (uint32_t i = 0; i < sizeof(T) * N; ++i) {
      const uint8_t bits = undefined_byte(address + i, &origin);
      T* to = out[i / sizeof(T)];
      if (to != nullptr) to[lane] = static_cast<T>(to[lane] | T{bits} << 8 * (i % sizeof(T)));
    }
    if (undefined_any(out, lane) == 0) continue;
    w->origins[lane] = origin != kNone ? origin
                                       : origin_of_read(w, site, lane, SpaceNumber::global, address,
                                                        sizeof(T) * N);
  }
}

template <class T, int N>
void undefine_global(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at,
                     const T* const (&in)[N]) {
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (find_allocation(at.address[lane]) == nullptr) continue;
    set_bits(device().initialised, at.address[lane] - device().base, sizeof(T) * N);
    for (uint32_t i = 0; i < sizeof(T) * N; ++i) {
      const auto bits = static_cast<uint8_t>(in[i / sizeof(T)][lane] >> 8 * (i % sizeof(T)));
      if (bits != 0) undefine_byte(w, site, lane, at.address[lane] + i, bits, w->origins[lane]);
    }
  }
}

}  // namespace emu
