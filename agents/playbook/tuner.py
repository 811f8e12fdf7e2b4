"""Searches the tunables of a model's or a user's kernels, or rewrites of them, without a model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from cuda_llm.agents.playbook.failing import history_of, without_failing
from cuda_llm.agents.playbook.history import History, hint_preferences, tried_points
from cuda_llm.agents.playbook.idle import find_idle, fix_idle, history_within
from cuda_llm.agents.playbook.kernels import TunableKernel
from cuda_llm.agents.playbook.propose import propose
from cuda_llm.agents.protocols import Trial
from cuda_llm.agents.rewrites.kernels import LOOKED_FOR, find_rewrites
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import InvalidDeclaration, Space
from cuda_llm.errors import UsageError
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Attempt, Author, Brief, Draft, Kind
from cuda_llm.source_file import read_source
from cuda_llm.source_tokens import normal_sha

MAX_TUNED_KERNELS = 2
"""Largest number of kernels that are tuned in one round."""


class TunableTuner:
    """Tries other values of the tunables of the fastest kernels: the round's and the incumbent.

    The trials of a kernel in all rounds form one search, which leaves alone the tunables that were
    seen to change nothing at the timed sizes. A kernel of the playbook is left alone: its generator
    searches already. A trial keeps the declarations of its parent, so that a reader of the winner,
    or a kernel made from it, has them.
    """

    def __init__(self, *, rewrites: bool = False) -> None:
        """Search the rewrites that fit a kernel without tunables too, where `rewrites`."""
        self._open = _open_any if rewrites else _open_declared

    def propose(
        self, situation: Situation, judged: Sequence[Attempt], count: int
    ) -> tuple[Trial, ...]:
        """Return at most `count` trials, of the fastest kernels in turns.

        Without a passed kernel that declares tunables there are none. A kernel whose declarations
        are invalid is not tuned and keeps its verdict. What another kernel of the run is already,
        of whatever author, is no trial.
        """
        known = {one.normal_sha for one in situation.attempts if one.is_about_its_kernel}
        searches = [
            found
            for found in (
                _search(situation, one, self._open) for one in _parents(situation, judged)
            )
            if found
        ][:MAX_TUNED_KERNELS]
        trials = list[Trial]()
        while searches and len(trials) < count:
            search = searches.pop(0)
            new = (one for one in search if normal_sha(one.draft.source) not in known)
            trial = next(new, None)
            if trial is not None:
                known.add(normal_sha(trial.draft.source))
                trials.append(trial)
                searches.append(search)
        return tuple(trials)


def _parents(situation: Situation, judged: Sequence[Attempt]) -> list[Attempt]:
    """List kernels not of a playbook that passed, or whose trial did; the fastest first."""
    incumbent = () if situation.incumbent is None else (situation.incumbent,)
    passed = [
        one
        for one in (*judged, *incumbent)
        if one.passed and one.written_by != "playbook" and one.kind != Kind.COMPOSE
    ]
    passed.sort(key=lambda one: (-(one.speedup or 0.0), one.round, one.index))
    parents = [
        situation.attempt(one.parent) if one.kind == Kind.TUNE and one.parent else one
        for one in passed
    ]
    return list({one.id: one for one in parents}.values())


def _open_declared(source: str) -> TunableKernel | None:
    """Return the kernel with the space that it declares; None without a valid declaration."""
    space = read_space(source)
    return (
        TunableKernel(source, space, keep_declarations=True) if isinstance(space, Space) else None
    )


def _open_any(source: str) -> TunableKernel | None:
    """Return the kernel with the space that it declares, or that rewrites find where it declares
    none."""
    return find_rewrites(source) if read_space(source) is None else _open_declared(source)


def _search(
    situation: Situation, parent: Attempt, open_kernel: Callable[[str], TunableKernel | None]
) -> Iterator[Trial] | None:
    """Return trials of one kernel, most promising first; None for a kernel without a space."""
    kernels = open_kernel(situation.archive.source(parent.id))
    if kernels is None:
        return None
    space = kernels.space
    trials = [one for one in situation.attempts if _is_trial_of(one, parent)]
    attempts = [replace(parent, tunables=space.defaults), *trials]
    history = History(tried=tried_points(kernels, attempts), seen=kernels.shas(trials))
    if history.best:
        points = [(one, kernels.point_of(one.tunables)) for one in attempts]
        known = [(one, point) for one, point in points if point]
        space = fix_idle(space, find_idle(situation, space, known, history.best.point))
        history = history_within(space, history)
        space = without_failing(space, [one for one in known if one[0].is_about_its_kernel])
        kernels = kernels.within(space)
        history = history_of(space, history)
    if history.best and situation.config.components.hints:
        preferred = hint_preferences(space, situation, history.best.point)
        history = replace(history, preferred=preferred)
    seed = f"{situation.config.seed}/{situation.round}/{parent.id}"
    return (
        Trial(
            parent=parent.id,
            draft=Draft(source=kernels.write(point), idea=kernels.describe(point), tunables=point),
        )
        for point in propose(kernels, history, seed)
    )


def _is_trial_of(attempt: Attempt, parent: Attempt) -> bool:
    return attempt.kind == Kind.TUNE and attempt.parent == parent.id


class TunerAlone:
    """The generator of a run without new kernels: the rounds of such a run hold the tuner's trials
    alone."""

    name = "tuner"
    written_by: Author = "human"

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """Return a NoCode; a run gives no brief to this generator."""
        return NoCode(kind="exhausted")


def why_tuning_ends(situation: Situation, judged: Sequence[Attempt]) -> str:
    """Return why there is nothing left to tune, in a few words; empty while there is."""
    if situation.incumbent is None:
        return "the kernel to tune did not pass"
    return "" if judged else "every combination was tried"


def open_for_tuning(start: str) -> TunerAlone:
    """Return the generator of a run that only tunes the kernel of the file `start`.

    Raises UsageError where there is no file, or it declares nothing that can be tuned.
    """
    if not start:
        raise UsageError("generator tuner: no kernel to tune; name one with --start FILE.cu")
    source = read_source(Path(start))
    match read_space(source):
        case Space():
            return TunerAlone()
        case InvalidDeclaration(line=line, reason=reason):
            raise UsageError(f"{start}:{line}: {reason}; see docs/playbook.md")
        case None if find_rewrites(source) is None:
            raise UsageError(
                f"{start}: nothing to search: it declares no tunables (docs/playbook.md), and no "
                f"rewrite fits; looked for {LOOKED_FOR}"
            )
        case None:
            return TunerAlone()
