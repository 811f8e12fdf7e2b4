"""The review before a round as a person sees the review, and the person's decisions: plain JSON,
checked."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cuda_llm.errors import UsageError
from cuda_llm.outcomes import Passed

ACCEPT, REJECT = "accept", "reject"
KEYS = ("hints", "orders", "add_hints", "by")
"""Keys of a person's answer."""
ORDER_KEYS = ("parent", "direction")
SOMEBODY = "user"
EXPECTED = f"expected an object with {', '.join(KEYS)}, or a list of hints to add"

Reviewer = Callable[[Mapping[str, Any]], Awaitable[object] | object]
"""Takes a `Review` as plain JSON and returns an answer: an empty answer accepts all, None leaves
the run stopped at this review."""


@dataclass(frozen=True, kw_only=True)
class VerdictShown:
    """The verdict on a candidate of the previous round, as a person sees the verdict."""

    id: str
    code: str
    summary: str
    parent: str | None = None
    idea: str = ""
    speedup: float | None = None
    time_us: float | None = None
    """Time of the kernel at the largest size."""

    @property
    def passed(self) -> bool:
        """Whether the kernel is correct in every check that was made."""
        return self.code == Passed.code


@dataclass(frozen=True, kw_only=True)
class HintShown:
    """A hint that no person has reviewed yet."""

    id: str
    channel: str
    code: str
    about: str = ""
    text: str
    by: str
    gain: float = 0.0
    """Expected saving of the hint's change, as a part of the kernel's time, 0 to 1; 0 where not
    known."""


@dataclass(frozen=True, kw_only=True)
class OrderShown:
    """An order of the round that is about to begin."""

    id: str
    kind: str
    parent: str | None = None
    """Id of the attempt to start from; None for a kernel from nothing but the task."""
    direction: str = ""
    against: str = ""
    """Code of the bottleneck that the direction relieves."""
    gain: float = 0.0
    """Largest saving as a part of the parent's time, 0 to 1; 0 where not known."""


@dataclass(frozen=True, kw_only=True)
class Review:
    """The hints and orders to review before a round: the value of the graph's interrupt, as
    JSON."""

    round: int
    """Round that is about to begin."""
    rounds: int
    incumbent: str | None = None
    verdicts: tuple[VerdictShown, ...] = ()
    hints: tuple[HintShown, ...] = ()
    orders: tuple[OrderShown, ...] = ()
    parents: tuple[str, ...] = ()
    """Ids of the attempts that an order may start from."""
    problem: str = ""
    """Fault of the last answer, for which the person is asked again; empty for the first
    question."""


@dataclass(frozen=True, kw_only=True)
class OrderEdit:
    """The fields of an order that a person replaces."""

    parent: str | None = None
    direction: str = ""


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """The decisions of a person; hints and orders that are not named are accepted."""

    rejected: tuple[str, ...] = ()
    """Ids of the rejected hints and orders."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """New text of a hint, by the id of the hint."""
    orders: Mapping[str, OrderEdit] = field(default_factory=dict)
    """New fields of an order, by the id of the order."""
    add_hints: tuple[str, ...] = ()
    by: str = SOMEBODY


def read_answer(answer: object, shown: Review) -> Decisions:
    """Read what resumed the run. Raises UsageError naming what is wrong, and where."""
    if answer is None or answer == ACCEPT:
        return Decisions()
    if isinstance(answer, str):
        return Decisions(add_hints=(_text(answer, "the hint"),))
    if isinstance(answer, list | tuple):
        return Decisions(add_hints=_texts(answer, "the list"))
    if not isinstance(answer, Mapping):
        raise UsageError(f"the answer is {_short(answer)}; {EXPECTED}")
    for key in answer:
        if key not in KEYS:
            raise UsageError(f"the answer has an unknown key {_short(key)}; {EXPECTED}")
    hints, orders = _by_id(answer, "hints"), _by_id(answer, "orders")
    _check_ids(hints, "hint", [one.id for one in shown.hints])
    _check_ids(orders, "order", [one.id for one in shown.orders])
    return Decisions(
        rejected=tuple(name for name, one in [*hints.items(), *orders.items()] if one == REJECT),
        texts={
            name: _text_of(name, one) for name, one in hints.items() if one not in (ACCEPT, REJECT)
        },
        orders={
            one.id: _edit_of(one, orders[one.id], shown)
            for one in shown.orders
            if orders.get(one.id, ACCEPT) not in (ACCEPT, REJECT)
        },
        add_hints=_texts(answer.get("add_hints", ()), "add_hints"),
        by=_text(answer.get("by", SOMEBODY), "by"),
    )


def _by_id(answer: Mapping[Any, Any], key: str) -> Mapping[str, Any]:
    found = answer.get(key) or {}
    if not isinstance(found, Mapping):
        raise UsageError(f"{key} is {_short(found)}; expected an object with decisions by id")
    return found


def _check_ids(decided: Mapping[str, Any], what: str, known: list[str]) -> None:
    for name in decided:
        if name not in known:
            there = ", ".join(known) or "none"
            raise UsageError(f"no {what} {_short(name)} is to be reviewed; there is {there}")


def _text_of(name: str, decided: object) -> str:
    if not isinstance(decided, Mapping) or set(decided) != {"text"}:
        expected = f'"{ACCEPT}", "{REJECT}" or {{"text": ...}}'
        raise UsageError(f"hint {name}: {_short(decided)}; expected {expected}")
    return _text(decided["text"], f"hint {name}: text")


def _edit_of(order: OrderShown, decided: object, shown: Review) -> OrderEdit:
    is_edit = isinstance(decided, Mapping) and decided and set(decided) <= set(ORDER_KEYS)
    if not isinstance(decided, Mapping) or not is_edit:
        expected = f'"{ACCEPT}", "{REJECT}" or an object with parent, direction or both'
        raise UsageError(f"order {order.id}: {_short(decided)}; expected {expected}")
    parent = decided.get("parent", order.parent) or None
    if parent != order.parent and parent is not None and parent not in shown.parents:
        there = ", ".join(shown.parents) or "no kernel yet"
        expected = f"expected one of {there}, or null for none"
        raise UsageError(f"order {order.id}: parent is {_short(parent)}; {expected}")
    direction = decided.get("direction", order.direction) or ""
    if not isinstance(direction, str):
        raise UsageError(f"order {order.id}: direction is {_short(direction)}; expected text")
    return OrderEdit(parent=parent, direction=direction.strip())


def _texts(given: object, place: str) -> tuple[str, ...]:
    if not isinstance(given, list | tuple):
        raise UsageError(f"{place} is {_short(given)}; expected a list of texts")
    return tuple(_text(one, f"{place}, entry {index}") for index, one in enumerate(given, start=1))


def _text(given: object, place: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise UsageError(f"{place} is {_short(given)}; expected some text")
    return given.strip()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
