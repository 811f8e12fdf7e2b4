"""What `gate --record` keeps of each kernel: verdict, speed-ups over the baseline, and counts.

Absolute times are not compared: a speed-up over the task's baseline is a ratio from one run. The
counts of an emulated device do not depend on the machine, but on the release of nvcc.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cuda_llm.atomic_file import write_atomically
from cuda_llm.codec import encode
from cuda_llm.data_file import Amount, Positive, UnfitError, read_as
from cuda_llm.errors import UsageError
from cuda_llm.outcomes import Passed
from cuda_llm.profile import LaunchProfile, Profile, SizeTime
from cuda_llm.tools.judge.judged import Judged

SCHEMA = 1
SUMS = ("warp_instructions", "l2_bytes", "dram_bytes")
"""Figures of a launch that are summed over the launches of a call."""
WAYS = "bank_ways"
"""Wavefronts of shared memory over the wavefronts without bank conflicts, of the worst launch."""
RESOURCES = ("registers", "shared_bytes", "spill_load_bytes", "spill_store_bytes")
"""Figures of a compiled kernel, each the largest among the kernels of a source."""
TIE = 0.02
"""Relative difference below which two modelled speed-ups tie, as in a search."""


@dataclass(frozen=True, kw_only=True)
class RecordedSize:
    """One timed size of a kernel."""

    dims: Mapping[str, int]
    speedup: Positive
    """Time of the task's baseline over the time of the kernel."""
    error: Amount
    """Relative half-width of the interval of `speedup`."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """Instructions, bytes and bank conflicts of a call; empty where the device counts nothing."""


@dataclass(frozen=True, kw_only=True)
class RecordedKernel:
    """The judging of one kernel, as far as the gate compares it."""

    source_sha256: str
    verdict: str
    sizes: tuple[RecordedSize, ...] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    """Registers and bytes a thread or block, as ptxas reports them."""

    @property
    def speedup(self) -> float | None:
        """Return the geometric mean of the speed-ups; None where the kernel was not timed."""
        if not self.sizes:
            return None
        return math.exp(sum(math.log(one.speedup) for one in self.sizes) / len(self.sizes))

    @property
    def error(self) -> float:
        """Return the relative half-width of the interval of `speedup`: sizes are independent."""
        if not self.sizes:
            return 0.0
        return math.hypot(*(one.error for one in self.sizes)) / len(self.sizes)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """All kernels of a `kernels.toml` as one device judged them."""

    nvcc: str
    time_source: str
    """`measured` or `modelled`."""
    kernels: Mapping[str, RecordedKernel]


@dataclass(frozen=True, kw_only=True)
class RecordingFile:
    """What stands in `kernels.gate.json`: a recording for each device, by its name."""

    schema: int = SCHEMA
    devices: Mapping[str, Recording] = field(default_factory=dict)


def record_kernel(judged: Judged, source: str) -> RecordedKernel:
    """Return what is kept of one judging."""
    profile = judged.verdict.profile if isinstance(judged.verdict, Passed) else None
    kernels = judged.compiled.kernels if judged.compiled else ()
    return RecordedKernel(
        source_sha256=hashlib.sha256(source.encode()).hexdigest(),
        verdict=judged.verdict.code,
        sizes=() if profile is None else record_sizes(profile),
        resources={
            name: float(max(getattr(kernel, name) for kernel in kernels))
            for name in RESOURCES
            if kernels
        },
    )


def record_sizes(profile: Profile) -> tuple[RecordedSize, ...]:
    """Return the timed sizes with the counts of their launches."""
    launches = {one.size: one.launches for one in profile.smaller}
    launches[len(profile.sizes) - 1] = profile.launches
    return tuple(
        RecordedSize(
            dims=dict(size.dims),
            speedup=size.speedup,
            error=error_of(size),
            counts=counts_of(launches.get(number, ())),
        )
        for number, size in enumerate(profile.sizes)
        if size.speedup is not None
    )


def error_of(size: SizeTime) -> float:
    """Return the relative half-width of the interval of a size's speed-up."""
    if size.speedup_half_width is not None:
        return size.speedup_half_width
    return max(TIE, math.hypot(size.spread, size.baseline_spread))


def counts_of(launches: tuple[LaunchProfile, ...]) -> Mapping[str, float]:
    """Return the counts of a call; those that no launch has are left out."""
    counts = {}
    for name in SUMS:
        found = [one.figures[name] for one in launches if name in one.figures]
        if found:
            counts[name] = sum(found)
    ways = [one.figures[WAYS] for one in launches if WAYS in one.figures]
    return {**counts, WAYS: max(ways)} if ways else counts


def read_recording(path: Path) -> RecordingFile:
    """Read `kernels.gate.json`, empty where there is none. Raises UsageError for what does not
    fit."""
    remedy = "delete the file and record again (gate --record)"
    try:
        text = path.read_text(encoding="utf-8")
        if "<<<<<<<" in text:
            raise UsageError(f"{path}: holds a merge conflict; {remedy}")
        return read_as(RecordingFile, json.loads(text))
    except FileNotFoundError:
        return RecordingFile()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnfitError as unfit:
        raise UsageError(f"{path}: {unfit}; {remedy}") from None
    except ValueError as error:
        raise UsageError(f"{path}: is not JSON: {error}; {remedy}") from None


def write_recording(path: Path, device: str, recording: Recording) -> None:
    """Write one device's recording beside the recordings of other devices."""
    devices = {**read_recording(path).devices, device: recording}
    whole = encode(RecordingFile(devices=dict(sorted(devices.items()))))
    write_atomically(path, json.dumps(whole, indent=2) + "\n")
