"""From the state and the context to what agents see: a Situation."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cuda_llm.agents.situation import Note, Situation
from cuda_llm.codec import decode
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.state import SearchState
from cuda_llm.search import Attempt, Hint
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.traces.files import broken, read_json, write_file
from cuda_llm.traces.run_folder import RunFolder

SITUATION_CHANNELS = (
    *("round", "attempts", "incumbent", "baseline"),
    *("error_hints", "performance_hints", "withdrawn", "notes"),
)
"""Channels that a Situation is made from."""


def situation_of(state: SearchState, context: RunContext) -> Situation:
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
        archive=context.folder,
    )


def standing_hints(folder: RunFolder, state: Mapping[str, Any], channel: str) -> tuple[Hint, ...]:
    """Return the hints of a channel but for those that a person withdrew."""
    withdrawn = state.get("withdrawn", {})
    hints = (folder.look_up(Hint, one) for one in state.get(channel, ()))
    return tuple(one for one in hints if one.id not in withdrawn)


def withdrawn_words(state: Mapping[str, Any], context: RunContext) -> frozenset[str]:
    """Return the texts of hints that a person withdrew, as `words_of` compares them."""
    withdrawn = state.get("withdrawn", {})
    return frozenset(words_of(context.folder.look_up(Hint, one).text) for one in withdrawn)


def words_of(text: str) -> str:
    """Return a text without what makes no other text of it: its layout and its capitals."""
    return " ".join(text.split()).casefold()


def attempts_of(state: Mapping[str, Any], context: RunContext) -> tuple[Attempt, ...]:
    """Return all attempts that were judged."""
    return tuple(context.folder.look_up(Attempt, one) for one in state.get("attempts", ()))


def judged_of(state: SearchState, situation: Situation) -> tuple[Attempt, ...]:
    """Return the attempts that this round added."""
    names = set(state.get("judged", ()))
    return tuple(one for one in situation.attempts if one.id in names)


def write_situation(state: SearchState, context: RunContext) -> None:
    """Write what the generators of this round see: candidates know the state by this file alone."""
    seen: dict[str, Any] = {key: state[key] for key in SITUATION_CHANNELS if key in state}  # type: ignore[literal-required]
    write_file(_file(context, state["round"]), json.dumps(seen, allow_nan=False))


def read_situation(context: RunContext, round_: int) -> Situation:
    """Return what the generators of a round see; read once."""
    known = context.tasks.views
    if round_ not in known:
        path, mend = _file(context, round_), context.folder.mend
        seen: SearchState | None = read_json(path, mend)
        if seen is None:
            raise context.folder.gone(path)
        if not isinstance(seen, dict) or not {"round", "attempts"} <= seen.keys():
            raise broken(path, mend)
        known[round_] = situation_of(seen, context)
    return known[round_]


def known_before(state: SearchState, context: RunContext) -> frozenset[str]:
    """Return the ids of the attempts that were judged before the last round began."""
    seen = read_json(_file(context, state["round"] - 1), context.folder.mend)
    named = seen.get("attempts", ()) if isinstance(seen, dict) else ()
    return frozenset(named)


def baseline_of(situation: Situation) -> KernelTimes:
    """Return the baseline's times."""
    sizes = (dict(dims) for dims in situation.sizes)
    times = tuple(zip(sizes, situation.baseline_us, strict=True))
    return KernelTimes(times=times, launches=(), bottlenecks=())


def _file(context: RunContext, round_: int) -> Path:
    return context.folder.path / "rounds" / str(round_) / "situation.json"
