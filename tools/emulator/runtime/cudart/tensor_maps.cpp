// Tensor maps are for a copy engine that the emulated device does not have. Where the chip it stands
// for has one they are handed out empty, so that the verdict names the instructions that are missing
// and not an output that was never written; elsewhere a candidate may look for another way.
#include <cuda.h>

#include <cstring>

#include "api.h"

namespace {

constexpr uint32_t kFirstWithTensorMaps = 9;  // major compute capability

CUresult empty(CUtensorMap* map) {
  if (emu::facts().compute_major < kFirstWithTensorMaps) return CUDA_ERROR_NOT_SUPPORTED;
  std::memset(map, 0, sizeof *map);
  return CUDA_SUCCESS;
}

}  // namespace

EMU_API CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*,
                                        const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                        const cuuint32_t*, CUtensorMapInterleave,
                                        CUtensorMapSwizzle, CUtensorMapL2promotion,
                                        CUtensorMapFloatOOBfill) {
  return empty(map);
}

EMU_API CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*,
                                         const cuuint64_t*, const cuuint64_t*, const int*,
                                         const int*, cuuint32_t, cuuint32_t, const cuuint32_t*,
                                         CUtensorMapInterleave, CUtensorMapSwizzle,
                                         CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return empty(map);
}

EMU_API CUresult cuTensorMapEncodeIm2colWide(CUtensorMap* map, CUtensorMapDataType, cuuint32_t,
                                             void*, const cuuint64_t*, const cuuint64_t*, int, int,
                                             cuuint32_t, cuuint32_t, const cuuint32_t*,
                                             CUtensorMapInterleave, CUtensorMapIm2ColWideMode,
                                             CUtensorMapSwizzle, CUtensorMapL2promotion,
                                             CUtensorMapFloatOOBfill) {
  return empty(map);
}

EMU_API CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void*) { return empty(map); }

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

EMU_API cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                     unsigned long long,
                                                     cudaDriverEntryPointQueryResult* status) {
  *function = nullptr;
  for (const Entry& entry : kEntries)
    if (std::strcmp(entry.name, symbol) == 0) *function = entry.function;
  if (status != nullptr)
    *status =
        *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return *function == nullptr ? cudart::keep(cudaErrorSymbolNotFound) : cudaSuccess;
}

EMU_API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                            unsigned long long flags,
                                            cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}
