"""Advice on one judged kernel, in a few lines for a model: what it is, what was seen and where, and
what to try. The words are those of reflection, which puts them into the prompts of a run."""

from collections.abc import Iterator
from dataclasses import dataclass

from cuda_llm.agents.kernel_facts import facts_of
from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.reflection.failure_hints import hint_from
from cuda_llm.agents.reflection.kernel_context import KernelContext
from cuda_llm.agents.reflection.slow_kernels import find_limits
from cuda_llm.agents.situation import Situation
from cuda_llm.graph.attempts import profile_fields
from cuda_llm.graph.toolbox import describe_speed
from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.profile import Profile
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Attempt, Hint, Kind
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.judged import Judged
from cuda_llm.verdict_wording import describe

ONLY = "r1-c1"
"""Id of the kernel that the advice is on: the one attempt of a search of one round."""
MOST_LINE = 400
"""Characters of a line of advice."""
NOT_TO_BLAME = "nothing in the kernel: a part of cuda-llm or the device failed; judge it again"


@dataclass(frozen=True, kw_only=True)
class OneKernel:
    """An archive of one kernel."""

    text: str
    outcome: Verdict

    def source(self, attempt: str) -> str:
        """Return the kernel's source."""
        return self.text

    def verdict(self, attempt: str) -> Verdict:
        """Return the kernel's verdict."""
        return self.outcome


def advise(task: Task, device: Device, source: str, judged: Judged) -> str:
    """Return what became of a kernel, and for each thing to change `seen:` and `try:`, a line each.

    Nothing is read from English: the lines follow from the facts of the verdict.
    """
    return "\n".join(one_line(line, MOST_LINE) for line in _lines(task, device, source, judged))


def _lines(task: Task, device: Device, source: str, judged: Judged) -> Iterator[str]:
    """Yield the lines of `advise`."""
    verdict, profile = judged.verdict, judged.profile
    if profile is not None:
        what = f"{verdict.code}: {describe_speed(profile)}"
        kernel = OneKernel(text=source, outcome=verdict)
        hints = _speed_hints(task, device, kernel, profile)
    else:
        what = f"{verdict.code}: {next(iter(describe(verdict)), '')}"
        facts = facts_of(source)
        context = KernelContext(
            round=1, about=ONLY, source=facts, task=task, hardware=device.hardware
        )
        hint = hint_from(verdict, context)
        hints = () if hint is None else (hint,)
    yield what
    yield from (line for hint in hints for line in _hint_lines(hint, what))
    if isinstance(verdict, InfraFailed):
        yield f"try: {NOT_TO_BLAME}"


def _hint_lines(hint: Hint, what: str) -> Iterator[str]:
    """Yield a hint with its facts of the hardware: who asks the judge has chosen the device."""
    seen = join_parts(hint.evidence, hint.hardware_evidence)
    if seen and seen not in what:
        yield f"seen: {seen}"
    yield f"try: {' '.join(filter(None, (hint.text, hint.hardware_text)))}"
    if hint.avoid:
        yield f"not worth trying: {'; '.join(hint.avoid)}"


def _speed_hints(
    task: Task, device: Device, kernel: OneKernel, profile: Profile
) -> tuple[Hint, ...]:
    """Return what limits a kernel that passed, as reflection says of the first of a search."""
    attempt = Attempt(
        id=ONLY,
        round=1,
        index=1,
        kind=Kind.START,
        written_by="human",
        code=kernel.outcome.code,
        **profile_fields(kernel.outcome),
    )
    timed = [one for one in profile.sizes if one.baseline_us is not None]
    situation = Situation(
        task=task,
        hardware=device.hardware,
        device=device.name,
        capabilities=device.capabilities,
        config=RunConfig(),
        round=1,
        attempts=(attempt,),
        incumbent=attempt,
        sizes=tuple(one.dims for one in profile.sizes),
        baseline_us=tuple(one.baseline_us or 0.0 for one in timed),
        archive=kernel,
    )
    return tuple(find_limits(situation, situation.attempts))
