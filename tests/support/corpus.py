"""Kernels whose verdict is known: those that cheat or are broken, and honest ones."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from corpus_sample import sample
from small_tasks import small_task
from task_fixtures import MUTANTS, mutant_rows, read_table

from cuda_llm.agents.playbook.source import read_playbook
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import Task

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures"
TASKS = FIXTURES / "tasks"
PASSED = (Passed.code,)
REFUSED = (
    *("WRONG_RESULT", "NONDETERMINISTIC", "DATA_RACE", "UNINITIALISED_READ", "INVALID_SYNC"),
    *("ILLEGAL_ACCESS", "MISALIGNED", "GUARD_OVERWRITTEN", "INPUT_MUTATED", "LATE_WRITE"),
    *("LAUNCH_FAILED", "OUT_OF_MEMORY", "HOST_CRASHED", "TIMED_OUT", "POLICY_VIOLATION"),
    *("IMPOSSIBLE_TIME", "QUARANTINED"),
)
"""Codes of the verdicts that keep a wrong kernel from counting."""
NOTHING_GAINED = 1.1
"""Speedup over the baseline that an attack may show on a GPU: noise, and wider launches."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """One kernel, the task it claims to solve, and the verdicts that are right for it."""

    path: Path
    task: str
    honest: bool
    codes: tuple[str, ...] = PASSED
    """On the emulated device."""
    gpu_codes: tuple[str, ...] = PASSED
    """On a GPU."""
    device: str = "emulated"
    """The emulated GPU it needs."""
    rule: str = ""
    """The rule that a policy violation has to name."""
    most_speedup: float | None = None
    """What it may gain where it passes; None where passing is wrong, or well deserved."""
    whole: bool = False
    """Judged at the sizes the task lists even on the emulated device."""
    endless: bool = False
    """It runs into a time limit."""
    gpu_alone: bool = False
    """The emulated device would only repeat what another kernel shows, at more cost."""
    macro: str = ""
    """Defined before the first line: one file holds a wrong kernel and its honest twin."""

    @property
    def name(self) -> str:
        """Folders and file, e.g. `fixtures/adversarial/never_ends`, and the macro."""
        return "/".join((*self.path.parts[-3:-1], self.path.stem, *filter(None, [self.macro])))

    def read(self) -> str:
        """Return the source that is judged."""
        text = read_playbook(self.path)
        return f"#define {self.macro}\n{text}" if self.macro else text

    def load_task(self, *, small: bool) -> Task:
        """The task, cut down to sizes that take a millisecond where that is asked for."""
        if (TASKS / self.task).is_dir():
            return load_task(str(TASKS / self.task))
        return small_task(self.task) if small and not self.whole else load_task(self.task)

    def as_inspected(self) -> "Known":
        """Return it with the codes that are right after an inspection on a GPU, too."""
        right = self.gpu_codes if self.honest else (*self.gpu_codes, *self.codes)
        return replace(self, gpu_codes=tuple(dict.fromkeys(right)))


def fault_of(known: Known, verdict: Verdict, *, gpu: bool) -> str:
    """Why the verdict is not one of those that are right; empty where it is."""
    gained = verdict.profile.speedup if isinstance(verdict, Passed) and verdict.profile else None
    fault = fault_in(known, verdict.code, gained, gpu=gpu)
    rule = getattr(verdict, "rule", known.rule)
    if not fault and known.rule and rule != known.rule and not gpu:
        return f"rule {rule} instead of {known.rule}"
    return fault


def fault_in(known: Known, code: str, gained: float | None, *, gpu: bool) -> str:
    """The same of a verdict's code and what the kernel gained, if it passed."""
    codes = known.gpu_codes if gpu else known.codes
    if code not in codes:
        return f"{code} instead of {' or '.join(codes)}"
    most = _most_speedup(known, gpu)
    if most is not None and gained is not None and gained > most:
        return f"{gained:.2f}x as fast as the baseline, at most {most} is right"
    return ""


def _most_speedup(known: Known, gpu: bool) -> float | None:
    if known.honest or not gpu:
        return known.most_speedup
    return max(known.most_speedup or 0.0, NOTHING_GAINED)


def adversarial() -> Iterator[Known]:
    """Kernels that cheat or are broken, as their table has them."""
    folder = FIXTURES / "adversarial"
    for name, row in read_table(folder / "table.toml").items():
        codes = tuple(row["codes"])
        yield Known(
            path=folder / f"{name}.cu",
            task=row["task"],
            honest=False,
            codes=codes,
            gpu_codes=tuple(row.get("gpu", codes)),
            device=row.get("device", "emulated"),
            rule=row.get("rule", ""),
            most_speedup=row.get("most_speedup"),
            whole=row.get("whole", False),
            endless="limit_s" in row,
            gpu_alone=row.get("gpu_alone", False),
        )


def honest_extra() -> Iterator[Known]:
    """Honest kernels of unusual habits."""
    folder = FIXTURES / "honest_extra"
    for name, row in read_table(folder / "table.toml").items():
        yield Known(
            path=folder / f"{name}.cu",
            task=row["task"],
            honest=True,
            codes=tuple(row.get("codes", PASSED)),
            device=row.get("device", "emulated"),
            whole=row.get("whole", False),
            gpu_alone=row.get("gpu_alone", False),
        )


STYLES = sorted((FIXTURES / "honest").glob("*/*.cu"))
"""Honest kernels of up to ten styles for each shipped task."""


def styles() -> list[Path]:
    """All of STYLES, or in a run of samples one of each task, of one task in ten."""
    return sample(sample(STYLES[::-1], kind=lambda path: path.parent, every=10), every=10)


def honest_styles() -> Iterator[Known]:
    """Every style of each shipped task, its baseline, and its playbook as written."""
    for path in STYLES:
        yield Known(path=path, task=path.parent.name, honest=True)
    for name in sorted({path.parent.name for path in STYLES}):
        task = load_task(name)
        for path in filter(None, (task.baseline, task.playbook)):
            yield Known(path=path, task=name, honest=True)


def mutants() -> Iterator[Known]:
    """Kernels with one mistake each."""
    rows = [row for task in list_tasks() for row in mutant_rows(task)]
    for row in rows:
        if row["how"] == "file":
            codes = tuple(row["codes"])
            # Written far off, anything may be hit: code of the kernel's own too.
            elsewhere = ("WRONG_RESULT", "NONDETERMINISTIC", "GUARD_OVERWRITTEN", "DEVICE_ASSERT")
            gpu_codes = (*codes, *elsewhere)
            yield Known(
                path=MUTANTS / row["file"],
                task=row["task"],
                honest=False,
                codes=codes,
                gpu_codes=gpu_codes,
            )


def races() -> Iterator[Known]:
    """Kernels whose races and unset values do not show in results, each with its honest twin."""
    folder = FIXTURES / "races"
    for name, row in read_table(folder / "table.toml").items():
        path, task, codes = folder / f"{name}.cu", row["task"], tuple(row["codes"])
        shown = ("WRONG_RESULT", "NONDETERMINISTIC", "DATA_RACE", "UNINITIALISED_READ", "TIMED_OUT")
        gpu_codes = tuple(dict.fromkeys((*codes, *shown)))
        yield Known(path=path, task=task, honest=False, codes=codes, gpu_codes=gpu_codes)
        yield Known(path=path, task=task, honest=True, macro="MENDED")


def parameter_readers() -> Iterator[Known]:
    """Kernels that read beyond their parameters, to hide work from the time model."""
    folder = FIXTURES / "modelled"
    for name, row in read_table(folder / "table.toml").items():
        if "codes" in row:
            codes = tuple(row["codes"])
            path = folder / f"{name}.cu"
            yield Known(path=path, task=row["task"], honest=False, codes=codes, gpu_codes=codes)


def strangers() -> Iterator[Known]:
    """Kernels written from the tasks alone, honest ones beside wrong ones of eight kinds.

    Their authors had seen neither the judge nor its verdicts, so that any verdict that refuses a
    wrong kernel is right.
    """
    for folder in sorted(path.parent for path in (FIXTURES / "strangers").glob("*/table.toml")):
        for name, row in read_table(folder / "table.toml").items():
            codes = PASSED if row["honest"] else REFUSED
            yield Known(
                path=folder / f"{name}.cu",
                task=row["task"],
                honest=row["honest"],
                codes=codes,
                gpu_codes=codes,
                whole=True,
            )


KINDS = (honest_extra, adversarial, mutants, honest_styles)
"""What yields all kernels whose verdict is known, but those that results do not show."""
HIDDEN_KINDS = (races, parameter_readers)
"""What yields the kernels whose faults no result and no time shows on a GPU, and their twins."""
