"""Drafts a hardware profile of a GPU without a profile, by its driver and the most similar GPU."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.hardware import Hardware, Peaks
from cuda_llm.hardware_profiles.lookup import list_hardware, read_hardware
from cuda_llm.tools.cuda.driver_query import GpuAttributes

FROM_DRIVER = "as the CUDA driver reports it"
_SCALED = (
    *("peaks.fp32_tflops", "peaks.fp64_tflops", "peaks.fp16_tflops"),
    *("peaks.tensor_dense_tflops", "peaks.tensor_sparse_tflops"),
)
_TAKEN = (
    *("schedulers_per_sm", "limits.register_allocation_unit", "limits.shared_allocation_bytes"),
    *("architecture", "pipes"),
)


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
        msg = f"{gpu.name}: no profile of compute capability {major}.x exists to start from"
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
    yield f"# {gpu.name}, drafted from its driver. Check every source that begins with CONFIRM."
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
    yield "[origins] # of figures that are not published"
    yield f"estimated = {json.dumps([*_SCALED, *_TAKEN, 'model'])}"
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
    return {
        ", ".join(reported): FROM_DRIVER,
        "aliases": "none known",
        ", ".join(_SCALED): f"CONFIRM: the {like.name}'s, scaled by SMs and clock",
        ", ".join(_TAKEN): f"CONFIRM: as the {like.name}'s",
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
