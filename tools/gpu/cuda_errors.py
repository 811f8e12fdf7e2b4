"""CUDA's errors by number (CUresult and cudaError_t share them), and what each says of a kernel."""

from cuda_llm.facts import CudaError, StopReason
from cuda_llm.outcomes import (
    DeviceAssert,
    HostCrashed,
    IllegalAccess,
    InfraFailed,
    LaunchFailed,
    Misaligned,
    OutOfMemory,
    TimedOut,
    Verdict,
)

_NAMES = {
    1: "cudaErrorInvalidValue",
    2: "cudaErrorMemoryAllocation",
    9: "cudaErrorInvalidConfiguration",
    98: "cudaErrorInvalidDeviceFunction",
    209: "cudaErrorNoKernelImageForDevice",
    214: "cudaErrorECCUncorrectable",
    304: "cudaErrorOperatingSystem",
    700: "cudaErrorIllegalAddress",
    701: "cudaErrorLaunchOutOfResources",
    702: "cudaErrorLaunchTimeout",
    710: "cudaErrorAssert",
    714: "cudaErrorHardwareStackError",
    715: "cudaErrorIllegalInstruction",
    716: "cudaErrorMisalignedAddress",
    717: "cudaErrorInvalidAddressSpace",
    718: "cudaErrorInvalidPc",
    719: "cudaErrorLaunchFailure",
    720: "cudaErrorCooperativeLaunchTooLarge",
    721: "cudaErrorTensorMemoryLeak",
    912: "cudaErrorInvalidClusterSize",
    999: "cudaErrorUnknown",
}
_LAUNCH = {1, 9, 98, 209, 701, 720, 912}
_ILLEGAL = {700, 714, 717}
_STOPPED: dict[int, StopReason] = {
    710: "assert",
    715: "illegal-instruction",
    718: "invalid-pc",
    719: "launch-failure",
}


def error_name(number: int) -> str:
    """As a CUDA programmer knows it."""
    return _NAMES.get(number, f"cudaError {number}")


def verdict_on(number: int, kernel: str, limit_s: float) -> Verdict:
    """What a kernel is guilty of whose context was lost with this error.

    A GPU names neither thread nor address: `kernel`, the one launched last, may be empty.
    """
    error = CudaError(number=number, name=error_name(number), kernel=kernel or None)
    if number in _LAUNCH:
        return LaunchFailed(kernel=kernel, error=error.name)
    if number in _ILLEGAL:
        return IllegalAccess(error=error)
    if number in _STOPPED:
        return DeviceAssert(reason=_STOPPED[number], error=error)
    match number:
        case 2:
            return OutOfMemory(bound="device", error=error)
        case 716:
            return Misaligned(error=error)
        case 702:
            return TimedOut(stage="kernel", limit_s=limit_s, kernel=error.kernel, error=error)
        case 304 if kernel:
            # Host code ran here and nowhere else, and the device answers right before and after.
            return HostCrashed(signal=error.name, error=error)
    where = f" in {kernel}" if kernel else ""
    return InfraFailed(component="device", detail=f"{error.name}{where}")
