"""From ordinals to GPUs that are there, described, and free of other people's work."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from cuda_llm.errors import InfrastructureError, MissingError, UsageError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.detector.attributes import GpuAttributes
from cuda_llm.tools.detector.busy import Companies, Company, find_company
from cuda_llm.tools.detector.compare import find_disagreements, find_profile
from cuda_llm.tools.detector.detect import DRIVER, detect_gpus
from cuda_llm.tools.device import Device
from cuda_llm.tools.devices.cuda import CudaDevice
from cuda_llm.tools.devices.group import DeviceGroup
from cuda_llm.tools.referee.gpu import open_referee, require_cupy

LEAST_FREE_BYTES = 2 << 30
"""Contexts of referee and runners, and the smallest buffers anybody times."""
NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
"""One of them is there where a driver may find a GPU: natively, and below Windows."""


def open_cuda(which: str, *, spec: str, report: Callable[[str], None], library: str) -> Device:
    """The GPU `which` names by its ordinal, or several as one: `0,1` or `all`.

    Ordinals are the driver's, as CUDA_VISIBLE_DEVICES leaves them. Raises UsageError, MissingError,
    HardwareError, InfrastructureError.
    """
    try:
        gpus = detect_gpus(library)
    except MissingError:
        require_ordinals(which, spec)
        raise
    usage = ask_company()
    opened = [open_one(gpu, usage, report=report) for gpu in choose(which, gpus, spec)]
    return opened[0] if len(opened) == 1 else DeviceGroup(opened)


def require_ordinals(which: str, spec: str) -> None:
    """Raise UsageError for what names no GPU on any machine."""
    parts = [part.strip() for part in which.split(",")]
    if which != "all" and not (len(set(parts)) == len(parts) and all(map(str.isdecimal, parts))):
        raise UsageError(f"{spec!r} names no GPU; expected cuda:0, cuda:0,1 or cuda:all")


def choose(which: str, gpus: Sequence[GpuAttributes], spec: str) -> list[GpuAttributes]:
    """The GPUs that `which` names. Raises UsageError naming what there is."""
    if which == "all":
        return list(gpus)
    there = {str(gpu.ordinal): gpu for gpu in gpus}
    wanted = [part.strip() for part in which.split(",")]
    if len(set(wanted)) != len(wanted) or not set(wanted) <= set(there):
        named = ", ".join(f"cuda:{gpu.ordinal} ({gpu.name})" for gpu in gpus)
        raise UsageError(f"{spec!r} names no GPU of this machine; there are: {named}")
    return [there[one] for one in wanted]


def find_working(*, report: Callable[[str], None], library: str = DRIVER) -> CudaDevice:
    """The first GPU that could judge now, one that nobody else uses before others.

    Raises what the first of them lacks.
    """
    if library == DRIVER and not has_nodes():
        raise MissingError("no GPU is here", "cuda-llm doctor tells what it looks for")
    gpus, usage = detect_gpus(library), ask_company()
    working, lacking = [], []
    for gpu in gpus:
        try:
            device = open_one(gpu, usage, report=report)
            device.referee.refuse_in_quarantine()
            require_memory(gpu, usage)
            working.append(device)
        except (MissingError, InfrastructureError, UsageError) as error:
            lacking.append(error)
    if not working:
        raise lacking[0]
    return min(working, key=lambda one: bool(company_of(one.gpu, usage).disturbances))


def has_nodes() -> bool:
    """Whether a driver could find a GPU at all: it costs nothing to know."""
    return any(Path(node).exists() for node in NODES)


def open_one(gpu: GpuAttributes, usages: Companies, *, report: Callable[[str], None]) -> CudaDevice:
    """One GPU as a device. Raises MissingError without CuPy, HardwareError, DeviceLost."""
    require_cupy(gpu)
    hardware, notes = describe(gpu)
    usage = company_of(gpu, usages)
    label = f"cuda:{gpu.ordinal}"
    notes += usage.disturbances
    if usages.unknown:
        notes += (f"whether something else uses it is not known: {usages.unknown}",)
    device = CudaDevice(
        gpu=gpu,
        hardware=hardware,
        referee=open_referee(gpu, hardware, f"{label} {gpu.name}", report),
        driver=usages.driver,
        notes=tuple(f"{label}: {note}" for note in notes),
    )
    device.referee.refuse_in_quarantine()
    return device


def describe(gpu: GpuAttributes) -> tuple[Hardware, tuple[str, ...]]:
    """The GPU's profile, or a draft of one, and what is to be said of it. Raises HardwareError."""
    profile = find_profile(gpu)
    if profile is None:
        told = f"nobody has described {gpu.name}: peaks are guessed, rooflines not known"
        return draft(gpu), (f"{told}; cuda-llm hardware detect --write DIR",)
    differing = ", ".join(one.key for one in find_disagreements(gpu, profile))
    told = f"it contradicts its profile in {differing}: cuda-llm hardware detect"
    return profile, (told,) if differing else ()


def draft(gpu: GpuAttributes) -> Hardware:
    """A profile made of what the driver says and of the likest GPU we know. Raises HardwareError"""
    from cuda_llm.hardware_profiles.schema import read_hardware
    from cuda_llm.tools.detector.draft import draft_profile, find_likest, slug

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{slug(gpu.name)}.toml"
        path.write_text(draft_profile(gpu, find_likest(gpu)))
        return read_hardware(path)


def ask_company() -> Companies:
    """What else goes on on the GPUs, unless the setting `nvml` forbids to ask."""
    from cuda_llm.settings import settings

    if settings().nvml:
        return find_company()
    return Companies(by_uuid={}, unknown="the setting nvml is off")


def company_of(gpu: GpuAttributes, usages: Companies) -> Company:
    """What is known of one GPU."""
    return usages.by_uuid.get(gpu.uuid, Company())


def require_memory(gpu: GpuAttributes, usages: Companies) -> None:
    """Raise MissingError where others leave too little memory."""
    free = company_of(gpu, usages).free_bytes
    if free is not None and free < LEAST_FREE_BYTES:
        what = f"cuda:{gpu.ordinal} has {free / 2**30:.1f} GiB of memory free"
        raise MissingError(what, "end what holds the rest: nvidia-smi names it")
