// The one device there is.
#include "api.h"
#include "properties.h"

SHIM_API cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

SHIM_API cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : shim::keep(cudaErrorInvalidDevice);
}

SHIM_API cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

// Runtime and driver share the numbers of attributes.
SHIM_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return shim::keep(cudaErrorInvalidDevice);
  return shim::keep(shim::driver().cuDeviceGetAttribute(
      value, static_cast<CUdevice_attribute>(attribute), shim::link().device));
}

SHIM_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return shim::keep(cudaErrorInvalidDevice);
  *properties = {};
  return shim::keep(shim::describe(*properties));
}

// What code compiled by the toolkits before 13 calls.
SHIM_API cudaError_t cudaGetDeviceProperties_v2(cudart::DeviceProp12* properties, int device) {
  if (device != 0) return shim::keep(cudaErrorInvalidDevice);
  *properties = {};
  properties->clockRate = shim::device_attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  properties->memoryClockRate = shim::device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  properties->kernelExecTimeoutEnabled =
      shim::device_attribute(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT);
  properties->singleToDoublePrecisionPerfRatio =
      shim::device_attribute(CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO);
  return shim::keep(shim::describe(*properties));
}

SHIM_API cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

SHIM_API cudaError_t cudaDriverGetVersion(int* version) {
  return shim::keep(shim::driver().cuDriverGetVersion(version));
}
