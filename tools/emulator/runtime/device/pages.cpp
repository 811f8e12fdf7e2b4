#include "device/pages.h"

#include <algorithm>

#include "device/order.h"

namespace emu {
namespace {

constexpr uint64_t kNearPages = 4;  // fewer than these between the lanes: all are filled

bool is_filled(const Device& d, uint64_t page) { return (d.filled[page >> 3] >> (page & 7) & 1) != 0; }

// Every page has the contents of some page of the pool, wherever a block is that reads it.
void fill_page(Device& d, const Allocation& one, uint64_t page) {
  const uint64_t begin = std::max(one.begin, d.base + page * kPageBytes);
  const uint64_t end = std::min(one.end, d.base + (page + 1) * kPageBytes);
  const uint64_t from = one.pool + mixed(page) % one.pool_pages * kPageBytes + (begin - d.base) % kPageBytes;
  std::memcpy(d.host(begin), reinterpret_cast<const uint8_t*>(from), end - begin);
  d.filled[page >> 3] = static_cast<uint8_t>(d.filled[page >> 3] | 1u << (page & 7));
}

}  // namespace

void take_pool(Allocation& one, const CallBuffer& buffer) {
  Device& d = device();
  if (buffer.pool_bytes % kPageBytes != 0 || buffer.pool_bytes > d.bytes ||
      buffer.pool_offset > d.bytes - buffer.pool_bytes) {
    refuse(Fault::infrastructure, "a pool lies outside the arena");
  }
  one.pool = reinterpret_cast<uint64_t>(d.host(d.base + buffer.pool_offset));
  one.pool_pages = buffer.pool_bytes / kPageBytes;
  const uint64_t first = (one.begin - d.base) / kPageBytes;
  const uint64_t last = (one.end - 1 - d.base) / kPageBytes;
  clear_bits(d.filled, first, last - first + 1);
}

void fill_pages(const Allocation& one, uint64_t begin, uint64_t end) {
  Device& d = device();
  if (one.pool_pages == 0 || begin >= end) return;
  const uint64_t last = (end - 1 - d.base) / kPageBytes;
  for (uint64_t page = (begin - d.base) / kPageBytes; page <= last; ++page) {
    if (!is_filled(d, page)) fill_page(d, one, page);
  }
}

void fill_touched(const Allocation* one, const Lanes<uint64_t>& at, Mask lanes, uint32_t bytes) {
  if (one != nullptr && one->pool_pages == 0) return;
  if (one != nullptr && (at.high - at.low) / kPageBytes < kNearPages) {
    fill_pages(*one, at.low, at.high + bytes);
    return;
  }
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const uint64_t address = at.address[__builtin_ctz(rest)];
    const Allocation* hit = one != nullptr ? one : find_allocation(address);
    if (hit != nullptr) fill_pages(*hit, address, address + bytes);
  }
}

}  // namespace emu
