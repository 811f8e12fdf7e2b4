"""Rates that kernels can reach on a GPU: measured on this machine's GPU, else published.

`hardware probe` stores measured ceilings in the cache; no other command writes them.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from cuda_llm.atomic_file import write_atomically
from cuda_llm.data_file import Positive, read_as
from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.settings import settings

Origin = Literal["measured", "published"]
"""Source of a ceiling: a probe of this machine's GPU, or the profile."""

COPY_OVERHEAD_US = 1.45
"""Microseconds of a copy beyond its bytes at the large-copy rate, where no copy was probed: on an
H200, copies of 4.2, 16.8 and 33.5 MB reached 41, 73 and 84 % of that rate, a constant overhead of
1.40 to 1.48 us."""


@dataclass(frozen=True, kw_only=True)
class CopyRate:
    """Rate of a device-to-device copy of one size, from cold memory."""

    bytes_moved: int
    """Bytes read and bytes written, added up."""
    gb_s: float


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """Rates with which achieved rates are compared."""

    dram_gb_s: float
    """GB/s of a large copy, bytes read and written together."""
    fp32_tflops: float
    """TFLOPS of the CUDA cores; a fused multiply-add counts as two operations."""
    launch_us: float
    """Microseconds from the end of a kernel to the start of the next in a captured graph."""
    tensor_tflops: Mapping[str, float] = field(default_factory=dict)
    """Dense TFLOPS of the tensor cores, by input type as in `Peaks.tensor_dense_tflops`."""
    copies: tuple[CopyRate, ...] = ()
    """Rates of smaller copies, ascending in size; empty where no copy was measured."""
    measured: frozenset[str] = frozenset()
    """Names of the fields above that were measured, and `tensor:` with each measured input type;
    all other figures are published."""

    def origin(self, name: str) -> Origin:
        """Return the source of the figure `name`."""
        return "measured" if name in self.measured else "published"

    def copy_us(self, bytes_moved: float) -> float:
        """Return the microseconds of a cold copy of `bytes_moved`, the least time of memory-bound
        work.

        A copy takes its bytes at the large-copy rate plus an overhead, which is interpolated
        between measured sizes by the logarithm of the size.
        """
        return bytes_moved / (self.dram_gb_s * 1e3) + self._overhead_us(bytes_moved)

    def _overhead_us(self, bytes_moved: float) -> float:
        if not self.copies:
            return COPY_OVERHEAD_US
        known = [
            (math.log(one.bytes_moved), one.bytes_moved * (1 / one.gb_s - 1 / self.dram_gb_s) / 1e3)
            for one in self.copies
        ]
        at = math.log(max(1.0, bytes_moved))
        if at <= known[0][0]:
            return max(0.0, known[0][1])
        for (left, low), (right, high) in pairwise(known):
            if at <= right:
                return low + (high - low) * (at - left) / (right - left)
        return known[-1][1]


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """The measured fields of Ceilings, as `keep_ceilings` writes them."""

    dram_gb_s: Positive | None = None
    fp32_tflops: Positive | None = None
    launch_us: Positive | None = None
    tensor_tflops: Mapping[str, Positive] = field(default_factory=dict)
    copies: tuple[tuple[Positive, Positive], ...] = ()
    """Bytes and gigabytes a second."""


def published_ceilings(hardware: Hardware) -> Ceilings:
    """Return published peaks, and the profile's estimates of copy rate and launch cost."""
    return Ceilings(
        dram_gb_s=hardware.peaks.dram_gb_s * hardware.model.dram_efficiency,
        fp32_tflops=hardware.peaks.fp32_tflops,
        launch_us=hardware.model.launch_us,
        tensor_tflops=dict(hardware.peaks.tensor_dense_tflops),
    )


def find_ceilings(hardware: Hardware) -> Ceilings:
    """Return measured ceilings where this machine's GPU was probed, published ceilings elsewhere.

    Raises HardwareError where the stored file is not valid.
    """
    path = ceilings_path(hardware)
    known = published_ceilings(hardware)
    try:
        stored = json.loads(path.read_text())
        found = read_as(_Stored, stored)
    except FileNotFoundError:
        return known
    except (OSError, TypeError, ValueError) as error:
        raise HardwareError(
            f"{path}: is no list of ceilings ({error}); probe the card again"
        ) from error
    copies = [CopyRate(bytes_moved=int(size), gb_s=rate) for size, rate in found.copies]
    return Ceilings(
        dram_gb_s=found.dram_gb_s or known.dram_gb_s,
        fp32_tflops=found.fp32_tflops or known.fp32_tflops,
        launch_us=found.launch_us or known.launch_us,
        tensor_tflops={**known.tensor_tflops, **found.tensor_tflops},
        copies=tuple(sorted(copies, key=lambda one: one.bytes_moved)),
        measured=frozenset({*stored, *(f"tensor:{kind}" for kind in found.tensor_tflops)}),
    )


def keep_ceilings(hardware: Hardware, ceilings: Ceilings) -> Path:
    """Store the measured fields for `find_ceilings`, and return the file."""
    path = ceilings_path(hardware)
    names = sorted(name for name in ceilings.measured if not name.startswith("tensor:"))
    stored: dict[str, Any] = {name: getattr(ceilings, name) for name in names}
    if "tensor_tflops" in stored:
        stored["tensor_tflops"] = dict(ceilings.tensor_tflops)
    if "copies" in stored:
        stored["copies"] = [[one.bytes_moved, one.gb_s] for one in ceilings.copies]
    write_atomically(path, json.dumps(stored, indent=2) + "\n")
    return path


def ceilings_path(hardware: Hardware) -> Path:
    """Return the file with the measured ceilings of a GPU model."""
    return settings().cache / "ceilings" / f"{hardware.slug}.json"
