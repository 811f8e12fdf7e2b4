// What the spelling of an opcode says about ordering.
#pragma once

#include <cstdint>
#include <vector>

#include "emu/warp.h"

namespace emu {

std::vector<uint16_t> traits_of_sites(const Kernel& kernel);

}  // namespace emu
