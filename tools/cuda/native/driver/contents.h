// What inputs hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace driver {

// `count` elements of a NumPy dtype, uniform in [low, high); whole numbers are rounded down. Empty
// for a dtype that is none.
std::vector<unsigned char> draw(const std::string& dtype, size_t count, double low, double high,
                                std::uint64_t seed);

}  // namespace driver
