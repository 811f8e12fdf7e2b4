// How many blocks of a kernel an SM holds.
#pragma once

#include <cstdint>

#include "emu/warp.h"

namespace emu {

// Registers are handed out to warps in units of 256.
uint32_t registers_of_block(const Kernel& kernel, uint32_t threads);

}  // namespace emu
