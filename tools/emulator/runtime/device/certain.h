// Which bytes of the outputs a sampled call is sure of: what they hold follows from the inputs and from
// blocks that were executed whole, as if all blocks had been. Others may compare them.
#pragma once

#include "device/lanes.h"
#include "device/run.h"

namespace emu {

// A block's load or atomic with a result. What a block may not know makes all that it stores uncertain,
// and all that it does where the value steers the kernel.
void read_for_certain(Warp* w, Mask lanes, const Lanes<uint64_t>& at, const Allocation* one, bool steers);
void read_for_certain(Warp* w, uint64_t address);
// The values of a block are made up.
void be_uncertain(Warp* w, bool steers);
void store_for_certain(Warp* w, Mask lanes, const Lanes<uint64_t>& at, uint32_t bytes, const Allocation* one);
// Several blocks may add to these bytes, so nobody knows what they hold.
void blur(Warp* w, const Lanes<uint64_t>& at, Mask lanes, const Allocation* one);
void blur(Warp* w, uint64_t address);

void begin_certain(BlockRun& block);
// Keeps what the block has stored, if it has been executed whole.
void end_certain(BlockRun& block);

// The host copies or fills; `from` and `to` are null where that is not in device memory, and `whole` is
// false where less is copied than was asked for.
void copied(const Allocation* from, const Allocation* to, bool whole);

// A launch is executed in part: what blocks of the launches before stored may be overwritten by blocks
// that are not executed, and what its own blocks stored so far, by blocks that were cut short.
void begin_certain_anew();

void forget_certain();
// Writes how many ranges there are, then begin and length of each in the arena, at most as many as fit:
// evenly spread ones, the first and the last among them.
void report_certain(uint64_t* to, uint64_t capacity_bytes);

}  // namespace emu
