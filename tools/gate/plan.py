"""Reads `kernels.toml`: the kernels that a repository gates, and what is accepted of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, get_args

from cuda_llm.data_file import Amount, Rule, Text, UnfitError, read_as, read_table
from cuda_llm.errors import UsageError, nearest
from cuda_llm.outcomes import Passed, Verdict

Share = Annotated[
    float,
    Rule(lambda core: core.float_schema(ge=0, lt=1), "a share from 0 to less than 1: 0.05 is 5 %"),
]


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """What the gate accepts of one kernel."""

    verdict: Text = Passed.code
    """Code of the verdict that the kernel must have: another one for a kernel that is known to
    fail, as long as nobody has fixed it."""
    slower: Share = 0.0
    """Share of the speed-up before that the kernel may lose beyond the interval of the times."""
    counts: Amount = 0.01
    """Share by which each count of the kernel may grow: instructions, bytes, registers."""


@dataclass(frozen=True, kw_only=True)
class GatedKernel:
    """One kernel of `kernels.toml`."""

    file: Text
    """CUDA source with a `solve`, relative to `kernels.toml`."""
    task: Text
    """Name of a task that ships, or a task's folder relative to `kernels.toml`."""
    sizes: tuple[Text, ...] = ()
    """Sizes to time instead of the task's, each as `M=4096,N=512`."""
    accept: Accepted = Accepted()


@dataclass(frozen=True, kw_only=True)
class GateFile:
    """What stands in `kernels.toml`."""

    device: Text = "emulated"
    """Device that judges, as `evaluate --device` names it."""
    precision: Literal["quick", "normal", "high"] = "normal"
    """How sure the times of a GPU are to be, as `evaluate --precision` has it."""
    kernel: Mapping[str, GatedKernel] = field(default_factory=dict)
    """Kernels by the name that the gate reports."""


@dataclass(frozen=True, kw_only=True)
class GatePlan:
    """The kernels of one `kernels.toml`, with the path of that file."""

    path: Path
    file: GateFile

    @property
    def recording(self) -> Path:
        """Return where `gate --record` writes: `kernels.gate.json` beside `kernels.toml`."""
        return self.path.with_suffix(".gate.json")

    def source_of(self, kernel: GatedKernel) -> Path:
        """Return the path of a kernel's source."""
        return self.path.parent / kernel.file

    def task_of(self, kernel: GatedKernel) -> str:
        """Return a kernel's task for `load_task`: a folder beside `kernels.toml` before a name."""
        folder = self.path.parent / kernel.task
        return str(folder) if (folder / "task.toml").is_file() else kernel.task


def read_plan(path: Path) -> GatePlan:
    """Read `kernels.toml`. Raises UsageError for what does not fit, and where it names nothing."""
    table = read_table(path, UsageError)
    try:
        file = read_as(GateFile, table)
    except UnfitError as unfit:
        raise UsageError(f"{path}: {unfit}") from None
    if not file.kernel:
        raise UsageError(f"{path}: names no kernel; expected [kernel.NAME] with file and task")
    codes = [verdict.code for verdict in get_args(Verdict) if isinstance(verdict.code, str)]
    for name, kernel in file.kernel.items():
        if kernel.accept.verdict not in codes:
            known = nearest(kernel.accept.verdict, codes)
            raise UsageError(
                f"{path}: kernel.{name}.accept.verdict: found {kernel.accept.verdict}; {known}"
            )
    return GatePlan(path=path, file=file)
