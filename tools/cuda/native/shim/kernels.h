// The candidate's kernels and variables, by what its host code knows them by.
#pragma once

#include <cstdint>
#include <string>

#include "api.h"

namespace shim {

struct Kernel {
  std::string name;  // as in PTX
  CUfunction function;
  int static_shared_bytes;
  int registers;
  int local_bytes;
  int max_threads;
};

struct Variable {
  CUdeviceptr address;
  size_t bytes;
};

// Behind a host stub or its cudaKernel_t; null: unknown.
const Kernel* kernel_of(const void* function);
// Behind a host shadow; null: unknown.
const Variable* variable_of(const void* symbol);

// Why device code did not load; null: it did.
CUresult load_error();

// Memory for copies in captured calls (staging.cpp).
void begin_staging();
void forget_staged();

}  // namespace shim
