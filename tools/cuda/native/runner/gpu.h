// The GPU as the runner holds it: its driver, context and one stream.
#pragma once

#include "driver.h"
#include "report.h"

namespace runner {

struct Gpu {
  const gpu::Driver* driver;
  CUdevice device;
  CUstream stream;
  unsigned sms;
  uint64_t* tags;  // of the last batch: memory of the host that kernels can write, kMaxTags words
  char name[128];
};

// Creates the context on the GPU `which`, a UUID or an ordinal. Gives up where that cannot be done.
Gpu open_gpu(const char* which);

// Gives up with `what` where a call of our own failed; says `faulted` where the context is lost.
void expect(const Gpu& gpu, CUresult result, const char* what);

// Waits for all work; an error by now is one that nothing but a new process fixes: says `faulted`.
void settle(const Gpu& gpu);

// The same of the stream alone: what a batch waits for.
void settle_stream(const Gpu& gpu);

}  // namespace runner
