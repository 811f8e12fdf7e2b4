// Reproducible orders and samples.
#pragma once

#include <cstdint>

namespace emu {

// A number that looks random, the same for the same argument.
uint64_t mixed(uint64_t x);

// Position `i` of the order of `n` things that `seed` stands for: 0 ascending, 1 descending, others
// a shuffle.
uint64_t permuted(uint64_t seed, uint64_t n, uint64_t i);

// Is thing `i` one of `count` evenly spaced ones of `n`, first and last included?
bool is_sampled(uint64_t i, uint64_t n, uint64_t count);

// The same with one thing of each of `count` equal stretches, which one depends on `seed`: whoever is
// sampled cannot tell. Seed 0: the evenly spaced ones.
bool is_drawn(uint64_t seed, uint64_t i, uint64_t n, uint64_t count);

}  // namespace emu
