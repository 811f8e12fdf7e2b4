// Who owns which bytes of the arena during a call.
#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/certain.h"
#include "device/fault.h"
#include "device/pages.h"
#include "device/streams.h"
#include "device/undefined.h"

namespace emu {
namespace {

constexpr uint64_t kAllocationAlign = 256;  // as cudaMalloc: sector counts depend on it


bool starts_before(const Allocation& a, uint64_t address) { return a.begin < address; }

void insert(const Allocation& one) {
  auto& all = device().allocations;
  all.insert(std::lower_bound(all.begin(), all.end(), one.begin, starts_before), one);
}

void forget_bytes(const Allocation& one) {
  Device& d = device();
  clear_bits(d.initialised, one.begin - d.base, one.end - one.begin);
}

// Gives the pages back and leaves zeros, so that nothing survives into the next call.
void drop_pages(uint64_t begin_offset, uint64_t end_offset) {
  Device& d = device();
  uint64_t begin = begin_offset / 4096 * 4096;
  uint64_t end = std::min(round_up(end_offset, 4096), d.bytes);
  if (begin < end) madvise(d.host(d.base + begin), end - begin, MADV_REMOVE);
}

// First fit between the live scratch allocations, a gap on both sides of each.
uint64_t find_room(uint64_t bytes) {
  Device& d = device();
  uint64_t at = round_up(d.base + d.scratch_begin + kGap, kAllocationAlign);
  for (const Allocation& one : d.allocations) {
    if (one.kind != AllocationKind::scratch) continue;
    if (at + bytes + kGap <= one.begin) return at;
    at = std::max(at, round_up(one.end + kGap, kAllocationAlign));
  }
  return at + bytes + kGap <= d.base + d.scratch_end ? at : 0;
}

}  // namespace

const Allocation* find_allocation(uint64_t address) {
  const Heap& heap = device().heap;
  if (address >= heap.begin && address < heap.end) return find_piece(address);
  const auto& all = device().allocations;
  auto after = std::upper_bound(
      all.begin(), all.end(), address,
      [](uint64_t value, const Allocation& one) { return value < one.begin; });
  if (after == all.begin()) return nullptr;
  const Allocation& one = *(after - 1);
  return address < one.end ? &one : nullptr;
}

const Allocation* nearest_allocation(uint64_t address, bool* freed) {
  const Device& d = device();
  *freed = false;
  for (const Allocation& one : d.freed) {
    if (address >= one.begin && address < one.end && find_allocation(address) == nullptr) {
      *freed = true;
      return &one;
    }
  }
  if (address >= d.heap.begin && address < d.heap.end) {
    const Allocation* piece = piece_before(address);
    if (piece != nullptr && piece->begin != 0) return piece;
  }
  const Allocation* best = nullptr;
  uint64_t best_distance = ~uint64_t{0};
  for (const Allocation& one : d.allocations) {
    if (one.kind == AllocationKind::workspace) continue;
    uint64_t distance = address < one.begin    ? one.begin - address
                        : address >= one.end ? address - one.end + 1
                                             : 0;
    if (distance < best_distance) {
      best = &one;
      best_distance = distance;
    }
  }
  // A wild pointer is not "near" anything.
  return best_distance <= (uint64_t{1} << 32) || d.contains(address) ? best : nullptr;
}

uint64_t device_malloc(uint64_t bytes) {
  Device& d = device();
  // A task states its quota in the bytes a kernel asks for; what alignment adds is not counted.
  bool over_quota = bytes > d.options.scratch_bytes - d.scratch_used;
  uint64_t at = over_quota ? 0 : find_room(round_up(std::max<uint64_t>(bytes, 1), kAllocationAlign));
  if (at == 0) {
    if (d.report->allocation_failed == 0) {
      d.report->allocation_failed = over_quota ? 1 : 2;
      d.report->refused_bytes = bytes;
      d.report->allowed_bytes = d.options.scratch_bytes;
    }
    return 0;
  }
  Allocation one{at, at + bytes, AllocationKind::scratch, d.scratch_count++, true, false, true};
  insert(one);
  forget_bytes(one);
  d.scratch_used += bytes;
  d.report->held_bytes += bytes;
  ++d.report->held_allocations;
  return at;
}

bool device_free(uint64_t address) {
  Device& d = device();
  for (auto one = d.allocations.begin(); one != d.allocations.end(); ++one) {
    if (one->begin != address || one->kind != AllocationKind::scratch) continue;
    d.scratch_used -= one->end - one->begin;
    d.report->held_bytes -= one->end - one->begin;
    --d.report->held_allocations;
    d.freed.push_back(*one);
    d.allocations.erase(one);
    return true;
  }
  return false;
}

bool is_device_address(uint64_t address) { return device().contains(address); }

}  // namespace emu

extern "C" void emu_begin(const emu::CallOptions* options) {
  using namespace emu;
  Device& d = device();
  d.options = *options;
  d.expired = 0;
  d.brought_bytes = 0;
  d.begun_ns = d.block_ended_ns = now_ns();
  if (d.options.level > 3) refuse(Fault::infrastructure, "unknown level");
  d.allocations.clear();
  d.freed.clear();
  d.residents.clear();
  forget_undefined();
  d.scratch_used = 0;
  d.scratch_count = 0;
  d.heap.top = d.heap.begin;
  d.heap.live = 0;
  d.heap.pieces.clear();
  for (const Allocation& one : d.permanent) insert(one);
  uint64_t top = 0;
  for (uint32_t i = 0; i < options->buffer_count; ++i) {
    const CallBuffer& buffer = options->buffers[i];
    if (buffer.bytes > d.scratch_end || buffer.offset > d.scratch_end - buffer.bytes) {
      refuse(Fault::infrastructure, "a buffer lies outside the arena");
    }
    bool tracked = buffer.role == static_cast<uint32_t>(BufferRole::out);
    uint64_t begin = d.base + buffer.offset;
    bool watched = buffer.role != static_cast<uint32_t>(BufferRole::in);
    Allocation one{begin, begin + buffer.bytes, AllocationKind::buffer, buffer.index, tracked,
                   false, watched};
    if (buffer.pool_bytes != 0) take_pool(one, buffer);
    insert(one);
    if (tracked) forget_bytes(one);
    // Pages are filled from a pool during the call, so no scratch may lie on a pool.
    top = std::max({top, buffer.offset + buffer.bytes, buffer.pool_offset + buffer.pool_bytes});
  }
  top = std::max(top, options->certain_offset + options->certain_bytes);
  forget_certain();
  // The last buffer has a guard behind it that the referee looks at.
  d.scratch_begin = round_up(top + kGap, 4096);
  uint64_t bytes = d.report_bytes;
  *d.report = Report{};
  d.report->magic = kReportMagic;
  d.report->bytes = bytes;
  begin_streams();
}

extern "C" void emu_end(void) {
  using namespace emu;
  Device& d = device();
  end_streams();
  check_outputs();
  const CallOptions& options = d.options;
  if (options.certain_bytes != 0) {
    auto* to = reinterpret_cast<uint64_t*>(d.host(d.base + options.certain_offset));
    report_certain(to, options.certain_bytes);
  }
  uint64_t highest = d.scratch_begin;
  for (const auto* list : {&d.allocations, &d.freed}) {
    for (const Allocation& one : *list) {
      if (one.kind == AllocationKind::scratch) highest = std::max(highest, one.end - d.base);
    }
  }
  if (highest > d.scratch_begin) drop_pages(d.scratch_begin, std::min(highest, d.scratch_end));
  if (d.heap.top > d.heap.begin) drop_pages(d.heap.begin - d.base, d.heap.top - d.base);
  d.heap.pieces.clear();
  d.allocations.clear();
  d.freed.clear();
  d.options.buffers = nullptr;
  // A call with a race is no call that came back.
  if (d.report->races[0].fault != 0) _exit(kFaultExit);
}
