"""Each candidate in a line, the course of the best, and what calls cost round by round."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from cuda_llm.search import Attempt, Brief
from cuda_llm.traces.event_log import Recorded
from cuda_llm.traces.events import IncumbentChosen, ModelCalled
from cuda_llm.traces.history import RunHistory
from cuda_llm.traces.report.candidates import CandidateReader, harmless
from cuda_llm.traces.report.timeline import Timeline
from cuda_llm.traces.report.view import Row, Spend, Step
from cuda_llm.traces.summary import total_calls


class BestSoFar:
    """How many candidates were done and how much was spent at any second of a run."""

    def __init__(self, events: Sequence[Recorded], line: Timeline) -> None:
        self.line = line
        order = sorted(line.ready_s.items(), key=lambda item: item[1])
        self.evaluation = {name: number for number, (name, _) in enumerate(order, start=1)}
        self._choices: dict[int, tuple[float, IncumbentChosen]] = {}
        self._spent: list[tuple[float, float, int]] = []
        usd, tokens = 0.0, 0
        for at_s, one in zip(line.at_s, events, strict=True):
            if isinstance(one.event, ModelCalled):
                usd += one.event.usd or 0.0
                tokens += one.event.input_tokens + one.event.output_tokens
                self._spent.append((at_s, usd, tokens))
            elif isinstance(one.event, IncumbentChosen):
                self._choices[one.event.round] = at_s, one.event

    def spent(self, at_s: float) -> tuple[float, int]:
        """Return dollars and tokens spent until then."""
        from bisect import bisect_right

        index = bisect_right(self._spent, at_s, key=lambda one: one[0])
        return self._spent[index - 1][1:] if index else (0.0, 0)

    def steps(self, attempts: Mapping[str, Attempt]) -> Iterator[Step]:
        """Yield the kernel to beat after each round."""
        done = sorted(self.line.ready_s.values())
        for number, (at_s, choice) in sorted(self._choices.items()):
            best = attempts.get(choice.incumbent or "")
            usd, tokens = self.spent(at_s)
            yield Step(
                round=number,
                evaluation=sum(one <= at_s for one in done),
                done_s=at_s,
                usd=usd,
                tokens=tokens,
                candidate=choice.incumbent,
                speedup=drawable_speedup(best),
                reason=harmless(choice.reason),
            )


def rows_of(
    history: RunHistory,
    attempts: Mapping[str, Attempt],
    briefs: Mapping[str, Brief],
    progress: BestSoFar,
    reader: CandidateReader,
) -> Iterator[Row]:
    """Yield a row for every candidate that left a trace, `r2-c10` after `r2-c9`."""
    names = dict.fromkeys((*reader.run.candidates(), *briefs, *attempts))
    outcomes = {
        name: outcome
        for round_ in history.rounds.values()
        if round_.choice is not None
        for name, outcome in round_.choice.verdicts.items()
    }
    own = _own_spend(history)
    for number, name in enumerate(names, start=1):
        attempt, brief = attempts.get(name), briefs.get(name)
        known = attempt or brief
        parent = attempts.get((known.parent or "") if known else "")
        done_s = progress.line.ready_s.get(name)
        usd, tokens = progress.spent(done_s) if done_s is not None else (0.0, 0)
        own_usd, own_tokens = own.get(name, (None, 0))
        speedup, before = drawable_speedup(attempt), drawable_speedup(parent)
        predicted = attempt.predicted if attempt else None
        yield Row(
            id=name,
            round=known.round if known else 0,
            kind=known.kind.value if known else "",
            parent=known.parent if known else None,
            idea=harmless(attempt.idea) if attempt else "",
            direction=harmless(known.direction) if known else "",
            written_by=attempt.written_by if attempt else "",
            code=attempt.code if attempt else "",
            summary=harmless(attempt.summary) if attempt else "",
            speedup=speedup,
            objective=attempt.objective if attempt else "geomean",
            times_us=attempt.times_us if attempt else (),
            versus_parent=speedup / before if speedup and before else None,
            limited_by=attempt.limited_by if attempt else "",
            predicted_us=predicted.saved_us if predicted else None,
            had_us=predicted.had_us if predicted else None,
            evaluation=progress.evaluation.get(name, number),
            done_s=done_s,
            usd=usd,
            tokens=tokens,
            own_usd=own_usd,
            own_tokens=own_tokens,
            seconds=attempt.seconds if attempt else {},
            state=_state(name, attempt, history),
            outcome=outcomes.get(name, ""),
        )


def drawable_speedup(attempt: Attempt | None) -> float | None:
    """Return a speed-up that has a place on an axis; a damaged file may hold any number."""
    speedup = attempt.speedup if attempt else None
    return speedup if speedup and 0 < speedup < inf else None


def _state(name: str, attempt: Attempt | None, history: RunHistory) -> str:
    if attempt is not None:
        return ""
    stage = history.stages.get(name)
    return f"at {stage}" if stage else "between two stages" if stage == "" else "not begun"


def _own_spend(history: RunHistory) -> dict[str, tuple[float | None, int]]:
    """Return dollars and tokens of the calls that concern one candidate, by its id."""
    calls: dict[str, list[ModelCalled]] = {}
    for call in history.calls:
        parts = call.call.split("/")
        if parts[0] == "candidates" and len(parts) > 1:
            calls.setdefault(parts[1], []).append(call)
    totals = {name: total_calls(some) for name, some in calls.items()}
    return {
        name: (total.usd, total.input_tokens + total.output_tokens)
        for name, total in totals.items()
    }


def spends_of(history: RunHistory) -> Iterator[Spend]:
    """Yield what each agent's calls cost in each round."""
    for round_ in history.rounds.values():
        for agent in dict.fromkeys(call.agent for call in round_.calls):
            calls = [call for call in round_.calls if call.agent == agent]
            total = total_calls(calls)
            lost = [call.lost_usd for call in calls if call.lost_usd]
            yield Spend(
                round=round_.round,
                agent=agent,
                calls=total.calls,
                failed=sum(call.outcome != "ok" for call in calls),
                input_tokens=total.input_tokens,
                output_tokens=total.output_tokens,
                usd=total.usd,
                lost_usd=sum(lost) if lost else None,
                seconds=sum(call.seconds for call in calls),
            )
