"""Lessons of a run whose strategy has the switch: read from the store when the run starts, and its
own orders added when the run ends.
"""

from contextlib import suppress

from cuda_llm.agents.lessons import lessons_for, tried_orders
from cuda_llm.agents.situation import Situation
from cuda_llm.errors import MissingError
from cuda_llm.graph.context import RunContext
from cuda_llm.lessons import TriedOrder
from cuda_llm.log import Log
from cuda_llm.settings import settings
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.traces.decisions import AgentDecided
from cuda_llm.traces.lesson_store import add_orders, read_orders
from cuda_llm.traces.text import plural

NAME = "lessons"
_log = Log(__name__)


def learns_from_runs(context: RunContext) -> bool:
    """Return whether the strategy has the switch `lessons`, and has it on."""
    return getattr(context.strategy, NAME, False) is True


def keep_lessons(context: RunContext, situation: Situation) -> None:
    """Write the lessons that fit the task to the run's folder, once: they stay the same however
    often the run is resumed, and a replay takes those of its record."""
    if not learns_from_runs(context) or context.folder.lessons() is not None:
        return
    if context.replay is not None:
        found = context.replay.folder.lessons() or ()
    else:
        found = lessons_for(situation, _read())
    context.folder.write_lessons(found)
    tasks = sorted({name for one in found for name in one.tasks})
    text = f"{plural(len(found), 'lesson')} of other tasks on this GPU"
    decision = f"{text}: {', '.join(tasks)}" if tasks else text
    context.record(AgentDecided(agent=NAME, round=0, decisions=(decision,)))


def _read() -> tuple[TriedOrder, ...]:
    store = settings().lessons
    try:
        return read_orders(store)
    except OSError as error:
        _log.warning("lessons cannot be read", store=str(store), error=str(error))
        return ()


def add_lessons(context: RunContext, situation: Situation) -> None:
    """Add the orders of the run to the store; a replay adds none. A store that cannot be written
    is left as it is."""
    if not learns_from_runs(context) or context.replay is not None:
        return
    found = {
        one.id: context.folder.usable(context.folder.brief, one.id) for one in situation.attempts
    }
    briefs = {name: brief for name, brief in found.items() if brief is not None}
    nvcc = ""
    with suppress(MissingError):
        nvcc = find_toolkit().version
    store = settings().lessons
    try:
        add_orders(store, tried_orders(situation, briefs, context.run_id, nvcc))
    except OSError as error:
        _log.warning("lessons cannot be written", store=str(store), error=str(error))
