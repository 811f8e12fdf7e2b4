"""From the state and the wiring to what agents see: a Situation."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cuda_llm.agents.situation import Note, Situation
from cuda_llm.codec import decode
from cuda_llm.graph.state import SearchState
from cuda_llm.graph.wiring import Wiring
from cuda_llm.search import Attempt, Hint
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.traces.whole_file import read_text, write_whole

SEEN = (
    *("round", "attempts", "incumbent", "baseline"),
    *("error_hints", "performance_hints", "notes"),
)
"""Channels that a Situation is made from."""


def situation_of(state: SearchState, wiring: Wiring) -> Situation:
    """The run as it stands."""
    attempts = attempts_of(state, wiring)
    incumbent = state.get("incumbent")
    baseline = state.get("baseline", {})
    look_up = wiring.folder.look_up
    return Situation(
        task=wiring.task,
        hardware=wiring.device.hardware,
        device=wiring.device.name,
        capabilities=wiring.device.capabilities,
        plan=wiring.plan,
        round=max(0, state.get("round", 0)),
        attempts=attempts,
        incumbent=next((one for one in attempts if one.id == incumbent), None),
        sizes=tuple(MappingProxyType(dims) for dims in baseline.get("sizes", ())),
        baseline_us=tuple(baseline.get("times_us", ())),
        error_hints=tuple(look_up(Hint, one) for one in state.get("error_hints", ())),
        performance_hints=tuple(look_up(Hint, one) for one in state.get("performance_hints", ())),
        notes={name: decode(Note, one) for name, one in state.get("notes", {}).items()},
        archive=wiring.folder,
    )


def attempts_of(state: Mapping[str, Any], wiring: Wiring) -> tuple[Attempt, ...]:
    """All that were judged."""
    return tuple(wiring.folder.look_up(Attempt, one) for one in state.get("attempts", ()))


def judged_of(state: SearchState, situation: Situation) -> tuple[Attempt, ...]:
    """The attempts that this round added."""
    names = set(state.get("judged", ()))
    return tuple(one for one in situation.attempts if one.id in names)


def keep_view(state: SearchState, wiring: Wiring) -> None:
    """Keep what the generators of this round see: candidates know the state by this file alone."""
    seen: dict[str, Any] = {key: state[key] for key in SEEN if key in state}  # type: ignore[literal-required]
    write_whole(_file(wiring, state["round"]), json.dumps(seen, allow_nan=False))


def kept_view(wiring: Wiring, round_: int) -> Situation:
    """What the generators of a round see; read once."""
    known = wiring.workbench.views
    if round_ not in known:
        text = read_text(_file(wiring, round_))
        if text is None:
            raise wiring.folder.gone(_file(wiring, round_))
        seen: SearchState = json.loads(text)
        known[round_] = situation_of(seen, wiring)
    return known[round_]


def baseline_of(situation: Situation) -> Timing:
    """The baseline's times."""
    sizes = (dict(dims) for dims in situation.sizes)
    times = tuple(zip(sizes, situation.baseline_us, strict=True))
    return Timing(times=times, launches=(), bottlenecks=())


def _file(wiring: Wiring, round_: int) -> Path:
    return wiring.folder.path / "rounds" / str(round_) / "situation.json"
