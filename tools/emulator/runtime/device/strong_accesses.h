// Strong loads, stores and atomics of global memory where races are looked for: what they publish and
// learn, and how late they may be seen. Between strong accesses there is no race, and no order either:
// a load may find what a word held before the last store of another block.
#pragma once

#include "device/lanes.h"
#include "device/run.h"

namespace emu {

// What a strong access to global memory publishes, and what it learns.
void release_lanes(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at, bool adds);
void acquire_lanes(Warp* w, uint32_t site, Mask lanes, const Lanes<uint64_t>& at);
// Keeps what the words hold before a strong write replaces it.
void keep_earlier(Warp* w, Mask lanes, const Lanes<uint64_t>& at, uint32_t bytes);
void keep_earlier(Warp* w, Mask lanes, const Lanes<uint32_t>& at, uint32_t bytes);
// The lanes that read what their words held before their last strong write: another block made it,
// nothing orders the two, and the block has not read the word since.
Mask reads_earlier(Warp* w, Mask lanes, const Lanes<uint64_t>& at, uint32_t bytes);
// The same of shared memory, where another lane of the warp made it by a store of one word.
Mask reads_earlier(Warp* w, Mask lanes, const Lanes<uint32_t>& at, uint32_t bytes);

}  // namespace emu
