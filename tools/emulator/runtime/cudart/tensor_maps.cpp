// Tensor maps, in a form of our own (emu/tensor_map.h), checked as the driver checks them. Maps of the
// other modes are handed out empty where the chip has a copy engine, so that the verdict names the
// instruction that is missing and not an output that was never written.
#include <cuda.h>

#include <cstring>

#include "api.h"
#include "emu/tensor_map.h"

namespace {

constexpr uint32_t kFirstWithTensorMaps = 9;  // major compute capability
constexpr uint64_t kUnit = 16;                // bytes: of addresses, strides and rows
constexpr uint64_t kMostStride = uint64_t{1} << 40;
constexpr uint64_t kMostExtent = uint64_t{1} << 32;
constexpr uint32_t kMostBox = 256;
constexpr uint32_t kMostStep = 8;

bool has_tensor_maps() { return emu::facts().compute_major >= kFirstWithTensorMaps; }

CUresult empty(CUtensorMap* map) {
  if (!has_tensor_maps()) return CUDA_ERROR_NOT_SUPPORTED;
  std::memset(map, 0, sizeof *map);
  return CUDA_SUCCESS;
}

uint32_t swizzled_bytes(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE: return 0;
    case CU_TENSOR_MAP_SWIZZLE_32B: return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B: return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B: return 128;
    default: return kMostBox;
  }
}

bool put_dimensions(emu::TensorMap& map, const cuuint64_t* extents, const cuuint64_t* strides,
                    const cuuint32_t* box, const cuuint32_t* steps) {
  for (uint32_t i = 0; i < map.rank; ++i) {
    if (extents[i] == 0 || extents[i] > kMostExtent || box[i] == 0 || box[i] > kMostBox ||
        steps[i] == 0 || steps[i] > kMostStep) {
      return false;
    }
    map.extents[i] = static_cast<uint32_t>(extents[i] - 1);
    map.box[i] = static_cast<uint16_t>(box[i]);
    map.steps[i] = static_cast<uint8_t>(steps[i]);
    if (i + 1 == map.rank) continue;
    if (strides[i] % kUnit != 0 || strides[i] >= kMostStride) return false;
    map.strides[i] = strides[i];
  }
  return true;
}

}  // namespace

EMU_API CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                        void* address, const cuuint64_t* extents,
                                        const cuuint64_t* strides, const cuuint32_t* box,
                                        const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                        CUtensorMapFloatOOBfill fill) {
  if (!has_tensor_maps()) return CUDA_ERROR_NOT_SUPPORTED;
  if (map == nullptr || reinterpret_cast<uint64_t>(map) % 64 != 0 || rank == 0 ||
      rank > emu::kTensorRanks || cudart::to_device(address) % kUnit != 0 || extents == nullptr ||
      (strides == nullptr && rank > 1) || box == nullptr || steps == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (type > CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      swizzle > CU_TENSOR_MAP_SWIZZLE_128B) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  emu::TensorMap made{};
  made.magic = emu::kTensorMapMagic;
  made.type = static_cast<emu::TensorType>(type);
  made.rank = static_cast<uint8_t>(rank);
  made.swizzle = static_cast<uint8_t>(swizzle);
  made.fills_nan = fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ? 0 : 1;
  made.address = cudart::to_device(address);
  const bool floats = type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  if (!put_dimensions(made, extents, strides, box, steps) || (made.fills_nan != 0 && !floats)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t row = uint64_t{box[0]} * emu::element_bytes(made.type);
  if (row % kUnit != 0 || (made.swizzle != 0 && row > swizzled_bytes(swizzle))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &made, sizeof made);
  return CUDA_SUCCESS;
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

EMU_API CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  if (!has_tensor_maps()) return CUDA_ERROR_NOT_SUPPORTED;
  if (map == nullptr || cudart::to_device(address) % kUnit != 0) return CUDA_ERROR_INVALID_VALUE;
  emu::TensorMap made;
  std::memcpy(&made, map, sizeof made);
  made.address = cudart::to_device(address);
  std::memcpy(map, &made, sizeof made);
  return CUDA_SUCCESS;
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
