"""A benchmark on disk: its settings, a row a task, its tables, and its runs.

    bench.json           what was asked, of which device, with which versions
    results/TASK.json    one task's row, when its run has ended
    table.md .csv .json .html
    runs/TASK/           an ordinary run

Every file is whole or missing, whenever the process dies.
"""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cuda_llm.codec import SPARSE, decode, encode
from cuda_llm.errors import UsageError
from cuda_llm.graph.benchmark.beside import beside_playbook
from cuda_llm.graph.benchmark.row import TaskRow
from cuda_llm.graph.benchmark.sweep import Setting, name_runs
from cuda_llm.graph.runs.resolve import name_run
from cuda_llm.graph.runs.run_context import versions
from cuda_llm.run_config import RunConfig
from cuda_llm.tools.device import Device
from cuda_llm.tools.open_device import spec_of
from cuda_llm.traces.files import broken, read_json, write_json
from cuda_llm.traces.run_folder import RunFolder

BENCHMARKS = Path("traces/benchmarks")
"""Default folder of benchmarks, below the current folder."""
LATEST = "latest"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class BenchmarkPlan:
    """The content of `bench.json`: the plan by which a benchmark can be continued later."""

    name: str
    began_at: str
    """UTC time at which the benchmark was planned, in ISO 8601."""
    config: RunConfig
    """Configuration that all runs share, without open choices; its `task` and `run_id` are
    empty."""
    tasks: Mapping[str, str]
    """Name or folder of the task of each run, by the name of the run, in order."""
    left_out: str = ""
    """Parts of the benchmark that `--quick` leaves out, in words; empty without `--quick`."""
    device: str
    hardware: str
    time_source: str
    driver: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    """Git commit of the checkout that runs the benchmark; empty for an installed package."""
    sweep: Mapping[str, Setting] = field(default_factory=dict, metadata=SPARSE)
    """Setting of each run, by the name of the run; empty without a sweep."""
    preset: str = field(default="", metadata=SPARSE)
    """Name of the preset that the benchmark was planned from; empty without a preset."""
    beside: str = field(default="", metadata=SPARSE)
    """Folder of another benchmark, whose runs are the playbook's on the same tasks; empty without
    one."""

    @property
    def settings(self) -> dict[str, Any]:
        """Options of the configuration that differ from the defaults, with their values."""
        plain, asked = encode(RunConfig()), encode(self.config)
        apart = ("task", "run_id", "out")
        return {
            name: value
            for name, value in asked.items()
            if name not in apart and value != plain.get(name)
        }

    def place(self, name: str, row: TaskRow) -> TaskRow:
        """Return the row of a run as the table shows the row: with task and setting in a sweep."""
        if name not in self.sweep:
            return row
        return replace(row, task=Path(self.tasks[name]).name, setting=dict(self.sweep[name]))


def plan_benchmark(
    config: RunConfig,
    tasks: Mapping[str, str],
    device: Device,
    *,
    left_out: str = "",
    settings: Sequence[Setting] = (),
    preset: str = "",
) -> BenchmarkPlan:
    """Return the plan of a new benchmark on an open device; a sweep where there are `settings`."""
    now = datetime.now(UTC)
    runs, sweep = name_runs(tasks, settings) if settings else (tasks, {})
    return BenchmarkPlan(
        name=name_run("bench", now),
        began_at=now.isoformat(timespec="seconds"),
        config=config.changed(task="", run_id="", device=spec_of(device, config.device)),
        tasks=runs,
        sweep=sweep,
        left_out=left_out,
        preset=preset,
        device=device.name,
        hardware=device.hardware.name,
        time_source=device.capabilities.time_source,
        driver=str(getattr(device, "driver", "")),
        versions=versions(),
        commit=find_commit(),
    )


def find_commit() -> str:
    """Return the Git commit of the checkout that holds this code; empty without a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    asked = ("git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12")
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""


class BenchmarkFolder:
    """The folder of one benchmark."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def runs(self) -> Path:
        """Folder of its runs."""
        return self.path / "runs"

    @property
    def resume_command(self) -> str:
        """Command that continues the benchmark."""
        return f"cuda-llm bench --resume {shlex.quote(str(self.path))}"

    def run(self, name: str) -> RunFolder:
        """Return the folder of one run."""
        return RunFolder(self.runs / name)

    def write_plan(self, plan: BenchmarkPlan) -> None:
        """Write bench.json. Raises UsageError where the folder cannot be written."""
        write_json(self.path / "bench.json", {"schema": SCHEMA, **encode(plan)})

    def read_plan(self) -> BenchmarkPlan:
        """Return the plan in bench.json. Raises UsageError without a bench.json of this version."""
        path = self.path / "bench.json"
        found = read_json(path)
        if not isinstance(found, dict):
            raise UsageError(f"{self.path}: no bench.json; expected the folder of a benchmark")
        if found.pop("schema", None) != SCHEMA:
            raise UsageError(f"{path}: expected schema {SCHEMA}; start a new benchmark")
        try:
            return decode(BenchmarkPlan, found)
        except ValueError:
            raise broken(path) from None

    def write_row(self, name: str, row: TaskRow) -> None:
        """Keep the row of one task."""
        write_json(self.path / "results" / f"{name}.json", encode(row))

    def read_row(self, name: str) -> TaskRow | None:
        """Return the stored row of a task; None without a row that can be read."""
        try:
            found = read_json(self.path / "results" / f"{name}.json")
            return None if found is None else decode(TaskRow, found)
        except (UsageError, ValueError):
            return None

    def is_done(self, plan: BenchmarkPlan) -> bool:
        """Return whether the run of every row is finished."""
        return all(row.state == "done" for row in self.rows(plan))

    def rows(self, plan: BenchmarkPlan) -> tuple[TaskRow, ...]:
        """Return a row for each task of the plan; those without a result yet are `waiting`.

        Raises UsageError where the benchmark beside cannot be read.
        """
        kept = {name: self.read_row(name) for name in plan.tasks}
        rows = [
            row or plan.place(name, TaskRow(task=name, state="waiting"))
            for name, row in kept.items()
        ]
        return self.place_beside(plan, rows)

    def place_beside(self, plan: BenchmarkPlan, rows: Sequence[TaskRow]) -> tuple[TaskRow, ...]:
        """Return the rows beside the playbook's of the same sweep, or of the benchmark beside."""
        if not plan.beside:
            return beside_playbook(rows)
        other = BenchmarkFolder(Path(plan.beside))
        # Two benchmarks may stand beside each other.
        return beside_playbook(rows, other.rows(replace(other.read_plan(), beside="")))


def with_beside(plan: BenchmarkPlan, folder: BenchmarkFolder) -> BenchmarkPlan:
    """Return the plan with another benchmark beside. Raises UsageError where its times are of
    another GPU or source."""
    other = folder.read_plan()
    if (other.hardware, other.time_source) != (plan.hardware, plan.time_source):
        raise UsageError(
            f"--beside {folder.path}: {other.device}, times {other.time_source}; here "
            f"{plan.device}, times {plan.time_source}: such times do not stand beside each other"
        )
    return replace(plan, beside=str(folder.path))


def find_benchmark(name: str, out: Path | None = None) -> BenchmarkFolder:
    """Return the benchmark in that folder, of that name in `out`, or the `latest` there.

    Raises UsageError where there is none.
    """
    there = out or BENCHMARKS
    found = sorted(there.glob("*/bench.json"))
    if name == LATEST and found:
        return BenchmarkFolder(found[-1].parent.absolute())
    for path in (Path(name).expanduser(), there / name):
        if (path / "bench.json").is_file():
            return BenchmarkFolder(path.absolute())
    names: Sequence[str] = [one.parent.name for one in found]
    known = f"there are {', '.join(names[-5:])}" if names else "there are none"
    raise UsageError(f"no benchmark {name!r} in {there}: {known}")
