// The translated module: its kernels by name, its variables in the arena.
#include <algorithm>
#include <cstring>

#include <unistd.h>

#include "device/state.h"

namespace emu {
namespace {

// Of all variables together. Pages that kernels write become memory of this machine.
constexpr uint64_t kHeapBytes = uint64_t{1} << 30;
constexpr uint64_t kVariablesBytes = uint64_t{2} << 30;

// Takes room from the top of the arena.
uint64_t reserve(uint64_t bytes, uint64_t align) {
  Device& d = device();
  uint64_t step = std::max<uint64_t>(align, 256);
  const uint64_t taken = d.bytes - d.scratch_end;
  const uint64_t room = std::min(kVariablesBytes, d.bytes / 2);
  if (bytes > room || taken + bytes + kGap + step > room) {
    d.report->allocation_failed = 3;
    d.report->refused_bytes = bytes;
    _exit(kFaultExit);
  }
  d.scratch_end = (d.scratch_end - bytes - kGap) / step * step;
  return d.base + d.scratch_end;
}

void place_variable(uint32_t index) {
  Device& d = device();
  const Variable& variable = d.module->variables[index];
  uint64_t address = reserve(variable.bytes, variable.align);
  d.variable_addresses.push_back(address);
  d.permanent.push_back({address, address + variable.bytes, AllocationKind::variable, index, false,
                         variable.constant, !variable.constant});
  uint8_t* memory = d.host(address);
  // Zero already: nobody has written to the arena yet.
  if (variable.initial != nullptr) {
    std::memcpy(memory, variable.initial, std::min(variable.initial_bytes, variable.bytes));
  }
}

void relocate(const Relocation& relocation) {
  Device& d = device();
  uint64_t value =
      d.variable_addresses[relocation.target] + static_cast<uint64_t>(relocation.addend);
  std::memcpy(d.host(d.variable_addresses[relocation.variable] + relocation.offset), &value, 8);
}

}  // namespace

const Kernel& kernel(uint32_t index) { return device().module->kernels[index]; }

int find_kernel(const char* symbol) {
  const Module* module = device().module;
  for (uint32_t i = 0; module != nullptr && i < module->kernel_count; ++i) {
    if (std::strcmp(module->kernels[i].symbol, symbol) == 0) return static_cast<int>(i);
  }
  return -1;
}

int find_variable(const char* symbol) {
  const Module* module = device().module;
  for (uint32_t i = 0; module != nullptr && i < module->variable_count; ++i) {
    if (std::strcmp(module->variables[i].symbol, symbol) == 0) return static_cast<int>(i);
  }
  return -1;
}

uint64_t variable_address(uint32_t variable) { return device().variable_addresses[variable]; }
uint64_t variable_bytes(uint32_t variable) { return device().module->variables[variable].bytes; }
const DeviceFacts& facts() { return device().facts; }

}  // namespace emu

extern "C" void emu_load(const emu::Module* module) {
  using namespace emu;
  Device& d = device();
  if (module->abi != kAbi) refuse(Fault::infrastructure, "the module was made for another runtime");
  d.module = module;
  d.scratch_end = d.bytes;
  d.permanent.clear();
  d.variable_addresses.clear();
  d.workspace = reserve(kWorkspaceBytes, 256);
  d.permanent.push_back({d.workspace, d.workspace + kWorkspaceBytes, AllocationKind::workspace, 0,
                         false, false, true});
  d.heap = {};
  if (module->allocates) {
    d.heap.begin = reserve(kHeapBytes, 4096);
    d.heap.end = d.heap.begin + kHeapBytes;
  }
  for (uint32_t i = 0; i < module->variable_count; ++i) place_variable(i);
  for (uint32_t i = 0; i < module->relocation_count; ++i) relocate(module->relocations[i]);
  d.dynamic_shared_limits.clear();
  for (uint32_t i = 0; i < module->kernel_count; ++i) {
    uint32_t taken = module->kernels[i].static_shared_bytes;
    uint32_t limit = facts().shared_bytes_per_block;
    d.dynamic_shared_limits.push_back(taken < limit ? limit - taken : 0);
  }
}
