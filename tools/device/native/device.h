// The emulated device: libemulator, and the candidate's kernels translated to native code.
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
  void (*greet)(int);
  long (*serve)(int, void*, size_t);
  void (*touched)(uint64_t);
};

// Opens libemulator so that kernels loaded later bind to it.
EmulatedDevice open_device(const char* library);

// The one symbol of a translated module.
const emu::Module* open_kernels(const char* library);

// Opens libcudart so that the candidate binds to it, and takes up the link to the device.
void open_cuda(const char* library, int link);

}  // namespace runner
