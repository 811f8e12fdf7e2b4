#include "device/occupancy.h"

#include <algorithm>

#include "device/state.h"

namespace emu {
namespace {

constexpr uint64_t kRegisterUnit = 256;
constexpr uint64_t kSharedUnit = 128;

}  // namespace

uint32_t registers_of_block(const Kernel& kernel, uint32_t threads) {
  uint64_t of_warp = round_up(uint64_t{kernel.hardware_registers} * kLanes, kRegisterUnit);
  return static_cast<uint32_t>(of_warp * ((threads + kLanes - 1) / kLanes));
}

int max_active_blocks(uint32_t index, uint32_t threads, uint64_t dynamic_shared_bytes) {
  const DeviceFacts& f = facts();
  const Kernel& k = kernel(index);
  if (threads == 0 || threads > f.max_threads_per_block) return 0;
  uint64_t warps = (threads + kLanes - 1) / kLanes;
  uint64_t blocks = std::min<uint64_t>(f.max_blocks_per_sm, f.max_threads_per_sm / kLanes / warps);
  if (uint32_t registers = registers_of_block(k, threads); registers != 0) {
    if (registers > f.registers_per_block) return 0;
    blocks = std::min<uint64_t>(blocks, f.registers_per_sm / registers);
  }
  uint64_t shared = k.static_shared_bytes + dynamic_shared_bytes;
  if (shared > f.shared_bytes_per_block_optin) return 0;
  uint64_t taken = round_up(shared + f.shared_bytes_reserved, kSharedUnit);
  if (taken != 0) blocks = std::min<uint64_t>(blocks, f.shared_bytes_per_sm / taken);
  return static_cast<int>(blocks);
}

}  // namespace emu
