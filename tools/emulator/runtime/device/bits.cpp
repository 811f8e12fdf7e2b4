#include <cstring>

#include <sys/mman.h>

#include "device/state.h"

namespace emu {
namespace {

uint8_t upper(uint64_t from) { return static_cast<uint8_t>(0xff << (from & 7)); }
uint8_t lower(uint64_t to) { return static_cast<uint8_t>((1u << (to & 7)) - 1); }

constexpr ptrdiff_t kManyBytes = 1 << 20;
constexpr uint64_t kPage = 4096;

// Whole pages of many are given back, and read as zeros.
void clear_bytes(uint8_t* begin, uint8_t* end) {
  if (end - begin < kManyBytes) {
    std::memset(begin, 0, static_cast<size_t>(end - begin));
    return;
  }
  auto* first = reinterpret_cast<uint8_t*>((reinterpret_cast<uint64_t>(begin) + kPage - 1) / kPage * kPage);
  auto* last = reinterpret_cast<uint8_t*>(reinterpret_cast<uint64_t>(end) / kPage * kPage);
  std::memset(begin, 0, static_cast<size_t>(first - begin));
  madvise(first, static_cast<size_t>(last - first), MADV_DONTNEED);
  std::memset(last, 0, static_cast<size_t>(end - last));
}

}  // namespace

bool all_set(const uint8_t* bits, uint64_t first, uint64_t count) {
  if (count == 0) return true;
  uint64_t last = first + count;
  uint64_t head = first >> 3;
  uint64_t tail = last >> 3;
  if (head == tail) {
    uint8_t want = upper(first) & lower(last);
    return (bits[head] & want) == want;
  }
  if ((bits[head] & upper(first)) != upper(first)) return false;
  uint64_t at = head + 1;
  for (; at + 8 <= tail; at += 8) {
    uint64_t word;
    std::memcpy(&word, bits + at, 8);
    if (word != ~uint64_t{0}) return false;
  }
  for (; at < tail; ++at) {
    if (bits[at] != 0xff) return false;
  }
  return (last & 7) == 0 || (bits[tail] & lower(last)) == lower(last);
}

void set_bits(uint8_t* bits, uint64_t first, uint64_t count) {
  if (count == 0) return;
  uint64_t last = first + count;
  uint64_t head = first >> 3;
  uint64_t tail = last >> 3;
  if (head == tail) {
    bits[head] = static_cast<uint8_t>(bits[head] | (upper(first) & lower(last)));
    return;
  }
  bits[head] = static_cast<uint8_t>(bits[head] | upper(first));
  std::memset(bits + head + 1, 0xff, tail - head - 1);
  if ((last & 7) != 0) bits[tail] = static_cast<uint8_t>(bits[tail] | lower(last));
}

void clear_bits(uint8_t* bits, uint64_t first, uint64_t count) {
  if (count == 0) return;
  uint64_t last = first + count;
  uint64_t head = first >> 3;
  uint64_t tail = last >> 3;
  if (head == tail) {
    bits[head] = static_cast<uint8_t>(bits[head] & ~(upper(first) & lower(last)));
    return;
  }
  bits[head] = static_cast<uint8_t>(bits[head] & ~upper(first));
  clear_bytes(bits + head + 1, bits + tail);
  if ((last & 7) != 0) bits[tail] = static_cast<uint8_t>(bits[tail] & ~lower(last));
}

}  // namespace emu
