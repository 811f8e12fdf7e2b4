// Generic addresses: the window of each lane decides the space, its rank the block.
#include "device/cluster.h"
#include "emu/memory.h"

namespace emu {
namespace {

struct Windows {
  Mask shared = 0, local = 0, global = 0;
  Mask cluster = 0;  // shared memory by the rank of its block
  alignas(64) uint32_t low[kLanes];

  Windows(Mask lanes, const uint64_t* address, int64_t offset) {
    for (int i = 0; i < kLanes; ++i) {
      Mask bit = lanes & Mask{1} << i;
      low[i] = static_cast<uint32_t>(address[i]);
      if (bit == 0) continue;
      uint64_t window = (address[i] + static_cast<uint64_t>(offset)) & kWindowMask;
      if (window == kSharedWindow && low[i] + static_cast<uint32_t>(offset) > kOffsetMask) {
        cluster |= bit;
        continue;
      }
      (window == kSharedWindow ? shared : window == kLocalWindow ? local : global) |= bit;
    }
  }
};

}  // namespace

template <class T, int N>
void load_generic(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
                  T* const (&out)[N]) {
  Windows in(lanes, address, offset);
  if (in.global != 0) load_global<T, N>(w, site, in.global, address, offset, out);
  if (in.shared != 0) load_shared<T, N>(w, site, in.shared, in.low, offset, out);
  if (in.local != 0) load_local<T, N>(w, site, in.local, in.low, offset, out);
  if (in.cluster == 0) return;
  each_block(w, site, in.cluster, in.low, offset, sizeof(T) * N, AccessNumber::read,
             [&](BlockRun& target, Mask some, const uint32_t* inside) {
               Visit visit(w, target);
               load_shared<T, N>(w, site, some, inside, 0, out);
               wait_for_cluster(w, site, target);
             });
}

template <class T, int N>
void store_generic(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
                   const T* const (&in)[N]) {
  Windows to(lanes, address, offset);
  if (to.global != 0) store_global<T, N>(w, site, to.global, address, offset, in);
  if (to.shared != 0) store_shared<T, N>(w, site, to.shared, to.low, offset, in);
  if (to.local != 0) store_local<T, N>(w, site, to.local, to.low, offset, in);
  if (to.cluster == 0) return;
  each_block(w, site, to.cluster, to.low, offset, sizeof(T) * N, AccessNumber::write,
             [&](BlockRun& target, Mask some, const uint32_t* inside) {
               Visit visit(w, target);
               store_shared<T, N>(w, site, some, inside, 0, in);
             });
}

#define EMU_DEFINE(T, N)                                                                       \
  template void load_generic<T, N>(Warp*, uint32_t, Mask, const uint64_t*, int64_t,            \
                                   T* const (&)[N]);                                           \
  template void store_generic<T, N>(Warp*, uint32_t, Mask, const uint64_t*, int64_t,           \
                                    const T* const (&)[N]);
EMU_FOR_EACH_ELEMENT(EMU_DEFINE)
#undef EMU_DEFINE

}  // namespace emu
