"""Nsight Compute's raw page as CSV: a row a kernel, a column a metric, units below the head."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass

from cuda_llm.tools.compiler.names import without_parameters

_SCALES = {
    **{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0},
    **{"nsecond": 1e-9, "usecond": 1e-6, "msecond": 1e-3, "second": 1.0},
    **{"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12},
    "%": 0.01,
}
"""To seconds, bytes and parts of one, whatever units a version prints; others are left alone."""


@dataclass(frozen=True, kw_only=True)
class CountedKernel:
    """One row."""

    kernel: str
    """Name without its parameter list."""
    metrics: Mapping[str, float]
    """In seconds, bytes, parts of one, or plain counts; what could not be counted is left out."""


def parse_table(text: str) -> tuple[CountedKernel, ...]:
    """The rows of a raw page; lines of the tool itself and of the program may surround it."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith('"ID","Process ID"')]
    if not starts:
        return ()
    names, *rows = csv.reader(line for line in lines[starts[0] :] if line.startswith('"'))
    rows = [row for row in rows if len(row) == len(names)]
    if not rows:
        return ()
    units, *kernels = rows if not rows[0][0] else [[""] * len(names), *rows]
    return tuple(_kernel(names, units, row) for row in kernels)


def _kernel(names: list[str], units: list[str], row: list[str]) -> CountedKernel:
    metrics = {}
    for name, unit, text in zip(names, units, row, strict=True):
        number = _number(text)
        if "__" in name and number is not None:
            metrics[name] = number * _SCALES.get(unit, 1.0)
    kernel = row[names.index("Kernel Name")] if "Kernel Name" in names else ""
    return CountedKernel(kernel=without_parameters(kernel), metrics=metrics)


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
