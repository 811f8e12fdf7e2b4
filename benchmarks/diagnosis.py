"""Does the headline of a diagnosis name what saves most, and does it save that much?

    python benchmarks/diagnosis.py count --shard 1/2
    python benchmarks/diagnosis.py compare

A situation is a kernel at one size; its mends each take one cause away, by a macro or a tunable:
`diagnosis_pairs.toml`. `count` runs every kernel on the emulated device and keeps its counters in
the cache; it goes on where it was. `compare` explains each kernel by its counters and writes
`results/diagnosis.json`: by pair (a kernel, the same with one cause mended) the saving predicted
and the saving had, both modelled, and over all situations

headline  share whose headline names the cause of the mend that saved most
factor    share of pairs whose predicted saving is within a factor of two of the one had

for those held back and for the others. A mend that saves less than `LEAST_SAVING` of the time is no
pair, and a situation without a pair does not count.
"""

import argparse
import asyncio
import hashlib
import pickle
import re
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import record

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.profile import KernelResources
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import Device, Level, SamplingSession, Site
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.call_report import EmulatedCallReport
from cuda_llm.tools.emulator.codegen.libraries import translate
from cuda_llm.tools.judge.modelled_times import call_unfilled
from cuda_llm.tools.judge.steps import compile_source
from cuda_llm.tools.native import cache_folder
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.profiler.bottlenecks import Explained
from cuda_llm.tools.profiler.counters import LaunchCounters
from cuda_llm.tools.profiler.explain_modelled import explain_call
from cuda_llm.tools.profiler.tables import KernelTable, Translated

FIXTURES = record.ROOT / "tests/fixtures/diagnosed"
PAIRS = record.ROOT / "benchmarks/diagnosis_pairs.toml"
Row = dict[str, Any]
NONCE = b"diagnosis"
"""Inputs are always the same."""
LEAST_SAVING = 0.03
"""Part of a kernel's time that a mend must save to be a pair."""
FACTOR = 2.0
ONE_CAUSE = {"l1_bandwidth": "shared_bandwidth"}
"""L1 and shared memory are one data path: values that serve more outputs relieve both."""


Point = Mapping[str, int]
"""Values of macros, by name."""


@dataclass(frozen=True, kw_only=True)
class Mend:
    """One cause taken away."""

    cause: str
    """Code of the bottleneck that it is for."""
    point: Point


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A kernel at one size, and what can be mended of it."""

    task: str
    kernel: Path
    point: Point
    dims: Mapping[str, int]
    mends: tuple[Mend, ...]
    held_back: bool = False
    """Whether no rule of the diagnosis may be chosen by it."""

    @property
    def name(self) -> str:
        """Return the task, the file, the size and the values of its macros."""
        values = " ".join(f"{name}={value}" for name, value in self.point.items())
        size = " ".join(f"{name}={value}" for name, value in self.dims.items())
        return f"{self.task}/{self.kernel.stem} [{size}] {values}"

    def source(self, point: Point) -> str:
        """Return the kernel with those values."""
        text = self.kernel.read_text()
        for name, value in point.items():
            text, count = re.subn(rf"(?m)^(#define {name}) \S+", rf"\1 {value}", text)
            assert count == 1, f"{self.kernel.name} does not define {name}"
        return text


def situations() -> list[Situation]:
    """Return all that are listed."""
    return [_situation(one) for one in tomllib.loads(PAIRS.read_text())["situations"]]


def _situation(one: Row) -> Situation:
    mends = tuple(
        Mend(cause=cause, point={**one["point"], **changed})
        for cause, changed in one["mends"].items()
    )
    path = record.ROOT / one["kernel"]
    return Situation(**{**one, "mends": mends, "kernel": path})


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What was counted of a call, from which it is explained again."""

    accounts: tuple[LaunchCounters, ...]
    tables: tuple[KernelTable, ...]
    resources: tuple[KernelResources, ...]
    copies_us: float
    """Fills and copies beside the launches."""

    def explain(self, hardware: Hardware) -> Explained:
        """Return time and reasons of the launches."""
        return explain_call(self.accounts, self.tables, self.resources, hardware)


def cache_path(situation: Situation, point: Point) -> Path:
    """Return where the counters of a kernel at a size are kept."""
    text = f"{situation.source(point)}\n{sorted(situation.dims.items())}"
    name = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return cache_folder("diagnosis") / f"{name}.pickle"


def points(situation: Situation) -> tuple[Point, ...]:
    """Return the situation's own point, then those of its mends."""
    return (situation.point, *(mend.point for mend in situation.mends))


def count_kernels() -> None:
    """Count what has no counters yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="emulated")
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--limit-s", type=float, default=600)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    device = open_device(arguments.device)
    device.prepare()
    for situation in record.sharded(situations(), arguments.shard):
        for point in points(situation):
            path = cache_path(situation, point)
            if not path.exists() and time.monotonic() < deadline:
                counted = asyncio.run(count(device, situation, point))
                path.write_bytes(pickle.dumps(counted))
                print(situation.name, dict(point), flush=True)


async def count(device: Device, situation: Situation, point: Point) -> Counted:
    """Call the kernel once at its size."""
    task, source = load_task(situation.task), situation.source(point)
    compiled = await compile_source(task, device, source, situation.kernel.name)
    assert isinstance(compiled, Compiled), compiled
    translated = await translate(
        compiled.ptx, kernels=compiled.kernels, source_name=compiled.name, source=source
    )
    assert isinstance(translated, Translated), translated
    report = await device.carry_out(_call, situation, compiled)
    copies = [one for one in report.launches if not all(one.grid)]
    return Counted(
        accounts=report.accounts,
        tables=translated.kernels,
        resources=compiled.kernels,
        copies_us=sum(one.time_us for one in copies),
    )


async def _call(site: Site, situation: Situation, compiled: Compiled) -> EmulatedCallReport:
    async with site.open(compiled) as session:
        assert isinstance(session, SamplingSession), session
        report = await call_unfilled(
            load_task(situation.task), session, situation.dims, nonce=NONCE, level=Level.SAMPLE
        )
    assert isinstance(report, EmulatedCallReport), f"{situation.name}: {report}"
    return report


def compare_kernels() -> None:
    """Explain, compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="emulated")
    parser.add_argument("--part", choices=("all", "seen"), default="all")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    device = open_device(arguments.device)
    rows = [
        row_of(one, [_counted(one, point) for point in points(one)], device.hardware)
        for one in situations()
        if arguments.part == "all" or not one.held_back
    ]
    for row in rows:
        print_row(row)
    figures = summarise(rows)
    for part, one in figures.items():
        print(f"{part:10}", one)
    if arguments.part == "all":
        whole = {"device": device.name, "figures": figures, "situations": rows}
        print(record.write("diagnosis", whole, arguments.results))


def row_of(situation: Situation, counted: Sequence[Counted], hardware: Hardware) -> Row:
    """Compare what the diagnosis predicts with what mends saved, from the counts of `points`."""
    own, *mended = counted
    explained = own.explain(hardware)
    time_us = explained.time_us + own.copies_us
    predicted: defaultdict[str, float] = defaultdict(float)
    for one in explained.bottlenecks:
        predicted[cause_of(one.code)] += one.saved_us
    pairs = []
    for mend, other in zip(situation.mends, mended, strict=True):
        mended_us = other.explain(hardware).time_us + other.copies_us
        pairs.append(
            {
                "cause": mend.cause,
                "mend": {
                    name: value
                    for name, value in mend.point.items()
                    if situation.point.get(name) != value
                },
                "predicted_us": round(predicted[cause_of(mend.cause)], 3),
                "had_us": round(time_us - mended_us, 3),
            }
        )
    return {
        "name": situation.name,
        "task": situation.task,
        "held_back": situation.held_back,
        "time_us": round(time_us, 3),
        "headline": [one.code for one in explained.bottlenecks[:1]],
        "listed": {one.code: round(one.saved_us, 3) for one in explained.bottlenecks},
        "line": str(explained.bottlenecks[0].spot) if explained.bottlenecks else "",
        "pairs": pairs,
    }


def _counted(situation: Situation, point: Point) -> Counted:
    found = pickle.loads(cache_path(situation, point).read_bytes())
    assert isinstance(found, Counted)
    return found


def pairs_of(row: Row) -> list[Row]:
    """Return the mends that saved enough to be pairs."""
    return [one for one in row["pairs"] if one["had_us"] >= LEAST_SAVING * row["time_us"]]


def is_headline_right(row: Row) -> bool:
    """Return whether the headline names the cause of the mend that saved most."""
    best = max(pairs_of(row), key=lambda one: float(one["had_us"]))
    return [cause_of(best["cause"])] == [cause_of(code) for code in row["headline"]]


def cause_of(code: str) -> str:
    """Return the code under which a cause is compared."""
    return ONE_CAUSE.get(code, code)


def is_within_factor(pair: Row) -> bool:
    """Return whether the prediction came true within a factor of two."""
    ratio = pair["predicted_us"] / pair["had_us"]
    return bool(1 / FACTOR <= ratio <= FACTOR)


def summarise(rows: Sequence[Row]) -> Mapping[str, Row]:
    """Return the figures of all situations, of those held back and of the others."""
    parts = {
        "all": list(rows),
        "held back": [row for row in rows if row["held_back"]],
        "others": [row for row in rows if not row["held_back"]],
    }
    return {name: _figures([row for row in part if pairs_of(row)]) for name, part in parts.items()}


def _figures(rows: Sequence[Row]) -> Row:
    pairs = [pair for row in rows for pair in pairs_of(row)]
    causes = Counter(pair["cause"] for pair in pairs)
    return {
        "situations": len(rows),
        "headline": _share([is_headline_right(row) for row in rows]),
        "pairs": len(pairs),
        "factor": _share([is_within_factor(pair) for pair in pairs]),
        "causes": dict(causes.most_common()),
    }


def _share(found: Sequence[bool]) -> float:
    return round(sum(found) / len(found), 3) if found else 0.0


def print_row(row: Row) -> None:
    """Print a situation, wrong ones marked."""
    if not pairs_of(row):
        print("     ", row["name"], "nothing to mend")
        return
    mark = "  " if is_headline_right(row) else "X "
    print(mark, row["name"], f"{row['time_us']:.1f} us:", row["listed"], row["line"])
    for pair in row["pairs"]:
        enough = pair in pairs_of(row)
        mark = "-" if not enough else " " if is_within_factor(pair) else "x"
        print(f"      {mark} {pair['cause']}: {pair['predicted_us']} for {pair['had_us']} us")


if __name__ == "__main__":
    record.dispatch({"count": count_kernels, "compare": compare_kernels})
