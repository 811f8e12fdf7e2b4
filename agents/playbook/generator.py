"""The offline generator searches through kernels that a person wrote, without a model."""

from dataclasses import replace
from itertools import islice

from cuda_llm.agents.playbook.history import History, hint_preferences, tried_points
from cuda_llm.agents.playbook.kernels import TunableKernel, describe_point
from cuda_llm.agents.playbook.propose import propose, propose_near, propose_other_structures
from cuda_llm.agents.playbook.source import read_playbook
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import InvalidDeclaration
from cuda_llm.errors import MissingError, TaskError
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Author, Brief, Draft, Kind
from cuda_llm.tasks.task import Task


class PlaybookGenerator:
    """Tries points of the task's playbook.

    The kernel for a brief depends on its index, its kind, the components it may use, and the
    situation: the points of a round are computed together from the attempts before it.
    """

    name = "playbook"
    written_by: Author = "playbook"

    def __init__(self, task: Task) -> None:
        """Open the task's playbook. Raises MissingError without one, TaskError for a bad one."""
        self._kernels = open_playbook(task)
        self._request: object = None
        self._points: list[dict[str, int]] = []

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """Return the kernel at the brief's point; NoCode `exhausted` where no point is left."""
        history = self._history(brief, situation)
        seed = f"{situation.config.seed}/{situation.round}"
        count = max(situation.config.candidates, brief.index)
        points = self._propose(history, seed, count)
        point = points[brief.index - 1] if brief.index <= len(points) else None
        if brief.kind == Kind.DEPART:  # Strategies put these last; the last gets the first choice.
            others = propose_other_structures(self._kernels, history, points, seed)
            point = next(islice(others, count - brief.index, None), point)
        if parents := self._other_parents(brief, situation):
            near = propose_near(self._kernels, history, points, seed, parents)
            point = next(islice(near, brief.index - 1, None), point)
        if point is None:
            return NoCode(kind="exhausted")
        source = self._kernels.write(point)
        return Draft(source=source, idea=describe_point(point), tunables=point)

    def _other_parents(self, brief: Brief, situation: Situation) -> list[dict[str, int]]:
        """Return the points of the kernels that an order names, where not the incumbent alone."""
        names = [name for name in (brief.parent, brief.second) if name]
        incumbent = situation.incumbent and situation.incumbent.id
        if brief.kind != Kind.IMPROVE or names == [incumbent]:
            return []
        points = (self._kernels.point_of(situation.attempt(one).tunables) for one in names)
        return [point for point in points if point]

    def _history(self, brief: Brief, situation: Situation) -> History:
        """Return what the brief may know of the attempts; no kernel is proposed twice anyway."""
        ours = [one for one in situation.attempts if one.written_by == self.written_by]
        history = History(
            tried=tried_points(self._kernels, ours) if brief.components.history else (),
            seen=self._kernels.shas(ours),
        )
        if history.best is None or not brief.components.hints:
            return history
        preferred = hint_preferences(self._kernels.space, situation, history.best.point)
        return replace(history, preferred=preferred)

    def _propose(self, history: History, seed: str, count: int) -> list[dict[str, int]]:
        """Return the first `count` points of the round, computed once for all of its briefs."""
        if self._request != (history, seed, count):
            self._points = list(islice(propose(self._kernels, history, seed), count))
            self._request = (history, seed, count)
        return self._points


def open_playbook(task: Task) -> TunableKernel:
    """Open the task's playbook. Raises MissingError without one, TaskError for a bad one."""
    if task.playbook is None:
        raise MissingError(
            f"the task {task.name} has no playbook.cu, and no model is configured",
            "name one with --model, or write a playbook (docs/playbook.md)",
        )
    try:
        source = read_playbook(task.playbook)
    except (OSError, ValueError) as error:
        msg = f"{task.playbook}: cannot be read: {error}"
        raise TaskError(msg) from error
    space = read_space(source)
    if isinstance(space, InvalidDeclaration):
        msg = f"{task.playbook}:{space.line}: {space.reason}"
        raise TaskError(msg)
    if space is None:
        msg = f"{task.playbook}: declares no tunables; expected `#define NAME 1  // tunable: 1 2`"
        raise TaskError(msg)
    return TunableKernel(source, space)
