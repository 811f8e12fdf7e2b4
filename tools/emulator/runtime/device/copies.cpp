// memset and memcpy of the host API. They take device time like kernels, so they are counted.
#include <algorithm>
#include <cstring>

#include "device/certain.h"
#include "device/l2.h"
#include "device/pages.h"
#include "device/undefined.h"

namespace emu {
namespace {

constexpr uint64_t kMostWritten = uint64_t{16} << 20;

Allocation* allocation_of(uint64_t address, uint64_t bytes) {
  auto* one = const_cast<Allocation*>(find_allocation(address));
  // What a kernel allocated is none of the host's.
  const bool usable = one != nullptr && one->kind != AllocationKind::heap;
  return usable && bytes <= one->end - address ? one : nullptr;
}

void now_initialised(Allocation& one, uint64_t address, uint64_t bytes) {
  if (!one.tracked) return;
  if (bytes == one.end - one.begin) {
    one.tracked = false;
  } else {
    set_bits(device().initialised, address - device().base, bytes);
  }
}

// Copying uninitialised bytes is no fault; they stay uninitialised.
void copy_shadow(Allocation& target, uint64_t to, uint64_t from, uint64_t bytes) {
  const Device& d = device();
  if (!target.tracked) set_bits(d.initialised, target.begin - d.base, target.end - target.begin);
  target.tracked = true;
  std::vector<bool> known(bytes);
  for (uint64_t i = 0; i < bytes; ++i) known[i] = all_set(d.initialised, from - d.base + i, 1);
  for (uint64_t i = 0; i < bytes; ++i) {
    (known[i] ? set_bits : clear_bits)(d.initialised, to - d.base + i, 1);
  }
  copy_undefined(to, from, bytes);
}

uint64_t sectors(uint64_t address, uint64_t bytes) {
  return (address + bytes + 31) / 32 - address / 32;
}

// Is this a further piece of the transfer before it: as large (the last may be smaller), and as far
// from the piece before as that was from its own? Who asks may be hostile, so saying so is not enough.
bool goes_on(Transfer next) {
  Transfer& last = device().transfer;
  const uint64_t to_step = next.to - last.to, from_step = next.from - last.from;
  const bool alike = next.kind == last.kind && next.bytes <= last.bytes;
  const bool even = (last.to_step | last.from_step) == 0 ||
                    (to_step == last.to_step && from_step == last.from_step);
  next.to_step = to_step;
  next.from_step = from_step;
  last = next;
  return alike && even && (to_step | from_step) != 0;
}

void count(bool part, const Transfer& one, uint64_t moved_sectors, uint64_t host_bytes) {
  Report& report = *device().report;
  if (part && goes_on(one)) {
    ++report.pieces;
  } else {
    ++report.copies;
    device().transfer = one;
  }
  report.copied_sectors += moved_sectors;
  report.host_bytes += host_bytes;
}

// Are these words what the module itself says, addresses of functions among them? They tell the host
// nothing about data: it reads them to pass a function to a kernel.
bool tells_functions(const Allocation& one, uint64_t from, uint64_t bytes) {
  if (one.kind != AllocationKind::variable || (from - one.begin) % 8 != 0 || bytes % 8 != 0) return false;
  const Variable& variable = device().module->variables[one.index];
  bool found = false;
  for (uint64_t at = from - one.begin; at < from - one.begin + bytes; at += 8) {
    uint64_t said = 0, held = 0;
    if (at < variable.initial_bytes) {
      std::memcpy(&said, variable.initial + at, std::min<uint64_t>(8, variable.initial_bytes - at));
    }
    std::memcpy(&held, device().host(one.begin + at), 8);
    if (held != said) return false;
    found |= said - kFirstFunction < kFunctions;
  }
  return found;
}

// Where launches are sampled, contents beyond the first megabytes matter to nobody.
uint64_t written(uint64_t bytes) {
  return device().options.level == kSampleLevel ? std::min(bytes, kMostWritten) : bytes;
}

}  // namespace

CudaError device_set(uint64_t address, int value, uint64_t bytes, bool part) {
  if (bytes == 0) return kSuccess;
  Allocation* one = allocation_of(address, bytes);
  if (one == nullptr) return kInvalidValue;
  const auto kind = 256 + static_cast<uint32_t>(static_cast<uint8_t>(value));
  count(part, {kind, address, 0, bytes, 0, 0}, sectors(address, bytes), 0);
  if (device().options.level == kSampleLevel) fill_pages(*one, address, address + 1);
  copied(nullptr, one, written(bytes) == bytes);
  std::memset(device().host(address), value, written(bytes));
  now_initialised(*one, address, bytes);
  leave_in_l2(*one, address, bytes);
  return kSuccess;
}

CudaError copy_to_device(uint64_t to, const void* from, uint64_t bytes, bool part) {
  if (bytes == 0) return kSuccess;
  Allocation* one = allocation_of(to, bytes);
  if (one == nullptr) return kInvalidValue;
  count(part, {1, to, 0, bytes, 0, 0}, sectors(to, bytes), bytes);
  copied(nullptr, one, true);
  std::memcpy(device().host(to), from, bytes);
  now_initialised(*one, to, bytes);
  leave_in_l2(*one, to, bytes);
  return kSuccess;
}

CudaError copy_from_device(void* to, uint64_t from, uint64_t bytes, bool part) {
  if (bytes == 0) return kSuccess;
  const Allocation* one = allocation_of(from, bytes);
  if (one == nullptr) return kInvalidValue;
  const bool of_data = !tells_functions(*one, from, bytes);
  if (of_data && device().options.device_to_host == 0) refuse_copy(Fault::host_copy, 0);
  count(part, {2, 0, from, bytes, 0, 0}, sectors(from, bytes), bytes);
  if (of_data) copied(one, nullptr, true);
  fill_pages(*one, from, from + bytes);
  std::memcpy(to, device().host(from), bytes);
  return kSuccess;
}

CudaError copy_on_device(uint64_t to, uint64_t from, uint64_t bytes, bool part) {
  if (bytes == 0) return kSuccess;
  Allocation* target = allocation_of(to, bytes);
  Allocation* source = allocation_of(from, bytes);
  if (target == nullptr || source == nullptr) return kInvalidValue;
  Device& d = device();
  count(part, {3, to, from, bytes, 0, 0}, sectors(to, bytes) + sectors(from, bytes), 0);
  leave_in_l2(*source, from, bytes);
  leave_in_l2(*target, to, bytes);
  copied(source, target, written(bytes) == bytes);
  fill_pages(*source, from, from + written(bytes));
  std::memmove(d.host(to), d.host(from), written(bytes));
  bool known = !source->tracked || all_set(d.initialised, from - d.base, bytes);
  if (known) {
    now_initialised(*target, to, bytes);
  } else {
    copy_shadow(*target, to, from, bytes);
  }
  return kSuccess;
}

}  // namespace emu
