"""From what a user writes after `--device` to a device."""

import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cuda_llm.capabilities import Capabilities
from cuda_llm.dotted import load_dotted
from cuda_llm.errors import CudaLLMError, HardwareError, UsageError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.own_part import find_misfit
from cuda_llm.tools.cuda.discovery import DRIVER
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.group import split_most

if TYPE_CHECKING:
    from cuda_llm.tools.emulator.device import EmulatedDevice

DEFAULT_GPU = "RTX 3090 Ti"
"""The GPU of the paper this project follows."""
KINDS = ("auto", "cuda", "ray", "files", "emulated")
CHOICES = (
    "auto, cuda, cuda:0, cuda:0,1, cuda:all, ray:auto, ray://HOST:10001, files:DIR, emulated or "
    "emulated:GPU, as in emulated:RTX 4090, or FILE.py:NAME for a device of your own"
)
OPTIONAL_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "ray": "cuda_llm.tools.cluster.open_cluster",
        "files": "cuda_llm.tools.cluster.files_device",
    }
)
"""The module of each kind of device whose room is optional: the module is imported when a user
names the kind, and its `open_device_of` opens the device."""
MEMBER_TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {
        "name": (str,),
        "hardware": (Hardware,),
        "capabilities": (Capabilities,),
        "version": (str,),
        "notes": (tuple, list),
    }
)
QUIET_S = 0.5
"""Preparation that takes no longer is not worth a word."""
FIRST_USE = "building the native parts, once for this version: a minute or so on two cores"

ReportLine = Callable[[str], None]
"""Called with one line for a person."""


def print_line(line: str) -> None:
    """Print a line on stderr."""
    print(line, file=sys.stderr, flush=True)


def open_device(spec: str, *, report: ReportLine = print_line, library: str = DRIVER) -> Device:
    """Open the device that `spec` names. `report` gets which one `auto` takes and why, and what
    disturbs times on a GPU.

    Raises UsageError naming what there is, HardwareError for a GPU without a profile,
    MissingError where a real GPU is asked for and something lacks, DeviceLost for one in
    quarantine, InfrastructureError where the driver fails, and what a device of the user's own
    raises of ours.
    """
    try:
        return _open(spec, report, library)
    except UsageError as error:
        source = _setting_of(spec)
        if not source:
            raise
        raise type(error)(f"{error} ({source} names it)") from error


def _setting_of(spec: str) -> str:
    """Return where the settings name this device; empty where they name another, or none."""
    from cuda_llm.settings import setting_source, settings

    return setting_source("device") if spec == settings().device else ""


def _open(spec: str, report: ReportLine, library: str) -> Device:
    """See `open_device`."""
    kind, colon, name = spec.strip().partition(":")
    if kind == "auto" and not colon:
        device = _auto(report, library)
    elif kind == "cuda":
        from cuda_llm.tools.cuda.open_cuda import open_cuda

        text, most = split_most(spec, "expected cuda:all?max_gpus=N")
        which = text.partition(":")[2].strip() if colon else "0"
        device = open_cuda(which, spec=spec, report=report, library=library, most=most)
    elif kind in OPTIONAL_KINDS:
        room = import_module(OPTIONAL_KINDS[kind])
        device = room.open_device_of(spec, open_device, report=report)
    elif names_code(spec):
        device = _open_named(spec.strip(), report)
    elif kind != "emulated":
        raise UsageError(f"unknown device {spec!r}; there are: {CHOICES}")
    elif colon and not name.strip():
        raise UsageError(f"{spec!r} names no GPU; there are: {_known()}")
    else:
        device = open_emulated(name if colon else DEFAULT_GPU)
    for note in device.notes:
        report(f"note: {note}")
    return device


def prepare_device(device: Device, report: ReportLine = print_line) -> None:
    """Build what a device needs; `report` gets a line when that takes its time."""
    announce_when_slow(device.prepare, lambda: report(FIRST_USE))


def announce_when_slow(work: Callable[[], None], announce: Callable[[], object]) -> None:
    """Do the work; call `announce` once when it is not done after a moment."""
    timer = threading.Timer(QUIET_S, announce)
    timer.daemon = True
    timer.start()
    try:
        work()
    finally:
        timer.cancel()


def names_code(spec: str) -> bool:
    """Tell whether a device is named by `FILE.py:NAME` or `MODULE:NAME`."""
    place, _, attribute = spec.strip().rpartition(":")
    return bool(place) and attribute.isidentifier() and place.partition(":")[0] not in KINDS


def spec_of(device: Device, asked: str) -> str:
    """Return the text that opens this device again: for `auto`, the name of what it found."""
    open_to_choice = asked == "auto" or asked.partition(":")[0] == "emulated"
    return str(getattr(device, "spec", asked)) if open_to_choice else asked


def open_emulated(gpu: str = DEFAULT_GPU) -> "EmulatedDevice":
    """Open the emulated device that stands for `gpu`. Raises HardwareError."""
    from cuda_llm.hardware_profiles.lookup import find_hardware
    from cuda_llm.tools.emulator.device import EmulatedDevice

    try:
        return EmulatedDevice(find_hardware(gpu))
    except HardwareError as error:
        raise HardwareError(f"{error}; there are: {_known()}") from error


def open_watcher(device: Device) -> Device | None:
    """Return a device that watches every access for the GPU of `device`; None where that does."""
    from cuda_llm.tools.emulator.device import EmulatedDevice

    return None if device.capabilities.sees_races else EmulatedDevice(device.hardware)


def _auto(report: ReportLine, library: str) -> Device:
    """Open a GPU that works, else the emulated device."""
    from cuda_llm.tools.cuda.open_cuda import find_working

    try:
        device: Device = find_working(report=report, library=library)
    except CudaLLMError as error:
        emulated = open_emulated()
        report(f"{emulated.name} stands in for a GPU: {error}")
        return emulated
    report(f"{device.name}: a GPU that works")
    return device


def _open_named(spec: str, report: ReportLine) -> Device:
    """Open a device of the user's own code: `attribute` is one, or returns one when called."""
    place = spec.rpartition(":")[0]
    try:
        found = load_dotted(spec, "device")
    except UsageError as error:
        # A slip in the name of a device that ships looks like a module, too.
        known = "" if "." in place or "/" in place else f"; there are: {CHOICES}"
        raise UsageError(f"{error}{known}") from error
    given = f"device {spec!r}"
    own = checked_device(make_device(found, given), given)
    if not own.capabilities.confines:
        report(f"note: {own.name} confines no candidate: each runs with the rights of its process")
    return own


def make_device(found: Any, given: str) -> Any:
    """Return what a class or function gives when called without arguments; else `found` itself.

    `given` is the device as the user gave it. Raises UsageError for an error of the user's code.
    """
    try:
        return found() if callable(found) else found
    except CudaLLMError:
        raise
    except Exception as error:  # the user's own code may raise anything
        raise UsageError(
            f"{given}: it cannot be opened: {type(error).__name__}: {error}"
        ) from error


def checked_device(device: Any, given: str) -> Device:
    """Return the device, if it is one. Raises UsageError naming the members that do not fit."""
    if misfit := find_misfit(device, Device):
        what = f"{given} gives {_kind_of(device)} that {misfit}"
        raise UsageError(f"{what}; docs/extending.md says what a device is")
    for name, kinds in MEMBER_TYPES.items():
        value = getattr(device, name)
        if not isinstance(value, kinds):
            what = f"member {name} is of type {type(value).__name__}; expected {kinds[0].__name__}"
            raise UsageError(f"{given}: {what}")
    own: Device = device
    return own


def _kind_of(value: object) -> str:
    """Return the name of a value's type behind its article: `an int`."""
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def _known() -> str:
    from cuda_llm.hardware_profiles.lookup import list_hardware

    return ", ".join(profile.short_name for profile in list_hardware())
