// The memory functions are compiled once, in the runtime: generated code only calls them, which
// keeps it quick to compile. One call serves 32 lanes, so its cost does not show.
#pragma once

#include "emu/memory.h"

namespace emu {

#define EMU_FOR_EACH_ELEMENT(X) \
  X(uint8_t, 1) X(uint8_t, 2) X(uint8_t, 4) \
  X(uint16_t, 1) X(uint16_t, 2) X(uint16_t, 4) \
  X(uint32_t, 1) X(uint32_t, 2) X(uint32_t, 4) X(uint32_t, 8) \
  X(uint64_t, 1) X(uint64_t, 2) X(uint64_t, 4)

#define EMU_DECLARE(T, N)                                                                         \
  extern template void load_global<T, N>(Warp*, uint32_t, Mask, const uint64_t*, int64_t,         \
                                         T* const (&)[N]);                                        \
  extern template void load_const<T, N>(Warp*, uint32_t, Mask, const uint64_t*, int64_t,          \
                                        T* const (&)[N]);                                         \
  extern template void load_generic<T, N>(Warp*, uint32_t, Mask, const uint64_t*, int64_t,        \
                                          T* const (&)[N]);                                       \
  extern template void load_shared<T, N>(Warp*, uint32_t, Mask, const uint32_t*, int64_t,         \
                                         T* const (&)[N]);                                        \
  extern template void load_local<T, N>(Warp*, uint32_t, Mask, const uint32_t*, int64_t,          \
                                        T* const (&)[N]);                                         \
  extern template void store_global<T, N>(Warp*, uint32_t, Mask, const uint64_t*, int64_t,        \
                                          const T* const (&)[N]);                                 \
  extern template void store_generic<T, N>(Warp*, uint32_t, Mask, const uint64_t*, int64_t,       \
                                           const T* const (&)[N]);                                \
  extern template void store_shared<T, N>(Warp*, uint32_t, Mask, const uint32_t*, int64_t,        \
                                          const T* const (&)[N]);                                 \
  extern template void store_local<T, N>(Warp*, uint32_t, Mask, const uint32_t*, int64_t,         \
                                         const T* const (&)[N]);

EMU_FOR_EACH_ELEMENT(EMU_DECLARE)
#undef EMU_DECLARE

}  // namespace emu
