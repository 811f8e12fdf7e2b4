// Loads and stores of shared and local memory.
#include "device/account.h"
#include "device/checks.h"
#include "device/races.h"
#include "device/strong_accesses.h"
#include "device/undefined.h"
#include "emu/memory.h"

namespace emu {
namespace {

// Each lane's local memory is its own: turns addresses inside it into addresses of the warp's.
Lanes<uint32_t> in_warp(Warp* w, const Lanes<uint32_t>& at) {
  alignas(64) uint32_t address[kLanes];
  uint32_t stride = static_cast<uint32_t>(local_stride(*w->launch->kernel));
  for (uint32_t i = 0; i < kLanes; ++i) address[i] = at.address[i] + i * stride;
  return Lanes<uint32_t>(address, 0, kFull, 0);
}

}  // namespace

template <class T, int N>
void load_shared(Warp* w, uint32_t site, Mask lanes, const uint32_t* address, int64_t offset,
                 T* const (&out)[N]) {
  constexpr uint32_t kBytes = sizeof(T) * N;
  Lanes<uint32_t> at(address, offset, lanes, kBytes);
  if (w->pass != Pass::values) return undefined_of_shared<T, N>(w, site, lanes, at, out);
  check_window(w, site, lanes, at, kBytes, w->block->shared_bytes, AccessNumber::read,
               SpaceNumber::shared);
  check_shared_known<T, N>(w, site, lanes, at, AccessNumber::read, Tracks::yes);
  if ((site_traits(w, site) & kAcquire) != 0) {
    order_after_others(w);
    polled(w, kTurn / 64);
  }
  Mask late = 0;
  if (watches_races(w)) {
    check_race_read(w, site, lanes, at, kBytes);
    if ((site_traits(w, site) & kStrong) != 0) late = reads_earlier(w, lanes, at, kBytes);
  }
  gather<T, N>(w->block->shared, at, lanes, out);
  for (Mask rest = late; rest != 0 && sizeof(T) == 4 && N == 1; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (out[0] != nullptr) out[0][lane] = static_cast<T>(run_of(w).block->earlier[at.address[lane] / 4]);
  }
  if (!w->block->counted) return;
  const bool polls = (site_traits(w, site) & kAcquire) != 0;
  account_shared(w, site, lanes, at, kBytes, AccessNumber::read, polls);
}

template <class T, int N>
void store_shared(Warp* w, uint32_t site, Mask lanes, const uint32_t* address, int64_t offset,
                  const T* const (&in)[N]) {
  constexpr uint32_t kBytes = sizeof(T) * N;
  Lanes<uint32_t> at(address, offset, lanes, kBytes);
  if (w->pass != Pass::values) return undefine_shared<T, N>(w, lanes, at, in);
  check_window(w, site, lanes, at, kBytes, w->block->shared_bytes, AccessNumber::write,
               SpaceNumber::shared);
  if (watches_races(w)) {
    const void* values[N];
    for (int n = 0; n < N; ++n) values[n] = in[n];
    check_race_write(w, site, lanes, at, sizeof(T), N, values);
    if ((site_traits(w, site) & kStrong) != 0) keep_earlier(w, lanes, at, kBytes);
  }
  scatter<T, N>(w->block->shared, at, lanes, in);
  mark_shared_known<T, N>(w, site, lanes, at);
  if (w->block->counted) account_shared(w, site, lanes, at, kBytes, AccessNumber::write);
}

template <class T, int N>
void load_local(Warp* w, uint32_t site, Mask lanes, const uint32_t* address, int64_t offset,
                T* const (&out)[N]) {
  constexpr uint32_t kBytes = sizeof(T) * N;
  Lanes<uint32_t> at(address, offset, lanes, kBytes);
  if (w->pass != Pass::values) return undefined_of_local<T, N>(w, site, lanes, in_warp(w, at), at, out);
  check_window(w, site, lanes, at, kBytes, w->launch->kernel->local_bytes, AccessNumber::read,
               SpaceNumber::local);
  gather<T, N>(w->local, in_warp(w, at), lanes, out);
  if (w->block->counted) {
    account_local(w, site, lanes, at.address, kBytes, AccessNumber::read);
  }
}

template <class T, int N>
void store_local(Warp* w, uint32_t site, Mask lanes, const uint32_t* address, int64_t offset,
                 const T* const (&in)[N]) {
  constexpr uint32_t kBytes = sizeof(T) * N;
  Lanes<uint32_t> at(address, offset, lanes, kBytes);
  if (w->pass != Pass::values) return undefine_local<T, N>(w, lanes, in_warp(w, at), in);
  check_window(w, site, lanes, at, kBytes, w->launch->kernel->local_bytes, AccessNumber::write,
               SpaceNumber::local);
  scatter<T, N>(w->local, in_warp(w, at), lanes, in);
  if (w->block->counted) {
    account_local(w, site, lanes, at.address, kBytes, AccessNumber::write);
  }
}

#define EMU_DEFINE(T, N)                                                                       \
  template void load_shared<T, N>(Warp*, uint32_t, Mask, const uint32_t*, int64_t,             \
                                  T* const (&)[N]);                                            \
  template void store_shared<T, N>(Warp*, uint32_t, Mask, const uint32_t*, int64_t,            \
                                   const T* const (&)[N]);                                     \
  template void load_local<T, N>(Warp*, uint32_t, Mask, const uint32_t*, int64_t,              \
                                 T* const (&)[N]);                                             \
  template void store_local<T, N>(Warp*, uint32_t, Mask, const uint32_t*, int64_t,             \
                                  const T* const (&)[N]);
EMU_FOR_EACH_ELEMENT(EMU_DEFINE)
#undef EMU_DEFINE

}  // namespace emu
