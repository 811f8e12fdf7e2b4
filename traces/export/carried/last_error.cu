// What CUDA says of the last launch, for a caller that has no CUDA runtime of its own.
#include <cuda_runtime.h>

extern "C" __attribute__((visibility("default"))) const char* last_error()
{
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
