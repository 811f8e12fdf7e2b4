"""Nodes of one round, in their order."""

from dataclasses import replace
from functools import partial

from cuda_llm.agents.llm.agent_ask import AgentAsk, folder_of_turn
from cuda_llm.agents.reflector import Reflected
from cuda_llm.graph.collecting import take_in, tell_trials
from cuda_llm.graph.contained import contained
from cuda_llm.graph.contributions import as_contribution, contribute
from cuda_llm.graph.crowning import crown
from cuda_llm.graph.orders import order, write_trials
from cuda_llm.graph.review import review
from cuda_llm.graph.state import SearchState, SearchUpdate
from cuda_llm.graph.stopping import why_stop
from cuda_llm.graph.view import judged_of, keep_view, situation_of
from cuda_llm.graph.wiring import Wiring
from cuda_llm.traces.events import IncumbentChosen, RoundBegan


async def strategy(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """Write the briefs of the next round; that of round 0 is the user's own kernel."""
    added = review(state, wiring)
    hints = [*state["performance_hints"], *added]
    opened: SearchState = {**state, "round": state["round"] + 1, "performance_hints": hints}
    situation = situation_of(opened, wiring)
    briefs = order(situation, wiring)
    for brief in briefs:
        wiring.folder.write_brief(brief)
    ids = [*state["late"], *(brief.id for brief in briefs)]
    fresh: SearchUpdate = {"round": opened["round"], "trials": [], "judged": []}
    return {**fresh, "briefs": ids, "performance_hints": added}


async def hand_out(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """Keep what this round's generators see, agents behind the strategy included."""
    keep_view(state, wiring)
    late = set(state["late"])
    briefs = [wiring.folder.brief(name) for name in state["briefs"] if name not in late]
    wiring.record(
        RoundBegan(
            round=state["round"],
            incumbent=state["incumbent"],
            briefs=tuple(brief for brief in briefs if brief is not None),
            late=tuple(state["late"]),
        )
    )
    return {}


async def collect(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """Take in what the candidates came to, in the order of their index."""
    return take_in(state, wiring, state["briefs"])


async def tuner(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """Search the tunables that this round's candidates declare."""
    situation = situation_of(state, wiring)
    judged = judged_of(state, situation)
    count = 0 if wiring.over() else wiring.request.tune
    trials = wiring.tuner.propose(situation, judged, count) if count else ()
    return {"trials": write_trials(wiring, situation.round, len(state["briefs"]), trials)}


async def collect_trials(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """Take in what the trials came to."""
    update = take_in(state, wiring, state["trials"])
    tell_trials(state, wiring, update)
    return update


async def choose(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """Let the strategy say who is to be beaten; where times are measured, by a duel."""
    situation = situation_of(state, wiring)
    crowned = await crown(wiring, situation, judged_of(state, situation))
    choice = crowned.choice
    wiring.record(
        IncumbentChosen(
            round=state["round"],
            before=state["incumbent"],
            incumbent=choice.incumbent,
            reason=choice.reason,
            verdicts=choice.verdicts,
        )
    )
    return {"incumbent": choice.incumbent, "unfit": crowned.unfit}


async def reflection(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """Turn this round's verdicts into hints."""
    situation = situation_of(state, wiring)
    judged = judged_of(state, situation)
    name = wiring.reflector.name
    with AgentAsk(wiring.client_of(name), name, folder_of_turn(situation.round, name)) as ask:
        reflect = partial(wiring.reflector.reflect, replace(situation, ask=ask), judged)
        made = await contained(name, reflect, Reflected)
    return contribute(wiring, name, situation.round, as_contribution(made))


async def route(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """Say why the search ends here, if it does."""
    situation = situation_of(state, wiring)
    return {"stop": why_stop(situation, judged_of(state, situation), wiring)}
