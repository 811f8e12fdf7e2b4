#include "device/fault.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

#include "device/run.h"

namespace emu {
namespace {

// Back-edges that a launch may still take after a race: a part of a second.
constexpr uint64_t kFuelAfterRace = uint64_t{1} << 22;

void copy_text(char* to, size_t size, const char* from) {
  size_t length = strnlen(from, size - 1);
  std::memcpy(to, from, length);
  std::memset(to + length, 0, size - length);
}

void name_allocation(FaultRecord& record, uint64_t address) {
  bool freed = false;
  const Allocation* near = nearest_allocation(address, &freed);
  if (near == nullptr) return;
  record.allocation_kind = static_cast<uint32_t>(near->kind);
  record.allocation_index = near->index;
  record.allocation_freed = freed ? 1 : 0;
  record.allocation_offset = static_cast<int64_t>(address - near->begin);
  record.allocation_bytes = near->end - near->begin;
}

// A block of which part is left out, or that goes by what blocks that were left out should have written,
// may come to where no block of the whole grid can.
bool follows_from_sample(const Warp* w) {
  if (w == nullptr) return false;
  const BlockRun& block = *run_of(const_cast<Warp*>(w)).home;
  return block.misled || block.launch->sampling.most_trips != kNone;
}

void describe(FaultRecord& record, const FaultAt& at) {
  record = FaultRecord{};
  record.kernel = at.kernel;
  record.site = at.site;
  record.other_site = at.other_site;
  record.other_kernel = at.other_kernel;
  record.basic_block = at.basic_block;
  record.space = static_cast<uint32_t>(at.space);
  record.access = static_cast<uint32_t>(at.access);
  record.other_access = static_cast<uint32_t>(at.other_access);
  record.bytes = at.bytes;
  record.reason = static_cast<uint32_t>(at.reason);
  record.copy_site = at.copy_site;
  record.copy_state = static_cast<uint32_t>(at.copy_state);
  record.address = at.address;
  if (at.warp != nullptr) {
    record.kernel = at.warp->launch->kernel_index;
    for (int axis = 0; axis < 3; ++axis) {
      record.block[axis] = run_of(at.warp).home->block.ctaid[axis];
      record.thread[axis] = at.warp->tid[axis][at.lane];
    }
  }
  if (at.block != nullptr) {
    std::copy(at.block, at.block + 3, record.block);
    std::copy(at.thread, at.thread + 3, record.thread);
  }
  if (at.space == SpaceNumber::global || at.space == SpaceNumber::constant) {
    name_allocation(record, at.address);
  } else {
    record.allocation_offset = static_cast<int64_t>(at.address);
    record.allocation_bytes = at.space_bytes;
  }
  copy_text(record.detail, sizeof record.detail, at.detail);
}

// The line of an instruction; where that is not known, the instruction itself.
uint64_t line_of(uint32_t kernel_index, uint32_t site) {
  const Kernel& k = kernel(kernel_index);
  const uint64_t line = site < k.site_count ? k.sites[site].line : 0;
  return line != 0 ? line : uint64_t{site} << 32;
}

// Keeps the first race of each two lines of a kernel, in whichever order; false: there is no room.
template <size_t N>
bool keep(FaultRecord (&records)[N], const FaultAt& at) {
  const uint32_t index = at.warp->launch->kernel_index;
  const auto lines = std::minmax({line_of(index, at.site), line_of(index, at.other_site)});
  for (FaultRecord& record : records) {
    if (record.fault == 0) {
      describe(record, at);
      record.fault = static_cast<uint32_t>(at.fault);
      return true;
    }
    if (record.kernel == index &&
        std::minmax({line_of(index, record.site), line_of(index, record.other_site)}) == lines) {
      return true;
    }
  }
  return false;
}

// What may follow from a race, or from stopping a while after one: no fault of the source by itself. A
// read of what nobody wrote may decide nothing, where that is not followed.
bool is_no_finding(const FaultAt& at) {
  switch (at.fault) {
    case Fault::endless_loop:
    case Fault::unsupported:
    case Fault::infrastructure:
    case Fault::dependent:
      return true;
    case Fault::uninitialised:
      return at.warp != nullptr && !at.warp->tracked;
    default:
      return false;
  }
}

}  // namespace

void raise(const FaultAt& at) {
  if (device().report->races[0].fault != 0 && is_no_finding(at)) _exit(kFaultExit);
  if (at.warp != nullptr && at.fault != Fault::race) {
    // What follows from a value that was never written is not the news.
    BlockRun& block = *run_of(at.warp).block;
    if (block.doubtful.open) settle_doubtful(block);
  }
  FaultRecord& record = device().report->fault;
  describe(record, at);
  record.fault = static_cast<uint32_t>(follows_from_sample(at.warp) ? Fault::dependent : at.fault);
  _exit(kFaultExit);
}

void keep_race(const FaultAt& at, bool earliest) {
  Report& report = *device().report;
  if (earliest && report.races[kRaces - 1].fault == 0) {
    std::copy_backward(report.races, report.races + kRaces - 1, report.races + kRaces);
    report.races[0] = {};
  }
  if (report.races[1].fault == 0) {
    device().options.fuel = kFuelAfterRace;
    int64_t& fuel = run_of(at.warp).home->launch->fuel;
    fuel = std::min(fuel, static_cast<int64_t>(kFuelAfterRace));
  }
  if (!keep(report.races, at)) _exit(kFaultExit);
}

void keep_guarded_race(const FaultAt& at) { keep(device().report->guarded, at); }

void refuse(Fault fault, const char* detail) {
  FaultAt at{.fault = fault};
  at.detail = detail;
  raise(at);
}

void refuse_copy(Fault fault, uint64_t most_bytes) {
  FaultAt at{.fault = fault};
  at.address = most_bytes;
  raise(at);
}

void host_touched_device(uint64_t address) {
  FaultAt at{.fault = Fault::host_touched_device};
  at.space = SpaceNumber::global;
  at.address = address;
  raise(at);
}

}  // namespace emu

extern "C" void emu_touched(uint64_t address) {
  if (emu::device().contains(address)) emu::host_touched_device(address);
}
