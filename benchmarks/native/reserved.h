// Included ahead of a kernel beside quiet.h: scratch comes from memory reserved beforehand, because
// nothing can be allocated while a graph is captured.
#pragma once
#include <cuda_runtime.h>
extern "C" void* reserved;
#define cudaMalloc(at, bytes) (*(at) = static_cast<decltype(*(at) + 0)>(reserved), cudaSuccess)
#define cudaFree(at) cudaSuccess
