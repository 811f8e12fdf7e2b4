#include "device/traits.h"

#include <cstring>

#include "device/run.h"

namespace emu {
namespace {

bool has(const char* opcode, const char* part) { return std::strstr(opcode, part) != nullptr; }

uint16_t traits_of(const char* opcode) {
  if (std::strncmp(opcode, "bar.warp.sync", 13) == 0) return kWarpSync;
  uint16_t traits = 0;
  if (has(opcode, ".volatile") || has(opcode, ".relaxed") || has(opcode, ".acquire") ||
      has(opcode, ".release") || has(opcode, ".acq_rel") || has(opcode, ".mmio")) {
    traits |= kStrong;
  }
  if (has(opcode, ".cta")) traits |= kBlockOnly;
  if (has(opcode, ".release") || has(opcode, ".acq_rel")) traits |= kRelease;
  bool atomic = std::strncmp(opcode, "atom", 4) == 0;
  bool load = std::strncmp(opcode, "ld", 2) == 0;
  if (atomic || std::strncmp(opcode, "red", 3) == 0) traits |= kStrong;
  // Locks are taken by compare-and-swap or exchange, flags are read by strong loads.
  if ((load && (traits & kStrong) != 0) || has(opcode, ".acquire") || has(opcode, ".acq_rel") ||
      (atomic && (has(opcode, ".cas") || has(opcode, ".exch")))) {
    traits |= kAcquire;
  }
  if (atomic || (traits & kStrong) != 0 || has(opcode, ".cg") || has(opcode, ".cv")) {
    traits |= kPastL1;
  }
  if (atomic && has(opcode, ".cas")) traits |= kSwaps;
  if (has(opcode, ".volatile")) traits |= kIsVolatile;
  if (load && !has(opcode, ".acquire")) traits |= kRelaxedLoad;
  if (has(opcode, "f64") || has(opcode, "f32") || has(opcode, "f16")) traits |= kFloat;
  return traits;
}

}  // namespace

std::vector<uint16_t> traits_of_sites(const Kernel& kernel) {
  std::vector<uint16_t> traits(kernel.site_count + 1);
  for (uint32_t i = 0; i < kernel.site_count; ++i) traits[i] = traits_of(kernel.sites[i].opcode);
  return traits;
}

}  // namespace emu
