"""What a strategy decides, held to its protocol: a mistake in one ends the run with one line."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategy import Choice
from cuda_llm.errors import UsageError, describe_error
from cuda_llm.graph.contained import MOST_SOURCE, fit
from cuda_llm.graph.request import MOST_CANDIDATES
from cuda_llm.graph.wiring import Wiring
from cuda_llm.search import Attempt, Brief


def write_briefs(wiring: Wiring, situation: Situation) -> tuple[Brief, ...]:
    """The orders of this round. Raises UsageError."""
    with held(wiring, "write_briefs", situation.round):
        briefs = tuple(wiring.strategy.write_briefs(situation))
        if not 1 <= len(briefs) <= MOST_CANDIDATES:
            raise UsageError(f"it wrote {len(briefs)} briefs; expected 1 to {MOST_CANDIDATES}")
        known = {one.id for one in situation.attempts}
        return tuple(
            check_brief(brief, situation.round, index, known)
            for index, brief in enumerate(briefs, start=1)
        )


def check_brief(made: object, round_: int, index: int, known: set[str]) -> Brief:
    """The brief at its place. Raises UsageError, TypeError and ValueError."""
    brief: Brief = fit(made, (Brief,), MOST_SOURCE)
    place = (f"r{round_}-c{index}", round_, index)
    if (brief.id, brief.round, brief.index) != place:
        found = f"{brief.id}, round {brief.round}, index {brief.index}"
        raise UsageError(f"brief {index} is {found}; expected {place[0]} in order")
    if brief.parent is not None and brief.parent not in known:
        raise UsageError(f"the parent of {brief.id} is {brief.parent}, which was never judged")
    return brief


def choose(wiring: Wiring, situation: Situation, judged: Sequence[Attempt]) -> Choice:
    """The incumbent after this round. Raises UsageError."""
    with held(wiring, "choose", situation.round):
        choice: Choice = fit(wiring.strategy.choose(situation, judged), (Choice,), MOST_SOURCE)
        passed = {one.id for one in situation.attempts if one.passed}
        if choice.incumbent is not None and choice.incumbent not in passed:
            raise UsageError(f"it chose {choice.incumbent}, which has not passed")
        return choice


def stop(wiring: Wiring, situation: Situation) -> str:
    """Why the search should end now; empty to go on. Raises UsageError."""
    with held(wiring, "stop", situation.round):
        reason = wiring.strategy.stop(situation)
        if not isinstance(reason, str):
            raise UsageError(f"it answered {reason!r}; expected a reason, or '' to go on")
        return reason


@contextmanager
def held(wiring: Wiring, step: str, round_: int) -> Iterator[None]:
    """Turns whatever goes wrong into a UsageError that names the strategy's step."""
    try:
        yield
    except (Exception, SystemExit) as error:
        said = describe_error(error)
        msg = f"strategy {wiring.strategy.name}: {step} failed in round {round_}: {said}"
        raise UsageError(f"{msg}; mend it and resume the run") from error
