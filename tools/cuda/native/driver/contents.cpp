#include "contents.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace driver {
namespace {

// Steele, Lea and Flood's splitmix64, as a number in [0, 1).
double next(std::uint64_t& state)
{
    std::uint64_t mixed = (state += 0x9e3779b97f4a7c15ull);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
    return static_cast<double>((mixed ^ (mixed >> 31)) >> 11) * 0x1p-53;
}

// IEEE half precision, rounded towards zero; below its smallest normal number zero.
struct Half {
    std::uint16_t bits;
    explicit Half(double number)
    {
        int exponent = 0;
        const double fraction = std::frexp(std::fabs(number), &exponent);
        const int biased = exponent + 14;
        const auto mantissa = static_cast<std::uint16_t>((fraction * 2 - 1) * 1024);
        const std::uint16_t sign = std::signbit(number) ? 0x8000 : 0;
        const bool tiny = number == 0 || biased < 1;
        bits = tiny ? sign : static_cast<std::uint16_t>(sign | (biased << 10) | mantissa);
    }
};

// bfloat16, the upper half of a float, rounded towards zero.
struct Bfloat16 {
    std::uint16_t bits;
    explicit Bfloat16(double number)
    {
        const auto single = static_cast<float>(number);
        std::uint32_t word = 0;
        std::memcpy(&word, &single, sizeof(word));
        bits = static_cast<std::uint16_t>(word >> 16);
    }
};

// A float of 8 bits, rounded towards zero; below its smallest normal number zero.
template <int FractionBits, int Bias, int LargestPattern>
struct Byte {
    std::uint8_t bits;
    explicit Byte(double number)
    {
        int exponent = 0;
        const double fraction = std::frexp(std::fabs(number), &exponent);
        const int biased = exponent + Bias - 1;
        const auto pattern = (biased << FractionBits)
            | static_cast<int>((fraction * 2 - 1) * (1 << FractionBits));
        const bool tiny = number == 0 || biased < 1;
        const int sign = std::signbit(number) ? 0x80 : 0;
        bits = static_cast<std::uint8_t>(sign | (tiny ? 0 : std::min(pattern, LargestPattern)));
    }
};

// A complex number with equal parts.
template <class T>
struct Pair {
    T real, imaginary;
    explicit Pair(double number) : real(static_cast<T>(number)), imaginary(real) {}
};

template <class T>
std::vector<unsigned char> fill(size_t count, double low, double high, std::uint64_t seed)
{
    std::vector<unsigned char> bytes(count * sizeof(T));
    for (size_t index = 0; index < count; ++index) {
        const double number = low + (high - low) * next(seed);
        T value = [number] {
            if constexpr (std::is_integral_v<T>) {
                return static_cast<T>(static_cast<std::int64_t>(std::floor(number)));
            } else {
                return static_cast<T>(number);
            }
        }();
        std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
    }
    return bytes;
}

}  // namespace

std::vector<unsigned char> draw(const std::string& dtype, size_t count, double low, double high,
                                std::uint64_t seed)
{
    const struct {
        const char* dtype;
        std::vector<unsigned char> (*fill)(size_t, double, double, std::uint64_t);
    } known[] = {
        {"float16", fill<Half>},        {"bfloat16", fill<Bfloat16>},
        {"float8_e4m3fn", fill<Byte<3, 7, 0x7e>>}, {"float8_e5m2", fill<Byte<2, 15, 0x7b>>},
        {"complex64", fill<Pair<float>>}, {"complex128", fill<Pair<double>>},
        {"float32", fill<float>},
        {"float64", fill<double>},      {"int8", fill<std::int8_t>},
        {"int16", fill<std::int16_t>},  {"int32", fill<std::int32_t>},
        {"int64", fill<std::int64_t>},  {"uint8", fill<std::uint8_t>},
        {"uint16", fill<std::uint16_t>}, {"uint32", fill<std::uint32_t>},
        {"uint64", fill<std::uint64_t>}, {"bool", fill<std::uint8_t>},
    };
    for (const auto& one : known) {
        if (dtype == one.dtype) {
            return one.fill(count, low, high, seed);
        }
    }
    return {};
}

}  // namespace driver
