"""The state of a run: the channels of the graph, in plain JSON, so that any process can load a
checkpoint. `docs/state.md` lists the writers, the readers and the reducer of each channel.
Attempts, briefs, hints, sources and verdicts lie in the run's folder; the state holds ids."""

import dataclasses
import operator
from functools import cache
from typing import Annotated, Any, TypeVar

from typing_extensions import TypedDict

from cuda_llm.codec import encode
from cuda_llm.run_config import GraphInput

T = TypeVar("T")

Json = dict[str, Any]
"""A value of `cuda_llm.search` or `cuda_llm.agents`, encoded by `cuda_llm.codec`."""

REQUIRED = object()
"""Stands in for the default of a field without a default: equal to no value."""


def merge(old: dict[str, T], new: dict[str, T]) -> dict[str, T]:
    """Return the entries of both mappings; a new value replaces the old value of the same name."""
    return {**old, **new}


def latest(old: T, new: T) -> T:
    """Return what was written last, also by several nodes at once."""
    return new


class SearchUpdate(TypedDict, total=False):
    """The channels that nodes write. A node returns the channels that the node writes."""

    run_id: str
    baseline: Json
    """`sizes`: dims of each timed size; `times_us`: the baseline's time at each."""
    round: int
    """Round at work, from 1; 0 before the first round and while the user's own kernel is judged."""
    briefs: list[str]
    """Ids of the candidates at work this round."""
    trials: list[str]
    """Ids of the tuner's candidates of this round."""
    judged: list[str]
    """Ids of the attempts that this round has added."""
    attempts: Annotated[list[str], operator.add]
    """Ids of all candidates that were judged, by round and index."""
    incumbent: str | None
    """Id of the fastest attempt so far, which a contender must beat; None before an attempt has
    passed."""
    unfit: Annotated[dict[str, str], merge]
    """Fault found in an attempt that passed when the attempt was about to be the incumbent, by the
    id of the attempt."""
    error_hints: Annotated[list[str], operator.add]
    performance_hints: Annotated[list[str], operator.add]
    """Ids of hints about performance, in the order given; `error_hints` has the hints about
    failures."""
    withdrawn: Annotated[dict[str, str], merge]
    """Id of the hint that a person wrote in place of a hint, by the id of the replaced hint; empty
    for a hint that a person rejected."""
    notes: Annotated[dict[str, Json], merge]
    """Notes of agents, by the name of the agent."""
    stop: str
    """Reason why no round follows; empty while a round follows."""
    best: Json | None
    """The result: `id`, `speedup`, `times_us`, `written_by`; None where no candidate passed."""
    decided: Annotated[list[str], latest]
    """Decisions of the node in words, for a reader of the updates; no node reads the channel."""


class SearchState(SearchUpdate, total=False):
    """All channels: the channels that nodes write, and the options that the graph was started
    with."""


# LangGraph makes a channel of each annotation; the options are listed once, in `GraphInput`.
SearchState.__annotations__.update(dict.fromkeys(GraphInput.model_fields, Any))


class SearchOutput(TypedDict, total=False):
    """The channels that a caller gets when the run is over."""

    run_id: str
    stop: str
    best: Json | None
    incumbent: str | None
    attempts: list[str]


class CandidateState(TypedDict, total=False):
    """One candidate on its way. No key is one of SearchState's.

    (LangGraph would merge equal names into the parent, once for each of the round's candidates.)
    """

    candidate_run: str
    candidate_id: str
    candidate_drafted: bool
    """Whether the kernel exists before the subgraph starts: the user's own kernel, or a trial of
    the tuner."""
    candidate_round: int
    candidate_seen: Json
    """Channels of the state that a Situation is made from, for its generator; of a kernel that is
    there already, and behind the generator, the baseline alone."""
    candidate_seconds: dict[str, float]
    """Seconds by stage, of the stages that are done."""
    candidate_end: str
    """Code of the verdict that ended the candidate, or `LATE`; empty while the candidate is at
    work."""


def without_defaults(value: Any) -> dict[str, Any]:
    """Encode a dataclass as plain JSON without the fields that have their default value."""
    kind: Any = type(value)
    defaults = _defaults(kind)
    whole: dict[str, Any] = encode(value)
    return {key: item for key, item in whole.items() if item != defaults.get(key, REQUIRED)}


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    found = {}
    for one in dataclasses.fields(kind):
        if one.default is not dataclasses.MISSING:
            found[one.name] = encode(one.default)
        elif one.default_factory is not dataclasses.MISSING:
            found[one.name] = encode(one.default_factory())
    return found
