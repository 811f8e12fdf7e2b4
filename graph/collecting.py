"""From the candidates' folders back into the state, in the order of round and index."""

from collections.abc import Iterable, Sequence

from cuda_llm.graph.duplicates import as_duplicate, first_of
from cuda_llm.graph.state import SearchState, SearchUpdate
from cuda_llm.graph.view import attempts_of
from cuda_llm.graph.wiring import Wiring
from cuda_llm.outcomes import Duplicate
from cuda_llm.search import Attempt
from cuda_llm.traces.events import AttemptJudged, TunerSearched


def take_in(state: SearchState, wiring: Wiring, names: Sequence[str]) -> SearchUpdate:
    """The attempts that `names` came to; who has come to nothing yet is late."""
    found = {name: wiring.folder.attempt(name) for name in names}
    judged = settle_duplicates(
        wiring, attempts_of(state, wiring), [one for one in found.values() if one is not None]
    )
    for attempt in judged:
        wiring.record(AttemptJudged(attempt=attempt))
    late = [name for name in state["late"] if name not in found]
    return {
        "attempts": [one.id for one in judged],
        "judged": [*state["judged"], *(one.id for one in judged)],
        "late": [*late, *(name for name, attempt in found.items() if attempt is None)],
    }


def settle_duplicates(
    wiring: Wiring, earlier: Iterable[Attempt], judged: Iterable[Attempt]
) -> list[Attempt]:
    """Of equal kernels the first in order keeps its verdict, whichever was judged first."""
    known = list(earlier)
    before = len(known)
    for attempt in judged:
        of = first_of(attempt.normal_sha, known) if wiring.strategy.deduplicate else ""
        if of and not attempt.code.startswith("INFRA_"):
            attempt = as_duplicate(attempt, of)
            wiring.folder.write_verdict(attempt.id, Duplicate(of=of))
            wiring.folder.write_attempt(attempt)
        known.append(attempt)
    return known[before:]


def tell_trials(state: SearchState, wiring: Wiring, update: SearchUpdate) -> None:
    """For each parent, say what its trials came to."""
    trials = [one for one in attempts_of(update, wiring) if one.id in state["trials"]]
    for parent in dict.fromkeys(one.parent for one in trials):
        tried = [one for one in trials if one.parent == parent]
        fastest = max((one for one in tried if one.passed), key=pace, default=None)
        wiring.record(
            TunerSearched(
                round=state["round"],
                parent=parent or "",
                tried=tuple(one.id for one in tried),
                best=None if fastest is None else fastest.id,
                reason=said(fastest, len(tried)),
            )
        )


def pace(attempt: Attempt) -> float:
    """What attempts that passed are ranked by."""
    return attempt.speedup or 0.0


def said(fastest: Attempt | None, tried: int) -> str:
    """The outcome in a sentence."""
    points = f"{tried} point" if tried == 1 else f"{tried} points"
    if fastest is None:
        return f"none of {points} passed"
    return f"the best of {points} is {pace(fastest):.3g}x the baseline"
