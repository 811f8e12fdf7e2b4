"""A person at a terminal reviews each round: the client of the graph's interrupt."""

import asyncio
import getpass
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_llm.codec import decode
from cuda_llm.errors import CudaLLMError, UsageError
from cuda_llm.graph.review_decisions import (
    REJECT,
    SOMEBODY,
    HintShown,
    OrderShown,
    Review,
    Reviewer,
    read_answer,
)
from cuda_llm.redaction import printable
from cuda_llm.traces.text import us, wrapped

if TYPE_CHECKING:
    from cuda_llm.cli.run_progress import RunProgress

HELP = (
    "Enter goes on with what stands. Or, before it:",
    "  e ID [TEXT]   edit a hint or an order      r ID   reject it      a ID   accept it again",
    "  p ID PARENT   start an order elsewhere     d ID TEXT   give it another direction",
    "  + TEXT        add a hint                   each   go through them one by one",
    "  show          show it again                stop   stop here; resume goes on",
)
ITEM = "Enter accept, e edit, r reject"
LEAST_GAIN = 0.005
"""Less is not worth a word."""
NONE = "-"
"""Stands for no parent."""


async def read_line(prompt: str) -> str | None:
    """Ask at the terminal; None at the end of its input. The event loop goes on meanwhile."""
    print(printable(prompt), end="", file=sys.stderr, flush=True)
    loop, file = asyncio.get_running_loop(), sys.stdin.fileno()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(file, _set, ready)
    try:
        await ready
        given = os.read(file, 1 << 16)
    except OSError:
        given = b""
    finally:
        loop.remove_reader(file)
    if not given:
        print(file=sys.stderr)
        return None
    return given.decode(errors="replace").strip()


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


def show(text: str = "") -> None:
    """Print one line for the reviewer."""
    print(printable(text), file=sys.stderr, flush=True)


def describe_review(review: Review) -> Iterator[str]:
    """Yield the lines of what is to be reviewed."""
    beat = review.incumbent or "the baseline"
    yield f"review before round {review.round} of {review.rounds} · to beat: {beat}"
    if review.verdicts:
        yield "verdicts"
    for one in review.verdicts:
        fast = "" if one.speedup is None else f" {one.speedup:.2f}x"
        time = "" if one.time_us is None else f", {us(one.time_us)} at the largest"
        what = one.idea if one.passed else one.summary
        yield from wrapped(f"{one.id}  {one.code}{fast}{time}  {' '.join(what.split())}", indent=2)
    for kind, items in (("hints", review.hints), ("orders", review.orders)):
        yield kind if items else f"{kind}: none"
        for item in items:
            yield from wrapped(describe_item(item), indent=2)


def describe_item(item: HintShown | OrderShown) -> str:
    """Return a hint or an order in one line."""
    gain = f"{item.gain:.0%}" if item.gain >= LEAST_GAIN else ""
    if isinstance(item, HintShown):
        about = f" about {item.about}" if item.about else ""
        saves = f", saves {gain}" if gain else ""
        return f"{item.id}  {item.code}{about}, by {item.by}{saves}: {' '.join(item.text.split())}"
    saves = f" (at most {gain} to gain)" if gain else ""
    parent = f" {item.parent}" if item.parent else ""
    return f"{item.id}  {item.kind}{parent}: {item.direction or 'no direction'}{saves}"


@dataclass
class Choices:
    """What the reviewer has chosen so far, as the answer to the interrupt."""

    review: Review
    hints: dict[str, Any] = field(default_factory=dict)
    orders: dict[str, Any] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)

    @property
    def items(self) -> dict[str, HintShown | OrderShown]:
        """Hints and orders by id."""
        hints = {one.id: one for one in self.review.hints}
        return {**hints, **{one.id: one for one in self.review.orders}}

    def answer(self, by: str) -> dict[str, Any]:
        """Return what resumes the run."""
        return {"hints": self.hints, "orders": self.orders, "add_hints": self.added, "by": by}

    def set(self, name: str, decided: object) -> None:
        """Decide on a hint or an order; None accepts it. Raises UsageError and leaves it."""
        kind = "orders" if isinstance(self.item(name), OrderShown) else "hints"
        chosen = getattr(self, kind)
        trial = {key: one for key, one in {**chosen, name: decided}.items() if one is not None}
        read_answer({kind: trial}, self.review)
        setattr(self, kind, trial)

    def edit_order(self, name: str, **changed: str | None) -> None:
        """Change an order, on top of what was changed of it before. Raises UsageError."""
        before = self.orders.get(name)
        self.set(name, {**(before if isinstance(before, dict) else {}), **changed})

    def item(self, name: str) -> HintShown | OrderShown:
        """Return the hint or order of that id. Raises UsageError."""
        if name not in self.items:
            there = ", ".join(self.items) or "nothing"
            raise UsageError(f"no hint or order {name!r}; there is {there}")
        return self.items[name]


class EndOfInput(Exception):
    """The terminal has no more input: the reviewer is gone."""


@dataclass(frozen=True)
class TerminalReviewer:
    """Asks the person at the terminal, while `paused` keeps the board away."""

    paused: Callable[[], AbstractContextManager[object]]
    edit: Callable[[str], str | None]
    """Returns a text as the reviewer leaves it in an editor; None where there is none."""
    by: str
    read: Callable[[str], Awaitable[str | None]] = read_line

    async def __call__(self, shown: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a review; None where the reviewer stops here."""
        review = decode(Review, shown)
        choices = Choices(review)
        with self.paused():
            for line in ("", *describe_review(review), "", *HELP):
                show(line)
            if review.problem:
                show(f"not taken: {review.problem}")
            try:
                return choices.answer(self.by) if await self.decide(choices) else None
            except EndOfInput:
                return None

    async def decide(self, choices: Choices) -> bool:
        """Take commands; False where the reviewer stops here. Raises EndOfInput."""
        while True:
            line = await self.ask("review> ")
            if line in {"", "go", "y"}:
                return True
            if line in {"stop", "s", "q", "quit"}:
                return False
            await self.follow(choices, line)

    async def follow(self, choices: Choices, line: str) -> None:
        """Carry out one command, or say in one line what is wrong with it."""
        command, _, rest = line.partition(" ")
        try:
            if command == "each":
                await self.go_through(choices)
            elif command == "show":
                for shown in describe_review(choices.review):
                    show(shown)
            elif command == "+":
                choices.added += read_answer([rest], choices.review).add_hints
                show("added")
            elif command in {"a", "r", "e", "p", "d"}:
                name, _, text = rest.strip().partition(" ")
                show(await self.change(choices, command, name, text.strip()))
            else:
                show(f"{line!r} is no command")
                for one in HELP:
                    show(one)
        except CudaLLMError as error:
            show(str(error))

    async def change(self, choices: Choices, command: str, name: str, text: str) -> str:
        """Decide on one hint or order, and say what was decided. Raises UsageError."""
        item = choices.item(name)
        if command in {"a", "r"}:
            choices.set(name, REJECT if command == "r" else None)
            return f"{name} {'rejected' if command == 'r' else 'accepted'}"
        if isinstance(item, HintShown):
            if command != "e":
                raise UsageError(f"{name} is a hint; p and d are for orders")
            choices.set(name, {"text": text or await self.text(item.text)})
            return f"{name} changed"
        if command == "p" or (command == "e" and not text):
            there = ", ".join([NONE, *choices.review.parents])
            before = item.parent or NONE
            parent = text or await self.ask(f"parent, one of {there} [{before}]: ") or before
            choices.edit_order(name, parent=None if parent == NONE else parent)
        if command == "d" or command == "e":
            choices.edit_order(name, direction=text or await self.text(item.direction))
        return f"{name} changed"

    async def go_through(self, choices: Choices) -> None:
        """Ask for each hint and order in turn. Raises EndOfInput."""
        for name, item in choices.items.items():
            show(describe_item(item))
            more = "" if isinstance(item, HintShown) else ", p PARENT, d TEXT"
            while line := await self.ask(f"{name} [{ITEM}{more}]: "):
                command, _, text = line.partition(" ")
                if command not in {"a", "r", "e", "p", "d"}:
                    show(f"{line!r} is none of these")
                    continue
                try:
                    show(await self.change(choices, command, name, text.strip()))
                    break
                except CudaLLMError as error:
                    show(str(error))

    async def text(self, before: str) -> str:
        """Return a text as the reviewer wants it: by an editor, or typed in a line."""
        edited = await asyncio.to_thread(self.edit, before)
        return await self.ask("new text: ") if edited is None else edited.strip()

    async def ask(self, prompt: str) -> str:
        """Return a line. Raises EndOfInput."""
        line = await self.read(prompt)
        if line is None:
            raise EndOfInput
        return line


def show_only(shown: Mapping[str, Any]) -> None:
    """Show a review where nobody can answer, so that the run stops there.

    Raises UsageError where the answer that was given was not understood.
    """
    review = decode(Review, shown)
    if review.problem:
        raise UsageError(review.problem)
    for line in describe_review(review):
        show(line)


def has_terminal() -> bool:
    """Return whether there is a person to ask: what they read and what they type is a terminal."""
    # Not `sys.stderr`: the board puts another in its place.
    files = (sys.__stdin__, sys.__stderr__)
    return all(file is not None and file.isatty() for file in files)


def open_reviewer(watch: "RunProgress") -> Reviewer:
    """Return who asks at the terminal; without one, what shows the review and leaves it there."""
    from cuda_llm.cli.editing import edit_text, editor
    from cuda_llm.cli.run_progress import LiveRunProgress

    if not isinstance(watch, LiveRunProgress) or not has_terminal():
        return show_only
    try:
        by = getpass.getuser()
    except (KeyError, OSError):
        by = SOMEBODY

    def edit(text: str) -> str | None:
        return edit_text(text, "review.txt") if editor() else None

    return TerminalReviewer(watch.paused, edit, by)


def read_decisions(path: Path) -> object:
    """Read an answer from a file. Raises UsageError."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; expected decisions as JSON") from None
    except ValueError as error:
        raise UsageError(f"{path}: no JSON ({error}); expected decisions") from None
