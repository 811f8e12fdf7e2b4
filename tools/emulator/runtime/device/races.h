// Races, at level full: two threads touch a word of shared or global memory, one of them writes it,
// and nothing orders the two (happens_before.h). Lanes of one warp are threads like others: they need
// to meet. Accesses that are strong to each other do not race, nor does a write of the value that is
// there already. The words of `in` buffers, which nobody may write, are not watched.
//
// A plain read that an atomic update is not ordered with is kept apart where it only decides whether
// such an update is made (codegen/guards.py): no result depends on it.
//
// Each word remembers its last write, what that hides of writes by others (HiddenWrites), and two of
// its last readers: the first one since, and the last.
#pragma once

#include "device/happens_before.h"
#include "device/lanes.h"
#include "device/run.h"

namespace emu {

template <class U>
void check_race_read(Warp* w, uint32_t site, Mask lanes, const Lanes<U>& at, uint32_t bytes);
// `in` points to the values about to be stored: element n of lane i is at in[n] + i * width.
template <class U>
void check_race_write(Warp* w, uint32_t site, Mask lanes, const Lanes<U>& at, uint32_t width,
                      uint32_t count, const void* const* in);
template <class U>
void check_race_atomic(Warp* w, uint32_t site, Mask lanes, const Lanes<U>& at, uint32_t bytes,
                       bool observes);

inline bool watches_races(const Warp* w) { return w->launch->level == 2; }
inline bool watches_races(const Warp* w, const Allocation* one) {
  return watches_races(w) && (one == nullptr || one->watched);
}

}  // namespace emu
