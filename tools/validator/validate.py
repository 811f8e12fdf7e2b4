"""Decides whether a candidate loaded in a session is right, by all cases of its task."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from cuda_llm.outcomes import (
    DataRace,
    Nondeterministic,
    UninitialisedRead,
    Verdict,
    WrongResult,
    fault_key,
)
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Session
from cuda_llm.tools.device.buffers import HOST, Arrays
from cuda_llm.tools.validator.call_plans import (
    begins_small,
    calls_of,
    draw_timed,
    order_cases,
    plan_calls,
)
from cuda_llm.tools.validator.cases import (
    FULL_LEVEL_WORK,
    Case,
    case_generator,
    fresh_nonce,
    generator,
    plan,
)
from cuda_llm.tools.validator.check_case import (
    NO_KERNEL,
    CheckedCase,
    check_case,
    ignore,
    ran_a_kernel,
)
from cuda_llm.tools.validator.find_cause import find_cause
from cuda_llm.tools.validator.find_patterns import JudgedCase, find_case_pattern
from cuda_llm.tools.validator.hidden_sizes import NO_THRESHOLDS
from cuda_llm.tools.validator.oracle import Inputs, Oracle, reference_oracle


@dataclass(frozen=True, kw_only=True)
class Validated:
    """The candidate passed every case."""

    checked: Mapping[str, int] = field(default_factory=dict)
    """`cases`, `sizes`, `hidden`, `distributions`, `elements`, `calls`."""
    notes: tuple[str, ...] = ()
    guarded_races: tuple[DataRace, ...] = ()
    """Races of plain reads that only guard an atomic update, one for each two lines."""
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
    thresholds: Mapping[str, Sequence[int]] = NO_THRESHOLDS,
    on_case: Callable[[Case, int, int], None] | None = None,
    on_inputs: Callable[[Inputs], None] = ignore,
) -> Validated | Verdict:
    """Judge the candidate loaded in `session` on fresh inputs, a cheap or a timed case first.

    The first verdict ends it; after a wrong result the other cheap cases still run, to find which
    sizes or inputs are wrong. `oracle` replaces the task's reference and is required where it has
    none; `arrays` is where the session's buffers lie. Some hidden sizes lie beside `numbers`, those
    of the candidate's source, and on either side of the `thresholds` of an extent.
    `on_case(case, number, total)` is called before each case runs, `on_inputs` as by `check_case`.
    Raises TaskError where the task's reference is broken.
    """
    oracle = reference_oracle(task, arrays) if oracle is None else oracle
    nonce = fresh_nonce() if nonce is None else nonce
    choices, small = generator(nonce, task.name, "order", 0), begins_small(nonce)
    cases = plan(task, generator(nonce, task.name, "plan", 0), numbers, thresholds)
    if not small and arrays is not HOST:
        cases = (*cases, draw_timed(task, choices))
    order = order_cases(cases, choices, small=small)
    plans = plan_calls(cases, order, choices, on_host=arrays is HOST)
    checked: list[CheckedCase] = []
    for number in order:
        case = cases[number]
        if on_case is not None:
            on_case(case, number, len(cases))
        rng = case_generator(nonce, task, number, arrays)
        result = await check_case(
            task, session, case, oracle, rng, arrays, plans[number], on_inputs
        )
        if isinstance(result, Nondeterministic) or (
            isinstance(result, WrongResult) and result.repeat
        ):
            draw = partial(case_generator, nonce, task, number)
            cause = await find_cause(task, session, case, oracle, draw) if arrays is HOST else None
            if cause is None and isinstance(result, WrongResult):
                return replace(result, cases=len(checked) + 1)
            return cause or result
        if isinstance(result, WrongResult):
            judged = dict.fromkeys(order[: len(checked)], True) | {number: False}
            return await _explain(task, session, oracle, nonce, cases, judged, result, arrays)
        if not isinstance(result, CheckedCase):
            return result
        checked.append(result)
    if not any(ran_a_kernel(one.report) for one in checked):
        return NO_KERNEL
    return Validated(
        checked={
            **_counts(checked),
            "calls": sum(map(calls_of, cases, plans)),
        },
        notes=tuple(dict.fromkeys(note for one in checked for note in one.notes)),
        guarded_races=one_for_each_pair(race for one in checked for race in one.guarded_races),
        differential=task.reference is None,
        nonce=nonce,
    )


def one_for_each_pair(races: Iterable[DataRace]) -> tuple[DataRace, ...]:
    """Return the first race of each two lines, in whichever order the lines were executed."""
    found: dict[object, DataRace] = {}
    for race in races:
        found.setdefault(fault_key(race), race)
    # Sets of lines have no order that every process shares.
    return tuple(sorted(found.values(), key=lambda race: sorted(map(str, (race.spot, race.other)))))


async def _explain(
    task: Task,
    session: Session,
    oracle: Oracle,
    nonce: bytes,
    cases: tuple[Case, ...],
    judged: dict[int, bool],
    first: WrongResult,
    arrays: Arrays,
) -> WrongResult | DataRace | UninitialisedRead:
    """Return what explains a wrong result: a race, a value that nobody has written, or what the
    wrong cases have in common, once the other cheap cases have run.

    Where no cheap case is wrong, dearer ones run until one is.
    """
    wrong = {number: first for number, right in judged.items() if not right}
    for number, case in enumerate(cases):
        if number in judged:
            continue
        if case.work > FULL_LEVEL_WORK and number > min(wrong):
            break
        rng = case_generator(nonce, task, number, arrays)
        result = await check_case(task, session, replace(case, repeat_seed=0), oracle, rng, arrays)
        if isinstance(result, WrongResult):
            wrong[number] = result
        elif isinstance(result, DataRace):
            return result
        elif not isinstance(result, CheckedCase):
            break
        judged[number] = isinstance(result, CheckedCase)
    cheapest = min(wrong)
    if arrays is HOST:
        draw = partial(case_generator, nonce, task, cheapest)
        cause = await find_cause(task, session, cases[cheapest], oracle, draw)
        if cause is not None:
            return cause
    in_order = [JudgedCase(cases[number], judged[number]) for number in sorted(judged)]
    return replace(
        max((wrong[number] for number in sorted(wrong)), key=_informativeness),
        case_pattern=find_case_pattern(in_order),
        failed_cases=len(wrong),
        cases=len(in_order),
    )


def _informativeness(result: WrongResult) -> tuple[bool, bool, bool]:
    """Rank results: most informative may be shown, has a pattern, and is wrong only in part."""
    wrong, elements = result.wrong, result.elements
    partial = wrong is not None and elements is not None and 0 < wrong < elements
    return result.size_class != "hidden", result.looks_like is not None, partial


def _counts(checked: list[CheckedCase]) -> Mapping[str, int]:
    sizes = {(one.case.group, tuple(one.case.dims.items())) for one in checked}
    return {
        "cases": len(checked),
        "sizes": sum(group != "hidden" for group, _ in sizes),
        "hidden": sum(group == "hidden" for group, _ in sizes),
        "distributions": len({one.case.label for one in checked}),
        "elements": sum(one.elements for one in checked),
    }
