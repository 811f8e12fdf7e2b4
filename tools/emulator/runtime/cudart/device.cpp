// The one device there is, as its hardware profile describes it.
#include <cstring>

#include "api.h"
#include "cudart/device_prop_12.h"

namespace {

constexpr int kWarp = 32;
// Common to every compute capability that nvcc 13 compiles for.
constexpr int kMaxBlock[3] = {1024, 1024, 64};
constexpr int kMaxGrid[3] = {2147483647, 65535, 65535};
constexpr int kConstantBytes = 65536;
constexpr int kPitchAlignment = 32;
constexpr int kTextureAlignment = 512;

int number(uint64_t value) { return static_cast<int>(value); }

// False: an attribute about something this device does not have.
bool attribute_value(cudaDeviceAttr attribute, int* value) {
  const emu::DeviceFacts& facts = emu::facts();
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = number(facts.max_threads_per_block); break;
    case cudaDevAttrMaxBlockDimX: *value = kMaxBlock[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = kMaxBlock[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = kMaxBlock[2]; break;
    case cudaDevAttrMaxGridDimX: *value = kMaxGrid[0]; break;
    case cudaDevAttrMaxGridDimY: *value = kMaxGrid[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = kMaxGrid[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = number(facts.shared_bytes_per_block); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = number(facts.shared_bytes_per_block_optin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = number(facts.shared_bytes_per_sm);
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *value = number(facts.shared_bytes_reserved); break;
    case cudaDevAttrTotalConstantMemory: *value = kConstantBytes; break;
    case cudaDevAttrWarpSize: *value = kWarp; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = number(facts.registers_per_block); break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = number(facts.registers_per_sm); break;
    case cudaDevAttrClockRate: *value = number(facts.clock_khz); break;
    case cudaDevAttrMemoryClockRate: *value = number(facts.memory_clock_khz); break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = number(facts.memory_bus_bits); break;
    case cudaDevAttrMultiProcessorCount: *value = number(facts.sm_count); break;
    case cudaDevAttrL2CacheSize: *value = number(facts.l2_bytes); break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = number(facts.max_threads_per_sm); break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = number(facts.max_blocks_per_sm); break;
    case cudaDevAttrComputeCapabilityMajor: *value = number(facts.compute_major); break;
    case cudaDevAttrComputeCapabilityMinor: *value = number(facts.compute_minor); break;
    case cudaDevAttrTextureAlignment: *value = kTextureAlignment; break;
    case cudaDevAttrTexturePitchAlignment: *value = kPitchAlignment; break;
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      break;
    case cudaDevAttrClusterLaunch:
      *value = facts.compute_major >= 9 ? 1 : 0;
      break;
    default:
      // Hosts, other GPUs, graphics: none here.
      *value = 0;
      return attribute > 0 && attribute < cudaDevAttrMax;
  }
  return true;
}

// Fills in either generation of cudaDeviceProp.
template <class Properties>
cudaError_t describe(Properties* properties, int device) {
  if (device != 0) return cudart::keep(cudaErrorInvalidDevice, "cudaGetDeviceProperties");
  const emu::DeviceFacts& facts = emu::facts();
  *properties = {};
  std::memcpy(properties->name, facts.name, sizeof facts.name);
  properties->totalGlobalMem = facts.memory_bytes;
  properties->sharedMemPerBlock = facts.shared_bytes_per_block;
  properties->sharedMemPerBlockOptin = facts.shared_bytes_per_block_optin;
  properties->sharedMemPerMultiprocessor = facts.shared_bytes_per_sm;
  properties->reservedSharedMemPerBlock = facts.shared_bytes_reserved;
  properties->regsPerBlock = number(facts.registers_per_block);
  properties->regsPerMultiprocessor = number(facts.registers_per_sm);
  properties->warpSize = kWarp;
  properties->maxThreadsPerBlock = number(facts.max_threads_per_block);
  properties->maxThreadsPerMultiProcessor = number(facts.max_threads_per_sm);
  properties->maxBlocksPerMultiProcessor = number(facts.max_blocks_per_sm);
  std::memcpy(properties->maxThreadsDim, kMaxBlock, sizeof kMaxBlock);
  std::memcpy(properties->maxGridSize, kMaxGrid, sizeof kMaxGrid);
  properties->totalConstMem = kConstantBytes;
  properties->major = number(facts.compute_major);
  properties->minor = number(facts.compute_minor);
  properties->multiProcessorCount = number(facts.sm_count);
  properties->memoryBusWidth = number(facts.memory_bus_bits);
  properties->l2CacheSize = number(facts.l2_bytes);
  properties->textureAlignment = kTextureAlignment;
  properties->texturePitchAlignment = kPitchAlignment;
  properties->cooperativeLaunch = 1;
  properties->clusterLaunch = facts.compute_major >= 9 ? 1 : 0;
  properties->unifiedAddressing = 1;
  properties->globalL1CacheSupported = 1;
  properties->localL1CacheSupported = 1;
  properties->memoryPoolsSupported = 1;
  return cudaSuccess;
}

}  // namespace

EMU_API cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

EMU_API cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudart::keep(cudaErrorInvalidDevice);
}

EMU_API cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

EMU_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return cudart::keep(cudaErrorInvalidDevice);
  return attribute_value(attribute, value) ? cudaSuccess : cudart::keep(cudaErrorInvalidValue);
}

EMU_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return describe(properties, device);
}

// What code compiled by the toolkits before 13 calls.
EMU_API cudaError_t cudaGetDeviceProperties_v2(cudart::DeviceProp12* properties, int device) {
  const cudaError_t error = describe(properties, device);
  if (error != cudaSuccess) return error;
  properties->clockRate = number(emu::facts().clock_khz);
  properties->memoryClockRate = number(emu::facts().memory_clock_khz);
  return cudaSuccess;
}

EMU_API cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

EMU_API cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
