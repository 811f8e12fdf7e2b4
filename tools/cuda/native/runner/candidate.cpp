#include "candidate.h"

#include <dlfcn.h>
#include <unistd.h>

#include "confine_gpu.h"
#include "replies.h"

namespace {

[[noreturn]] void refuse(uint64_t sequence, runner::Refusal who, const char* why,
                         CUresult error = CUDA_SUCCESS) {
  runner::say(runner::Reply::refused, static_cast<uint32_t>(who), sequence, error, why);
  _exit(0);
}

void forbid(gpu::Forbidden what, uint64_t most_bytes) {
  runner::say(runner::Reply::forbidden, static_cast<uint32_t>(what), 0, most_bytes, "");
  _exit(0);
}

}  // namespace

namespace runner {

const gpu::Shim* open_shim(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) give_up("dlopen", dlerror());
  const void* shim = dlsym(handle, "gpu_shim");
  if (shim == nullptr) give_up("dlsym", "gpu_shim");
  return static_cast<const gpu::Shim*>(shim);
}

void connect_shim(const Gpu& gpu, const gpu::Shim& shim, const Arena& arena, gpu::Report* report) {
  const gpu::ShimLink link = {gpu.driver, gpu.device,  gpu.stream, report,
                              arena.base, arena.bytes, forbid};
  shim.connect(&link);
}

Candidate load_candidate(const Gpu& gpu, const gpu::Shim& shim, const Arena& arena,
                         gpu::Report* report, const gpu::StartFrame& start) {
  connect_shim(gpu, shim, arena, report);
  confine_gpu_for_loading(start.candidate);
  void* library = dlopen(start.candidate, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(start.head.sequence, Refusal::linker, dlerror());
  confine_gpu_for_running();
  if (const CUresult error = shim.load_error(); error != CUDA_SUCCESS)
    refuse(start.head.sequence, Refusal::driver, "", error);
  void* solve = dlsym(library, "solve");
  if (solve == nullptr)
    refuse(start.head.sequence, Refusal::no_solve, "");
  return {&shim, solve};
}

}  // namespace runner
