#include "device/fault.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

#include "device/run.h"

namespace emu {
namespace {

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

// A block of which part is left out, or that has read what blocks that were left out should have written,
// may come to where no block of the whole grid can.
bool follows_from_sample(const Warp* w) {
  if (w == nullptr) return false;
  const BlockRun& block = *run_of(const_cast<Warp*>(w)).home;
  return block.uncertain || block.launch->sampling.most_trips != kNone;
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

}  // namespace

void raise(const FaultAt& at) {
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

void keep_guarded_race(const FaultAt& at) {
  const auto lines = std::minmax(at.site, at.other_site);
  for (FaultRecord& record : device().report->guarded) {
    if (record.fault == 0) {
      describe(record, at);
      record.fault = static_cast<uint32_t>(at.fault);
      return;
    }
    if (record.kernel == at.warp->launch->kernel_index &&
        std::minmax(record.site, record.other_site) == lines) {
      return;
    }
  }
}

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
