// Buffers whose pages are filled where they are touched: gigabytes of input cost what is read.
#pragma once

#include "device/lanes.h"
#include "device/state.h"

namespace emu {

constexpr uint64_t kPageBytes = 4096;

// Lets the buffer's pages be filled from the pool that the call names for it.
void take_pool(Allocation& one, const CallBuffer& buffer);

// Fills the pages of an allocation that has a pool, where they are not filled.
void fill_pages(const Allocation& one, uint64_t begin, uint64_t end);

// The same of what lanes are about to access; `one` is null where they hit several allocations.
void fill_touched(const Allocation* one, const Lanes<uint64_t>& at, Mask lanes, uint32_t bytes);

}  // namespace emu
