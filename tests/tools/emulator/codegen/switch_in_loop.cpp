// What `-funswitch-loops` of g++ 13.3 makes wrong code of: elements packed into words, at a width that
// a switch tells anew for each.
#include <cstdint>

namespace {

enum class Element : uint8_t { half, bfloat, tf32, e4m3, e5m2, single, real, s8, u8, s32 };

uint32_t bytes_of(Element element) {
  switch (element) {
    case Element::real: return 8;
    case Element::tf32:
    case Element::single:
    case Element::s32: return 4;
    case Element::half:
    case Element::bfloat: return 2;
    default: return 1;
  }
}

uint32_t element_of(Element element, const uint32_t* words, uint32_t index) {
  const uint32_t bytes = bytes_of(element);
  const uint32_t packed = bytes >= 4 ? 1 : 4 / bytes;
  const uint32_t word = words[index / packed];
  if (element == Element::tf32) return word >> 13;
  if (packed == 1) return word;
  const uint32_t bits = 32 / packed;
  return word >> (index % packed * bits) & ((1u << bits) - 1);
}

}  // namespace

extern "C" void unpack(uint32_t* to, uint32_t element, const uint32_t* words, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) to[i] = element_of(static_cast<Element>(element), words, i);
}
