"""Nodes of one round in their order, and where a run goes next."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from cuda_llm.agents.llm.agent_ask import folder_of_turn
from cuda_llm.agents.playbook.tuner import TunerAlone, why_tuning_ends
from cuda_llm.agents.protocols import Contribution, Trial
from cuda_llm.agents.situation import Situation
from cuda_llm.errors import UsageError
from cuda_llm.graph.agents import add_contribution
from cuda_llm.graph.attempts import mark_duplicates, record_judged
from cuda_llm.graph.context import RunContext, open_ask
from cuda_llm.graph.guards import (
    MOST_SOURCE,
    checked_answer,
    compose_by_strategy,
    run_untrusted,
    stop_by_strategy,
    strategy_guard,
)
from cuda_llm.graph.incumbent import choose_incumbent
from cuda_llm.graph.state import CandidateState, SearchState, SearchUpdate
from cuda_llm.graph.view import attempts_of, judged_of, seen_of, situation_of
from cuda_llm.run_config import MOST_CANDIDATES
from cuda_llm.search import Attempt, Brief, Draft, Kind
from cuda_llm.traces.events import IncumbentChosen, RoundBegan, Routed, TunerSearched
from cuda_llm.traces.text import plural

ROUNDS = "rounds"
BROUGHT = frozenset({Kind.START, Kind.TUNE, Kind.COMPOSE})
"""Kinds of briefs whose kernel exists already: no generator is asked."""


def briefs_of_round(situation: Situation, context: RunContext) -> tuple[Brief, ...]:
    """Return the briefs of the round; none where nobody writes. That of round 0 is the user's own.

    A playbook follows no direction, so its briefs hold none: strategies could learn nothing of it.
    """
    if situation.round == 0:
        return brief_of_own_kernel(context)
    if tunes_alone(context):
        return ()
    briefs = write_briefs(context, situation)
    if context.generator.written_by == "playbook":
        return tuple(replace(brief, direction="") for brief in briefs)
    return briefs


def tunes_alone(context: RunContext) -> bool:
    """Return whether the run has no generator and its rounds hold the tuner's trials alone."""
    return isinstance(context.generator, TunerAlone)


def trials_wanted(context: RunContext, composed: int) -> int:
    """Return how many points a round tries: where nobody writes, `candidates` bounds all kernels of
    a round, of which `composed` are put together already."""
    if tunes_alone(context):
        return max(0, context.config.candidates - composed)
    return context.config.tune


def write_briefs(context: RunContext, situation: Situation) -> tuple[Brief, ...]:
    """Return the strategy's briefs for this round. Raises UsageError."""
    with strategy_guard(context, "write_briefs", situation.round):
        briefs = tuple(context.strategy.write_briefs(situation))
        if not 1 <= len(briefs) <= MOST_CANDIDATES:
            raise UsageError(f"it wrote {len(briefs)} briefs; expected 1 to {MOST_CANDIDATES}")
        known = {one.id for one in situation.attempts}
        return tuple(
            check_brief(brief, situation.round, index, known)
            for index, brief in enumerate(briefs, start=1)
        )


def check_brief(made: object, round_: int, index: int, known: set[str]) -> Brief:
    """Return the brief, checked against its place. Raises UsageError, TypeError and ValueError."""
    brief: Brief = checked_answer(made, (Brief,), MOST_SOURCE)
    place = (f"r{round_}-c{index}", round_, index)
    if (brief.id, brief.round, brief.index) != place:
        found = f"{brief.id}, round {brief.round}, index {brief.index}"
        raise UsageError(f"brief {index} is {found}; expected {place[0]} in order")
    if brief.kind in BROUGHT:
        asked = ", ".join(kind for kind in Kind if kind not in BROUGHT)
        raise UsageError(f"{brief.id} is of kind {brief.kind}; expected one of {asked}")
    if brief.parent is not None and brief.parent not in known:
        raise UsageError(f"the parent of {brief.id} is {brief.parent}, which was never judged")
    return brief


def brief_of_own_kernel(context: RunContext) -> tuple[Brief, ...]:
    """Return the brief that has the user's own kernel judged. Raises UsageError."""
    brief = Brief(id="r0-c1", round=0, index=1, kind=Kind.START)
    if context.folder.usable(context.folder.draft, brief.id) is None:
        path = Path(context.config.start)
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: cannot be read: {error}") from None
        context.folder.write_draft(brief.id, Draft(source=source, idea=path.name))
    return (brief,)


def write_trials(
    context: RunContext, round_: int, briefs: int, trials: Sequence[Trial]
) -> list[str]:
    """Write the tuner's kernels; return the ids of their briefs, which follow `briefs` others."""
    names = []
    for number, trial in enumerate(trials, start=1):
        name = f"r{round_}-t{number}"
        brief = Brief(
            id=name,
            round=round_,
            index=briefs + number,
            kind=Kind.TUNE if trial.second is None else Kind.COMPOSE,
            parent=trial.parent,
            second=trial.second,
        )
        context.folder.write_brief(brief)
        context.folder.write_draft(name, trial.draft)
        names.append(name)
    return names


def why_stop(situation: Situation, judged: Sequence[Attempt], context: RunContext) -> str:
    """Return the reason why no round should follow, in a few words; empty to continue. No strategy
    ends a run that only tunes."""
    if situation.round >= situation.config.rounds:
        return ROUNDS
    if why := context.stop_reason() or all_infra_failed(judged):
        return why
    alone = tunes_alone(context)
    why = why_tuning_ends(situation, judged) if alone else stop_by_strategy(context, situation)
    if why or context.replay is None:
        return why
    return context.replay.why_end(situation.round)


def collect_attempts(state: SearchState, context: RunContext, names: Sequence[str]) -> SearchUpdate:
    """Return the update with the attempts of `names`; the run's minutes may have cut some off."""
    landed = [one for one in map(context.folder.attempt, names) if one is not None]
    judged = mark_duplicates(context, attempts_of(state, context), landed)
    record_judged(context, judged)
    ids = [one.id for one in judged]
    return {"attempts": ids, "judged": [*state["judged"], *ids]}


def record_trials(state: SearchState, context: RunContext, update: SearchUpdate) -> None:
    """Record the outcome of the trials of each parent."""
    added = (one for one in attempts_of(update, context) if one.id in state["trials"])
    trials = [one for one in added if one.kind == Kind.TUNE]
    for parent in dict.fromkeys(one.parent for one in trials):
        tried = [one for one in trials if one.parent == parent]
        fastest = max((one for one in tried if one.passed), key=speed_of, default=None)
        context.record(
            TunerSearched(
                round=state["round"],
                parent=parent or "",
                tried=tuple(one.id for one in tried),
                best=None if fastest is None else fastest.id,
                reason=describe_trials(fastest, len(tried)),
            )
        )


def speed_of(attempt: Attempt) -> float:
    """Return the figure by which attempts that passed are ranked."""
    return attempt.speedup or 0.0


def describe_trials(fastest: Attempt | None, tried: int) -> str:
    """Describe the outcome in a sentence."""
    points = f"{tried} point{'' if tried == 1 else 's'}"
    if fastest is None:
        return f"none of {points} passed"
    return f"the best of {points} is {speed_of(fastest):.3g}x the baseline"


def all_infra_failed(judged: Sequence[Attempt]) -> str:
    """Return a reason to stop where every candidate of the round failed by a part of cuda-llm or by
    the user's generator; empty otherwise."""
    broken = bool(judged) and all(one.infra_failed for one in judged)
    return f"nothing works: {judged[0].code}: {judged[0].summary}" if broken else ""


async def strategy(state: SearchState, context: RunContext) -> SearchUpdate:
    """Write the briefs of the next round; that of round 0 is the user's own kernel."""
    opened: SearchState = {**state, "round": state["round"] + 1}
    situation = situation_of(opened, context)
    briefs = briefs_of_round(situation, context)
    for brief in briefs:
        context.folder.write_brief(brief)
    ids = [brief.id for brief in briefs]
    return {"round": opened["round"], "briefs": ids, "trials": [], "judged": []}


async def hand_out(state: SearchState, context: RunContext) -> SearchUpdate:
    """Begin the round: the candidates get its briefs and the present state."""
    found = map(context.folder.brief, state["briefs"])
    briefs = tuple(brief for brief in found if brief is not None)
    began = RoundBegan(round=state["round"], incumbent=state["incumbent"], briefs=briefs)
    context.record(began)
    return {}


async def collect(state: SearchState, context: RunContext) -> SearchUpdate:
    """Add the outcomes of the candidates to the state, in the order of their index."""
    return collect_attempts(state, context, state["briefs"])


async def tuner(state: SearchState, context: RunContext) -> SearchUpdate:
    """Search the tunables that this round's candidates declare, and put two kernels together."""
    situation = situation_of(state, context)
    judged = judged_of(state, situation)
    stopping = context.stop_reason()
    # Round 0 of a run that only tunes judges the kernel as it was given.
    waits = tunes_alone(context) and situation.round == 0
    composed = () if stopping else compose_by_strategy(context, situation, state.get("unfit", {}))
    count = 0 if stopping or waits else trials_wanted(context, len(composed))
    trials = context.tuner.propose(situation, judged, count) if count else ()
    last = max([len(state["briefs"]), *(one.index for one in judged)])
    names = write_trials(context, situation.round, last, (*trials, *composed))
    return {"trials": names}


async def collect_trials(state: SearchState, context: RunContext) -> SearchUpdate:
    """Add the outcomes of the trials to the state."""
    update = collect_attempts(state, context, state["trials"])
    record_trials(state, context, update)
    return update


async def choose(state: SearchState, context: RunContext) -> SearchUpdate:
    """Choose the incumbent by the strategy; where times are measured, after duels."""
    situation = situation_of(state, context)
    chosen = await choose_incumbent(context, situation, judged_of(state, situation))
    choice = chosen.choice
    context.record(
        IncumbentChosen(
            round=state["round"],
            before=state["incumbent"],
            incumbent=choice.incumbent,
            reason=choice.reason,
            verdicts=choice.verdicts,
        )
    )
    return {"incumbent": choice.incumbent, "unfit": chosen.unfit}


async def reflection(state: SearchState, context: RunContext) -> SearchUpdate:
    """Turn this round's verdicts into hints."""
    situation = situation_of(state, context)
    judged = judged_of(state, situation)
    name = context.reflector.name
    with open_ask(context, name, folder_of_turn(situation.round, name)) as ask:
        reflect = partial(context.reflector.reflect, replace(situation, ask=ask), judged)
        made = await run_untrusted(name, reflect, Contribution)
    return add_contribution(context, name, state, made)


async def route(state: SearchState, context: RunContext) -> SearchUpdate:
    """Decide whether the search ends here, and why."""
    situation = situation_of(state, context)
    stop = why_stop(situation, judged_of(state, situation), context)
    left = plural(situation.config.rounds - situation.round, "round")
    to, reason = ("finish", stop) if stop else ("strategy", f"{left} left")
    context.record(Routed(round=situation.round, to=to, reason=reason))
    return {"stop": stop}


async def each_candidate(state: SearchState, context: RunContext) -> list[Any] | Literal["on"]:
    """Send all candidates of the round at once; continue in a round without candidates."""
    from langgraph.types import Send

    orders = [
        candidate_input(state, name, drafted=is_drafted(context, name)) for name in state["briefs"]
    ]
    return [Send("candidate", one) for one in orders] or "on"


def is_drafted(context: RunContext, name: str) -> bool:
    """Return whether the user or the tuner brought the kernel of that brief."""
    brief: Brief | None = context.folder.usable(context.folder.brief, name)
    return brief is not None and brief.kind in BROUGHT


def each_trial(state: SearchState) -> list[Any] | Literal["on"]:
    """Send all of the tuner's trials at once."""
    from langgraph.types import Send

    orders = [candidate_input(state, name, drafted=True) for name in state["trials"]]
    return [Send("trial", one) for one in orders] or "on"


def next_round_or_finish(state: SearchState) -> Literal["strategy", "finish"]:
    """Return where a run goes behind `route`."""
    return "finish" if state["stop"] else "strategy"


def candidate_input(state: SearchState, name: str, *, drafted: bool) -> CandidateState:
    """Return the input of a candidate's subgraph; `drafted`: no generator is asked."""
    return {
        "candidate_run": state["run_id"],
        "candidate_id": name,
        "candidate_drafted": drafted,
        "candidate_round": state["round"],
        "candidate_seen": {"baseline": state["baseline"]} if drafted else seen_of(state),
        "candidate_seconds": {},
        "candidate_end": "",
    }
