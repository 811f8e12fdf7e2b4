"""Judges every kernel whose verdict is known: no cheat may be accepted, no honest kernel refused.

    PYTHONPATH=tests/support python benchmarks/corpus_on_gpu.py --out rows.jsonl

Compilations go ahead in parallel while the device judges one kernel after the other. On a GPU a
cheat that passed is inspected by compute-sanitizer and by the emulated device, as a kernel that may
become the incumbent is: a race that does not show in results passes validation and timing. So are
honest kernels with `--inspect-honest`. When every kernel has a row, `corpus_on_gpu.json` is written
into `--results`; with `--device emulated`, `corpus_emulated.json`.

`--nonces 200` validates every honest kernel on the inputs of 200 nonces instead, without timing,
a row for each nonce. A refusal is a false alarm.

`--hidden` takes the kernels whose faults no result shows, and writes `hidden_on_gpu.json`.
"""

import argparse
import asyncio
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import record
from corpus import HIDDEN_KINDS, KINDS, Known, fault_of, strangers

from cuda_llm.errors import CudaLLMError, DeviceLost
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import Inspection, InspectionOptions
from cuda_llm.tools.judge.compile import compile_baseline, compile_source
from cuda_llm.tools.judge.judge import (
    ignore_stage,
    judge,
    open_bench,
    time_baseline,
    timed_stage,
    validate_compiled,
)
from cuda_llm.tools.open_device import open_device, open_watcher
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.verdict_wording import describe

Kind = Callable[[], Iterator[Known]]
SANITIZERS_ALONE = InspectionOptions(counters=False, sass=False)
State = Literal["clean", "found", "no result"]
KEPT = (
    *("name", "honest", "code", "fault", "speedup", "seconds", "inspected"),
    *("largest_us", "largest_baseline_us"),
)
"""Fields of a row that the results keep."""
RAISED = "RAISED"
"""In the place of a code: our own parts broke, or the task's baseline was refused."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kernel that was judged."""

    name: str
    source: str
    """Hash of the file."""
    honest: bool
    code: str
    fault: str
    """What is not right about the verdict; empty where it is."""
    speedup: float | None
    summary: str
    """First line of the verdict in words."""
    sizes: int = 0
    """How many sizes were timed at most; 0 is all the task lists."""
    seconds: dict[str, float] = field(default_factory=dict)
    inspected: str = ""
    """`clean` or `no result` of compute-sanitizer, `found` of it or of the emulated device; empty
    where it was not inspected."""
    notes: str = ""
    """What was inspected, and what could not be."""
    largest_us: float | None = None
    """Time at the last size."""
    largest_baseline_us: float | None = None
    """Time of the baseline beside it: the same for all kernels of a task, but for noise."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many kernels were judged, and how many of them wrongly: 0 accepted, 0 refused."""

    judged: int
    cheats: int
    honest: int
    accepted_cheats: int
    refused_honest: int
    other_codes: int
    """Cheats that were refused, but with another code than the table has."""


def main() -> None:
    """Judge one shard; write the result when nothing is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    record.add_arguments(parser)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 4))
    parser.add_argument("--sizes", type=int, default=0, help="time so many sizes; 0 is all")
    parser.add_argument("--inspect-honest", action="store_true", help="as cheats are, on a GPU")
    parser.add_argument("--nonces", type=int, default=0, help="validate honest kernels alone")
    parser.add_argument("--hidden", action="store_true", help="races, and their honest twins")
    parser.add_argument("--only", default="", help="names that hold one of these, by commas")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    gpu = arguments.device.startswith("cuda")
    wanted = arguments.only.split(",")
    every = known_kernels(HIDDEN_KINDS if arguments.hidden else (*KINDS, strangers))
    chosen = [one for one in every if any(part in one.name for part in wanted)]
    rows = read_rows(arguments.out, arguments.sizes)
    bench = CorpusBench(
        arguments.device,
        gpu=gpu,
        sizes=arguments.sizes,
        deadline=deadline,
        inspect_honest=arguments.inspect_honest,
    )
    if arguments.nonces:
        honest = record.sharded([one for one in chosen if one.honest], arguments.shard)
        asyncio.run(bench.validate_all(honest, arguments.nonces, arguments.out, arguments.jobs))
        codes = Counter(row["code"] for row in record.read_rows(arguments.out))
        print(f"{len(honest)} honest kernels, {arguments.nonces} nonces: {dict(codes)}")
        return
    todo = [
        one
        for one in record.sharded(chosen, arguments.shard)
        if bench.has_to_judge(one, rows.get((one.name, hash_of(one))))
    ]
    print(f"{len(chosen)} kernels, {len(todo)} of this shard to judge", flush=True)
    asyncio.run(bench.judge_all(todo, arguments.out, arguments.jobs))
    rows = read_rows(arguments.out, arguments.sizes)
    found = {one: rows.get((one.name, hash_of(one))) for one in chosen}
    done = [row for one, row in found.items() if row and not bench.has_to_judge(one, row)]
    print("\n".join(table(done)))
    if len(done) == len(chosen):
        name = "hidden" if arguments.hidden else "corpus"
        write(name, arguments.results, arguments.device, arguments.sizes, done)


def known_kernels(given: Sequence[Kind]) -> list[Known]:
    """Return all kernels, the kinds in turn, so that a time limit cuts off some of each alike."""
    kinds = [list(kind()) for kind in given]
    whole = max(map(len, kinds))
    ranked = [
        ((place + 0.5) * whole / len(kind), one) for kind in kinds for place, one in enumerate(kind)
    ]
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])]


class CorpusBench:
    """A device, the tasks as they are judged on it, and their baselines."""

    def __init__(
        self, spec: str, *, gpu: bool, sizes: int, deadline: float, inspect_honest: bool
    ) -> None:
        self._spec, self._gpu, self._sizes, self._deadline = spec, gpu, sizes, deadline
        self._inspect_honest = inspect_honest
        self._devices: dict[str, Device] = {}
        self._tasks: dict[tuple[str, bool], Task] = {}
        self._baselines: dict[tuple[str, bool, str], asyncio.Task[KernelTimes]] = {}

    def has_to_judge(self, known: Known, row: Row | None) -> bool:
        """Tell whether a kernel has no row yet, or passed and was not inspected."""
        return row is None or (not row.inspected and self._has_to_inspect(known, row.code))

    async def judge_all(self, kernels: Sequence[Known], out: Path, jobs: int) -> None:
        """Judge one kernel after the other, each compiled ahead, and write a row each."""
        turns = asyncio.Semaphore(jobs)
        ahead = [asyncio.create_task(self._compile(one, turns)) for one in kernels]
        try:
            for known, compiled in zip(kernels, ahead, strict=True):
                await compiled
                if time.monotonic() > self._deadline:
                    break
                row = await self._judge(known)
                record.add_row(out, asdict(row))
                print(line(row), flush=True)
        finally:
            left = [*ahead, *self._baselines.values()]
            for one in left:
                one.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def validate_all(
        self, kernels: Sequence[Known], nonces: int, out: Path, jobs: int
    ) -> None:
        """Validate each kernel on the inputs of each nonce without a line yet, until the limit."""
        turns = asyncio.Semaphore(jobs)
        await asyncio.gather(*(self._compile(one, turns) for one in kernels))
        done = {(row["name"], row["nonce"]) for row in record.read_rows(out)}
        left = [(one, k) for k in range(nonces) for one in kernels if (one.name, k) not in done]
        for known, number in left:
            if time.monotonic() > self._deadline:
                break
            task, device = self._task(known), self._device(known)
            source = known.read()
            compiled = await compile_source(task, device, source, known.path.name)
            if isinstance(compiled, Compiled):
                nonce = hashlib.blake2b(f"{known.name}/{number}".encode(), digest_size=16).digest()
                began_s = time.monotonic()
                found = await validate_compiled(task, device, compiled, nonce=nonce)
                seconds = round(time.monotonic() - began_s, 2)
                passed = isinstance(found, Validated)
                code = "VALIDATED" if passed else getattr(found, "code", "CODE OF A GPU")
                row = {"name": known.name, "nonce": number, "code": code, "seconds": seconds}
                record.add_row(out, row if passed else {**row, "found": repr(found)})

    async def _compile(self, known: Known, turns: asyncio.Semaphore) -> None:
        """Compile into the cache; the verdict follows in `_judge`."""
        async with turns:
            if time.monotonic() < self._deadline:
                task, device = self._task(known), self._device(known)
                await compile_baseline(task, device.hardware.target)
                await compile_source(task, device, known.read(), known.path.name)

    async def _judge(self, known: Known) -> Row:
        task, device = self._task(known), self._device(known)
        if not self._gpu:
            os.environ["CUDA_LLM_CALL_LIMIT_S"] = "2" if known.endless else "30"
        row = Row(
            name=known.name,
            source=hash_of(known),
            honest=known.honest,
            code=RAISED,
            fault="our own parts broke",
            speedup=None,
            summary="",
            sizes=self._sizes,
        )
        try:
            judged = await judge(
                open_bench(task, device, watcher=open_watcher(device)),
                known.read(),
                known.path.name,
                baseline=self._baseline(known, task, device),
            )
            verdict, seconds = judged.verdict, dict(judged.seconds)
            fault = fault_of(known, verdict, gpu=self._gpu)
            if judged.compiled is not None and self._has_to_inspect(known, verdict.code):
                with timed_stage(known.name, "inspect", seconds, ignore_stage):
                    found = await inspect(task, device, judged.compiled)
                after = inspected_verdict(known, verdict, found)
                verdict, fault = after.verdict, after.fault
                told = "; ".join(filter(None, (found.not_inspected, *found.notes)))
                row = replace(row, inspected=after.state, notes=told[:400])
        except DeviceLost:
            raise
        except CudaLLMError as error:
            return replace(row, summary=str(error))
        profile = verdict.profile if isinstance(verdict, Passed) else None
        return replace(
            row,
            code=verdict.code,
            fault=fault,
            speedup=profile.speedup if profile else None,
            largest_us=profile.sizes[-1].time_us if profile else None,
            largest_baseline_us=profile.sizes[-1].baseline_us if profile else None,
            summary=" ".join(describe(verdict)[:1])[:400],
            seconds={name: round(taken, 3) for name, taken in seconds.items()},
        )

    def _has_to_inspect(self, known: Known, code: str) -> bool:
        return self._gpu and is_due(known, code, honest_too=self._inspect_honest)

    def _device(self, known: Known) -> Device:
        spec = self._spec if self._gpu or known.device == "emulated" else known.device
        if spec not in self._devices:
            self._devices[spec] = open_device(spec)
            self._devices[spec].prepare()
        return self._devices[spec]

    def _task(self, known: Known) -> Task:
        key = (known.task, known.whole)
        if key not in self._tasks:
            task = known.load_task(small=not self._gpu)
            few = task.sizes.bench[: self._sizes or None]
            self._tasks[key] = replace(
                task, sizes=replace(task.sizes, bench=few), weights=task.weights[: len(few)]
            )
        return self._tasks[key]

    def _baseline(self, known: Known, task: Task, device: Device) -> asyncio.Task[KernelTimes]:
        key = (known.task, known.whole, device.name)
        if key not in self._baselines:
            self._baselines[key] = asyncio.create_task(time_baseline(task, device))
        return self._baselines[key]


def line(row: Row) -> str:
    """Describe one kernel for a person."""
    gained = f"{row.speedup:.2f}x" if row.speedup is not None else ""
    taken = " ".join(f"{name} {taken:.1f}" for name, taken in row.seconds.items())
    text = f"{'' if not row.fault else '!! '}{row.name:48} {row.code:20} {gained:8} {taken}"
    return f"{text}\n   {row.fault}: {row.summary[:160]}" if row.fault else text


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows that are wrong, and the counts."""
    yield from (line(row) for row in rows if row.fault)
    counts = count(rows)
    yield (
        f"{counts.accepted_cheats} cheats accepted of {counts.cheats} (and"
        f" {counts.other_codes} refused by another code), {counts.refused_honest} honest kernels"
        f" refused of {counts.honest}"
    )


def hash_of(known: Known) -> str:
    """Return a hash of the source: a row of another version of the kernel does not count."""
    return hashlib.sha256(known.read().encode()).hexdigest()[:16]


def read_rows(path: Path, sizes: int) -> dict[tuple[str, str], Row]:
    """Read the last row of each kernel timed at so many sizes; a partial line is skipped."""
    rows = {}
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            row = Row(**json.loads(text))
        except (ValueError, TypeError):
            continue
        if row.sizes == sizes:
            rows[row.name, row.source] = row
    return rows


def count(rows: Sequence[Row]) -> Counts:
    """Count what was judged, and what was judged wrongly."""
    wrong = [row for row in rows if row.fault]
    return Counts(
        judged=len(rows),
        cheats=sum(not row.honest for row in rows),
        honest=sum(row.honest for row in rows),
        accepted_cheats=sum(not row.honest and row.code == Passed.code for row in wrong),
        refused_honest=sum(row.honest for row in wrong),
        other_codes=sum(not row.honest and row.code != Passed.code for row in wrong),
    )


def is_due(known: Known, code: str, *, honest_too: bool) -> bool:
    """Tell whether a kernel with this verdict is inspected before its verdict counts."""
    return code == Passed.code and (honest_too or not known.honest)


async def inspect(task: Task, device: Device, compiled: Compiled) -> Inspection:
    """Inspect small sizes by the sanitizers and the emulated device."""
    bench = open_bench(task, device, watcher=open_watcher(device))
    return await bench.inspect_at(compiled, task.sizes.edge[0], SANITIZERS_ALONE)


@dataclass(frozen=True, kw_only=True)
class InspectedVerdict:
    """The verdict of a kernel after its inspection."""

    verdict: Verdict
    fault: str
    """What is not right about it; empty where it is."""
    state: State
    """`no result`: not every tool came to one, and none found anything."""


def inspected_verdict(known: Known, passed: Verdict, found: Inspection) -> InspectedVerdict:
    """Return the verdict after an inspection: a fault that it found, else the verdict before.

    Sanitizers and the emulated device find much the same faults, so that the codes that are right
    for a cheat on the emulated device are right here too.
    """
    if found.fault is not None:
        fault = fault_of(known.as_inspected(), found.fault, gpu=True)
        return InspectedVerdict(verdict=found.fault, fault=fault, state="found")
    states = {one.state for one in found.sanitized}
    state: State = "clean" if states == {"clean"} else "no result"
    return InspectedVerdict(verdict=passed, fault=fault_of(known, passed, gpu=True), state=state)


def write(name: str, results: Path, spec: str, sizes: int, rows: Sequence[Row]) -> None:
    """Write the figures, with every kernel's verdict."""
    device = open_device(spec)
    place = "on_gpu" if device.capabilities.measures_time else "emulated"
    figures = {
        **record.device_facts(device),
        "sizes_timed_at_most": sizes or "all",
        **asdict(count(rows)),
        "inspected": Counter(row.inspected for row in rows if row.inspected),
        "rows": [
            {key: getattr(row, key) for key in KEPT} for row in sorted(rows, key=lambda r: r.name)
        ],
    }
    print(record.write(f"{name}_{place}", figures, results))


if __name__ == "__main__":
    main()
