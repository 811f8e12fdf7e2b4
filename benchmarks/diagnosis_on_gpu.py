"""Is the bottleneck that we name the one that Nsight Compute's counters show?

    python benchmarks/diagnosis_on_gpu.py count --out counted.jsonl
    python benchmarks/diagnosis_on_gpu.py model --out modelled.jsonl
    python benchmarks/diagnosis_on_gpu.py compare --keep --rows counted.jsonl \\
        --modelled modelled.jsonl

`count`, on a GPU, writes for each kernel its time and what a run says of a kernel from the time and
the launches alone; and what Nsight Compute counts of one call, for what is said where it can count,
and for the rule of `nsight_rule.py`, which knows nothing of any diagnosis. `model` takes, for the
same kernels and sizes, the diagnosis of the emulated H200 and its counts, which explain the
measured time where nothing counts on the GPU. `compare` applies today's diagnoses and the rule to
the rows, or to those kept in `results/h200_diagnosis.jsonl`, and writes
`results/h200_diagnosis.json`.

The kernels, of six tasks, were chosen by rule before any was counted: every second honest fixture,
every kernel of `diagnosed/`, and of each playbook three points, the fastest, a middling and the
slowest on an emulated GPU on 2026-11-23. A third, by the hashes of the names, is held back: no
diagnosis may be tuned by these kernels.
"""

import argparse
import asyncio
import hashlib
import json
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import nsight_rule
import record
from nsight_rule import show_bottleneck

from cuda_llm.codec import decode
from cuda_llm.errors import CudaLLMError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.profile import LaunchProfile, Profile, SizeTime
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.compiler.workspace import private_folder
from cuda_llm.tools.cuda.ncu import METRICS, NcuRow, parse_table, read_counters
from cuda_llm.tools.cuda.solve_driver import driver_command
from cuda_llm.tools.cuda.vendor_tools import find_tool, run_untrusted
from cuda_llm.tools.device import Device, Work
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import KernelCounters
from cuda_llm.tools.emulator.call_report import EmulatedCallReport
from cuda_llm.tools.judge.compile import compile_baseline, compile_source
from cuda_llm.tools.judge.emulated_counts import count_there
from cuda_llm.tools.judge.judge import time_compiled
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.profiler.bottlenecks import list_bottlenecks
from cuda_llm.tools.profiler.emulated_counters import at_measured_time
from cuda_llm.tools.profiler.explain_measured import explain_with_counters, profile_call
from cuda_llm.tools.timing.failures import without_case
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.verdict_wording import describe

MORE = (
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "launch__waves_per_multiprocessor",
    "launch__grid_size",
    "launch__block_size",
    "launch__registers_per_thread",
    "smsp__warps_eligible.avg.per_cycle_active",
    "smsp__average_warp_latency_per_inst_issued.ratio",
)
BREAKDOWNS = tuple(f"breakdown:{name}" for name in MORE[:2])
METRICS_KEPT = frozenset((*METRICS, *nsight_rule.READ, *MORE))
KEPT = record.RESULTS / "h200_diagnosis.jsonl"
GROUPS = (METRICS, nsight_rule.READ, MORE, BREAKDOWNS)
"""A version that refuses a name loses its group, not all: the first kernel shows which it takes."""
NCU_LIMIT_S = 40.0
HONEST = record.ROOT / "tests/fixtures/honest"
DIAGNOSED = Path(__file__).parent / "diagnosed"
SIZES: Mapping[str, Mapping[str, int]] = {
    "vector_add": {"n": 1 << 22},
    "reduction": {"n": 1 << 23},
    "histogram": {"n": 1 << 24, "num_bins": 256},
    "matrix_transpose": {"rows": 4096, "cols": 4096},
    "matrix_multiplication": {"M": 1024, "N": 2048, "K": 4096},
    "conv2d": {"H": 1024, "W": 1024, "R": 24, "S": 24},
}
"""The smallest at which the task's bytes or operations need 10 us; of `reduction` none is timed."""
VERBS = {
    "adds": "vector_add",
    "convolves": "conv2d",
    "counts": "histogram",
    "multiplies": "matrix_multiplication",
    "sums": "reduction",
    "turns": "matrix_transpose",
}
"""The task of a kernel of `diagnosed/`, by the first word of its file."""
Row = dict[str, Any]
DIAGNOSES = ("timed", "inspected", "emulated", "modelled")
"""From the time alone; with Nsight Compute; with the emulated GPU's counts over the measured time;
of the emulated GPU, with its modelled time."""
GPU = "NVIDIA H200"


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel of one task at one size."""

    name: str
    task: str
    source: str

    @property
    def dims(self) -> Mapping[str, int]:
        """Return its size."""
        return SIZES[self.task]

    @property
    def held_back(self) -> bool:
        """Tell whether nothing may be tuned by it."""
        return self.name in held_back()

    def load_task(self) -> Task:
        """Load its task with this size alone."""
        task = load_task(self.task)
        return replace(task, sizes=replace(task.sizes, bench=(self.dims,)), weights=())


def short_hash(text: str) -> str:
    """Return a hash that is the same everywhere."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@cache
def kernels() -> tuple[Kernel, ...]:
    """Return all kernels, in an order that a time limit leaves some of each kind of."""
    found = [
        Kernel(name=f"honest/{task}/{path.stem}", task=task, source=path.read_text())
        for task in SIZES
        for path in sorted((HONEST / task).glob("*.cu"))[::2]
    ]
    found += [
        Kernel(name=f"playbook/{task}/{path.stem}", task=task, source=path.read_text())
        for task in SIZES
        for path in sorted((DIAGNOSED / "playbook" / task).glob("*.cu"))
    ]
    found += [
        Kernel(
            name=f"diagnosed/{path.stem}",
            task=VERBS[path.stem.partition("_")[0]],
            source=path.read_text(),
        )
        for path in sorted(DIAGNOSED.glob("*.cu"))
    ]
    return tuple(sorted(found, key=lambda one: short_hash(f"order {one.name}")))


@cache
def held_back() -> frozenset[str]:
    """Return the names of a third: those with the smallest hashes."""
    names = sorted((one.name for one in kernels()), key=short_hash)
    return frozenset(names[: len(names) // 3])


def count() -> None:
    """Time and count what has no row yet, on a GPU."""
    asked = _parse()
    asyncio.run(_count_all(asked))


async def _count_all(asked: argparse.Namespace) -> None:
    until_s = time.monotonic() + asked.limit_s
    todo = _left(asked)
    device = open_device(asked.device)
    device.prepare()
    await _compile_all(device, todo, asked.jobs)
    counter = Counter(find_tool("ncu", find_toolkit()))
    for kernel in todo:
        if time.monotonic() < until_s:
            row = await _count_one(device, counter, kernel)
            record.add_row(asked.out, {**_head(kernel), **row})
    print(f"{len(record.read_rows(asked.out))} of {len(kernels())} kernels have a row")


def _left(asked: argparse.Namespace) -> list[Kernel]:
    """Return the kernels of the shard that have no row."""
    done = {row["name"] for row in record.read_rows(asked.out)}
    return [one for one in record.sharded(kernels(), asked.shard) if one.name not in done]


def _head(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "task": kernel.task,
        "dims": dict(kernel.dims),
        "source": short_hash(kernel.source),
        "held_back": kernel.held_back,
    }


async def _compile_all(device: Device, todo: Sequence[Kernel], jobs: int) -> None:
    """Compile into the cache."""
    turns = asyncio.Semaphore(jobs)

    async def compile_one(kernel: Kernel) -> None:
        async with turns:
            await _compile(device, kernel)

    await asyncio.gather(*map(compile_one, todo))


async def _compile(device: Device, kernel: Kernel) -> Compiled | Verdict:
    task = kernel.load_task()
    await compile_baseline(task, device.hardware.target)
    return await compile_source(task, device, kernel.source, "kernel.cu")


async def _count_one(device: Device, counter: "Counter", kernel: Kernel) -> dict[str, Any]:
    began_s = time.monotonic()
    compiled = await _compile(device, kernel)
    if not isinstance(compiled, Compiled):
        return {"code": compiled.code, "summary": " ".join(describe(compiled)[:1])}
    timed = await _time(device, kernel, compiled)
    between_s = time.monotonic()
    counted = await counter.count(kernel, compiled)
    return {
        **timed,
        **counted,
        "time_s": round(between_s - began_s, 2),
        "count_s": round(time.monotonic() - between_s, 2),
    }


async def _time(device: Device, kernel: Kernel, compiled: Compiled) -> dict[str, Any]:
    """Return time, launches and bottlenecks as a run has them: from the time alone."""
    timing: KernelTimes | Verdict
    try:
        timing = without_case(await time_compiled(kernel.load_task(), device, compiled))
    except CudaLLMError as error:
        return {"code": type(error).__name__, "summary": str(error)[:300]}
    if not isinstance(timing, KernelTimes):
        return {"code": timing.code, "summary": " ".join(describe(timing)[:1])[:300]}
    return {
        "code": "PASSED",
        "time_us": timing.times[-1][1],
        "launches": [asdict(one) for one in timing.launches],
        "timed": [_shown(asdict(one)) for one in timing.bottlenecks],
    }


def _shown(bottleneck: Mapping[str, Any]) -> dict[str, Any]:
    return {name: bottleneck[name] for name in ("code", "share", "explanation")}


class Counter:
    """Nsight Compute with as many of the metrics as it takes."""

    def __init__(self, ncu: Path | None) -> None:
        self._ncu = ncu
        self._metrics: tuple[str, ...] = ()

    async def count(self, kernel: Kernel, compiled: Compiled) -> dict[str, Any]:
        """Count one call, caches flushed before each launch and clocks left alone."""
        if self._ncu is None:
            return {"counted": [], "ncu": "ncu is missing"}
        if not self._metrics:
            everything = tuple(dict.fromkeys(name for group in GROUPS for name in group))
            rows, said = await self._run(kernel, compiled, everything)
            self._metrics = everything if rows else await self._taken(kernel, compiled, said)
            if rows:
                return {"counted": _plain(rows)}
        rows, said = await self._run(kernel, compiled, self._metrics)
        return {"counted": _plain(rows)} | ({} if rows else {"ncu": said[-600:]})

    async def _taken(self, kernel: Kernel, compiled: Compiled, said: str) -> tuple[str, ...]:
        """Return what it takes, given what it said of all: without names it tells of, or groups."""
        taken: list[str] = []
        for group in GROUPS:
            left = tuple(name for name in group if not _is_refused(name, said))
            rows, said_of_it = await self._run(kernel, compiled, left)
            if not rows:
                left = tuple(name for name in left if not _is_refused(name, said_of_it))
                rows, _ = await self._run(kernel, compiled, left)
            taken += left if rows else ()
        return tuple(dict.fromkeys(taken))

    async def _run(
        self, kernel: Kernel, compiled: Compiled, metrics: Sequence[str]
    ) -> tuple[tuple[NcuRow, ...], str]:
        assert self._ncu is not None
        with private_folder() as folder:
            command = ncu_command(self._ncu, kernel, compiled, metrics)
            run = await run_untrusted(command, folder, wall_s=NCU_LIMIT_S)
        return parse_table(run.output), run.output


def _plain(rows: Sequence[NcuRow]) -> list[dict[str, Any]]:
    return [{"kernel": one.kernel, "metrics": dict(one.metrics)} for one in rows]


def _is_refused(name: str, said: str) -> bool:
    """Tell whether an error names a metric."""
    told = [line for line in said.splitlines() if "ERROR" in line or "metric" in line.lower()]
    return any(name in line for line in told if len(line) < 4 * len(name) + 200)


def ncu_command(ncu: Path, kernel: Kernel, compiled: Compiled, metrics: Sequence[str]) -> list[str]:
    """Return the command that counts one call of a kernel of ours, after one that is not seen."""
    return [
        str(ncu),
        *("--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off"),
        *("--target-processes", "application-only", "--launch-count", "16"),
        *("--metrics", ",".join(metrics), "--csv", "--page", "raw", "--print-units", "base"),
        *driver_command(
            find_toolkit(),
            kernel.load_task(),
            compiled,
            kernel.dims,
            Path(),
            seed=1,
            confined=False,
            warm_ups=1,
        ),
    ]


def model() -> None:
    """Take the emulated GPU's diagnosis of what has no row yet."""
    asked = _parse()
    until_s = time.monotonic() + asked.limit_s
    todo = _left(asked)
    device = open_device("emulated:H200")
    device.prepare()
    for kernel in todo:
        if time.monotonic() < until_s:
            record.add_row(asked.out, {**_head(kernel), **asyncio.run(_model_one(device, kernel))})


async def _model_one(device: Device, kernel: Kernel) -> dict[str, Any]:
    began_s = time.monotonic()
    compiled = await _compile(device, kernel)
    if not isinstance(compiled, Compiled):
        return {"code": compiled.code}
    report = await device.carry_out(Work.of(count_there, kernel.load_task(), compiled, kernel.dims))
    if not isinstance(report, EmulatedCallReport):
        return {"code": type(report).__name__, "summary": repr(report)[:300]}
    return {
        "code": "PASSED",
        "time_us": round(report.time_us, 3),
        "modelled": [_shown(asdict(one)) for one in list_bottlenecks(report.bottlenecks)],
        "emulated": {
            "counters": [asdict(replace(one, spots={})) for one in report.counters],
            "copies": [asdict(one) for one in report.launches if not all(one.grid)],
        },
        "model_s": round(time.monotonic() - began_s, 2),
    }


def compare() -> None:
    """Compare what is named with what the counters show, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=Path, default=KEPT)
    parser.add_argument("--modelled", type=Path, help="of `model`; without it, those kept")
    parser.add_argument("--part", choices=("all", "seen"), default="all")
    parser.add_argument("--keep", action="store_true", help="write what is read of the rows")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    asked = parser.parse_args()
    kept = [kept_row(row, METRICS_KEPT) for row in record.read_rows(asked.rows)]
    if asked.modelled:
        modelled = {row["name"]: row for row in record.read_rows(asked.modelled)}
        for row in kept:
            row |= modelled_parts(modelled.get(row["name"], {}), row["source"])
    if asked.keep:
        KEPT.write_text("".join(json.dumps(row) + "\n" for row in kept))
    rows = [row for row in compare_rows(kept) if asked.part == "all" or not row["held_back"]]
    print_rows(rows)
    figures = summarise(rows)
    print(json.dumps(figures, indent=1))
    if asked.part == "all":
        whole = {"gpu": GPU, "figures": figures}
        print(record.write("h200_diagnosis", whole, asked.results))


def modelled_parts(modelled: Mapping[str, Any], source: str) -> Row:
    """Return what the emulated GPU says of the same source; nothing of another."""
    if modelled.get("source") != source or "emulated" not in modelled:
        return {}
    emulated = modelled["emulated"]
    counters = [{**one, "figures": in_four_digits(one["figures"])} for one in emulated["counters"]]
    return {"modelled": modelled["modelled"], "emulated": {**emulated, "counters": counters}}


def kept_row(row: Mapping[str, Any], metrics: Container[str]) -> Row:
    """Return a row with those metrics alone, in four digits."""
    counted = [
        {
            "kernel": one["kernel"],
            "metrics": in_four_digits(
                {name: value for name, value in one["metrics"].items() if name in metrics}
            ),
        }
        for one in row.get("counted", ())
    ]
    return {**row, "counted": counted}


def in_four_digits(figures: Mapping[str, float]) -> dict[str, float]:
    """Return figures with as many digits as are compared."""
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


def compare_rows(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return what each kernel's diagnoses name, and what its counters show, in order of names."""
    found = [compare_row(row) for row in rows if row.get("code") == "PASSED" and row.get("counted")]
    return sorted(found, key=lambda row: str(row["name"]))


def compare_row(row: Mapping[str, Any]) -> Row:
    """Return one kernel's."""
    counted = [one["metrics"] for one in row["counted"]]
    shown = show_bottleneck(counted)
    named = {
        "timed": explain_timed(row).bottlenecks,
        "inspected": explain_inspected(row).bottlenecks,
    }
    if counted_on_emulated(row):
        named["emulated"] = explain_emulated(row).bottlenecks
    codes = {which: [one.code for one in found] for which, found in named.items()}
    codes["modelled"] = [one["code"] for one in row.get("modelled", ())]
    named_first = {which: found[0] for which, found in codes.items() if found}
    return {
        "name": row["name"],
        "held_back": row["held_back"],
        "time_us": round(row["time_us"], 2),
        "shown": shown.bottleneck,
        "balanced": list(shown.balanced),
        "causes": list(shown.causes),
        "stall": shown.stall,
        "busy": {unit: round(share, 3) for unit, share in shown.shares.items() if share >= 0.1},
        "named": codes,
        "agree": {which: found in shown.terms for which, found in named_first.items()},
    }


def explain_timed(row: Mapping[str, Any]) -> Profile:
    """Explain a recorded kernel as a run does, by today's rules."""
    hardware, task = find_hardware(GPU), load_task(row["task"])
    launches = tuple(map(launch_of, row["launches"]))
    call = profile_call(task, row["dims"], row["time_us"], launches, hardware)
    timed = SizeTime(dims=row["dims"], time_us=row["time_us"], baseline_us=None, source="measured")
    return Profile(
        device=GPU,
        hardware=hardware.name,
        source="measured",
        sizes=(timed,),
        launches=call.launches,
        bottlenecks=call.bottlenecks,
    )


def explain_inspected(row: Mapping[str, Any]) -> Profile:
    """Explain it as `evaluate --inspect` does, by today's rules."""
    counters = [
        read_counters(NcuRow(kernel=one["kernel"], metrics=one["metrics"]), flushed=True)
        for one in row["counted"]
    ]
    profile = explain_timed(row)
    return explain_with_counters(load_task(row["task"]), find_hardware(GPU), profile, counters)


def explain_emulated(row: Mapping[str, Any]) -> Profile:
    """Explain it as a run does where nothing counts on the GPU, by today's rules."""
    profile, hardware = explain_timed(row), find_hardware(GPU)
    return explain_with_counters(
        load_task(row["task"]), hardware, profile, counted_on_emulated(row)
    )


def counted_on_emulated(row: Mapping[str, Any]) -> tuple[KernelCounters, ...]:
    """Return the emulated GPU's counts over the time that the GPU took; none where the row has
    none."""
    recorded = row.get("emulated", {"counters": (), "copies": ()})
    counters = [decode(KernelCounters, one) for one in recorded["counters"]]
    copies = [launch_of(one) for one in recorded["copies"]]
    return at_measured_time(counters, copies, row["time_us"], find_hardware(GPU))


def launch_of(recorded: Mapping[str, Any]) -> LaunchProfile:
    """Return a launch that was written as JSON."""
    grid, block = (tuple(recorded[name]) for name in ("grid", "block"))
    return LaunchProfile(**{**recorded, "grid": grid, "block": block})


def summarise(rows: Sequence[Row]) -> dict[str, Row]:
    """Return how many agree: of all kernels, of those held back and of the others."""
    parts = {
        "all": list(rows),
        "held back": [row for row in rows if row["held_back"]],
        "others": [row for row in rows if not row["held_back"]],
    }
    return {name: _figures(part) for name, part in parts.items()}


def _figures(rows: Sequence[Row]) -> Row:
    figures: Row = {"kernels": len(rows)}
    for which in DIAGNOSES:
        compared = [row for row in rows if which in row["agree"]]
        agreed = [row["agree"][which] for row in compared]
        figures[which] = {
            "compared": len(agreed),
            "agree": round(sum(agreed) / len(agreed), 3) if agreed else 0.0,
        }
    return figures


def print_rows(rows: Iterable[Row]) -> None:
    """Print a line a kernel, wrong ones marked."""
    for row in rows:
        marks = "".join("." if row["agree"].get(which, True) else "X" for which in DIAGNOSES)
        print(marks, row["name"], f"{row['time_us']} us:", row["shown"], *row["balanced"], end=" ")
        print(row["causes"], row["stall"], row["busy"])
        for which in DIAGNOSES:
            if not row["agree"].get(which, True):
                print("     ", which, row["named"][which])


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    record.add_arguments(parser)
    parser.add_argument("--jobs", type=int, default=12)
    return parser.parse_args()


if __name__ == "__main__":
    record.dispatch({"count": count, "model": model, "compare": compare})
