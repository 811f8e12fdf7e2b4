#include "cuda.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace driver {
namespace {

enum { kSuccess = 0, kHostToDevice = 1 };

struct Runtime {
    int (*malloc)(void**, size_t);
    int (*memcpy)(void*, const void*, size_t, int);
    int (*synchronize)();
    int (*last_error)();
    int (*profiler_start)();
    int (*profiler_stop)();
    const char* (*error_name)(int);
};
Runtime runtime;

template <class Function>
void find(void* library, const char* name, Function& function)
{
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) {
        give_up(kRefused, name, "not in the CUDA runtime");
    }
}

void check(int status, const char* what, int exit_code = kRefused)
{
    if (status != kSuccess) {
        give_up(exit_code, what, runtime.error_name(status));
    }
}

}  // namespace

void give_up(int exit_code, const char* what, const char* why)
{
    std::fprintf(stderr, "driver: %s: %s\n", what, why);
    std::fflush(stderr);
    std::_Exit(exit_code);
}

void open_cuda(const char* runtime_library)
{
    // Missing on a machine without a GPU: the runtime then says so at the first call.
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    void* library = dlopen(runtime_library, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
        give_up(kRefused, "CUDA runtime", dlerror());
    }
    find(library, "cudaMalloc", runtime.malloc);
    find(library, "cudaMemcpy", runtime.memcpy);
    find(library, "cudaDeviceSynchronize", runtime.synchronize);
    find(library, "cudaGetLastError", runtime.last_error);
    find(library, "cudaProfilerStart", runtime.profiler_start);
    find(library, "cudaProfilerStop", runtime.profiler_stop);
    find(library, "cudaGetErrorName", runtime.error_name);
}

void* allocate(size_t bytes)
{
    void* data = nullptr;
    check(runtime.malloc(&data, bytes), "cudaMalloc");
    return data;
}

void upload(void* to, const void* from, size_t bytes)
{
    check(runtime.memcpy(to, from, bytes, kHostToDevice), "cudaMemcpy");
}

void check_launches()
{
    check(runtime.last_error(), "solve", kFaulted);
    check(runtime.synchronize(), "solve", kFaulted);
}

void start_profiler()
{
    check(runtime.synchronize(), "inputs");
    check(runtime.profiler_start(), "cudaProfilerStart");
}

void stop_profiler() { check(runtime.profiler_stop(), "cudaProfilerStop"); }

}  // namespace driver
