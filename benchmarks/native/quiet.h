// Included ahead of a kernel whose `solve` is to be captured in a graph: what cannot be captured is
// left out or replaced by its asynchronous form.
#pragma once
#include <cuda_runtime.h>
#define cudaDeviceSynchronize() cudaSuccess
#define cudaMemset(at, value, bytes) cudaMemsetAsync(at, value, bytes, cudaStreamPerThread)
