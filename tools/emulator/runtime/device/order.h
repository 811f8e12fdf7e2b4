// Reproducible orders.
#pragma once

#include <cstdint>

#include "cudart/mixed.h"

namespace emu {

using cudart::mixed;

// Position `i` of the order of `n` things that `seed` stands for: 0 ascending, 1 descending, others
// a shuffle.
uint64_t permuted(uint64_t seed, uint64_t n, uint64_t i);

}  // namespace emu
