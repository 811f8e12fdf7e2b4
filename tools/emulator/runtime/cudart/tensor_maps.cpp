// Tensor maps are for a copy engine that the emulated device does not have. The calls are there so
// that a candidate that has another way without them loads.
#include <cuda.h>

#include "api.h"

EMU_API CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                        const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                        const cuuint32_t*, CUtensorMapInterleave,
                                        CUtensorMapSwizzle, CUtensorMapL2promotion,
                                        CUtensorMapFloatOOBfill) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

EMU_API CUresult cuTensorMapEncodeIm2col(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                         const cuuint64_t*, const cuuint64_t*, const int*,
                                         const int*, cuuint32_t, cuuint32_t, const cuuint32_t*,
                                         CUtensorMapInterleave, CUtensorMapSwizzle,
                                         CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

EMU_API CUresult cuTensorMapEncodeIm2colWide(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                             const cuuint64_t*, const cuuint64_t*, int, int,
                                             cuuint32_t, cuuint32_t, const cuuint32_t*,
                                             CUtensorMapInterleave, CUtensorMapIm2ColWideMode,
                                             CUtensorMapSwizzle, CUtensorMapL2promotion,
                                             CUtensorMapFloatOOBfill) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

EMU_API CUresult cuTensorMapReplaceAddress(CUtensorMap*, void*) { return CUDA_ERROR_NOT_SUPPORTED; }

EMU_API cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned,
                                                     unsigned long long,
                                                     cudaDriverEntryPointQueryResult* status) {
  *function = nullptr;
  if (status != nullptr) *status = cudaDriverEntryPointSymbolNotFound;
  return cudart::keep(cudaErrorNotSupported);
}

EMU_API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                            unsigned long long flags,
                                            cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}
