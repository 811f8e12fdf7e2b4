// Device memory that kernels allocate themselves. No address is given out twice in a call, so what is used
// after it was freed is always seen, and allocations of different threads never race.
#include "device/certain.h"
#include "device/checks.h"
#include "emu/memory.h"

namespace emu {
namespace {

constexpr uint64_t kHeapAlign = 16;
constexpr uint64_t kBetween = 64;  // bytes of nothing between pieces
constexpr uint64_t kMostLive = uint64_t{8} << 20;  // cudaLimitMallocHeapSize, unless it is set
constexpr size_t kMostPieces = size_t{1} << 21;
constexpr size_t kMostFreed = 4096;  // that messages can name

uint64_t take(Warp* w, uint32_t site, int lane, uint64_t bytes) {
  Device& d = device();
  Heap& heap = d.heap;
  const uint64_t size = round_up(std::max<uint64_t>(bytes, 1), kHeapAlign);
  // Blocks that are cut short free less than they take.
  const bool limited = w->launch->level != kSampleLevel;
  if (bytes > kMostLive || (limited && heap.live + size > kMostLive)) return 0;
  if (heap.pieces.size() >= kMostPieces || heap.end - heap.top < size + kBetween) {
    raise({.fault = Fault::unsupported, .warp = w, .lane = lane, .site = site});
  }
  const uint64_t begin = heap.top;
  heap.top += round_up(size + kBetween, kHeapAlign);
  heap.live += size;
  const auto number = static_cast<uint32_t>(heap.pieces.size());
  heap.pieces[begin] = {begin, begin + bytes, AllocationKind::heap, number, true, false, true};
  clear_bits(d.initialised, begin - d.base, size);
  d.report->held_bytes += bytes;
  ++d.report->held_allocations;
  return begin;
}

}  // namespace

const Allocation* find_piece(uint64_t address) {
  const auto& pieces = device().heap.pieces;
  auto after = pieces.upper_bound(address);
  if (after == pieces.begin()) return nullptr;
  const Allocation& one = (--after)->second;
  return address >= one.begin && address < one.end ? &one : nullptr;
}

const Allocation* piece_before(uint64_t address) {
  const auto& pieces = device().heap.pieces;
  auto after = pieces.upper_bound(address);
  return after == pieces.begin() ? nullptr : &(--after)->second;
}

void heap_malloc(Warp* w, uint32_t site, Mask lanes, const uint64_t* bytes, uint64_t* address) {
  be_uncertain(w, true);
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = lowest(rest);
    address[lane] = take(w, site, lane, bytes[lane]);
  }
}

void heap_free(Warp* w, uint32_t site, Mask lanes, const uint64_t* address) {
  Device& d = device();
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = lowest(rest);
    if (address[lane] == 0) continue;
    const auto found = d.heap.pieces.find(address[lane]);
    if (found == d.heap.pieces.end() || found->second.begin != address[lane]) {
      raise({.fault = Fault::out_of_bounds, .warp = w, .lane = lane, .site = site,
             .space = SpaceNumber::global, .access = AccessNumber::write, .bytes = 1,
             .address = address[lane]});
    }
    Allocation& one = found->second;
    d.heap.live -= round_up(std::max<uint64_t>(one.end - one.begin, 1), kHeapAlign);
    d.report->held_bytes -= one.end - one.begin;
    --d.report->held_allocations;
    if (d.freed.size() < kMostFreed) d.freed.push_back(one);
    // Warps remember the allocation that they used last, so its place is kept, and holds nothing.
    one.begin = one.end = 0;
  }
}

}  // namespace emu
