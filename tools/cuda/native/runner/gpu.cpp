#include "gpu.h"

#include <cstdlib>
#include <unistd.h>

#include "replies.h"

namespace {

constexpr size_t kPrintfBytes = size_t{1} << 20;

[[noreturn]] void end_faulted(const runner::Gpu& gpu, CUresult error) {
  runner::say(runner::Reply::faulted, error, 0, 0, gpu::error_name(*gpu.driver, error));
  _exit(0);
}

}  // namespace

namespace runner {

void expect(const Gpu& gpu, CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const CUresult state = gpu.driver->cuCtxSynchronize();
  if (state == result) end_faulted(gpu, state);
  give_up(what, gpu::error_name(*gpu.driver, result), result);
}

void settle(const Gpu& gpu) {
  CUresult state = gpu.driver->cuStreamSynchronize(gpu.stream);
  if (state == CUDA_SUCCESS) state = gpu.driver->cuCtxSynchronize();
  if (state != CUDA_SUCCESS) end_faulted(gpu, state);
}

void settle_stream(const Gpu& gpu) {
  const CUresult state = gpu.driver->cuStreamSynchronize(gpu.stream);
  if (state != CUDA_SUCCESS) end_faulted(gpu, state);
}

Gpu open_gpu(const char* which) {
  // The driver reads these when it starts. Code is loaded whole, so that no call pays for it, and
  // nothing is compiled or kept on disk. Queues are much of the work of making a context and of
  // taking it down, and candidates have one stream: more than one queue would never be used.
  setenv("CUDA_VISIBLE_DEVICES", which, 1);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  setenv("CUDA_DEVICE_MAX_COPY_CONNECTIONS", "1", 1);
  Gpu gpu{};
  const char* why = "";
  gpu.driver = gpu::open_driver(&why);
  if (gpu.driver == nullptr) give_up("CUDA driver", why);
  const gpu::Driver& driver = *gpu.driver;
  const auto must = [&](CUresult result, const char* what) {
    if (result != CUDA_SUCCESS) give_up(what, gpu::error_name(driver, result));
  };
  must(driver.cuInit(0), "cuInit");
  must(driver.cuDeviceGet(&gpu.device, 0), "cuDeviceGet");
  must(driver.cuDeviceGetName(gpu.name, sizeof gpu.name, gpu.device), "cuDeviceGetName");
  must(driver.cuDevicePrimaryCtxSetFlags(gpu.device, CU_CTX_SCHED_SPIN), "cuCtxSetFlags");
  CUcontext context = nullptr;
  must(driver.cuDevicePrimaryCtxRetain(&context, gpu.device), "context");
  must(driver.cuCtxSetCurrent(context), "context");
  must(driver.cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, kPrintfBytes), "printf buffer");
  must(driver.cuStreamCreate(&gpu.stream, CU_STREAM_NON_BLOCKING), "stream");
  void* tags = nullptr;
  must(driver.cuMemHostAlloc(&tags, gpu::kMaxTags * sizeof(uint64_t), CU_MEMHOSTALLOC_DEVICEMAP),
       "memory for tags");
  gpu.tags = static_cast<uint64_t*>(tags);
  int sms = 0;
  must(driver.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.device),
       "device");
  gpu.sms = static_cast<unsigned>(sms);
  // The candidate finds no environment.
  clearenv();
  return gpu;
}

}  // namespace runner
