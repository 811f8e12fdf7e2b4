"""The best kernels of chosen runs: source, verdict, times by size, and what differs between two."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.figure_wording import name_sizes
from cuda_llm.traces.report.candidates import CandidateReader, harmless
from cuda_llm.traces.report.run_lines import RunLine
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.text import us
from cuda_llm.verdict_wording import describe

MOST_SHOWN = 24
"""Kernels of one page."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """The best kernel of one run."""

    line: RunLine
    source: str
    code: str
    """Of the verdict; empty where none is kept."""
    verdict: tuple[str, ...]
    times: tuple[tuple[str, str, str, str], ...]
    """Size, time, the baseline's, speed-up."""
    missing: tuple[str, ...]


def show_kernel(run: RunFolder, line: RunLine) -> Kernel | None:
    """Return the best kernel of a run; None where there is none."""
    if line.best is None:
        return None
    name, reader = line.best, CandidateReader(run)
    verdict = reader.read(lambda: run.kept_verdict(name))
    key = reader.keep_text("source", f"candidates/{name}/source.cu")
    labels = name_sizes(line.sizes)
    times = tuple(
        (label, us(own), us(base), f"{base / own:.2f}x" if own > 0 else "")
        for label, own, base in zip(labels, line.times_us, line.baseline_us, strict=False)
    )
    return Kernel(
        line=line,
        source=reader.texts.get(key, ""),
        code=verdict.code if verdict is not None else "",
        verdict=tuple(harmless(one) for one in describe(verdict)) if verdict is not None else (),
        times=times,
        missing=tuple(harmless(one) for one in reader.missing),
    )


def diff_sources(one: Kernel, other: Kernel) -> Sequence[tuple[str, str]]:
    """Return the lines of a unified diff, each with `added`, `dropped`, `gap` or nothing."""
    kinds = {"+": "added", "-": "dropped", "@": "gap"}
    before, after = one.source.splitlines(), other.source.splitlines()
    lines = list(difflib.unified_diff(before, after, lineterm="", n=4))[2:]
    return [(kinds.get(line[:1], ""), line) for line in lines]
