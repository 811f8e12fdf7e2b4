// Tensor maps for the copy engine: computed on the host by the driver, from nothing but the
// arguments. They are all that a candidate gets of the driver's own calls.
#include <cstring>

#include "api.h"

extern "C" {
__attribute__((visibility("default"))) CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* dim, const cuuint64_t* strides, const cuuint32_t* box,
    const cuuint32_t* element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return shim::driver().cuTensorMapEncodeTiled
  (map, type, rank, address, dim, strides, box, element_strides, interleave, swizzle, promotion,
   fill);
}

__attribute__((visibility("default"))) CUresult CUDAAPI cuTensorMapEncodeIm2col(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* dim, const cuuint64_t* strides, const int* lower, const int* upper,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* element_strides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill) {
  return shim::driver().cuTensorMapEncodeIm2col
  (map, type, rank, address, dim, strides, lower, upper, channels, pixels, element_strides,
   interleave, swizzle, promotion, fill);
}

__attribute__((visibility("default"))) CUresult CUDAAPI cuTensorMapEncodeIm2colWide(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* dim, const cuuint64_t* strides, int lower_width, int upper_width,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* element_strides,
    CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (shim::driver().cuTensorMapEncodeIm2colWide == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return shim::driver().cuTensorMapEncodeIm2colWide
  (map, type, rank, address, dim, strides, lower_width, upper_width, channels, pixels,
   element_strides, interleave, mode, swizzle, promotion, fill);
}

__attribute__((visibility("default"))) CUresult CUDAAPI
cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return shim::driver().cuTensorMapReplaceAddress(map, address);
}
}

namespace {

struct Entry {
  const char* name;
  void* function;
};

const Entry kEntries[] = {
    {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(cuTensorMapEncodeTiled)},
    {"cuTensorMapEncodeIm2col", reinterpret_cast<void*>(cuTensorMapEncodeIm2col)},
    {"cuTensorMapEncodeIm2colWide", reinterpret_cast<void*>(cuTensorMapEncodeIm2colWide)},
    {"cuTensorMapReplaceAddress", reinterpret_cast<void*>(cuTensorMapReplaceAddress)},
};

}  // namespace

SHIM_API cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                      unsigned long long,
                                                      cudaDriverEntryPointQueryResult* status) {
  *function = nullptr;
  for (const Entry& entry : kEntries)
    if (std::strcmp(entry.name, symbol) == 0) *function = entry.function;
  if (status != nullptr)
    *status = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return *function == nullptr ? shim::keep(cudaErrorSymbolNotFound) : cudaSuccess;
}

SHIM_API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}
