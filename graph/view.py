"""Builds the Situation that agents see from the state and the context."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cuda_llm.agents.situation import Note, Situation
from cuda_llm.codec import decode
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.state import Json, SearchState
from cuda_llm.search import Attempt, Hint
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.traces.run_folder import RunFolder

SITUATION_CHANNELS = (
    *("round", "attempts", "incumbent", "baseline"),
    *("error_hints", "performance_hints", "withdrawn", "notes"),
)
"""Channels that a Situation is made from."""


def situation_of(state: Mapping[str, Any], context: RunContext) -> Situation:
    """Build the situation from a state."""
    attempts = attempts_of(state, context)
    incumbent = state.get("incumbent")
    baseline = state.get("baseline", {})
    return Situation(
        task=context.task,
        hardware=context.device.hardware,
        device=context.device.name,
        capabilities=context.device.capabilities,
        config=context.config,
        round=max(0, state.get("round", 0)),
        attempts=attempts,
        incumbent=next((one for one in attempts if one.id == incumbent), None),
        sizes=tuple(MappingProxyType(dims) for dims in baseline.get("sizes", ())),
        baseline_us=tuple(baseline.get("times_us", ())),
        error_hints=standing_hints(context.folder, state, "error_hints"),
        performance_hints=standing_hints(context.folder, state, "performance_hints"),
        notes={name: decode(Note, one) for name, one in state.get("notes", {}).items()},
        lessons=context.folder.lessons() or (),
        archive=context.folder,
    )


def standing_hints(folder: RunFolder, state: Mapping[str, Any], channel: str) -> tuple[Hint, ...]:
    """Return the hints of a channel without the hints that a person withdrew."""
    withdrawn = state.get("withdrawn", {})
    hints = (folder.look_up(Hint, one) for one in state.get(channel, ()))
    return tuple(one for one in hints if one.id not in withdrawn)


def withdrawn_words(state: Mapping[str, Any], context: RunContext) -> frozenset[str]:
    """Return the texts of hints that a person withdrew, as `words_of` compares them."""
    withdrawn = state.get("withdrawn", {})
    return frozenset(words_of(context.folder.look_up(Hint, one).text) for one in withdrawn)


def words_of(text: str) -> str:
    """Return a text with single spaces and without capitals, for comparison."""
    return " ".join(text.split()).casefold()


def attempts_of(state: Mapping[str, Any], context: RunContext) -> tuple[Attempt, ...]:
    """Return all attempts that were judged."""
    return tuple(context.folder.look_up(Attempt, one) for one in state.get("attempts", ()))


def judged_of(state: SearchState, situation: Situation) -> tuple[Attempt, ...]:
    """Return the attempts that this round has added."""
    names = set(state.get("judged", ()))
    return tuple(one for one in situation.attempts if one.id in names)


def seen_of(state: SearchState) -> Json:
    """Return the channels that a Situation is made from, as the input of a candidate's subgraph."""
    channels: Mapping[str, Any] = state
    return {key: channels[key] for key in SITUATION_CHANNELS if key in channels}


def baseline_of(state: Mapping[str, Any]) -> KernelTimes:
    """Return the baseline's times."""
    known = state["baseline"]
    times = tuple(zip(map(dict, known["sizes"]), known["times_us"], strict=True))
    return KernelTimes(times=times, launches=(), bottlenecks=())
