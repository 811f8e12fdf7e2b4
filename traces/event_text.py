"""What an event decided, in lines for a person who watches a run, wherever that is."""

from collections.abc import Iterator

from cuda_llm.search import Attempt
from cuda_llm.traces.ending_text import describe_check
from cuda_llm.traces.events import (
    AgentDecided,
    AgentFailed,
    AttemptJudged,
    AttemptRepeated,
    BaselineJudged,
    CandidateLate,
    ContestHeld,
    Event,
    GeneratorFailed,
    HintGiven,
    HintsTried,
    IncumbentChosen,
    KernelInspected,
    RoundBegan,
    RoundReviewed,
    Routed,
    RunFinished,
    TunerSearched,
    WinnerRemeasured,
)
from cuda_llm.traces.run_text import OUTCOMES, describe_brief, describe_duel
from cuda_llm.traces.text import (
    describe_end,
    describe_hints_tried,
    describe_idea,
    describe_inspection,
    describe_review,
    describe_route,
    describe_times,
    list_names,
    us,
)


def describe_decision(event: Event) -> Iterator[str]:
    """Yield what was decided or found, a line each; nothing for mere progress."""
    match event:
        case AgentDecided(agent=agent, decisions=decisions, note=note):
            yield from (f"{agent}: {one}" for one in decisions)
            if note:
                yield f"{agent} notes: {note}"
        case AgentFailed(agent=agent, error=error):
            yield f"{agent} failed: {error}; the run goes on without it"
        case GeneratorFailed(candidate=name, error=error):
            yield f"{name}: the generator failed: {error}"
        case BaselineJudged(sizes=sizes, times_us=times):
            yield f"baseline: {describe_times(sizes, times)}"
        case RoundBegan(briefs=briefs):
            yield from (f"{one.id} {describe_brief(one, '')}" for one in briefs)
        case AttemptJudged(attempt=attempt) | AttemptRepeated(attempt=attempt):
            yield describe_attempt(attempt)
        case CandidateLate(candidate=name, stage=stage):
            yield f"{name} cut off at {stage}: the minutes are over"
        case TunerSearched(parent=parent, tried=tried, best=best, reason=reason):
            better = f", best {best}" if best else ""
            yield f"{parent}: tried {list_names(tried)}{better}; {reason}"
        case HintGiven(hint=hint):
            about = f" from {hint.about}" if hint.about else ""
            yield f"{hint.id} learned{about} ({hint.code}, by {hint.by}): {hint.text}"
        case HintsTried():
            yield describe_hints_tried(event)
        case RoundReviewed(round=number, by=by):
            yield from (f"round {number}, {by}: {line}" for line in describe_review(event))
        case ContestHeld(contender=name, incumbent=before):
            yield f"{name} against {before}, timed in turn: {describe_duel(event)}"
        case KernelInspected(attempt=name, code=code, notes=notes, not_inspected=missed):
            yield f"{name} inspected: {describe_inspection(code, notes, missed)}"
        case IncumbentChosen(incumbent=incumbent, reason=reason, verdicts=verdicts):
            yield f"to beat: {incumbent or 'the baseline'}; {reason}"
            yield from (f"{name}: {OUTCOMES.get(one, one)}" for name, one in verdicts.items())
        case Routed():
            yield describe_route(event)
        case WinnerRemeasured(attempt=name):
            yield f"{name}, last check: {describe_check(event)}"
        case RunFinished(best=best, speedup=speedup, reason=reason):
            factor = f", {speedup:.2f}x the baseline's speed" if best and speedup else ""
            yield f"{describe_end(reason)}; best: {best or 'the baseline'}{factor}"
        case _:
            pass


def describe_attempt(attempt: Attempt) -> str:
    """Return a candidate's outcome with its idea: `r1-c2 PASSED 41.0 us, 2.50x: tiles`."""
    idea = describe_idea(attempt.idea, attempt.tunables)
    if not attempt.passed:
        return f"{attempt.id} {attempt.code}: {attempt.summary}"
    time = f" {us(attempt.times_us[-1])}" if attempt.times_us else ""
    factor = f", {attempt.speedup:.2f}x" if attempt.speedup else ""
    return f"{attempt.id} {attempt.code}{time}{factor}" + (f": {idea}" if idea else "")
