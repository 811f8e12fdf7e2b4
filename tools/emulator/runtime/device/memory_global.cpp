// Loads and stores of global and constant memory.
#include "device/account.h"
#include "device/certain.h"
#include "device/checks.h"
#include "device/races.h"
#include "device/strong_accesses.h"
#include "device/undefined.h"
#include "emu/memory.h"

namespace emu {
namespace {

// What strong writes have replaced, for the lanes that do not see them yet.
template <class T, int N>
void read_late(const Lanes<uint64_t>& at, Mask lanes, T* const (&out)[N]) {
  const Device& d = device();
  const auto* earlier = reinterpret_cast<const uint8_t*>(d.earlier);
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint8_t* from = earlier + (at.address[lane] - d.base);
    for (int n = 0; n < N; ++n) {
      if (out[n] != nullptr) out[n][lane] = raw_load<T>(from + static_cast<size_t>(n) * sizeof(T));
    }
  }
}

template <class T, int N>
void load(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
          T* const (&out)[N], SpaceNumber space) {
  constexpr uint32_t kBytes = sizeof(T) * N;
  Lanes<uint64_t> at(address, offset, lanes, kBytes);
  if (w->pass != Pass::values) return undefined_of_global<T, N>(w, site, lanes, at, out);
  const Allocation* one = check_global(w, site, lanes, at, kBytes, AccessNumber::read, space);
  if (!w->tracked) check_global_known(w, site, lanes, at, kBytes, one, AccessNumber::read);
  read_for_certain(w, lanes, at, one, w->launch->kernel->sites[site].steers);
  Mask late = 0;
  if (space == SpaceNumber::global && watches_races(w, one)) {
    check_race_read(w, site, lanes, at, kBytes);
    if ((site_traits(w, site) & kStrong) != 0) {
      late = reads_earlier(w, lanes, at, kBytes);
      acquire_lanes(w, site, lanes, at);
    }
  }
  gather<T, N>(reinterpret_cast<const uint8_t*>(w->launch->delta), at, lanes, out);
  if (late != 0) read_late<T, N>(at, late, out);
  if ((site_traits(w, site) & kAcquire) != 0) polled(w, kTurn / 64);
  if (!w->block->counted) return;
  if (space == SpaceNumber::constant) {
    account_const(w, site, lanes, at.address);
  } else {
    const bool polls = (site_traits(w, site) & kAcquire) != 0;
    account_global(w, site, lanes, at, AccessNumber::read, polls);
  }
}

}  // namespace

template <class T, int N>
void load_global(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
                 T* const (&out)[N]) {
  load<T, N>(w, site, lanes, address, offset, out, SpaceNumber::global);
}

template <class T, int N>
void load_const(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
                T* const (&out)[N]) {
  load<T, N>(w, site, lanes, address, offset, out, SpaceNumber::constant);
}

template <class T, int N>
void store_global(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
                  const T* const (&in)[N]) {
  constexpr uint32_t kBytes = sizeof(T) * N;
  Lanes<uint64_t> at(address, offset, lanes, kBytes);
  if (w->pass != Pass::values) return undefine_global<T, N>(w, site, lanes, at, in);
  const Allocation* one = check_global(w, site, lanes, at, kBytes, AccessNumber::write);
  if (watches_races(w, one)) {
    const void* values[N];
    for (int n = 0; n < N; ++n) values[n] = in[n];
    check_race_write(w, site, lanes, at, sizeof(T), N, values);
    release_lanes(w, site, lanes, at, false);
    if ((site_traits(w, site) & kStrong) != 0) keep_earlier(w, lanes, at, kBytes);
  }
  scatter<T, N>(reinterpret_cast<uint8_t*>(w->launch->delta), at, lanes, in);
  mark_global_known(lanes, at, kBytes, one);
  store_for_certain(w, lanes, at, kBytes, one);
  if (w->block->counted) account_global(w, site, lanes, at, AccessNumber::write);
}

#define EMU_DEFINE(T, N)                                                                       \
  template void load_global<T, N>(Warp*, uint32_t, Mask, const uint64_t*, int64_t,             \
                                  T* const (&)[N]);                                            \
  template void load_const<T, N>(Warp*, uint32_t, Mask, const uint64_t*, int64_t,              \
                                 T* const (&)[N]);                                             \
  template void store_global<T, N>(Warp*, uint32_t, Mask, const uint64_t*, int64_t,            \
                                   const T* const (&)[N]);
EMU_FOR_EACH_ELEMENT(EMU_DEFINE)
#undef EMU_DEFINE

}  // namespace emu
