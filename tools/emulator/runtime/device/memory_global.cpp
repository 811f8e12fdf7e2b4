// Loads and stores of global and constant memory.
#include "device/account.h"
#include "device/checks.h"
#include "emu/memory.h"

namespace emu {
namespace {

template <class T, int N>
void load(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
          T* const (&out)[N], SpaceNumber space) {
  constexpr uint32_t kBytes = sizeof(T) * N;
  Lanes<uint64_t> at(address, offset, lanes, kBytes);
  const Allocation* one = check_global(w, site, lanes, at, kBytes, AccessNumber::read, space);
  check_global_known(w, site, lanes, at, kBytes, one, AccessNumber::read);
  gather<T, N>(reinterpret_cast<const uint8_t*>(w->launch->delta), at, lanes, out);
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
  const Allocation* one = check_global(w, site, lanes, at, kBytes, AccessNumber::write);
  scatter<T, N>(reinterpret_cast<uint8_t*>(w->launch->delta), at, lanes, in);
  mark_global_known(lanes, at, kBytes, one);
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

}  // namespace emu
