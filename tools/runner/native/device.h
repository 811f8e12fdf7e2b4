// The emulated device: our libcudart, and the candidate's kernels translated to native code.
#pragma once

#include <cstdint>

#include "emu/host.h"

namespace runner {

struct EmulatedDevice {
  void (*attach)(int, uint64_t, int, uint64_t, const emu::DeviceFacts*);
  void (*load)(const emu::Module*);
  uint64_t (*address)(uint64_t);
  void (*begin)(const emu::CallOptions*);
  void (*end)();
  void (*expire)();
};

// Opens libcudart so that what is loaded later binds to it.
EmulatedDevice open_device(const char* library);

// The one symbol of a translated module.
const emu::Module* open_kernels(const char* library);

}  // namespace runner
