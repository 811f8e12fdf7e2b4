#include "driver.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <type_traits>

#define GPU_TEXT(name) #name
#define GPU_EXPANDED(name) GPU_TEXT(name)

const gpu::Driver* gpu::open_driver(const char** why) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *why = dlerror();
    return nullptr;
  }
  void* page = mmap(nullptr, sizeof(Driver), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
  if (page == MAP_FAILED) {
    *why = "no memory";
    return nullptr;
  }
  Driver* driver = static_cast<Driver*>(page);
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
#define GPU_FIND(name)                                          \
  if (!find(GPU_EXPANDED(name), driver->name)) {                \
    *why = "the driver is too old: no " GPU_EXPANDED(name);     \
    return nullptr;                                             \
  }
  GPU_DRIVER_FUNCTIONS(GPU_FIND)
#undef GPU_FIND
  find(GPU_EXPANDED(cuTensorMapEncodeIm2colWide), driver->cuTensorMapEncodeIm2colWide);
  if (mprotect(page, sizeof(Driver), PROT_READ) != 0) {
    *why = "the table cannot be protected";
    return nullptr;
  }
  return driver;
}
