"""Drafts a task around a kernel: the kernel is read, then executed at small sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuda_llm.errors import MissingError

if TYPE_CHECKING:
    from cuda_llm.source_file import SourceSpot


@dataclass(frozen=True, kw_only=True)
class DraftedTask:
    """A task's folder, written around a kernel."""

    folder: Path
    entry: str
    """Kernel or host function that is the baseline."""
    guesses: "tuple[SourceSpot, ...]"
    """Lines that the author has to confirm."""


async def draft_task(
    name: str,
    text: str,
    where: str,
    entry: str | None,
    out: Path,
    say: Callable[[str], object],
) -> DraftedTask:
    """Write the folder `out/name` around a kernel of the source `text`, which is called `where`.

    `say` is called with each line for a person. Raises UsageError for a source or an entry that
    cannot be drafted, with the edit that makes it fit.
    """
    from cuda_llm.tasks.loader import load_task
    from cuda_llm.tasks.new_task import (
        Executed,
        choose_entry,
        draft,
        find_guesses,
        write_task,
        write_tried,
    )
    from cuda_llm.tools.judge.executed_draft import execute_draft
    from cuda_llm.tools.open_device import DEFAULT_GPU, open_emulated
    from cuda_llm.verdict_wording import describe

    entry = entry or choose_entry(text, where)
    folder = write_task(name, out, draft(name, text, entry, where))
    tried = write_tried(text, entry, where)
    say(f"executing {entry} at small sizes")
    try:
        executed = await execute_draft(load_task(folder), open_emulated(DEFAULT_GPU), *tried)
    except MissingError as error:
        executed = None
        say(f"not executed, so every shape is a guess: {error}")
    if isinstance(executed, Executed):
        for file, better in draft(name, text, entry, where, executed=executed).items():
            (folder / file).write_text(better, encoding="utf-8")
    elif executed is not None:
        say(
            "no launch that was tried writes its outputs whole, so launch and shapes are "
            f"guesses ({executed.code}: {describe(executed)[0]}); draft around a function that "
            "launches the kernel as your program does"
        )
    task = load_task(folder)
    return DraftedTask(folder=folder, entry=entry, guesses=find_guesses(task))
