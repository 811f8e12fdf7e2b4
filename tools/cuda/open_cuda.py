"""Opens GPUs as devices: those that are there, described, and free of others' work."""

from collections.abc import Callable, Sequence
from pathlib import Path

from cuda_llm.errors import InfrastructureError, MissingError, UsageError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.settings import settings
from cuda_llm.tools.cuda.client import HostClient, HostTimeouts
from cuda_llm.tools.cuda.device import (
    CudaDevice,
    check_known_answer,
    open_site,
    require_cupy,
    version_of,
)
from cuda_llm.tools.cuda.discovery import DRIVER, detect_gpus, find_disagreements, find_profile
from cuda_llm.tools.cuda.draft_profile import draft_hardware
from cuda_llm.tools.cuda.driver_query import GpuAttributes
from cuda_llm.tools.cuda.lease import Lease
from cuda_llm.tools.cuda.messages import OpenSite
from cuda_llm.tools.cuda.nvml import GpuUsage, MachineUsage, find_usage
from cuda_llm.tools.cuda.site import GPU_CAPABILITIES
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.group import DeviceGroup

LEAST_FREE_BYTES = 2 << 30
"""Contexts of host process and runners, and the smallest buffers that are timed."""
DEVICE_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
"""Device files of which at least one exists where a driver may find a GPU (Linux, WSL)."""


def open_cuda(
    which: str,
    *,
    spec: str,
    report: Callable[[str], None],
    library: str,
    most: int | None = None,
) -> Device:
    """Open the GPU that `which` names by its ordinal, or several GPUs as one device: `0,1` or
    `all`.

    Of several GPUs at most `most` are opened; None opens all of them. Ordinals are the driver's, as
    CUDA_VISIBLE_DEVICES leaves them. Raises UsageError, MissingError, HardwareError,
    InfrastructureError.
    """
    try:
        gpus = detect_gpus(library)
    except MissingError:
        require_ordinals(which, spec)
        raise
    usage = ask_usage()
    chosen = choose_gpus(which, gpus, spec)[:most]
    opened = [open_gpu(gpu, usage, report=report) for gpu in chosen]
    return opened[0] if len(opened) == 1 else DeviceGroup(opened)


def require_ordinals(which: str, spec: str) -> None:
    """Raise UsageError for text that names no GPU on any machine."""
    parts = [part.strip() for part in which.split(",")]
    if which != "all" and not (len(set(parts)) == len(parts) and all(map(str.isdecimal, parts))):
        raise UsageError(f"{spec!r} names no GPU; expected cuda:0, cuda:0,1 or cuda:all")


def choose_gpus(which: str, gpus: Sequence[GpuAttributes], spec: str) -> list[GpuAttributes]:
    """Return the GPUs that `which` names. Raises UsageError naming what there is."""
    if which == "all":
        return list(gpus)
    there = {str(gpu.ordinal): gpu for gpu in gpus}
    wanted = [part.strip() for part in which.split(",")]
    if len(set(wanted)) != len(wanted) or not set(wanted) <= set(there):
        named = ", ".join(f"cuda:{gpu.ordinal} ({gpu.name})" for gpu in gpus)
        raise UsageError(f"{spec!r} names no GPU of this machine; there are: {named}")
    return [there[one] for one in wanted]


def find_working(*, report: Callable[[str], None], library: str = DRIVER) -> CudaDevice:
    """Open the first GPU that works now, preferring GPUs that no other process uses.

    Where no GPU works, raises the error of the first GPU.
    """
    if library == DRIVER and not has_nodes():
        raise MissingError("this machine has no GPU", "see the checks of cuda-llm doctor")
    gpus, usage = detect_gpus(library), ask_usage()
    working, lacking = [], []
    for gpu in gpus:
        try:
            device = open_gpu(gpu, usage, report=report)
            require_memory(gpu, usage)
            working.append((bool(usage_of(gpu, usage).disturbances), device))
        except (MissingError, InfrastructureError, UsageError) as error:
            lacking.append(error)
    if not working:
        raise lacking[0]
    return min(working, key=lambda one: one[0])[1]


def has_nodes() -> bool:
    """Return whether a driver could find a GPU at all, without calling a driver."""
    return any(Path(node).exists() for node in DEVICE_NODES)


def open_gpu(
    gpu: GpuAttributes, usages: MachineUsage, *, report: Callable[[str], None]
) -> CudaDevice:
    """Open one GPU, whose host process starts at its first work and sees no other GPU.

    `report` gets a line when the process waits for the GPU's lease. Raises MissingError without
    CuPy, HardwareError, DeviceLost.
    """
    require_cupy(gpu)
    hardware, notes = describe_gpu(gpu)
    usage = usage_of(gpu, usages)
    label = f"cuda:{gpu.ordinal}"
    name = f"{label} {gpu.name}"
    notes += usage.disturbances
    if usages.unknown:
        notes += (f"whether something else uses it is not known: {usages.unknown}",)
    opening = OpenSite(
        site=open_site,
        arguments=(hardware, gpu.uuid, name),
        known_answer=check_known_answer,
        # Whatever it starts (runners, ncu) finds the one GPU as number 0.
        environment={"CUDA_VISIBLE_DEVICES": gpu.uuid},
    )
    timeouts = HostTimeouts(
        silence_s=settings().referee_silence_s, work_s=settings().referee_limit_s
    )
    device = CudaDevice(
        name=name,
        hardware=hardware,
        capabilities=GPU_CAPABILITIES,
        version=version_of(gpu, usages.driver),
        notes=tuple(f"{label}: {note}" for note in notes),
        uuid=gpu.uuid,
        label=label,
        client=HostClient(opening, timeouts),
        lease=Lease(gpu.uuid, label, report),
        driver=usages.driver,
    )
    device.require_no_quarantine()
    return device


def describe_gpu(gpu: GpuAttributes) -> tuple[Hardware, tuple[str, ...]]:
    """Return the GPU's profile, or a drafted profile, with notes. Raises HardwareError."""
    profile = find_profile(gpu)
    if profile is None:
        note = f"{gpu.name} has no profile: peaks are estimated, rooflines not known"
        return draft_hardware(gpu), (
            f"{note}; draft a profile: cuda-llm hardware detect --write DIR",
        )
    differing = ", ".join(one.key for one in find_disagreements(gpu, profile))
    note = f"it contradicts its profile in {differing}: cuda-llm hardware detect"
    return profile, (note,) if differing else ()


def ask_usage() -> MachineUsage:
    """Return what else uses the GPUs, unless the setting `nvml` forbids to ask."""
    if settings().nvml:
        return find_usage()
    return MachineUsage(by_uuid={}, unknown="the setting nvml is off")


def usage_of(gpu: GpuAttributes, usages: MachineUsage) -> GpuUsage:
    """Return the usage of one GPU by other programs; empty where NVML does not report the GPU."""
    return usages.by_uuid.get(gpu.uuid, GpuUsage())


def require_memory(gpu: GpuAttributes, usages: MachineUsage) -> None:
    """Raise MissingError where other processes leave too little memory."""
    free = usage_of(gpu, usages).free_bytes
    if free is not None and free < LEAST_FREE_BYTES:
        what = f"cuda:{gpu.ordinal} has {free / 2**30:.1f} GiB of memory free"
        raise MissingError(what, "end the processes that hold the rest: nvidia-smi lists them")
