"""The GPUs of this machine, beside the profiles that bear their names, and a drafted profile for
one that has none.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cuda_llm.errors import HardwareError, InfrastructureError, MissingError
from cuda_llm.hardware_profiles.hardware import Hardware, Peaks
from cuda_llm.hardware_profiles.lookup import find_hardware, list_hardware, read_hardware
from cuda_llm.tools.cuda.driver_query import NO_DRIVER, GpuAttributes

DRIVER = "libcuda.so.1"
LIMIT_S = 30.0
NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE."""


def detect_gpus(library: str = DRIVER) -> tuple[GpuAttributes, ...]:
    """Return every GPU that the driver `library` knows, in its order.

    Raises MissingError where there is no driver or no GPU, InfrastructureError where the driver
    fails or does not answer.
    """
    command = [sys.executable, "-P", "-m", "cuda_llm.tools.cuda.driver_query", library]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        msg = f"the driver did not answer within {LIMIT_S:g} s; see nvidia-smi"
        raise InfrastructureError("GPU", msg) from None
    if done.returncode == NO_DRIVER:
        mend = "install NVIDIA's driver, or use --device emulated"
        raise MissingError(f"no CUDA driver ({library}) on this machine", mend)
    if done.returncode != 0:
        msg = f"asking the driver ended with {done.returncode}; see nvidia-smi"
        raise InfrastructureError("GPU", msg)
    answer = json.loads(done.stdout)
    gpus = tuple(_read_attributes(one) for one in answer.get("gpus", ()))
    if answer.get("error", NO_DEVICE) == NO_DEVICE and not gpus:
        raise MissingError("the CUDA driver sees no GPU", "look at nvidia-smi and /dev/nvidia*")
    if not gpus:
        msg = f"{answer['call']} failed with CUresult {answer['error']}; see nvidia-smi"
        raise InfrastructureError("GPU", msg)
    return gpus


def _read_attributes(data: dict[str, Any]) -> GpuAttributes:
    major, minor = data.pop("compute_capability")
    return GpuAttributes(compute_capability=(major, minor), **data)


CLOCK_PART = 0.10
"""Boards of one name differ in their clocks by up to this; memory sizes by what ECC takes."""
MEMORY_PART = 0.08
BANDWIDTH_PART = 0.03


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One figure that device and profile state differently."""

    key: str
    """Dotted, as in the profile's file."""
    device: float
    profile: float


def find_profile(gpu: GpuAttributes) -> Hardware | None:
    """Return the profile of exactly that name, or None: a near miss is another GPU."""
    try:
        return find_hardware(gpu.name)
    except HardwareError:
        return None


def find_disagreements(gpu: GpuAttributes, profile: Hardware) -> tuple[Disagreement, ...]:
    """Return every figure in which the driver contradicts the profile."""
    limits = profile.limits
    exact = {
        "sm_count": (gpu.sm_count, profile.sm_count),
        "compute_capability": (
            _number(gpu.compute_capability),
            _number(profile.compute_capability),
        ),
        "memory_bus_bits": (gpu.memory_bus_bits, profile.memory_bus_bits),
        "l2_bytes": (gpu.l2_bytes, profile.l2_bytes),
        **{f"limits.{key}": (getattr(gpu, key), getattr(limits, key)) for key in _LIMITS},
    }
    close = {
        "boost_clock_mhz": (gpu.clock_khz / 1e3, profile.boost_clock_mhz, CLOCK_PART),
        "memory_bytes": (gpu.memory_bytes, profile.memory_bytes, MEMORY_PART),
        "peaks.dram_gb_s": (gpu.dram_gb_s, profile.peaks.dram_gb_s, BANDWIDTH_PART),
    }
    differing = [(key, one, other) for key, (one, other) in exact.items() if one != other]
    differing += [
        (key, one, other)
        for key, (one, other, part) in close.items()
        if abs(one - other) > part * other
    ]
    return tuple(Disagreement(key=key, device=one, profile=other) for key, one, other in differing)


_LIMITS = (
    *("threads_per_block", "threads_per_sm", "blocks_per_sm"),
    *("registers_per_sm", "registers_per_block"),
    *("shared_bytes_per_sm", "shared_bytes_per_block", "shared_bytes_per_block_optin"),
    "shared_bytes_reserved_per_block",
)


def _number(capability: tuple[int, int]) -> float:
    major, minor = capability
    return major + minor / 10


FROM_DRIVER = "as the CUDA driver reports it"


def profile_slug(name: str) -> str:
    """Return the file name for a GPU of that name, without `.toml`."""
    words = re.sub(r"^(NVIDIA|GeForce|\s)+", "", name)
    return re.sub(r"[^a-z0-9]+", "_", words.casefold()).strip("_") or "gpu"


def find_most_similar(gpu: GpuAttributes) -> Hardware:
    """Return the described GPU to guess from: same capability, nearest number of SMs.

    Raises HardwareError where no GPU of that generation is described.
    """
    major = gpu.compute_capability[0]
    related = [one for one in list_hardware() if one.compute_capability[0] == major]
    if not related:
        msg = f"{gpu.name}: nothing of compute capability {major}.x is described to start from"
        raise HardwareError(msg)
    return min(
        related,
        key=lambda one: (
            one.compute_capability != gpu.compute_capability,
            abs(one.sm_count - gpu.sm_count),
        ),
    )


def draft_profile(gpu: GpuAttributes, like: Hardware) -> str:
    """Return the text of a profile, complete and readable by `read_hardware`.

    What the driver does not report is taken from `like`, peaks scaled by SMs and clock; each such
    figure's source begins with CONFIRM.
    """
    return "\n".join(_lines(gpu, like)) + "\n"


def _lines(gpu: GpuAttributes, like: Hardware) -> Iterator[str]:
    major, minor = gpu.compute_capability
    yield f"# {gpu.name}, drafted from its driver. Look at every source that says CONFIRM."
    yield ""
    yield f"name = {json.dumps(gpu.name)}"
    yield "aliases = []"
    yield f'architecture = "{like.architecture}"'
    yield f'compute_capability = "{major}.{minor}"'
    variant = "a" if major >= 9 else ""
    yield f'target = "sm_{major}{minor}{variant}"'
    yield f"sm_count = {gpu.sm_count}"
    yield f"schedulers_per_sm = {like.schedulers_per_sm}"
    yield f"boost_clock_mhz = {gpu.clock_khz / 1e3:g}"
    yield f"memory_clock_mhz = {gpu.memory_clock_khz / 1e3:g} # data rate per pin is twice this"
    yield f"memory_bus_bits = {gpu.memory_bus_bits}"
    yield f"memory_bytes = {gpu.memory_bytes}"
    yield f"l2_bytes = {gpu.l2_bytes}"
    yield from _table("limits", _limits(gpu, like))
    yield from _table("peaks", _peaks(gpu, like))
    for kind in ("tensor_dense_tflops", "tensor_sparse_tflops"):
        rates: Mapping[str, float] = getattr(like.peaks, kind)
        yield from _table(
            f"peaks.{kind}", {name: rates[name] * _scale(gpu, like) for name in rates}
        )
    yield from _table("pipes", _fields(like.pipes))
    yield from _table("model", _fields(like.model))
    yield ""
    yield "[sources] # keys, separated by commas"
    for keys, source in _sources(like).items():
        yield f'"{keys}" = "{source}"'


def _limits(gpu: GpuAttributes, like: Hardware) -> dict[str, float]:
    return {key: getattr(gpu, key, value) for key, value in _fields(like.limits).items()}


def _peaks(gpu: GpuAttributes, like: Hardware) -> dict[str, float]:
    scaled = {
        field.name: getattr(like.peaks, field.name) * _scale(gpu, like)
        for field in fields(Peaks)
        if field.name.startswith("fp")
    }
    return scaled | {"dram_gb_s": gpu.dram_gb_s}


def _scale(gpu: GpuAttributes, like: Hardware) -> float:
    """Return how much more work the SMs do in a second, by their number and clock."""
    return gpu.sm_count * gpu.clock_khz / (like.sm_count * like.boost_clock_mhz * 1e3)


def _fields(part: object) -> dict[str, float]:
    return dict(vars(part))


def _table(name: str, values: Mapping[str, float]) -> Iterator[str]:
    yield ""
    yield f"[{name}]"
    for key, value in values.items():
        yield f"{key} = {value if isinstance(value, int) else f'{value:.6g}'}"


def _sources(like: Hardware) -> dict[str, str]:
    reported = (
        *("name", "sm_count", "boost_clock_mhz", "memory_clock_mhz", "memory_bus_bits"),
        *("memory_bytes", "l2_bytes", "compute_capability", "target", "limits", "peaks.dram_gb_s"),
    )
    scaled = (
        *("peaks.fp32_tflops", "peaks.fp64_tflops", "peaks.fp16_tflops"),
        *("peaks.tensor_dense_tflops", "peaks.tensor_sparse_tflops"),
    )
    taken = ("schedulers_per_sm", "limits.register_allocation_unit", "architecture", "pipes")
    return {
        ", ".join(reported): FROM_DRIVER,
        "aliases": "none known",
        ", ".join(scaled): f"CONFIRM: the {like.name}'s, scaled by SMs and clock",
        ", ".join((*taken, "limits.shared_allocation_bytes")): f"CONFIRM: as the {like.name}'s",
        "model": f"CONFIRM: estimate, as the {like.name}'s",
    }


def draft_hardware(gpu: GpuAttributes) -> Hardware:
    """Make a profile of the driver's answers and the most similar GPU we know.

    Raises HardwareError.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{profile_slug(gpu.name)}.toml"
        path.write_text(draft_profile(gpu, find_most_similar(gpu)))
        return read_hardware(path)
