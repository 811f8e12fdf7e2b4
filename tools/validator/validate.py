"""Decides whether a candidate loaded in a session is right, by all cases of its task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cuda_llm.outcomes import Verdict, WrongResult
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Session
from cuda_llm.tools.device.buffers import HOST, Arrays
from cuda_llm.tools.validator.cases import (
    FULL_LEVEL_WORK,
    Case,
    case_generator,
    fresh_nonce,
    generator,
    plan,
)
from cuda_llm.tools.validator.check_case import Checked, check_case
from cuda_llm.tools.validator.find_patterns import JudgedCase, find_case_pattern
from cuda_llm.tools.validator.oracle import Oracle, reference_oracle


@dataclass(frozen=True, kw_only=True)
class Validated:
    """The candidate passed every case."""

    checked: Mapping[str, int] = field(default_factory=dict)
    """`cases`, `sizes`, `hidden`, `distributions`, `elements`."""
    notes: tuple[str, ...] = ()
    differential: bool = False
    """The oracle was the user's own kernel."""
    nonce: bytes = b""
    """The secret that replays the inputs, once the verdict is out."""


async def validate(
    task: Task,
    session: Session,
    *,
    arrays: Arrays = HOST,
    oracle: Oracle | None = None,
    nonce: bytes | None = None,
    numbers: Sequence[int] = (),
    on_case: Callable[[Case, int, int], None] | None = None,
) -> Validated | Verdict:
    """Judge the candidate loaded in `session` on fresh inputs, cheap cases first.

    The first verdict ends it; after a wrong result the other cheap cases still run, to find which
    sizes or inputs are wrong. `oracle` replaces the task's reference and is required where it has
    none; `arrays` is where the session's buffers lie. Some hidden sizes lie beside `numbers`, those
    of the candidate's source. `on_case(case, number, total)` is called before each case runs.
    Raises TaskError where the task's reference is broken.
    """
    differential = task.reference is None
    oracle = reference_oracle(task, arrays) if oracle is None else oracle
    nonce = fresh_nonce() if nonce is None else nonce
    cases = plan(task, generator(nonce, task.name, "plan", 0), numbers)
    checked: list[Checked] = []
    for number, case in enumerate(cases):
        if on_case is not None:
            on_case(case, number, len(cases))
        rng = case_generator(nonce, task, number, arrays)
        result = await check_case(task, session, case, oracle, rng, arrays)
        if isinstance(result, WrongResult):
            judged = [JudgedCase(one.case, True) for one in checked] + [JudgedCase(case, False)]
            return await _explain(task, session, oracle, nonce, cases, judged, result, arrays)
        if not isinstance(result, Checked):
            return result
        checked.append(result)
    return Validated(
        checked=_counts(checked),
        notes=tuple(dict.fromkeys(note for one in checked for note in one.notes)),
        differential=differential,
        nonce=nonce,
    )


async def _explain(
    task: Task,
    session: Session,
    oracle: Oracle,
    nonce: bytes,
    cases: tuple[Case, ...],
    judged: list[JudgedCase],
    first: WrongResult,
    arrays: Arrays,
) -> WrongResult:
    """Run the remaining cheap cases and find what the wrong ones have in common."""
    wrong = [first]
    for number in range(len(judged), len(cases)):
        case = cases[number]
        if case.work > FULL_LEVEL_WORK:
            break
        rng = case_generator(nonce, task, number, arrays)
        single = replace(case, repeat_seed=0)
        result = await check_case(task, session, single, oracle, rng, arrays)
        if isinstance(result, WrongResult):
            wrong.append(result)
        elif not isinstance(result, Checked):
            break
        judged.append(JudgedCase(case, isinstance(result, Checked)))
    return replace(
        max(wrong, key=_informativeness),
        case_pattern=find_case_pattern(judged),
        failed_cases=sum(not one.right for one in judged),
        cases=len(judged),
    )


def _informativeness(result: WrongResult) -> tuple[bool, bool, bool]:
    """Rank results: most informative may be shown, has a pattern, and is wrong only in part."""
    wrong, elements = result.wrong, result.elements
    partial = wrong is not None and elements is not None and 0 < wrong < elements
    return result.size_class != "hidden", result.looks_like is not None, partial


def _counts(checked: list[Checked]) -> Mapping[str, int]:
    sizes = {(one.case.group, tuple(one.case.dims.items())) for one in checked}
    return {
        "cases": len(checked),
        "sizes": sum(group != "hidden" for group, _ in sizes),
        "hidden": sum(group == "hidden" for group, _ in sizes),
        "distributions": len({one.case.label for one in checked}),
        "elements": sum(one.elements for one in checked),
    }
