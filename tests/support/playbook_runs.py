"""Rounds of the playbook generator, judged by a function instead of a device."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from searches import attempt, situation

from cuda_llm.agents.playbook.generator import PlaybookGenerator
from cuda_llm.agents.situation import Situation
from cuda_llm.components import Components
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Attempt, Brief, Draft, Kind
from cuda_llm.source_tokens import normal_sha
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task

PLAYBOOK = """\
// Made up: a bowl with one side that fails.
#define VARIANT 0  // tunable: 0 1 2
#define TILE 8     // tunable: 4 8 16 32 64
#define ITEMS 1    // tunable: 1 2 4 8
#define WIDTH 1    // tunable: 1 2 4
// tunable-if: TILE >= ITEMS
// tunable-hint: bank_conflicts VARIANT=2
// tunable-hint: latency ITEMS=4 WIDTH=4
#if VARIANT == 0
int simple = TILE;
#else
int variant = VARIANT, tile = TILE, items = ITEMS, width = WIDTH;
#endif
"""


def playbook_task(folder: Path, source: str = PLAYBOOK) -> Task:
    """A task whose playbook is `source`."""
    path = folder / "playbook.cu"
    path.write_text(source)
    return replace(load_task("vector_add"), playbook=path)


def bowl(tunables: Mapping[str, int]) -> float | None:
    """Speed-up at a point of PLAYBOOK; None where it fails."""
    if tunables["VARIANT"] == 0:
        return 1.0
    if tunables["TILE"] == 64 and tunables["ITEMS"] == 1:
        return None
    steps = abs(tunables["TILE"].bit_length() - 6) + abs(tunables["ITEMS"].bit_length() - 3)
    return float(2 + tunables["VARIANT"]) * (1 + tunables["WIDTH"] / 4) / (1 + steps)


def at(task: Task, attempts: Sequence[Attempt], **fields: object) -> Situation:
    """The search after `attempts`; the fastest is the incumbent."""
    passed = [one for one in attempts if one.speedup]
    best = max(passed, key=lambda one: one.speedup or 0, default=None)
    return situation(*attempts, incumbent=best.id if best else None, task=task, **fields)


def brief(index: int, kind: Kind = Kind.FIRST, **components: bool) -> Brief:
    """The order to candidate `index`."""
    return Brief(
        id=f"c{index}", round=1, index=index, kind=kind, components=Components(**components)
    )


def ask_round(
    generator: PlaybookGenerator, where: Situation, briefs: Sequence[Brief]
) -> list[Draft | NoCode]:
    """The answers to a round's briefs."""

    async def together() -> list[Draft | NoCode]:
        return await asyncio.gather(*(generator.generate(one, where) for one in briefs))

    return asyncio.run(together())


def judge(
    draft: Draft, round: int, index: int, speedup: Callable[[Mapping[str, int]], float | None]
) -> Attempt:
    """What becomes of a draft."""
    return attempt(
        f"r{round}-c{index}",
        speedup(draft.tunables),
        written_by="playbook",
        tunables=draft.tunables,
        normal_sha=normal_sha(draft.source),
    )


def play(
    task: Task,
    rounds: int,
    speedup: Callable[[Mapping[str, int]], float | None] = bowl,
    *,
    candidates: int = 5,
    **fields: object,
) -> list[Attempt]:
    """Attempts of the first rounds; fewer where the playbook is exhausted."""
    generator, attempts = PlaybookGenerator(task), list[Attempt]()
    briefs = [brief(index) for index in range(1, candidates + 1)]
    for round in range(1, rounds + 1):
        where = at(task, attempts, candidates=candidates, round=round, **fields)
        drafts = ask_round(generator, where, briefs)
        attempts += [
            judge(draft, round, index, speedup)
            for index, draft in enumerate(drafts, 1)
            if isinstance(draft, Draft)
        ]
    return attempts
