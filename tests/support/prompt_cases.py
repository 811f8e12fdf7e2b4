"""Searches with real verdicts to make prompts of: nvcc compiled, the emulated device ran them."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from small_tasks import small_task

from cuda_llm.agents.situation import Note, Situation
from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import CompileFailed, NoCode, Passed, Verdict
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Attempt, Brief, Hint, Kind
from cuda_llm.tasks.signature import signature
from cuda_llm.tasks.task import Task
from cuda_llm.tools.judge.judge import judge, open_bench
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.verdict_wording import describe

TASKS = ("histogram", "matrix_multiplication")
GPU = "RTX 3090 Ti"
BASELINE_US = 123.0

PASSED, FAILED = "// planted: source that passed", "// planted: source that failed"
PLAYBOOK_SOURCE = "planted_playbook_source"
DIRECTION = "planted direction"
HARDWARE_NOTE, NOTE = "planted note about the hardware", "planted note about the data"
HINT, HINT_ABOUT_HARDWARE, EVIDENCE = "planted hint", "planted hardware text", "planted evidence"
IDEA = "planted idea"
USER_HINT = "planted wish of the user"
"""Texts that no template holds by itself: a test that finds one knows where it came from."""


def unmarked(text: str) -> str:
    """A prompt without the numbers of lines."""
    return re.sub(r"  //:\d+$", "", text, flags=re.MULTILINE)


@dataclass(frozen=True)
class Kept:
    """An archive in memory."""

    sources: Mapping[str, str]
    verdicts: Mapping[str, Verdict]

    def source(self, attempt: str) -> str:
        return self.sources.get(attempt, "")

    def verdict(self, attempt: str) -> Verdict:
        return self.verdicts.get(attempt, NoCode(message="nothing is kept of it"))


def broken(task: Task) -> str:
    """A source with an invented intrinsic and a misspelt name."""
    return (
        f"{FAILED}\n#include <cuda_runtime.h>\n"
        "__global__ void k(float* p, int extent)\n{\n"
        "    p[0] = __shfl_xor(p[1], 1) + extnet;\n}\n"
        f"{signature(task)}\n{{\n    k<<<1, 32>>>(nullptr, 1);\n}}\n"
    )


@cache
def judged(name: str) -> tuple[str, Passed, CompileFailed]:
    """The baseline as if a model had written it, its verdict, and that of a broken kernel."""
    task = small_task(name)
    source = f"{PASSED}\n{task.baseline.read_text()}"
    device = open_device(f"emulated:{GPU}")

    async def baseline() -> KernelTimes:
        times = tuple((dims, BASELINE_US) for dims in task.sizes.emulated)
        return KernelTimes(times=times, launches=(), bottlenecks=())

    async def verdicts() -> list[Verdict]:
        timing = asyncio.ensure_future(baseline())
        made = [
            await judge(open_bench(task, device), text, "solve.cu", baseline=timing)
            for text in (source, broken(task))
        ]
        return [one.verdict for one in made]

    passed, failed = asyncio.run(verdicts())
    assert isinstance(passed, Passed), passed
    assert isinstance(failed, CompileFailed), failed
    return source, passed, failed


def attempt(number: int, verdict: Verdict, **fields: Any) -> Attempt:
    """Candidate `number` of the first round, judged."""
    profile = verdict.profile if isinstance(verdict, Passed) else None
    given: dict[str, Any] = {
        "id": f"r1-c{number}",
        "round": 1,
        "index": number,
        "kind": Kind.FIRST,
        "direction": f"{DIRECTION} {number}",
        "written_by": "model",
        "idea": f"{IDEA} {number}",
        "code": verdict.code,
        "summary": describe(verdict)[0] if isinstance(verdict, CompileFailed) else "",
        "speedup": profile.speedup if profile else None,
        "times_us": tuple(size.time_us for size in profile.sizes) if profile else (),
        "limited_by": profile.bottlenecks[0].code if profile else "",
    }
    return Attempt(**(given | fields))


@cache
def _read(name: str) -> tuple[Task, Hardware]:
    return small_task(name), find_hardware(GPU)


def searched(name: str, **options: Any) -> Situation:
    """After a first round: c1 passed, c2 did not compile; c3 and c4 the same by the playbook."""
    task, hardware = _read(name)
    source, passed, failed = judged(name)
    attempts = (
        attempt(1, passed),
        attempt(2, failed),
        attempt(3, passed, written_by="playbook", tunables={"TILE": 32}),
        attempt(4, failed, written_by="playbook", summary=f"{PLAYBOOK_SOURCE} is undefined"),
    )
    return Situation(
        task=task,
        hardware=hardware,
        device=f"emulated {GPU}",
        capabilities=Capabilities(full_isa=False),
        config=RunConfig(**{"hints": (USER_HINT,)} | options),
        round=2,
        attempts=attempts,
        incumbent=attempts[0],
        sizes=task.sizes.emulated,
        baseline_us=(BASELINE_US,) * len(task.sizes.emulated),
        notes={
            "researcher": Note(text=HARDWARE_NOTE, about_hardware=True),
            "reader": Note(text=NOTE),
        },
        archive=Kept(
            sources={
                "r1-c1": source,
                "r1-c2": broken(task),
                "r1-c3": PLAYBOOK_SOURCE,
                "r1-c4": PLAYBOOK_SOURCE,
            },
            verdicts={"r1-c1": passed, "r1-c2": failed, "r1-c3": passed, "r1-c4": failed},
        ),
    )


def brief(kind: Kind, parent: int | None = None, **fields: Any) -> Brief:
    """A brief of the second round that tells all there is; its hint is of no real bottleneck."""
    hint = Hint(
        round=1,
        about="r1-c1",
        code="tensor",
        text=HINT,
        evidence=EVIDENCE,
        hardware_text=HINT_ABOUT_HARDWARE,
        avoid=("planted dead end",),
    )
    by_playbook = Hint(
        round=1, about="r1-c3", code="tail", text="Fill the grid.", evidence=PLAYBOOK_SOURCE
    )
    given: dict[str, Any] = {
        "id": "r2-c1",
        "round": 2,
        "index": 1,
        "kind": kind,
        "parent": f"r1-c{parent}" if parent else None,
        "direction": DIRECTION,
        "history": ("r1-c1", "r1-c2", "r1-c3", "r1-c4"),
        "error_hints": (by_playbook,),
        "performance_hints": (hint,),
    }
    return Brief(**(given | fields))
