"""The protocols of agents, generators, reflectors, strategies and tuners, and the values they
return.

A part of the user's own satisfies one of them; those that ship do too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from cuda_llm.agents.composition import CompositionRefused
from cuda_llm.agents.situation import Note, Situation
from cuda_llm.components import Components
from cuda_llm.conversation import AskModel
from cuda_llm.critique import CheckedCritique
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Attempt, Author, Brief, Draft, Hint


class Stage(StrEnum):
    """Stages of the graph that an agent may follow; an agent after `start` runs first of all."""

    START = "start"
    RESEARCH = "hardware_research"
    BASELINE = "baseline"
    STRATEGY = "strategy"
    CANDIDATES = "candidates"
    TUNER = "tuner"
    REFLECTION = "reflection"


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """The additions of an agent or of the reflector to the state and to the trace of a run."""

    note: Note | None = None
    """Replaces the agent's earlier note."""
    error_hints: tuple[Hint, ...] = ()
    performance_hints: tuple[Hint, ...] = ()
    decisions: tuple[str, ...] = ()
    """Decisions of the agent with their reasons, one sentence each, for the trace."""
    critique: CheckedCritique | None = None
    """A model's critique of one kernel, with the parts of the critique that were corrected, for the
    trace. The hint that the critique became is among the hints."""


class Agent(Protocol):
    """An extra agent: a plain async function, or an object that is called like such a function."""

    async def __call__(self, situation: Situation) -> Contribution:
        """Return this agent's additions to the run. An exception ends only this agent's turn, and
        the trace has the exception."""
        ...


@dataclass(frozen=True)
class AgentContext:
    """LangGraph's runtime context of an agent that is a compiled graph."""

    ask: AskModel
    """The function `Situation.ask`, which plain JSON cannot hold."""


@dataclass(frozen=True, kw_only=True)
class PlacedAgent:
    """An agent, its name and its place."""

    name: str
    """Name of the agent: the key of its note in the state, and its node in the graph."""
    after: Stage
    agent: Agent | Any
    """An `Agent`, or a compiled LangGraph that takes `{"situation": ...}` (plain JSON) and answers
    `{"contribution": ...}` (plain JSON of a Contribution); its runtime context is an
    `AgentContext`."""


class Generator(Protocol):
    """Writes a kernel for each brief."""

    @property
    def name(self) -> str:
        """Return `llm`, `playbook` or the user's own name."""
        ...

    @property
    def written_by(self) -> Author:
        """Return the author of the generator's kernels."""
        ...

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """Write one kernel.

        Briefs of a round come at once and in any order; the answer to one must not depend on that.
        `situation` is the same for all of them. A reply without a kernel is a NoCode. Raises only
        where the machine or our own code is broken.
        """
        ...


class Reflector(Protocol):
    """Learns from the attempts of a round."""

    @property
    def name(self) -> str:
        """Return the name that the trace shows."""
        ...

    async def reflect(self, situation: Situation, judged: Sequence[Attempt]) -> Contribution:
        """Return what `judged`, the attempts of this round, taught.

        `situation.incumbent` is already the one after this round.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The incumbent after a round, with the reason."""

    incumbent: str | None
    """Id of an attempt that passed; None before an attempt has passed."""
    reason: str
    """Reason for the choice, in a few words for the trace; the trace names the incumbent itself."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """Outcome for each attempt that passed, by the attempt's id: `won`, `tie`, `slower`,
    `regression: ...`."""


class Strategy(Protocol):
    """Pure decisions: the same situation gives the same answer."""

    @property
    def name(self) -> str:
        """Return `fsr`, `fsr-paper`, `best-of-n` or the user's own name."""
        ...

    @property
    def deduplicate(self) -> bool:
        """Return whether a kernel that was judged before becomes a DUPLICATE instead of being
        judged again."""
        ...

    @property
    def components(self) -> Components:
        """Return the parts that the strategy's prompts may hold; the user may leave out more
        parts."""
        ...

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """Return the orders of round `situation.round`: ids `r<round>-c<index>`, index from 1."""
        ...

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """Return the incumbent after `judged`, the attempts of this round, in order of their index.

        `situation.incumbent` is the one before; `situation.attempts` holds `judged` already. The
        last choice of a run is its result.
        """
        ...

    def stop(self, situation: Situation) -> str:
        """Return the reason why the search should end early, in a few words; empty to continue."""
        ...


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A kernel of the tuner: a parent with other values of its tunables, or two attempts put
    together."""

    parent: str
    draft: Draft
    second: str | None = None


class Tuner(Protocol):
    """Proposes points of the spaces that candidates declare."""

    def propose(
        self, situation: Situation, judged: Sequence[Attempt], count: int
    ) -> tuple[Trial, ...]:
        """Return at most `count` trials for the best of `judged`, the attempts of this round.

        Empty where nothing that passed declares tunables. The same situation gives the same trials.
        """
        ...


@runtime_checkable
class Composer(Protocol):
    """A strategy that also puts two kernels together, without asking a generator."""

    def compose(self, situation: Situation) -> Trial | CompositionRefused | None:
        """Return two kernels of `situation.attempts` as one, with `Trial.second`, or why not.

        None where no two are worth a try.
        """
        ...
