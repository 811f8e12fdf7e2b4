"""CUDA's errors by number (CUresult and cudaError_t share them), and what each says of a kernel."""

from collections.abc import Callable

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
_OPERATING_SYSTEM = 304
_LAUNCH = {1, 9, 98, 209, 701, 720, 912}


def error_name(number: int) -> str:
    """As a CUDA programmer knows it."""
    return _NAMES.get(number, f"cudaError {number}")


def verdict_on(number: int, kernel: str, limit_s: float) -> Verdict:
    """What a kernel is guilty of whose context was lost with this error.

    A GPU names neither thread nor address: `kernel`, the one launched last, may be empty.
    """
    where = f" in {kernel}" if kernel else ""
    name = error_name(number)
    if number in _LAUNCH:
        return LaunchFailed(kernel=kernel, error=name, detail="CUDA refused the launch")
    if number in _FAULTS:
        return _FAULTS[number](f"{name}{where}")
    if number == _OPERATING_SYSTEM and kernel:
        # Host code ran here and nowhere else, and the device answers right before and after.
        return HostCrashed(signal=name, detail=f"{_DRIVER_ROBBED} ({name}{where})")
    if number == 702:
        return TimedOut(stage="kernel", limit_s=limit_s, detail=f"{name}{where}")
    return InfraFailed(component="device", detail=f"{name}{where}")


_DRIVER_ROBBED = (
    "the driver lost something of the operating system's in this process, as happens when host "
    "code touches descriptors that are not its own"
)


def _illegal(space: str, what: str) -> Callable[[str], Verdict]:
    def verdict(said: str) -> Verdict:
        return IllegalAccess(space=space, access="", bytes=0, detail=f"{what} ({said})")

    return verdict


def _asserted(what: str) -> Callable[[str], Verdict]:
    def verdict(said: str) -> Verdict:
        return DeviceAssert(detail=f"{what} ({said})")

    return verdict


_FAULTS: dict[int, Callable[[str], Verdict]] = {
    2: lambda said: OutOfMemory(detail=f"device memory ran out ({said})"),
    700: _illegal("global", "a thread touched memory that is not its own"),
    714: _illegal("local", "a thread's stack is broken"),
    717: _illegal("generic", "an instruction for one memory space was given another's address"),
    716: lambda said: Misaligned(
        space="", bytes=0, detail=f"an address is not a multiple of the access size ({said})"
    ),
    710: _asserted("device code called assert, and it did not hold"),
    715: _asserted("a thread met a trap or an instruction that is none"),
    718: _asserted("a thread jumped to where no code is"),
    719: _asserted("a thread met a trap, or touched shared or local memory that is not there"),
}
