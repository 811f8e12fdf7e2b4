"""The reflection agent: a diagnosis always, one hint for one cause however often it is seen, a
critique where there is a model.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.prompting.templates import Templates, open_templates
from cuda_llm.agents.protocols import Reflected
from cuda_llm.agents.reflection.build_faults import compile_failed, load_failed
from cuda_llm.agents.reflection.critique import criticise
from cuda_llm.agents.reflection.diagnosis import Diagnosis, FailureContext, context_of
from cuda_llm.agents.reflection.host_faults import (
    device_assert,
    emulator_unsupported,
    host_crashed,
    impossible_time,
    launch_failed,
    out_of_memory,
    policy_violation,
    timed_out,
)
from cuda_llm.agents.reflection.kernel_faults import (
    data_race,
    illegal_access,
    invalid_sync,
    misaligned,
    uninitialised_read,
)
from cuda_llm.agents.reflection.slow_kernels import HARDWARE_LIMIT, find_limits
from cuda_llm.agents.reflection.wrong_results import (
    guard_overwritten,
    input_mutated,
    late_write,
    nondeterministic,
    wrong_result,
)
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.briefs import is_fixable
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import InvalidDeclaration
from cuda_llm.conversation import Ask
from cuda_llm.outcomes import (
    CompileFailed,
    DataRace,
    DeviceAssert,
    Duplicate,
    EmulatorUnsupported,
    GuardOverwritten,
    HostCrashed,
    IllegalAccess,
    ImpossibleTime,
    InfraFailed,
    InputMutated,
    InvalidSync,
    LateWrite,
    LaunchFailed,
    LoadFailed,
    Misaligned,
    NoCode,
    Nondeterministic,
    OutOfMemory,
    Passed,
    PolicyViolation,
    Quarantined,
    TimedOut,
    UninitialisedRead,
    Verdict,
    WrongResult,
)
from cuda_llm.search import Attempt, Hint
from cuda_llm.verdict_wording import describe_reply_fault

NOTHING_TO_CRITICISE = "no critique asked for: the kernel to beat is at the hardware's limit"
MOST_HINTS = 5
"""Hints a round and channel."""

DiagnosedAttempt = tuple[Attempt, Diagnosis]


@dataclass(frozen=True)
class Reflection:
    """Learns from verdicts, profiles and sources; asks a model once a round where it may."""

    ask: Ask | None = None
    templates: Templates | None = None
    """Of the critique; ours where none are given."""
    name: str = "reflection"

    async def reflect(self, situation: Situation, judged: Sequence[Attempt]) -> Reflected:
        """Return hints about what failed in this round and what limits its fastest kernels."""
        errors = merge(find_failures(situation, judged), situation.error_hints, situation.round)
        untuned = tuple(find_misdeclared(situation, judged))
        declared = merge(untuned, situation.error_hints, situation.round)
        slow = tuple(find_limits(situation, judged))
        decisions = (
            *_decisions(situation, judged, errors, slow),
            *(f"{one.id} cannot be tuned: {found.evidence}" for one, found in untuned),
        )
        found = Reflected(
            error_hints=(*errors, *declared), performance_hints=slow, decisions=decisions
        )
        if self.ask is None:
            return found
        if any(one.code == HARDWARE_LIMIT for one in slow):
            return replace(found, decisions=(*decisions, NOTHING_TO_CRITICISE))
        templates = self.templates or open_templates()
        critique = await criticise(self.ask, situation, judged, found, templates)
        return found if critique is None else put_first(critique, found)


def put_first(critique: Reflected, found: Reflected) -> Reflected:
    """Return both: the critique's hint stands before the others of its channel."""
    return Reflected(
        error_hints=(*critique.error_hints, *found.error_hints),
        performance_hints=(*critique.performance_hints, *found.performance_hints),
        decisions=(*found.decisions, *critique.decisions),
        critique=critique.critique,
    )


def _decisions(
    situation: Situation, judged: Sequence[Attempt], errors: Sequence[Hint], slow: Sequence[Hint]
) -> Iterator[str]:
    failed = [one for one in judged if not one.passed]
    if failed:
        causes = "; ".join(
            f"{hint.code} ({hint.cause}) {f'{hint.times} times' if hint.times > 1 else 'once'}"
            for hint in errors
        )
        yield f"{len(failed)} of {len(judged)} failed: {causes or 'nothing to learn from it'}"
    for hint in slow:
        if situation.incumbent and hint.about == situation.incumbent.id:
            what = hint.code.replace("_", " ")
            yield f"{hint.about}, the kernel to beat: {join_parts(what, hint.evidence)}"
    ours = [one.id for one in judged if one.infra_failed]
    if ours:
        yield f"{', '.join(ours)}: our own parts failed; not held against the kernel"


def merge(
    diagnosed: Iterable[DiagnosedAttempt], earlier: Sequence[Hint], round: int
) -> tuple[Hint, ...]:
    """Return a hint for each (code, cause), those seen most often first, at most `MOST_HINTS`.

    A hint that several attempts share is about none of them, and so is one about a reply without
    code or a repeat, which leave no kernel to fix. Any other is about its attempt.
    """
    groups: dict[tuple[str, str], list[DiagnosedAttempt]] = {}
    for attempt, diagnosis in diagnosed:
        groups.setdefault((diagnosis.code, diagnosis.cause), []).append((attempt, diagnosis))
    hints = [_hint(group, _times_before(earlier, key), round) for key, group in groups.items()]
    return tuple(sorted(hints, key=lambda hint: -hint.times)[:MOST_HINTS])


def _times_before(earlier: Sequence[Hint], key: tuple[str, str]) -> int:
    return max((hint.times for hint in earlier if (hint.code, hint.cause) == key), default=0)


def _hint(group: Sequence[DiagnosedAttempt], before: int, round: int) -> Hint:
    attempt, first = group[0]
    times = before + len(group)
    hint = first.as_hint(round, attempt.id if is_fixable(attempt) else "", times)
    if times == 1:
        return hint
    names = ", ".join(one.id for one, _ in group[:4])
    again = f"Seen {times} times so far ({'lately ' if before else ''}{names}). "
    return replace(hint, about="", text=again + first.text)


def find_failures(situation: Situation, judged: Sequence[Attempt]) -> Iterator[DiagnosedAttempt]:
    """Yield each failed attempt that has something to teach, with its diagnosis."""
    for attempt in judged:
        if not attempt.passed:
            verdict = situation.archive.verdict(attempt.id)
            diagnosis = diagnose_failure(verdict, context_of(situation, attempt))
            if diagnosis is not None:
                yield attempt, diagnosis


def diagnose_failure(verdict: Verdict, context: FailureContext) -> Diagnosis | None:
    """Return the likely cause; None where the kernel passed or nothing is to be learned from it."""
    match verdict:
        case NoCode():
            return no_code(verdict)
        case Duplicate():
            return duplicate(verdict)
        case CompileFailed():
            return compile_failed(verdict, context)
        case PolicyViolation():
            return policy_violation(verdict, context)
        case LoadFailed():
            return load_failed(verdict)
        case LaunchFailed():
            return launch_failed(verdict, context)
        case IllegalAccess():
            return illegal_access(verdict, context)
        case Misaligned():
            return misaligned(verdict, context)
        case DeviceAssert():
            return device_assert(verdict, context)
        case DataRace():
            return data_race(verdict, context)
        case UninitialisedRead():
            return uninitialised_read(verdict, context)
        case InvalidSync():
            return invalid_sync(verdict, context)
        case TimedOut():
            return timed_out(verdict, context)
        case OutOfMemory():
            return out_of_memory(verdict, context)
        case HostCrashed():
            return host_crashed(verdict)
        case WrongResult():
            return wrong_result(verdict, context)
        case GuardOverwritten():
            return guard_overwritten(verdict, context)
        case InputMutated():
            return input_mutated(verdict, context)
        case Nondeterministic():
            return nondeterministic(verdict, context)
        case LateWrite():
            return late_write(verdict)
        case ImpossibleTime():
            return impossible_time(verdict)
        case EmulatorUnsupported():
            return emulator_unsupported(verdict, context)
        case Passed() | Quarantined() | InfraFailed():
            return None
        case _:
            assert_never(verdict)


def no_code(verdict: NoCode) -> Diagnosis | None:
    """Diagnose a reply; None for a generator's other reasons, which no reply fixes."""
    reason = describe_reply_fault(verdict)
    if reason is None:
        return None
    return Diagnosis(
        code=verdict.code,
        cause=verdict.kind,
        text=f"{reason[0].upper()}{reason[1:]}.",
        evidence=one_line(verdict.said),
    )


def duplicate(verdict: Duplicate) -> Diagnosis:
    """Diagnose a repeat, which is a wasted candidate."""
    return Diagnosis(
        code=verdict.code,
        cause="repeat",
        text=(
            "The same kernel came again, apart from layout and comments: change the structure, "
            "not names or formatting."
        ),
        evidence=f"the same as {one_line(verdict.of, 40)}",
    )


def find_misdeclared(situation: Situation, judged: Sequence[Attempt]) -> Iterator[DiagnosedAttempt]:
    """Yield models' kernels whose tunables cannot be used; of a repeat the first was enough."""
    for attempt in judged:
        if attempt.written_by == "model" and attempt.code != Duplicate.code:
            space = read_space(situation.archive.source(attempt.id))
            if isinstance(space, InvalidDeclaration):
                yield attempt, misdeclared(space)


def misdeclared(declaration: InvalidDeclaration) -> Diagnosis:
    """Diagnose what costs a kernel nothing but its tuning."""
    return Diagnosis(
        code="TUNABLES",
        cause="misdeclared",
        text=(
            "Its tunables could not be read, so nothing was tuned: put `// tunable: 8 16 32` "
            "behind `#define NAME 8` on one line, outside of #if blocks, the default among the "
            "values, each name defined once; or declare none."
        ),
        evidence=one_line(str(declaration)),
    )
