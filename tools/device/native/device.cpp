#include "device.h"

#include <dlfcn.h>

#include "replies.h"

namespace {

void* open_own(const char* library, int flags) {
  void* handle = dlopen(library, flags);
  if (handle == nullptr) runner::give_up("dlopen", dlerror());
  return handle;
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) runner::give_up("dlsym", name);
  function = reinterpret_cast<Function>(symbol);
}

}  // namespace

namespace runner {

EmulatedDevice open_device(const char* library) {
  void* handle = open_own(library, RTLD_NOW | RTLD_GLOBAL);
  EmulatedDevice device{};
  find(handle, "emu_attach", device.attach);
  find(handle, "emu_load", device.load);
  find(handle, "emu_address", device.address);
  find(handle, "emu_begin", device.begin);
  find(handle, "emu_end", device.end);
  find(handle, "emu_expire", device.expire);
  find(handle, "emu_greet", device.greet);
  find(handle, "emu_serve", device.serve);
  find(handle, "emu_touched", device.touched);
  return device;
}

const emu::Module* open_kernels(const char* library) {
  void* handle = open_own(library, RTLD_NOW | RTLD_LOCAL);
  void* symbol = dlsym(handle, "emu_module");
  if (symbol == nullptr) give_up("dlsym", "emu_module");
  const auto* module = static_cast<const emu::Module*>(symbol);
  if (module->abi != emu::kAbi) give_up("kernels", "built for another version of the runtime");
  return module;
}

void open_cuda(const char* library, int link) {
  void (*connect)(int) = nullptr;
  find(open_own(library, RTLD_NOW | RTLD_GLOBAL), "emu_connect", connect);
  connect(link);
}

}  // namespace runner
